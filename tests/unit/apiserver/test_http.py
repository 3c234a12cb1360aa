"""The server's sockets: who may come, how long they may take, and how they are sent home."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from mooring.api.core import SECRETS
from mooring.api.meta import Key
from mooring.apiserver.identity.tls import ServerIdentity, identity_in
from mooring.apiserver.resource import Resource
from mooring.apiserver.rules import SECRETS as SECRET_RULES
from mooring.apiserver.rules import STORAGE_CLASSES, VOLUME_ATTACHMENTS
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored
from mooring.apiserver.web.limits import ConnectionLimits
from mooring.apiserver.web.server import LOOPBACK, ApiServer
from mooring.apiserver.web.service import Service
from mooring.apiserver.web.watch_lines import Encodings
from mooring.base import log
from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.cluster import EventType, Patch, PatchType
from mooring.wire.http1.bodies import BODY_BYTES_MAX, DRAINED_BYTES_MAX
from tests.support.builders import a_secret, a_va
from tests.support.rows import each_row
from tests.unit.apiserver.objects import a_store, create
from tests.unit.apiserver.serving import PATH, answered, connected, head, serving


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> ServerIdentity:
    return identity_in(tmp_path_factory.mktemp("identity"), time.time())


@contextlib.asynccontextmanager
async def client_of(server: ApiServer, folder: Path) -> AsyncIterator[HttpCluster]:
    server.write_kubeconfig(folder / "kubeconfig")
    config = load(str(folder / "kubeconfig"), {})
    async with HttpCluster(config, clock=LoopClock(), randomness=Random(1), user_agent="test") as cluster:
        yield cluster


@each_row("host", ["0.0.0.0", "192.168.1.1", "::", "169.254.1.1"])
def test_it_listens_on_this_machine_alone(identity: ServerIdentity, host: str) -> None:
    with pytest.raises(ConfigError, match="listens on this machine alone"):
        ApiServer(a_store(), identity, clock=LoopClock(), randomness=Random(1), address=(host, 0))


async def test_a_taken_port_is_told(identity: ServerIdentity) -> None:
    async with serving(identity) as server:
        address = (LOOPBACK, int(server.url.rpartition(":")[2]))
        taken = ApiServer(a_store(), identity, clock=LoopClock(), randomness=Random(1), address=address)
        with pytest.raises(
            ConfigError, match=r"can't listen on 127.0.0.1:\d+: the port is taken; --port 0 takes a free one$"
        ):
            await taken.start()


async def test_one_connection_serves_many_requests(identity: ServerIdentity) -> None:
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        for _ in range(3):
            writer.write(head(identity, "GET", PATH))
            assert (200, "SecretList") == tuple(
                value["kind"] if isinstance(value, dict) else value for value in await answered(reader)
            )


async def test_a_body_that_comes_too_slowly_is_cut_off(identity: ServerIdentity) -> None:
    async with (
        serving(identity, limits=ConnectionLimits(slow_s=0.05)) as server,
        connected(server, identity) as (reader, writer),
    ):
        writer.write(head(identity, "POST", PATH, Content_Length=1000) + b'{"metadata"')
        async with asyncio.timeout(5):
            with contextlib.suppress(ConnectionError):
                assert b"" == await reader.read()


async def test_a_body_that_is_too_large_is_refused_when_it_is_all_there(identity: ServerIdentity) -> None:
    body = b"x" * (BODY_BYTES_MAX + 1)
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        writer.write(head(identity, "POST", PATH, Content_Length=len(body)) + body)
        status, answer = await answered(reader)
    assert (413, "RequestEntityTooLarge") == (status, answer["reason"])


async def test_a_body_without_end_is_cut_off_with_a_status(identity: ServerIdentity) -> None:
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        writer.write(
            head(identity, "POST", PATH, Content_Length=2 * DRAINED_BYTES_MAX) + b"x" * (DRAINED_BYTES_MAX + 1)
        )
        status, answer = await answered(reader)
    assert (413, "RequestEntityTooLarge") == (status, answer["reason"])


@each_row(
    ("path", "names"),
    [
        ("/api/v1/watch/namespaces/default/secrets", ["a", "b"]),
        ("/api/v1/watch/secrets?watch=0", ["a", "b"]),
        ("/api/v1/watch/namespaces/default/secrets/b", ["b"]),
        ("/api/v1/watch/namespaces/kube-public", ["kube-public"]),
        ("/apis/storage.k8s.io/v1/watch/storageclasses/s?fieldSelector=metadata.name!%3Dt", ["s"]),
    ],
)
async def test_old_paths_of_watches_are_watches(identity: ServerIdentity, path: str, names: list[str]) -> None:
    store = a_store()
    for name in "ab":
        create(store, SECRET_RULES, a_secret(name), "default")
    for name in "st":
        create(store, STORAGE_CLASSES, {"metadata": {"name": name}, "provisioner": "example.com/x"})
    async with serving(identity, store) as server, connected(server, identity) as (reader, writer):
        writer.write(head(identity, "GET", path))
        seen = b""
        async with asyncio.timeout(5):
            while seen.count(b'"type":"ADDED"') < len(names):
                seen += await reader.readline()
    assert names == re.findall(r'"type":"ADDED".*?"name":"([^"]+)"', seen.decode())


async def test_headers_have_a_largest_size(identity: ServerIdentity) -> None:
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        writer.write(head(identity, "GET", PATH, X_Odd="x" * 100_000))
        async with asyncio.timeout(5):
            assert b"431" in await reader.readline()


async def test_what_nobody_expected_is_an_answer_and_a_traceback_in_the_log(
    identity: ServerIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_service: Service, _request: object, _route: object, _work: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Service, "answer", broken)
    logged = io.StringIO()
    log.configure(stream=logged)
    try:
        async with serving(identity) as server, connected(server, identity) as (reader, writer):
            writer.write(head(identity, "GET", PATH))
            assert (500, "Internal error occurred: RuntimeError") == tuple(
                value["message"] if isinstance(value, dict) else value for value in await answered(reader)
            )
    finally:
        log.configure()
    assert "in broken" in logged.getvalue()
    assert "RuntimeError: a bug" in logged.getvalue()


async def test_half_a_body_harms_nobody(store: ObjectStore, identity: ServerIdentity) -> None:
    async with serving(identity, store) as server:
        async with connected(server, identity) as (_, writer):
            writer.write(head(identity, "POST", PATH, Content_Length=1000) + b'{"metadata": {"name": "x"}')
            await writer.drain()
        async with connected(server, identity) as (reader, writer):
            writer.write(head(identity, "GET", f"{PATH}/x"))
            assert 404 == (await answered(reader))[0]


@pytest.mark.slow
async def test_a_watcher_that_does_not_read_is_cut_off_and_holds_nobody_up(
    identity: ServerIdentity, tmp_path: Path
) -> None:
    """More goes to it than the sockets hold; after slow_s it is gone."""
    async with serving(identity, limits=ConnectionLimits(slow_s=0.3)) as server, client_of(server, tmp_path) as cluster:
        made = await cluster.create(SECRETS, a_secret("s"), "default")
        version = made.metadata.resource_version
        async with (
            connected(server, identity) as (reader, writer),
            contextlib.aclosing(cluster.watch(SECRETS, resource_version=version)) as quick,
        ):
            writer.write(head(identity, "GET", f"{PATH}?watch=1&resourceVersion={version}"))
            await reader.readline()
            most = 0
            for number in range(2000):
                change = {"metadata": {"annotations": {"filler": f"{number}" + "x" * 250_000}}}
                await cluster.patch(SECRETS, "s", Patch(PatchType.MERGE, change), "default")
                event = await anext(quick)
                assert event.object is not None
                most = max(most, server.connection_count)
                if server.connection_count < most:
                    return
        raise AssertionError("somebody who never reads was never cut off")


async def test_closing_ends_watches_at_once(identity: ServerIdentity) -> None:
    loop = asyncio.get_running_loop()
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        writer.write(head(identity, "GET", f"{PATH}?watch=1"))
        while (await reader.readline()).strip():
            pass
        begun = loop.time()
        await server.close()
        async with asyncio.timeout(5):
            assert b"0\r\n\r\n" == await reader.read(), "a clean end: the last chunk"
        assert loop.time() - begun < 2


class BrokenStore(ObjectStore):
    """Breaks when somebody reads."""

    def get(self, resource: Resource, key: Key) -> Stored:
        raise ZeroDivisionError("planted: canary")


async def test_what_nobody_foresaw_is_an_internal_error_that_tells_nothing(identity: ServerIdentity) -> None:
    async with (
        serving(identity, BrokenStore([VOLUME_ATTACHMENTS], Random(1))) as server,
        connected(server, identity) as (reader, writer),
    ):
        writer.write(head(identity, "GET", "/apis/storage.k8s.io/v1/volumeattachments/x"))
        status, answer = await answered(reader)
        assert (500, "InternalError", "Failure") == (status, answer["reason"], answer["status"])
        assert "canary" not in answer["message"]
        writer.write(head(identity, "GET", "/apis/storage.k8s.io/v1/volumeattachments"))
        assert 200 == (await answered(reader))[0], "and the server lives"


class LateDisk:
    """Durability whose commits come when the test says so."""

    def __init__(self, store: ObjectStore) -> None:
        self._store, self.committed, self.failure = store, store.version, ""
        self._listeners: list[Callable[[Resource], None]] = []

    def commit(self) -> None:
        self.committed = self._store.version
        for listener in self._listeners:
            listener(VOLUME_ATTACHMENTS)

    def on_commit(self, listener: Callable[[Resource], None]) -> None:
        self._listeners.append(listener)

    async def wait_committed(self, version: int) -> None:
        raise AssertionError("the server waits for nothing")

    failed = wait_committed  # type: ignore[assignment]


async def test_no_answer_leaves_before_the_commit_of_what_it_tells(
    store: ObjectStore, identity: ServerIdentity
) -> None:
    """A write, a read of it, and a refusal that tells of it. Only health is told meanwhile."""
    disk, answers = LateDisk(store), list[tuple[int, bool]]()
    body = json.dumps(a_secret("a")).encode()
    post = head(identity, "POST", PATH, Content_Length=len(body), Content_Type="application/json") + body

    async def ask(server: ApiServer, request: bytes) -> None:
        async with connected(server, identity) as (reader, writer):
            writer.write(request)
            status, _ = await answered(reader)
            answers.append((status, disk.committed == store.version))

    async with serving(identity, store, durability=disk) as server, asyncio.TaskGroup() as group:
        before = store.version
        group.create_task(ask(server, post), name="first")
        while store.version == before:  # noqa: ASYNC110 (nobody says when a request has come)
            await asyncio.sleep(0)
        later = [
            group.create_task(ask(server, request), name="later")
            for request in (post, head(identity, "GET", f"{PATH}/a"))
        ]
        async with connected(server, identity) as (reader, writer):
            for _ in range(10):
                writer.write(head(identity, "GET", "/healthz"))
                assert (200, b"ok") == await answered(reader)
        assert [] == answers
        assert not any(task.done() for task in later)
        disk.commit()
    assert [(200, True), (201, True), (409, True)] == sorted(answers)


def test_an_event_is_encoded_once_for_all_watchers(store: ObjectStore) -> None:
    create(store, VOLUME_ATTACHMENTS, a_va("va"))
    stored = store.get(VOLUME_ATTACHMENTS, Key("", "va"))
    lines = Encodings()
    first = lines.line(stored, EventType.ADDED, is_chunked=False)
    assert first is lines.line(stored, EventType.ADDED, is_chunked=False)
    assert first is not lines.line(stored, EventType.MODIFIED, is_chunked=False)
    assert {"type": "ADDED", "object": stored.whole()} == json.loads(first)
    assert first.endswith(b"\n")
