"""The client against a server, or whatever stands before it, that does everything wrong: each fault has its class and
words, and the client lives on.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import ssl
import traceback
from collections.abc import Awaitable, Callable
from types import ModuleType

import pytest
from prometheus_client import CollectorRegistry

from mooring.api.core import SECRETS, SERVICE_ACCOUNT_TOKENS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.kube import errors
from mooring.kube.cache.reflector import PAGE_S
from mooring.kube.client.config import ClusterConfig, KubeconfigUser, Pem, Tls
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.retrying import LIST_PATIENCE, REQUEST_TIMEOUT_S, ClientMetrics
from mooring.kube.patch import merge_patch
from tests.support.rows import each_row
from tests.unit.kube.bad_server import (
    BadServer,
    Connection,
    Move,
    answer,
    bad_server,
    raw,
    refusal,
    reset,
    silence,
    stream,
)
from tests.unit.kube.certificates import authority_pem, other_authority, server_context
from tests.unit.kube.clients import VA, a_client, a_server_and_client, events_of
from tests.unit.kube.instant_clock import InstantClock
from tests.unit.kube.kubeconfigs import SECRET

pytestmark = pytest.mark.usefixtures("both_transports")

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
HTML = b"<html><head><title>502 Bad Gateway</title></head><body>" + b"x" * 10_000
A_LINE = json.dumps({"type": "ADDED", "object": VA}).encode() + b"\n"


async def fault_of(cluster: HttpCluster, method: str = "get") -> errors.ApiError:
    """What a request raises."""
    verbs: dict[str, Callable[[], Awaitable[object]]] = {
        "get": lambda: cluster.get(VOLUME_ATTACHMENTS, "va"),
        "list": lambda: cluster.list(VOLUME_ATTACHMENTS),
        "patch": lambda: cluster.patch(VOLUME_ATTACHMENTS, "va", merge_patch({"a": 1})),
        "create": lambda: cluster.create(VOLUME_ATTACHMENTS, VA),
        "replace": lambda: cluster.replace(VOLUME_ATTACHMENTS, VA),
        "delete": lambda: cluster.delete(VOLUME_ATTACHMENTS, "va"),
        "watch": lambda: events_of(cluster),
    }
    return await fault(verbs[method]())


async def fault(asked: Awaitable[object]) -> errors.ApiError:
    with pytest.raises(errors.ApiError) as caught:
        await asked
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return caught.value


async def lives_on(server: BadServer, cluster: HttpCluster) -> None:
    server.moves.clear()
    server.plan(answer(200, VA))
    assert (await cluster.get(VOLUME_ATTACHMENTS, "va")).metadata.name == "va"


# -- refusals of the API server

REFUSALS: list[tuple[int, str, type[errors.ApiError]]] = [
    (400, "BadRequest", errors.BadRequest),
    (401, "Unauthorized", errors.Unauthorized),
    (403, "Forbidden", errors.Forbidden),
    (404, "NotFound", errors.NotFound),
    (405, "MethodNotAllowed", errors.MethodNotAllowed),
    (406, "NotAcceptable", errors.NotAcceptable),
    (409, "Conflict", errors.Conflict),
    (409, "AlreadyExists", errors.AlreadyExists),
    (410, "Expired", errors.Gone),
    (413, "RequestEntityTooLarge", errors.TooLarge),
    (415, "UnsupportedMediaType", errors.UnsupportedMediaType),
    (422, "Invalid", errors.Invalid),
    (429, "TooManyRequests", errors.TooManyRequests),
    (500, "InternalError", errors.ServerError),
    (503, "ServiceUnavailable", errors.ServerError),
    (504, "Timeout", errors.ServerError),
]


@each_row(("code", "reason", "expected"), REFUSALS, ids=[reason for _, reason, _ in REFUSALS])
async def test_a_refusal_has_its_class_and_the_server_s_words(
    code: int, reason: str, expected: type[errors.ApiError]
) -> None:
    details = {"name": "va", "kind": "volumeattachments", "retryAfterSeconds": 7}
    async with bad_server() as server, a_client(server.config()) as cluster:
        for method in ("get", "patch", "delete", "watch"):
            server.plan(refusal(code, reason, f"because of {reason} ✓", details))
            error = await fault_of(cluster, method)
            assert type(error) is expected
            words = str(error).partition(": http")[0]  # who was not known there is said behind them
            assert (f"because of {reason} ✓", reason, code) == (words, error.reason, error.status_code)
            assert (details, 7.0) == (error.details, error.retry_after_s)
        await lives_on(server, cluster)
        assert server.connection_count <= 2, "a refusal is an answer: its connection stays in use"


async def test_a_404_that_is_no_status_does_not_say_that_the_object_is_gone(
    server: BadServer, cluster: HttpCluster
) -> None:
    """A volume must not be taken for detached because a proxy has lost its way."""
    server.plan(answer(404, b"nobody here\n", content_type="text/plain"))
    error = await fault_of(cluster)
    assert type(error) is errors.ApiError
    assert error.status_code == 404
    assert str(error) == (
        "the server answered 404 Not Found to GET /apis/storage.k8s.io/v1/volumeattachments/va, content type "
        "'text/plain': nobody here"
    )


PAGE = answer(404, b"404 page not found\n", content_type="text/plain; charset=utf-8")
"""Of a kube-apiserver that has not the group."""

ABOUT_ONE = ("get", "get"), ("patch", "patch"), ("replace", "put"), ("delete", "delete")
ABOUT_MANY = ("list", "get"), ("watch", "get"), ("create", "post")


async def test_a_kind_that_is_not_served_is_told_in_client_go_s_words_and_no_object_is_gone() -> None:
    """Where the server has the group it says so itself; for an unknown group there is but a page."""
    words = "the server could not find the requested resource"
    async with bad_server() as server, a_client(server.config()) as cluster:
        for methods, name in ((ABOUT_ONE, " va"), (ABOUT_MANY, "")):
            for method, verb in methods:
                server.plan(PAGE, refusal(404, "NotFound", words, {}))
                by_page, by_status = await fault_of(cluster, method), await fault_of(cluster, method)
                assert [(errors.NotServed, 404, "NotFound")] * 2 == [
                    (type(e), e.status_code, e.reason) for e in (by_page, by_status)
                ]
                assert f"{words} ({verb} volumeattachments.storage.k8s.io{name})" == str(by_page)
                assert words == str(by_status)
        await lives_on(server, cluster)


RESOURCES = {
    "kind": "APIResourceList",
    "groupVersion": "storage.k8s.io/v1",
    "resources": [{"name": "csinodes", "kind": "CSINode"}],
}
SERVED = {**RESOURCES, "resources": [*RESOURCES["resources"], {"name": "volumeattachments", "verbs": ["get"]}]}


@each_row(
    ("told", "is_served"),
    [
        (answer(200, SERVED), True),
        (answer(200, RESOURCES), False),
        (PAGE, False),
        (refusal(404, "NotFound", "no such version here"), False),
        (answer(200, {**RESOURCES, "resources": []}), False),
    ],
    ids=["the kind", "the version", "nothing", "nothing in its own words", "nothing in the version"],
)
async def test_discovery_tells_whether_a_kind_is_served(told: Move, is_served: bool) -> None:
    async with a_server_and_client() as (server, cluster):
        server.plan(told)
        assert is_served is await cluster.serves(VOLUME_ATTACHMENTS)
        assert ["/apis/storage.k8s.io/v1"] == [request.path for request in server.requests]


@each_row(
    "told", [answer(404, b"nobody here"), answer(200, b"[]"), refusal(403, "Forbidden", "no")], ids=["404", "[]", "403"]
)
async def test_discovery_that_can_t_be_read_says_nothing_of_a_kind(told: Move) -> None:
    async with a_server_and_client() as (server, cluster):
        server.plan(told)
        await fault(cluster.serves(VOLUME_ATTACHMENTS))


# -- somebody else's words


@each_row("method", ["get", "list", "patch", "delete", "watch"])
async def test_a_page_of_a_proxy_is_quoted_briefly(method: str) -> None:
    async with a_server_and_client() as (server, cluster):
        server.plan(answer(502, HTML, content_type="text/html; charset=utf-8"))
        error = await fault_of(cluster, method)
        assert (errors.ServerError, 502) == (type(error), error.status_code)
        assert "502 Bad Gateway to " in str(error)
        assert "<title>502 Bad Gateway</title>" in str(error)
        assert len(str(error)) < 600
        await lives_on(server, cluster)


@each_row("method", ["get", "list", "patch", "delete", "watch"])
async def test_a_page_with_status_200_is_no_success(method: str) -> None:
    """The log-in page of a gateway: a DELETE that got it was not carried out."""
    async with a_server_and_client() as (server, cluster):
        server.plan(answer(200, HTML, content_type="text/html"))
        error = await fault_of(cluster, method)
        assert (errors.ServerError, 502) == (type(error), error.status_code)
        assert "200 OK" in str(error)
        assert "text/html" in str(error)
        await lives_on(server, cluster)


@each_row(
    "body", [b"", b"{", b"[]", b"null", b'{"metadata":5}', b"\xff\xfe", b'{"metadata":{"name":"a"}', b'{"a":' * 5000]
)
@each_row("method", ["get", "patch", "create"])
async def test_a_success_that_can_not_be_read_may_have_happened(method: str, body: bytes) -> None:
    async with a_server_and_client() as (server, cluster):
        server.plan(answer(200, body))
        error = await fault_of(cluster, method)
        assert type(error) is errors.ServerError
        assert f"(200, {len(body)} bytes) can't be read" in str(error)
        await lives_on(server, cluster)


@each_row("content_type", ["application/json", "text/plain"])
@each_row("status", [200, 500])
async def test_a_secret_that_can_not_be_read_is_not_shown(content_type: str, status: int) -> None:
    async with a_server_and_client() as (server, cluster):
        server.plan(
            answer(
                status,
                json.dumps({"metadata": {"name": 5}, "data": {SECRET: SECRET}})[:-1].encode(),
                content_type=content_type,
            )
        )
        with pytest.raises(errors.ServerError) as caught:
            await cluster.get(SECRETS, "s", "ns")
        assert SECRET not in str(caught.value)


@each_row("content_type", ["application/json", "text/plain"])
@each_row("status", [201, 500])
async def test_a_token_that_can_not_be_read_is_not_shown(content_type: str, status: int) -> None:
    async with a_server_and_client() as (server, cluster):
        unreadable = json.dumps({"metadata": {"name": 5}, "status": {"token": SECRET}})[:-1].encode()
        server.plan(answer(status, unreadable, content_type=content_type))
        with pytest.raises(errors.ServerError) as caught:
            await cluster.create(SERVICE_ACCOUNT_TOKENS, {"kind": "TokenRequest"}, "ns", of=("someone", "token"))
        assert SECRET not in str(caught.value)


async def test_redirects_are_not_followed(server: BadServer, cluster: HttpCluster) -> None:
    server.plan(answer(307, b"", Location="https://elsewhere.example.com/"))
    error = await fault_of(cluster, "patch")
    assert (errors.ApiError, 307) == (type(error), error.status_code)
    assert "redirects are not followed" in str(error)
    assert len(server.requests) == 1


@each_row(
    "words",
    [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 OK\r\n\r\n", b"\x00" * 100, b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000],
)
async def test_an_answer_that_is_no_http_is_told(words: bytes) -> None:
    async with bad_server() as server, a_client(server.config(user=KubeconfigUser(token=SECRET))) as cluster:
        server.plan(raw(words), raw(words))
        assert "is no HTTP" in str(await fault_of(cluster, "patch"))
        await lives_on(server, cluster)


# -- broken connections

BROKEN: dict[str, Move] = {
    "reset before the head": reset(),
    "closed before the head": raw(),
    "cut in the head": raw(HEAD[:30]),
    "closed after the head": raw(HEAD + b"Content-Length: 100\r\n\r\n"),
    "half a body": raw(HEAD + b"Content-Length: 100\r\n\r\n", b'{"metadata"'),
    "half a chunked body": stream(b'{"metadata"', end="cut"),
    "half a packed body": raw(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnot!"),
    "a chunk of nonsense": raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
}


def unanswered(method: str) -> type[errors.Unreachable]:
    """The error of a request whose answer has not begun: a watch tells that from one that was cut."""
    return errors.NoAnswer if method == "watch" else errors.Unreachable


@each_row("method", ["get", "list", "patch", "create", "replace", "delete"])
@each_row("how", BROKEN)
async def test_a_connection_that_breaks_is_told(how: str, method: str) -> None:
    async with bad_server() as server, a_client(server.config(user=KubeconfigUser(token=SECRET))) as cluster:
        server.otherwise = BROKEN[how]
        error = await fault_of(cluster, method)
        assert (errors.Unreachable, 0) == (type(error), error.status_code)
        assert server.url in str(error)
        await lives_on(server, cluster)


@each_row("method", ["patch", "create", "replace", "delete"])
async def test_a_write_is_never_sent_twice(method: str) -> None:
    """It may have happened the first time; whether to repeat it is for who asked to decide."""
    async with a_server_and_client() as (server, cluster):
        await lives_on(server, cluster)
        server.plan(reset())
        server.otherwise = answer(200, VA)
        assert type(await fault_of(cluster, method)) is errors.Unreachable
        assert len(server.requests) == 2


@each_row("method", ["get", "list"])
async def test_a_read_is_repeated_when_a_kept_connection_turns_out_dead(method: str) -> None:
    async with a_server_and_client() as (server, cluster):
        await lives_on(server, cluster)
        server.plan(reset(), answer(200, {**VA, "items": []}))
        await (cluster.get(VOLUME_ATTACHMENTS, "va") if method == "get" else cluster.list(VOLUME_ATTACHMENTS))
        assert [0, 0, 1] == [request.connection for request in server.requests]


@each_row("method", ["get", "patch", "delete", "watch"])
@each_row("silent", [silence(), raw(b"HTTP/1.1 200 OK\r\n", hang=True)])
async def test_a_server_that_says_nothing_is_given_up(silent: Move, method: str) -> None:
    async with bad_server() as server, a_client(server.config(), request_timeout_s=0.5) as cluster:
        server.plan(silent)
        error = await fault_of(cluster, method)
        assert type(error) is unanswered(method)
        assert "within 0.5 s" in str(error)
        await lives_on(server, cluster)


async def test_a_body_that_stalls_is_given_up() -> None:
    async with bad_server() as server, a_client(server.config(), request_timeout_s=0.5) as cluster:
        server.plan(raw(HEAD + b"Content-Length: 100\r\n\r\n", b'{"metadata"', hang=True))
        assert "within 0.5 s" in str(await fault_of(cluster))
        await lives_on(server, cluster)


async def test_a_slow_answer_in_time_is_an_answer() -> None:
    async def slow(connection: Connection) -> bool:
        for byte in HEAD + b"Content-Length: %d\r\n\r\n" % len(json.dumps(VA)) + json.dumps(VA).encode():
            await connection.send(bytes([byte]))
        return True

    async with bad_server() as server, a_client(server.config()) as cluster:
        server.plan(slow)
        assert (await cluster.get(VOLUME_ATTACHMENTS, "va")).metadata.name == "va"


@pytest.mark.slow
async def test_a_list_may_take_longer_than_other_requests_and_not_for_ever() -> None:
    """Pages of a large cluster take more than half a minute; a cache that gives each of them up is never filled."""

    async def slow(connection: Connection) -> bool:
        await asyncio.sleep(0.8)
        return await answer(200, {"metadata": {"resourceVersion": "9"}, "items": [VA]})(connection)

    async with bad_server() as server, a_client(server.config(), request_timeout_s=0.5) as cluster:
        server.plan(slow)
        assert len((await cluster.list(VOLUME_ATTACHMENTS, limit=500)).items) == 1
        server.plan(slow)
        assert "within 0.5 s" in str(await fault_of(cluster))
        server.plan(silence())
        assert "within 2 s" in str(await fault_of(cluster, "list"))


def test_a_list_has_as_long_as_caches_wait_for_a_page() -> None:
    assert REQUEST_TIMEOUT_S * LIST_PATIENCE >= PAGE_S


async def test_waiting_for_a_place_does_not_count_as_the_server_s_silence() -> None:
    """With one place, the last of ten requests waits for nine others, longer than one request may last."""

    async def slow(connection: Connection) -> bool:
        await asyncio.sleep(0.1)
        return await answer(200, VA)(connection)

    async with bad_server() as server, a_client(server.config(), request_timeout_s=0.8, concurrency_max=1) as cluster:
        server.otherwise = slow
        assert len(await asyncio.gather(*(cluster.get(VOLUME_ATTACHMENTS, "va") for _ in range(10)))) == 10


@each_row("packed", [False, True])
async def test_a_body_beyond_the_bound_is_refused(
    packed: bool, both_transports: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(both_transports, "BODY_BYTES_MAX", 1000)
    async with bad_server() as server, a_client(server.config()) as cluster:
        body = b" " * 1_000_000
        server.plan(answer(200, gzip.compress(body), Content_Encoding="gzip") if packed else answer(200, body))
        error = await fault_of(cluster)
        assert type(error) is errors.AnswerTooLarge
        assert "larger than 1000 bytes" in str(error)
        await lives_on(server, cluster)


async def test_a_cancelled_request_leaves_the_client_whole() -> None:
    async with bad_server() as server, a_client(server.config(), concurrency_max=1) as cluster:
        server.plan(silence())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await cluster.get(VOLUME_ATTACHMENTS, "va")
        await lives_on(server, cluster)


async def test_nobody_at_home_is_told_with_the_address() -> None:
    async with bad_server() as server:
        url = server.url
    async with a_client(ClusterConfig(url, source="the test's own")) as cluster:
        for method in ("get", "patch", "watch"):
            error = await fault_of(cluster, method)
            assert type(error) is unanswered(method)
            assert f"no connection to {url} (the test's own): nothing listens there; does the API server run" in str(
                error
            )


async def test_a_host_that_does_not_exist_is_told() -> None:
    async with a_client(ClusterConfig("https://no-such-host.invalid:6443")) as cluster:
        assert "host name of https://no-such-host.invalid:6443 (given in code) can't be resolved" in str(
            await fault_of(cluster)
        )


# -- TLS


@each_row(
    ("names", "tls", "told"),
    [
        (
            (),
            Tls(Pem("ca", data=other_authority().cert_pem.bytes())),
            "not trusted: unable to get local issuer certificate; check certificate-authority",
        ),
        (("other.example.com",), Tls(Pem("ca", data=authority_pem())), "is for another name: IP address mismatch"),
        ((), Tls(Pem("ca", data=authority_pem()), server_name="kubernetes"), "is for another name: Hostname mismatch"),
    ],
)
async def test_a_certificate_that_does_not_fit_is_told_with_the_remedy(
    names: tuple[str, ...], tls: Tls, told: str
) -> None:
    async with bad_server(server_context(*names)) as server, a_client(server.config(tls=tls)) as cluster:
        for method in ("get", "watch"):
            error = await fault_of(cluster, method)
            assert type(error) is unanswered(method)
            assert told in str(error)
            assert server.url in str(error)


async def test_a_server_that_wants_a_certificate_is_told() -> None:
    """TLS 1.3 servers refuse after the handshake, where the reason may be lost with the connection; 1.2 refuses
    within.
    """
    context = server_context(ask_client=True)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with bad_server(context) as server, a_client(server.config()) as cluster:
        error = await fault_of(cluster, "patch")
        assert type(error) is errors.Unreachable
        assert "check the client certificate" in str(error)


async def test_a_plain_server_behind_an_https_address_is_told() -> None:
    async def speak_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    plain = await asyncio.start_server(speak_first, "127.0.0.1", 0)
    config = ClusterConfig(f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}", tls=Tls(insecure=True))
    async with plain, a_client(config) as cluster:
        assert "does not speak TLS; is it an http:// address?" in str(await fault_of(cluster))


# -- watches


@each_row(
    ("move", "told"),
    [
        (stream(A_LINE, A_LINE[:20]), "ended in the middle of a line"),
        (stream(A_LINE, A_LINE[:20], end="cut"), "broke off"),
        (stream(A_LINE, end="cut"), "broke off"),
        (stream(A_LINE, b"garbage\n"), "a line that is no watch event"),
        (stream(A_LINE, b'{"type":"ADDED","object":{"met\n'), "a line that is no watch event"),
    ],
)
async def test_a_watch_that_breaks_gives_what_came_before_and_then_says_so(move: Move, told: str) -> None:
    async with bad_server() as server, a_client(server.config()) as cluster:
        server.plan(move)
        async with contextlib.aclosing(cluster.watch(VOLUME_ATTACHMENTS, resource_version="5")) as events:
            assert (await anext(events)).resource_version == "7"
            with pytest.raises(errors.Unreachable, match=told) as cut:
                await anext(events)
            assert cut.type is errors.Unreachable, "an answer had begun"
        await lives_on(server, cluster)


@each_row("method", ["get", "watch"])
@each_row("how", ["reset before the head", "closed before the head", "cut in the head"])
async def test_a_watch_that_never_begins_is_told(how: str, method: str) -> None:
    async with a_server_and_client() as (server, cluster):
        server.otherwise = BROKEN[how]
        assert type(await fault_of(cluster, method)) is unanswered(method)


async def test_the_time_for_the_head_of_a_watch_is_not_the_time_for_its_events() -> None:
    async def late(connection: Connection) -> bool:
        await connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        await asyncio.sleep(1.2)
        await connection.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(A_LINE), A_LINE))
        return True

    async with bad_server() as server, a_client(server.config(), request_timeout_s=1.0) as cluster:
        server.plan(late)
        assert len(await events_of(cluster)) == 1


async def test_a_watch_from_too_long_ago_is_gone() -> None:
    status = {
        "kind": "Status",
        "status": "Failure",
        "message": "too old resource version: 5 (100)",
        "reason": "Expired",
        "code": 410,
    }
    async with bad_server() as server, a_client(server.config()) as cluster:
        server.plan(stream(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"))
        error = await fault_of(cluster, "watch")
        assert (errors.Gone, "too old resource version: 5 (100)", "Expired") == (type(error), str(error), error.reason)


async def test_a_broken_event_does_not_end_the_watch(capsys: pytest.CaptureFixture[str]) -> None:
    broken = (
        json.dumps({"type": "ADDED", "object": {"metadata": {"name": "bad"}, "spec": {"attacher": 5}}}).encode() + b"\n"
    )
    async with bad_server() as server, a_client(server.config()) as cluster:
        server.plan(stream(A_LINE, broken, A_LINE))
        assert len(await events_of(cluster)) == 2
    assert 'name="bad"' in capsys.readouterr().err


async def test_a_line_beyond_the_bound_ends_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.kube.client.rest.WATCH_LINE_BYTES_MAX", 1000)
    async with bad_server() as server, a_client(server.config()) as cluster:
        server.plan(stream(*[b"x" * 100] * 11, end="hang"))
        assert "longer than 1000 bytes" in str(await fault_of(cluster, "watch"))


async def test_a_watch_that_outlasts_its_time_is_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.kube.client.rest.WATCH_MARGIN_S", 0.05)
    async with bad_server() as server, a_client(server.config()) as cluster:
        server.plan(stream(A_LINE, end="hang"))
        with pytest.raises(errors.Unreachable, match="nor ended the watch when its time was over"):
            await events_of(cluster, timeout_s=0.01)
        await lives_on(server, cluster)


async def test_a_page_in_place_of_a_watch_is_told(server: BadServer, cluster: HttpCluster) -> None:
    server.plan(stream(HTML, content_type="text/html", end="hang"))
    error = await fault_of(cluster, "watch")
    assert type(error) is errors.ServerError
    assert "text/html" in str(error)
    await lives_on(server, cluster)


async def test_closing_the_client_ends_what_still_runs(server: BadServer, cluster: HttpCluster) -> None:
    begun = raw(HEAD + b"Content-Length: 100\r\n\r\n", b"{", hang=True)
    server.plan(stream(A_LINE, end="hang"), begun, silence())
    async with contextlib.aclosing(cluster.watch(VOLUME_ATTACHMENTS, resource_version="5")) as events:
        await anext(events)
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            body, head = (group.create_task(fault_of(cluster), name="request") for _ in range(2))
            watch = group.create_task(fault(anext(events)), name="watch")
            while len(server.requests) < 3:  # noqa: ASYNC110 -- a few turns
                await asyncio.sleep(0)
            await cluster.close()
        assert [errors.Unreachable] * 3 == [type(task.result()) for task in (body, head, watch)]


# -- Retry-After


@each_row("code", [500, 503])
@each_row("method", ["patch", "delete"])
async def test_a_write_that_may_have_happened_is_not_repeated(method: str, code: int) -> None:
    """A JSON patch that adds to a list says something else the second time."""
    clock = InstantClock()
    async with bad_server() as server, a_client(server.config(), clock=clock) as cluster:
        server.plan(refusal(code, "x", "later", Retry_After="3"))
        patch = merge_patch({"a": 1})
        write = (
            cluster.patch(VOLUME_ATTACHMENTS, "va", patch)
            if method == "patch"
            else cluster.delete(VOLUME_ATTACHMENTS, "va")
        )
        with pytest.raises(errors.ServerError) as caught:
            await write
        assert 3.0 == caught.value.retry_after_s
        assert [] == clock.slept_s
        assert 1 == len(server.requests)


@each_row(
    ("method", "code"),
    [(method, 429) for method in ("get", "patch", "delete", "watch")]
    + [(method, code) for method in ("get", "watch") for code in (500, 503)],
)
async def test_who_is_asked_to_come_back_later_does(method: str, code: int) -> None:
    clock, registry = InstantClock(), CollectorRegistry()
    async with (
        bad_server() as server,
        a_client(server.config(), clock=clock, metrics=ClientMetrics(registry)) as cluster,
    ):
        server.plan(refusal(code, "x", "later", Retry_After="3"), refusal(code, "x", "later", Retry_After="1"))
        server.otherwise = stream() if method == "watch" else answer(200, VA)
        if method == "watch":
            assert await events_of(cluster) == []
        elif method == "patch":
            await cluster.patch(VOLUME_ATTACHMENTS, "va", merge_patch({"a": 1}))
        elif method == "delete":
            await cluster.delete(VOLUME_ATTACHMENTS, "va")
        else:
            await cluster.get(VOLUME_ATTACHMENTS, "va")
        first, second = clock.slept_s
        assert 3.0 <= first <= 3.75
        assert 1.0 <= second <= 1.25
        assert len({(request.method, request.path, request.body) for request in server.requests}) == 1
        labels = {"code": str(code), "host": server.url.removeprefix("http://"), "method": server.requests[0].method}
        assert registry.get_sample_value("rest_client_requests_total", labels) == 2.0


async def test_ten_times_is_enough() -> None:
    clock = InstantClock()
    async with bad_server() as server, a_client(server.config(), clock=clock) as cluster:
        server.otherwise = refusal(429, "TooManyRequests", "later", Retry_After="1")
        error = await fault_of(cluster, "patch")
        assert (errors.TooManyRequests, 1.0) == (type(error), error.retry_after_s)
        assert (11, 10) == (len(server.requests), len(clock.slept_s))


@each_row(
    ("code", "asked"),
    [(429, "3600"), (503, "61"), (500, ""), (429, ""), (503, "Fri, 20 Nov 2026 10:00:00 GMT"), (404, "1")],
)
async def test_a_wait_that_is_too_long_or_not_asked_for_is_the_caller_s(code: int, asked: str) -> None:
    clock = InstantClock()
    async with bad_server() as server, a_client(server.config(), clock=clock) as cluster:
        server.plan(refusal(code, "x", "later", Retry_After=asked))
        error = await fault_of(cluster)
        assert (code, float(asked) if asked.isdecimal() else None) == (error.status_code, error.retry_after_s)
        assert clock.slept_s == []


async def test_who_waits_takes_no_place() -> None:
    """While one request waits as it was told, others go on."""
    waiting, go_on = asyncio.Event(), asyncio.Event()

    class Paused(InstantClock):
        async def sleep(self, seconds: float) -> None:
            waiting.set()
            await go_on.wait()

    async with (
        bad_server() as server,
        a_client(server.config(), clock=Paused(), concurrency_max=1) as cluster,
        asyncio.TaskGroup() as group,
    ):
        server.plan(refusal(429, "TooManyRequests", "later", Retry_After="1"))
        server.otherwise = answer(200, VA)
        group.create_task(cluster.get(VOLUME_ATTACHMENTS, "first"), name="first")
        await waiting.wait()
        await cluster.get(VOLUME_ATTACHMENTS, "second")
        go_on.set()
    assert ["first", "second", "first"] == [request.path.rpartition("/")[2] for request in server.requests]
