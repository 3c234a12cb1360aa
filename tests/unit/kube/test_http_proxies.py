"""Proxies between the client and the server: tunnels for TLS, whole URLs without it."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest

from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.kube.client.config import ClusterConfig, KubeconfigUser, Pem, Tls
from mooring.kube.errors import Unreachable
from mooring.kube.patch import merge_patch
from tests.support.rows import each_row
from tests.unit.kube.bad_server import Move, answer, bad_server, raw, reset, silence, stream
from tests.unit.kube.certificates import authority_pem, other_authority, server_context
from tests.unit.kube.clients import VA, a_client
from tests.unit.kube.proxy_server import tunnel_server

pytestmark = pytest.mark.usefixtures("both_transports")

A_LINE = json.dumps({"type": "ADDED", "object": VA}).encode() + b"\n"
NAME = "https://api.example.com:6443"
TLS = Tls(Pem("ca", data=authority_pem()))


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


@each_row("proxy_tls", [False, True], ids=["http", "https"])
async def test_tls_goes_through_a_tunnel_that_knows_no_credentials_of_ours(proxy_tls: bool) -> None:
    """The name is the proxy's to resolve, and the certificate is held against it."""
    async with (
        bad_server(server_context("api.example.com")) as server,
        tunnel_server(server.url, server_context() if proxy_tls else None) as proxy,
        a_client(
            ClusterConfig(
                NAME, tls=TLS, user=KubeconfigUser(token="s3cret"), proxy=proxy.url.replace("//", "//us%40er:p%3Aw@")
            )
        ) as cluster,
    ):
        server.otherwise = answer(200, VA)
        for _ in range(3):
            await cluster.patch(VOLUME_ATTACHMENTS, "va", merge_patch({"a": "x" * 100_000}))
        assert [0, 0, 0] == [request.connection for request in server.requests]
        (asked,) = proxy.asked
        assert asked.startswith("CONNECT api.example.com:6443 HTTP/1.1\r\n")
        assert "host: api.example.com:6443\r\n" in asked.lower()
        assert f"Proxy-Authorization: {basic('us@er:p:w')}\r\n" in asked
        assert "s3cret" not in asked
        assert {"proxy-authorization"}.isdisjoint(server.requests[0].headers)


@each_row("proxy_tls", [False, True], ids=["http", "https"])
async def test_a_watch_through_a_tunnel_tells_when_it_breaks(proxy_tls: bool) -> None:
    async with (
        bad_server(server_context("api.example.com")) as server,
        tunnel_server(server.url, server_context() if proxy_tls else None) as proxy,
        a_client(ClusterConfig(NAME, tls=TLS, proxy=proxy.url)) as cluster,
    ):
        server.plan(stream(A_LINE, end="hang"))
        async with contextlib.aclosing(cluster.watch(VOLUME_ATTACHMENTS, resource_version="5")) as events:
            await anext(events)
            proxy.cut()
            with pytest.raises(Unreachable, match="broke off"):
                await anext(events)
        server.plan(answer(200, VA))
        await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert 2 == len(proxy.asked)


async def test_a_certificate_behind_a_tunnel_must_fit() -> None:
    async with bad_server(server_context("other.example.com")) as server, tunnel_server(server.url) as proxy:
        for tls, told in (
            (TLS, "is for another name"),
            (Tls(Pem("ca", data=other_authority().cert_pem.bytes())), "is not trusted"),
        ):
            async with a_client(ClusterConfig(NAME, tls=tls, proxy=proxy.url)) as cluster:
                with pytest.raises(Unreachable, match=told):
                    await cluster.get(VOLUME_ATTACHMENTS, "va")
        async with a_client(
            ClusterConfig(NAME, tls=Tls(TLS.authority, server_name="other.example.com"), proxy=proxy.url)
        ) as cluster:
            server.plan(answer(200, VA))
            await cluster.get(VOLUME_ATTACHMENTS, "va")


async def test_a_proxy_s_own_certificate_must_fit() -> None:
    async with (
        bad_server(server_context("api.example.com")) as server,
        tunnel_server(server.url, server_context("other.example.com")) as proxy,
        a_client(ClusterConfig(NAME, tls=TLS, proxy=proxy.url)) as cluster,
    ):
        with pytest.raises(Unreachable, match=r"TLS with .* through the proxy 127\.0\.0\.1 .*is for another name"):
            await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert [] == proxy.asked


async def test_without_tls_each_request_names_server_and_credentials() -> None:
    async with bad_server() as proxy:
        proxy.otherwise = answer(200, VA)
        config = ClusterConfig("http://api.example.com:8080/under/it", proxy=proxy.url.replace("//", "//user:pass@"))
        async with a_client(config) as cluster:
            await cluster.get(VOLUME_ATTACHMENTS, "va")
            await cluster.list(VOLUME_ATTACHMENTS, limit=1)
        one, two = proxy.requests
        assert one.path == "http://api.example.com:8080/under/it/apis/storage.k8s.io/v1/volumeattachments/va"
        assert two.path == "http://api.example.com:8080/under/it/apis/storage.k8s.io/v1/volumeattachments?limit=1"
        assert [("api.example.com:8080", basic("user:pass"), 0)] * 2 == [
            (request.headers["host"], request.headers["proxy-authorization"], request.connection)
            for request in (one, two)
        ]


async def test_the_usual_port_is_not_in_the_host_header() -> None:
    async with bad_server() as proxy:
        proxy.otherwise = answer(200, VA)
        for server in ("http://api.example.com", "http://api.example.com:80"):
            async with a_client(ClusterConfig(server, proxy=proxy.url)) as cluster:
                await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert ["api.example.com"] * 2 == [request.headers["host"] for request in proxy.requests]


PROXY_FAULTS: dict[str, tuple[Move, str]] = {
    "forbidden": (answer(403), "no connection to .*: the proxy answered 403 Some Phrase"),
    "a redirect": (answer(302), "no connection to .*: the proxy answered 302"),
    "no HTTP": (raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "is no HTTP"),
    "closed": (raw(), "broke before the answer was there"),
    "reset": (reset(), "broke before the answer was there"),
    "cut in the head": (raw(b"HTTP/1.1 200 Connect"), "broke before the answer was there"),
    "plain text behind it": (
        raw(b"HTTP/1.1 200 OK\r\n\r\n" + b"hello, here is no TLS" * 10, hang=True),
        "TLS with |within 0.3 s",
    ),
    "closed behind it": (raw(b"HTTP/1.1 200 OK\r\n\r\n"), "the server closed it at once"),
    "silence": (silence(), "no answer from .* to PATCH within 0.3 s"),
    "silence behind it": (raw(b"HTTP/1.1 200 OK\r\n\r\n", hang=True), "no answer from .* to PATCH within 0.3 s"),
}


@each_row("how", PROXY_FAULTS)
async def test_a_proxy_that_makes_no_tunnel_is_told(how: str) -> None:
    move, told = PROXY_FAULTS[how]
    async with bad_server() as proxy:
        config = ClusterConfig(NAME, tls=TLS, proxy=proxy.url.replace("//", "//user:hunter2@"))
        async with a_client(config, request_timeout_s=0.3) as cluster:
            proxy.otherwise = move
            with pytest.raises(Unreachable, match=told) as caught:
                await cluster.patch(VOLUME_ATTACHMENTS, "va", merge_patch({"a": 1}))
            assert "through the proxy 127.0.0.1" in str(caught.value)
            assert "hunter2" not in str(caught.value)
            assert 1 == len(proxy.requests)


async def test_a_proxy_that_is_down_is_told() -> None:
    async with bad_server() as proxy:
        url = proxy.url
    for server in (NAME, "http://api.example.com"):
        async with a_client(ClusterConfig(server, tls=TLS if server == NAME else Tls(), proxy=url)) as cluster:
            with pytest.raises(Unreachable, match=f"no connection to {server} through the proxy 127.0.0.1 "):
                await cluster.get(VOLUME_ATTACHMENTS, "va")


async def test_tls_to_a_proxy_before_a_server_without_it_is_checked_by_the_system_s_authorities() -> None:
    async with (
        bad_server(server_context()) as proxy,
        a_client(ClusterConfig("http://api.example.com", proxy=proxy.url)) as cluster,
    ):
        with pytest.raises(Unreachable, match=r"TLS with .*is not trusted"):
            await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert [] == proxy.requests
