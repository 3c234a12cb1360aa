"""The client against a server that behaves: which requests go out, and what comes of the answers."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json

import pytest
from prometheus_client import CollectorRegistry

from mooring.api.core import PERSISTENT_VOLUMES, SECRETS
from mooring.api.meta import ObjectMeta
from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment, VolumeAttachmentSpec
from mooring.base import log
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.retrying import ClientMetrics
from mooring.kube.cluster import EventType, Selection
from mooring.kube.errors import Unreachable
from mooring.kube.patch import json_patch, merge_patch
from mooring.kube.patch import test as check
from tests.support.rows import each_row
from tests.unit.kube.bad_server import BadServer, Connection, answer, bad_server, refusal, silence, stream
from tests.unit.kube.certificates import server_context
from tests.unit.kube.clients import VA, a_client, a_server_and_client, events_of
from tests.unit.kube.instant_clock import InstantClock

pytestmark = pytest.mark.usefixtures("both_transports")

# -- verbs


async def test_a_get_asks_for_json_and_gives_a_struct(server: BadServer, cluster: HttpCluster) -> None:
    server.plan(answer(200, VA))
    attachment = await cluster.get(VOLUME_ATTACHMENTS, "va")
    assert ("va", "a") == (attachment.metadata.name, attachment.spec.attacher)
    (request,) = server.requests
    assert ("GET", "/apis/storage.k8s.io/v1/volumeattachments/va", b"") == (request.method, request.path, request.body)
    assert ("application/json", "test/1") == (request.headers["accept"], request.headers["user-agent"])
    assert {"authorization", "content-type", "cookie"}.isdisjoint(request.headers)


async def test_a_kind_may_be_read_whole(server: BadServer, cluster: HttpCluster) -> None:
    server.plan(answer(200, {**VA, "unknown": 1}))
    assert await cluster.get(VOLUME_ATTACHMENTS.whole(), "va") == {**VA, "unknown": 1}


async def test_a_list_is_asked_for_in_pages(server: BadServer, cluster: HttpCluster) -> None:
    server.plan(answer(200, {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [VA]}))
    page = await cluster.list(PERSISTENT_VOLUMES, Selection(label_selector="a=b"), limit=1, resource_version="0")
    assert (1, "9", "t") == (len(page.items), page.resource_version, page.continue_token)
    assert server.requests[0].path == "/api/v1/persistentvolumes?labelSelector=a%3Db&limit=1&resourceVersion=0"


async def test_a_namespaced_list_covers_one_namespace_or_all(server: BadServer, cluster: HttpCluster) -> None:
    server.otherwise = answer(200, {"items": []})
    await cluster.list(SECRETS, Selection(namespace="ns"))
    await cluster.list(SECRETS)
    assert ["/api/v1/namespaces/ns/secrets", "/api/v1/secrets"] == [request.path for request in server.requests]


async def test_a_create_carries_the_type_of_what_it_creates(server: BadServer, cluster: HttpCluster) -> None:
    server.otherwise = answer(201, VA)
    await cluster.create(
        VOLUME_ATTACHMENTS, VolumeAttachment(ObjectMeta(name="va"), VolumeAttachmentSpec(attacher="a", node_name="n"))
    )
    await cluster.create(VOLUME_ATTACHMENTS, {"metadata": {"name": "va"}, "spec": {"attacher": "a", "nodeName": "n"}})
    whole = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "va"},
        "spec": {"attacher": "a", "nodeName": "n"},
    }
    assert [whole, whole] == [request.json for request in server.requests]
    assert [("POST", "/apis/storage.k8s.io/v1/volumeattachments")] * 2 == [
        (request.method, request.path) for request in server.requests
    ]
    assert server.requests[0].headers["content-type"] == "application/json"


async def test_a_replace_puts_the_whole_object(server: BadServer, cluster: HttpCluster) -> None:
    server.plan(answer(200, VA))
    await cluster.replace(VOLUME_ATTACHMENTS.whole(), VA, subresource="status")
    (request,) = server.requests
    assert ("PUT", "/apis/storage.k8s.io/v1/volumeattachments/va/status") == (request.method, request.path)
    assert request.json == {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", **VA}


async def test_patches_go_by_their_content_type(server: BadServer, cluster: HttpCluster) -> None:
    server.otherwise = answer(200, VA)
    await cluster.patch(VOLUME_ATTACHMENTS, "va", merge_patch({"status": {"attached": True}}), subresource="status")
    await cluster.patch(SECRETS, "s", json_patch([check("/metadata/uid", "u")]), "ns")
    one, two = server.requests
    assert ("PATCH", "application/merge-patch+json") == (one.method, one.headers["content-type"])
    assert ("/apis/storage.k8s.io/v1/volumeattachments/va/status", {"status": {"attached": True}}) == (
        one.path,
        one.json,
    )
    assert ("/api/v1/namespaces/ns/secrets/s", "application/json-patch+json") == (two.path, two.headers["content-type"])
    assert two.json == [{"op": "test", "path": "/metadata/uid", "value": "u"}]


async def test_a_sub_resource_is_asked_by_a_post(server: BadServer, cluster: HttpCluster) -> None:
    server.plan(answer(201, {"kind": "Status", "status": "Success"}))
    await cluster.post(SECRETS, "s", "binding", {"target": {"name": "n1"}}, "ns")
    (request,) = server.requests
    assert ("POST", "/api/v1/namespaces/ns/secrets/s/binding", {"target": {"name": "n1"}}) == (
        request.method,
        request.path,
        request.json,
    )


async def test_a_delete_sends_options_only_when_it_has_some(server: BadServer, cluster: HttpCluster) -> None:
    server.otherwise = answer(200, {"kind": "Status", "status": "Success"})
    await cluster.delete(VOLUME_ATTACHMENTS, "va")
    await cluster.delete(SECRETS, "s", "ns", uid="u", resource_version="7", grace_period_s=0, propagation="Background")
    one, two = server.requests
    assert ("DELETE", b"") == (one.method, one.body)
    assert two.json == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


async def test_a_path_of_the_server_stays_before_all_others() -> None:
    """Rancher and other gateways serve many clusters, each under a path."""
    async with bad_server() as server, a_client(server.config(server=f"{server.url}/k8s/clusters/c-1")) as cluster:
        server.plan(answer(200, VA), answer(200, {"items": []}))
        await cluster.get(VOLUME_ATTACHMENTS, "va")
        await cluster.list(VOLUME_ATTACHMENTS, limit=1)
        one, two = (request.path for request in server.requests)
        assert one == "/k8s/clusters/c-1/apis/storage.k8s.io/v1/volumeattachments/va"
        assert two == "/k8s/clusters/c-1/apis/storage.k8s.io/v1/volumeattachments?limit=1"


@each_row("name", ["größe-✓", "n" * 10_000, "a b?c#d&e"])
async def test_odd_and_long_names_travel_whole(name: str) -> None:
    async with a_server_and_client() as (server, cluster):
        server.plan(answer(200, {"metadata": {"name": name}}))
        assert name == (await cluster.get(VOLUME_ATTACHMENTS, name)).metadata.name


# -- watches


async def test_a_watch_gives_changes_and_bookmarks_until_its_clean_end() -> None:
    lines = [
        {"type": "ADDED", "object": VA},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}},
        {"type": "DELETED", "object": VA},
    ]
    async with bad_server() as server, a_client(server.config()) as cluster:
        server.plan(stream(*(json.dumps(line).encode() + b"\n" for line in lines)))
        events = await events_of(cluster, timeout_s=300)
        assert [(EventType.ADDED, "7"), (EventType.BOOKMARK, "8"), (EventType.DELETED, "7")] == [
            (event.type, event.resource_version) for event in events
        ]
        assert server.requests[0].path == (
            "/apis/storage.k8s.io/v1/volumeattachments"
            "?watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=300"
        )


@each_row("size", [1, 7, 1000])
async def test_a_watch_may_come_in_chunks_of_any_size(size: int) -> None:
    text = b"".join(
        json.dumps({"type": "MODIFIED", "object": {"metadata": {"name": f"größe-{n}"}}}, ensure_ascii=False).encode()
        + b"\n"
        for n in range(5)
    )
    async with bad_server() as server, a_client(server.config()) as cluster:
        server.plan(stream(*(text[start : start + size] for start in range(0, len(text), size))))
        assert [f"größe-{n}" for n in range(5)] == [
            event.object.metadata.name for event in await events_of(cluster) if event.object
        ]


async def test_a_watch_line_may_have_two_megabytes() -> None:
    big = {"metadata": {"name": "va", "annotations": {"a": "x" * 2 * 2**20}}}
    async with bad_server() as server, a_client(server.config()) as cluster:
        server.plan(stream(json.dumps({"type": "ADDED", "object": big}).encode() + b"\n"))
        (event,) = await events_of(cluster)
        assert event.object is not None
        assert event.object.metadata.annotations == {"a": "x" * 2 * 2**20}


@each_row("tls", [False, True])
async def test_a_watch_that_is_left_drops_its_connection(tls: bool) -> None:
    left = asyncio.Event()

    async def watched(connection: Connection) -> bool:
        await stream(json.dumps({"type": "ADDED", "object": VA}).encode() + b"\n", end="open")(connection)
        with contextlib.suppress(ConnectionError):
            await connection.reader.read()
        left.set()
        return False

    async with (
        bad_server(server_context() if tls else None) as server,
        a_client(server.config()) as cluster,
        asyncio.timeout(5),
    ):
        server.plan(watched, answer(200, VA))
        async with contextlib.aclosing(cluster.watch(VOLUME_ATTACHMENTS, resource_version="5")) as events:
            await anext(events)
        await left.wait()
        await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert [0, 1] == [request.connection for request in server.requests]


async def test_a_cleanly_ended_watch_gives_its_connection_back(server: BadServer, cluster: HttpCluster) -> None:
    server.plan(stream(), answer(200, VA))
    await events_of(cluster)
    await cluster.get(VOLUME_ATTACHMENTS, "va")
    assert [0, 0] == [request.connection for request in server.requests]


async def test_watches_take_no_place_from_requests() -> None:
    async with (
        bad_server() as server,
        a_client(server.config(), concurrency_max=1) as cluster,
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(3):
            server.plan(stream(json.dumps({"type": "ADDED", "object": VA}).encode() + b"\n", end="hang"))
            events = await stack.enter_async_context(
                contextlib.aclosing(cluster.watch(VOLUME_ATTACHMENTS, resource_version="5"))
            )
            await anext(events)
        server.plan(answer(200, VA))
        assert (await cluster.get(VOLUME_ATTACHMENTS, "va")).metadata.name == "va"


async def test_deletions_that_hang_take_no_place_from_others() -> None:
    async with (
        bad_server() as server,
        a_client(server.config(), concurrency_max=1) as cluster,
        asyncio.TaskGroup() as group,
    ):
        begun = asyncio.Event()

        async def hang(connection: Connection) -> bool:
            begun.set()
            return await silence()(connection)

        server.plan(silence(), hang)
        hanging = [group.create_task(cluster.delete(VOLUME_ATTACHMENTS, name)) for name in ("one", "two")]
        await begun.wait()
        server.plan(answer(200, VA))
        assert (await cluster.get(VOLUME_ATTACHMENTS, "va")).metadata.name == "va"
        for task in hanging:
            task.cancel()


# -- connections and limits


@each_row(("compressed", "asked"), [(True, "gzip"), (False, "identity")])
async def test_compression_is_asked_for_where_it_pays(compressed: bool, asked: str) -> None:
    async with bad_server() as server, a_client(server.config(compressed=compressed)) as cluster:
        server.plan(answer(200, gzip.compress(json.dumps(VA).encode()), Content_Encoding="gzip"))
        assert (await cluster.get(VOLUME_ATTACHMENTS, "va")).metadata.name == "va"
        assert asked == server.requests[0].headers["accept-encoding"]


async def test_a_connection_serves_one_request_after_the_other(server: BadServer, cluster: HttpCluster) -> None:
    server.otherwise = answer(200, VA)
    for _ in range(3):
        await cluster.patch(VOLUME_ATTACHMENTS, "va", merge_patch({}))
    server.plan(refusal(404, "NotFound", "no"))
    with contextlib.suppress(Exception):
        await cluster.get(VOLUME_ATTACHMENTS, "gone")
    await cluster.get(VOLUME_ATTACHMENTS, "va")
    assert server.connection_count == 1


async def test_only_so_many_requests_run_at_a_time() -> None:
    async with bad_server() as server, a_client(server.config(), concurrency_max=3) as cluster:
        server.otherwise = answer(200, VA)
        await asyncio.gather(*(cluster.get(VOLUME_ATTACHMENTS, "va") for _ in range(20)))
        assert len(server.requests) == 20
        assert server.connection_count == 3


async def test_requests_wait_for_the_client_s_own_limit_and_watches_do_not() -> None:
    clock, registry = InstantClock(), CollectorRegistry()
    async with (
        bad_server() as server,
        a_client(server.config(), clock=clock, qps=1, burst=1, metrics=ClientMetrics(registry)) as cluster,
    ):
        server.otherwise = answer(200, VA)
        for _ in range(3):
            await cluster.get(VOLUME_ATTACHMENTS, "va")
        server.plan(stream())
        await events_of(cluster)
        assert [1.0, 1.0] == clock.slept_s
        host = server.url.removeprefix("http://")
        name, labels = "rest_client_rate_limiter_duration_seconds_sum", {"verb": "GET", "host": host}
        assert registry.get_sample_value(name, labels) == 2.0
        assert (
            registry.get_sample_value("rest_client_requests_total", {"code": "200", "host": host, "method": "GET"})
            == 4.0
        )


async def test_a_closed_client_says_so() -> None:
    async with bad_server() as server:
        async with a_client(server.config()) as cluster:
            pass
        with pytest.raises(Unreachable, match="the client is closed"):
            await cluster.get(VOLUME_ATTACHMENTS, "va")


async def test_warnings_of_the_server_are_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure(verbosity=1)
    try:
        async with bad_server() as server, a_client(server.config()) as cluster:
            server.otherwise = answer(200, VA, Warning='299 - "spec.\\"x\\" is old", 299 - "and new"')
            for _ in range(3):
                await cluster.get(VOLUME_ATTACHMENTS, "va")
        told = capsys.readouterr().err
        assert (2, 1) == (told.count("\n"), told.count("and new"))
        assert told.count(r"spec.\"x\" is old") == 1
    finally:
        log.configure()
