"""Who the client is to the server, and the server to the client: tokens, plugins, certificates, proxies."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path

import pytest

from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.kube.client.config import ClusterConfig, ExecPlugin, KubeconfigUser, Pem, Tls
from mooring.kube.client.http import HttpCluster
from mooring.kube.errors import Unauthorized, Unreachable
from mooring.kube.patch import merge_patch
from tests.support.rows import each_row
from tests.unit.kube.bad_server import Connection, answer, bad_server, refusal, stream
from tests.unit.kube.certificates import authority_pem, client_pem, server_context
from tests.unit.kube.clients import VA, a_client, events_of
from tests.unit.kube.instant_clock import InstantClock
from tests.unit.kube.kubeconfigs import a_program

pytestmark = pytest.mark.usefixtures("both_transports")

UNAUTHORIZED = refusal(401, "Unauthorized", "Unauthorized")


# -- who we are


async def test_users_are_named_in_a_header() -> None:
    async with bad_server() as server:
        server.otherwise = answer(200, VA)
        for user in (
            KubeconfigUser(token="t"),
            KubeconfigUser(username="a", password="b"),
            KubeconfigUser(headers=(("Impersonate-Group", "x"), ("Impersonate-Group", "y"))),
        ):
            async with a_client(server.config(user=user)) as cluster:
                await cluster.get(VOLUME_ATTACHMENTS, "va")
        one, two, three = (request.headers for request in server.requests)
        assert ("Bearer t", f"Basic {base64.b64encode(b'a:b').decode()}") == (
            one["authorization"],
            two["authorization"],
        )
        assert three["impersonate-group"] == "x, y"


async def test_a_rotated_token_is_picked_up_at_a_401(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    async with bad_server() as server, a_client(server.config(user=KubeconfigUser(token_file=str(path)))) as cluster:
        server.plan(answer(200, VA), UNAUTHORIZED, answer(200, VA), answer(200, VA))
        await cluster.get(VOLUME_ATTACHMENTS, "va")
        path.write_text("new")
        await cluster.patch(VOLUME_ATTACHMENTS, "va", merge_patch({"a": 1}))
        await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert ["old", "old", "new", "new"] == [
            request.headers["authorization"].removeprefix("Bearer ") for request in server.requests
        ]
        assert server.requests[1].body == server.requests[2].body


async def test_a_watch_s_401_is_healed_too(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    async with bad_server() as server, a_client(server.config(user=KubeconfigUser(token_file=str(path)))) as cluster:
        server.plan(answer(200, VA), UNAUTHORIZED, stream())
        await cluster.get(VOLUME_ATTACHMENTS, "va")
        path.write_text("new")
        assert await events_of(cluster) == []


async def test_a_401_that_stays_is_told_after_one_more_try(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    async with bad_server() as server, a_client(server.config(user=KubeconfigUser(token_file=str(path)))) as cluster:
        server.otherwise = UNAUTHORIZED
        with pytest.raises(Unauthorized, match=r"^Unauthorized: "):
            await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert len(server.requests) == 1, "the token has not changed: the same question gets the same answer"
        path.write_text("new")
        with pytest.raises(Unauthorized):
            await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert len(server.requests) == 3


STRANGERS = [
    (KubeconfigUser(token="s3cret"), "did not take the token; has it expired, or is it another cluster's?"),
    (
        KubeconfigUser(username="ann", password="s3cret"),
        'did not take the password of "ann"; has it expired, or is it another cluster\'s?',
    ),
    (KubeconfigUser(), "wants credentials, and there are none; give a kubeconfig whose context has a user with some"),
]


@each_row(("user", "told"), STRANGERS, ids=["token", "password", "nobody"])
async def test_a_401_names_the_server_and_where_the_credentials_came_from(user: KubeconfigUser, told: str) -> None:
    """The servers themselves say one word, and the reader has several kubeconfigs."""
    async with bad_server() as server:
        config = dataclasses.replace(server.config(user=user), source='kubeconfig "/k": context "a"')
        async with a_client(config) as cluster:
            server.otherwise = UNAUTHORIZED
            for ask in (cluster.get(VOLUME_ATTACHMENTS, "va"), events_of(cluster)):
                with pytest.raises(Unauthorized) as caught:
                    await ask
                assert f'Unauthorized: {config.server} (kubeconfig "/k": context "a") {told}' == str(caught.value)


async def test_a_401_names_the_file_or_the_plugin(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("s3cret")
    async with bad_server() as server:
        server.otherwise = UNAUTHORIZED
        for user, told in (
            (KubeconfigUser(token_file=str(path)), f'did not take the token in "{path}";'),
            (a_plugin(tmp_path, '{"token":"s3cret"}'), f'did not take what "{tmp_path}/'),
        ):
            async with a_client(server.config(user=user)) as cluster:
                with pytest.raises(Unauthorized, match=told) as caught:
                    await cluster.get(VOLUME_ATTACHMENTS, "va")
                assert "s3cret" not in str(caught.value)


async def test_a_token_that_changes_all_the_time_is_not_tried_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("0")
    async with bad_server() as server, a_client(server.config(user=KubeconfigUser(token_file=str(path)))) as cluster:

        async def rotate(connection: Connection) -> bool:
            path.write_text(str(len(server.requests)))
            return await UNAUTHORIZED(connection)

        server.otherwise = rotate
        with pytest.raises(Unauthorized):
            await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert len(server.requests) == 2


def a_plugin(folder: Path, status: str) -> KubeconfigUser:
    answer = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":' + status + "}"
    script = f"cat > /dev/null; echo >> {folder}/runs; printf '{answer}' $(wc -l < {folder}/runs)"
    return KubeconfigUser(
        exec_plugin=ExecPlugin("exec", a_program(folder, script), environment={"PATH": "/usr/bin:/bin"})
    )


async def test_a_plugin_runs_at_the_start_and_again_after_a_401(tmp_path: Path) -> None:
    clock = InstantClock()
    async with (
        bad_server() as server,
        a_client(server.config(user=a_plugin(tmp_path, '{"token":"t%s"}')), clock=clock) as cluster,
    ):
        server.plan(answer(200, VA), UNAUTHORIZED, answer(200, VA))
        await cluster.get(VOLUME_ATTACHMENTS, "va")
        clock.pass_s(10)
        await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert ["Bearer t1", "Bearer t1", "Bearer t2"] == [
            request.headers["authorization"] for request in server.requests
        ]


async def test_what_expires_while_a_request_waits_for_its_turn_is_not_sent(tmp_path: Path) -> None:
    clock = InstantClock(wall_s=1704164644.5)  # half a second before
    user = a_plugin(tmp_path, '{"token":"t%s","expirationTimestamp":"2024-01-02T03:04:05Z"}')
    async with bad_server() as server, a_client(server.config(user=user), clock=clock, qps=1, burst=1) as cluster:
        server.otherwise = answer(200, VA)
        for _ in range(2):
            await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert ["Bearer t1", "Bearer t2"] == [request.headers["authorization"] for request in server.requests]


async def test_a_plugin_that_fails_is_told_at_the_start_and_never_sends_a_request(tmp_path: Path) -> None:
    plugin = ExecPlugin("exec", a_program(tmp_path, "exit 7"))
    async with bad_server() as server:
        config = server.config(user=KubeconfigUser(exec_plugin=plugin))
        with pytest.raises(ConfigError, match="ended with code 7"):
            async with a_client(config):
                pass
        cluster = HttpCluster(config, clock=InstantClock(), randomness=Random(1), user_agent="test/1")
        with pytest.raises(Unauthorized, match="ended with code 7"):
            await cluster.get(VOLUME_ATTACHMENTS, "va")
        await cluster.close()
        assert server.requests == []


# -- TLS


async def test_client_certificates_are_shown() -> None:
    certificate, key = client_pem()
    tls = Tls(Pem("ca", data=authority_pem()), Pem("cert", data=certificate), Pem("key", data=key))
    async with bad_server(server_context(ask_client=True)) as server, a_client(server.config(tls=tls)) as cluster:
        server.plan(answer(200, VA))
        await cluster.get(VOLUME_ATTACHMENTS, "va")


async def test_a_certificate_from_a_plugin_is_shown(tmp_path: Path) -> None:
    certificate, key = client_pem()
    status = json.dumps({"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()})
    credential = f'{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}'
    (tmp_path / "answer").write_text(credential)
    plugin = ExecPlugin("exec", a_program(tmp_path, f"cat {tmp_path}/answer"), environment={"PATH": "/usr/bin:/bin"})
    async with (
        bad_server(server_context(ask_client=True)) as server,
        a_client(server.config(user=KubeconfigUser(exec_plugin=plugin))) as cluster,
    ):
        server.plan(answer(200, VA))
        await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert "authorization" not in server.requests[0].headers


async def test_a_plugin_s_certificate_outlives_a_change_of_the_authority_s_file(tmp_path: Path) -> None:
    certificate, key = client_pem()
    status = json.dumps({"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()})
    (tmp_path / "answer").write_text(
        f'{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}'
    )
    (tmp_path / "ca").write_bytes(authority_pem())
    plugin = ExecPlugin("exec", a_program(tmp_path, f"cat {tmp_path}/answer"), environment={"PATH": "/usr/bin:/bin"})
    clock = InstantClock()
    async with bad_server(server_context(ask_client=True)) as server:
        config = server.config(user=KubeconfigUser(exec_plugin=plugin), tls=Tls(Pem("ca", path=str(tmp_path / "ca"))))
        async with a_client(config, clock=clock) as cluster:
            server.otherwise = answer(200, VA)
            await cluster.get(VOLUME_ATTACHMENTS, "va")
            (tmp_path / "ca").write_bytes(authority_pem() + b"\n# renewed\n")
            clock.pass_s(60)
            await cluster.get(VOLUME_ATTACHMENTS, "va")
            assert [0, 1] == [request.connection for request in server.requests]


async def test_the_server_may_be_known_by_another_name() -> None:
    async with bad_server(server_context("kubernetes.default")) as server:
        tls = Tls(Pem("ca", data=authority_pem()), server_name="kubernetes.default")
        async with a_client(server.config(tls=tls)) as cluster:
            server.plan(answer(200, VA))
            await cluster.get(VOLUME_ATTACHMENTS, "va")


async def test_an_unchecked_server_may_be_anybody() -> None:
    async with (
        bad_server(server_context("somebody.else")) as server,
        a_client(server.config(tls=Tls(insecure=True))) as cluster,
    ):
        server.plan(answer(200, VA))
        await cluster.get(VOLUME_ATTACHMENTS, "va")


async def test_a_server_may_have_an_ipv6_address() -> None:
    async with bad_server(server_context("::1"), host="::1") as server, a_client(server.config()) as cluster:
        server.plan(answer(200, VA))
        await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert server.requests[0].headers["host"] == server.url.removeprefix("https://")


async def test_a_proxy_is_asked_for_the_server() -> None:
    async with bad_server() as proxy:
        config = ClusterConfig("http://api.example.com:8080", proxy=proxy.url)
        async with a_client(config) as cluster:
            proxy.plan(answer(200, VA))
            await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert proxy.requests[0].path == "http://api.example.com:8080/apis/storage.k8s.io/v1/volumeattachments/va"


async def test_a_proxy_that_refuses_is_told_without_its_password() -> None:
    async with bad_server() as proxy:
        config = ClusterConfig("https://api.example.com:6443", proxy=proxy.url.replace("//", "//user:hunter2@"))
        async with a_client(config) as cluster:
            proxy.plan(answer(407))
            with pytest.raises(Unreachable, match="the proxy answered 407") as caught:
                await cluster.get(VOLUME_ATTACHMENTS, "va")
        assert "hunter2" not in str(caught.value)
        assert ("CONNECT", "api.example.com:6443") == (proxy.requests[0].method, proxy.requests[0].path)
        assert proxy.requests[0].headers["proxy-authorization"] == f"Basic {base64.b64encode(b'user:hunter2').decode()}"
