"""Item 30.4: the proxy between a driver and its callers, with every kind of fault."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.base.clock import LoopClock, time_left_s
from mooring.conform.book.watcher import Watcher
from mooring.conform.proxy.faults import Fault, Faults, Kind, When
from mooring.conform.proxy.proxy import Passed, Proxy
from mooring.conform.watched import Watch
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.dial import dial
from mooring.wire.grpc.errors import LOST_TEXT, ConnectionCut, RpcError
from mooring.wire.grpc.events import Answered
from mooring.wire.grpc.server import listening

CREATE = Driver.create_volume.path
WRITER = csi.VolumeCapability(mount={}, access_mode={"mode": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER})
REQUEST = csi.CreateVolumeRequest(name="a", volume_capabilities=[WRITER], secrets={"pass": "hunter22"})


class Backend:
    """A driver that answers any call with bytes, and remembers what it got."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes]] = []
        self.left_s: list[float | None] = []
        self.act: Callable[[bytes], Awaitable[bytes]] = self._echo
        self.running = self.together = 0
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def _echo(self, _: bytes) -> bytes:
        return csi.CreateVolumeResponse(volume=csi.Volume(volume_id=f"v{len(self.got)}")).SerializeToString()

    async def __call__(self, path: str, message: bytes) -> bytes:
        self.got.append((path, message))
        self.left_s.append(time_left_s())
        self.running += 1
        self.began.set()
        self.together = max(self.together, self.running)
        try:
            await asyncio.sleep(0.01)
            return await self.act(message)
        finally:
            self.running -= 1
            self.ended.set()


class Table:
    """One proxy with its driver and what it told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.backend = folder, Backend()
        self.passed: list[Passed] = []
        self.breaches: list[str] = []
        self.pace = 1.0
        """The driver's seconds in one of ours."""

    def drivers_s(self) -> float:
        return asyncio.get_running_loop().time() * self.pace

    @property
    def socket(self) -> str:
        return str(self.folder / "a.sock")

    @asynccontextmanager
    async def driver(self) -> AsyncGenerator[None, None]:
        def method(path: str) -> Callable[[bytes], Awaitable[bytes]]:
            return lambda message: self.backend(path, message)

        paths = (CREATE, Driver.get_plugin_info.path, "/csi.v1.Future/Do")
        async with listening({path: method(path) for path in paths}, self.folder / "b.sock", grace_s=0.2):
            yield

    @asynccontextmanager
    async def proxied(self, *faults: Fault) -> AsyncGenerator[WireDriver, None]:
        clock = LoopClock()
        watch = Watch(Watcher(lambda breach: self.breaches.append(breach.rule.number)), "", None)
        wanted = {
            "faults": Faults(faults, 0),
            "watch": watch,
            "tell": self.passed.append,
            "clock": clock,
            "drivers_s": self.drivers_s,
        }
        proxy = Proxy(str(self.folder / "b.sock"), **wanted)  # type: ignore[arg-type]
        async with proxy.serving(self.folder / "a.sock"):
            client = WireDriver(self.socket, clock=clock)
            await client.connect(5)
            try:
                yield client
            finally:
                await client.close()


@pytest.fixture
async def table(tmp_path: Path) -> AsyncGenerator[Table, None]:
    found = Table(tmp_path)
    async with found.driver():
        yield found


async def create(client: WireDriver, timeout_s: float = 5.0) -> str:
    return str((await client.create_volume(REQUEST, Call(timeout_s))).volume.volume_id)


async def refused(client: WireDriver, timeout_s: float = 5.0) -> DriverError:
    with pytest.raises(DriverError) as told:
        await create(client, timeout_s)
    return told.value


async def raw(socket: str, path: str, message: bytes) -> Answered:
    link = await dial(socket, 5)
    try:
        return await link.call(path, message, 5)
    finally:
        link.close()


async def test_calls_pass_as_they_are(table: Table) -> None:
    async with table.proxied() as client:
        assert "v1" == await create(client)
    assert [(CREATE, REQUEST.SerializeToString())] == table.backend.got
    (one,) = table.passed
    assert ("CreateVolume", REQUEST, None, True) == (one.name, one.request, one.fault, one.reached)
    assert one.answer == csi.CreateVolumeResponse(volume=csi.Volume(volume_id="v1"))


async def test_unknown_fields_and_calls_pass_unchanged(table: Table) -> None:
    field_1000 = b"\xc2\x3e\x03new"
    table.backend.act = lambda message: asyncio.sleep(0, message)
    async with table.proxied():
        assert (
            REQUEST.SerializeToString() + field_1000
            == (await raw(table.socket, CREATE, REQUEST.SerializeToString() + field_1000)).payload
        )
        assert b"whatever\xff" == (await raw(table.socket, "/csi.v1.Future/Do", b"whatever\xff")).payload
        assert b"\xff" == (await raw(table.socket, CREATE, b"\xff")).payload, "what can't be read passes, too"
        gone = await raw(table.socket, "/csi.v1.Future/Undo", b"")
        assert (Code.UNIMPLEMENTED, "unknown method Undo for service csi.v1.Future") == (gone.code, gone.text), (
            "the driver's own words"
        )
    assert [True, False, False, False] == [one.rpc is not None for one in table.passed]


async def test_streams_are_refused(table: Table) -> None:
    async with table.proxied():
        answered = await raw(table.socket, "/csi.v1.SnapshotMetadata/GetMetadataAllocated", b"")
    assert Code.UNIMPLEMENTED == answered.code
    assert [] == table.backend.got


async def test_the_deadline_reaches_the_driver(table: Table) -> None:
    async with table.proxied() as client:
        await create(client, 7.0)
    (left_s,) = table.backend.left_s
    assert left_s is not None
    assert 5 < left_s <= 7


async def test_errors_pass_as_they_are_and_are_told_without_secrets(table: Table) -> None:
    async def fail(_: bytes) -> bytes:
        raise RpcError(Code.UNKNOWN, "no hunter22")

    table.backend.act = fail
    async with table.proxied():
        answered = await raw(table.socket, CREATE, REQUEST.SerializeToString())
    assert (Code.UNKNOWN, "no hunter22") == (answered.code, answered.text)
    assert "no ***stripped***" == table.passed[0].text
    assert {"CSI701", "CSI702"} <= set(table.breaches)


async def test_a_caller_who_gives_up_ends_the_call_at_the_driver(table: Table) -> None:
    table.backend.act = lambda _: asyncio.Event().wait()  # type: ignore[assignment,return-value]
    async with table.proxied() as client:
        call = asyncio.ensure_future(create(client))
        await table.backend.began.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(5):
            await table.backend.ended.wait()
    assert [(None, None)] == [(one.answer, one.error) for one in table.passed]


@pytest.mark.parametrize(("pace", "broken"), [(1.0, []), (60.0, ["CSI704"])])
async def test_a_deadline_as_long_as_kubernetes_gives_is_held_against_the_driver(
    table: Table, pace: float, broken: list[str]
) -> None:
    """Ten seconds, in the time that the driver has. A caller with less patience breaks its call off as well, and that
    tells nothing.
    """
    table.pace = pace
    table.backend.act = lambda _: asyncio.Event().wait()  # type: ignore[assignment,return-value]
    async with table.proxied() as client:
        assert Code.DEADLINE_EXCEEDED == (await refused(client, 0.3)).code
        async with asyncio.timeout(5):
            await table.backend.ended.wait()
    assert broken == table.breaches


async def test_a_driver_is_not_blamed_for_the_time_that_a_delay_has_taken(table: Table) -> None:
    table.backend.act = lambda _: asyncio.Event().wait()  # type: ignore[assignment,return-value]
    table.pace = 20.0
    async with table.proxied(Fault(Kind.DELAY, seconds=0.4, when=When.BEFORE)) as client:
        assert Code.DEADLINE_EXCEEDED == (await refused(client, 0.6)).code
        async with asyncio.timeout(5):
            await table.backend.ended.wait()
    assert [] == table.breaches


# -- faults


@pytest.mark.parametrize("when", list(When))
async def test_a_delay(table: Table, when: When) -> None:
    async with table.proxied(Fault(Kind.DELAY, seconds=3, when=when)) as client:
        call = asyncio.ensure_future(create(client))
        await asyncio.sleep(1.5)
        assert (1 if when is When.AFTER else 0) == len(table.backend.got)
        assert not call.done()
        assert "v1" == await call


@pytest.mark.parametrize("when", list(When))
async def test_a_failure(table: Table, when: When) -> None:
    async with table.proxied(Fault(Kind.FAIL, code=Code.RESOURCE_EXHAUSTED, message="full", when=when)) as client:
        error = await refused(client)
    assert (Code.RESOURCE_EXHAUSTED, "full") == (error.code, error.message)
    assert (1 if when is When.AFTER else 0) == len(table.backend.got)
    assert [when is When.AFTER] == [one.reached for one in table.passed]


async def test_a_dropped_answer(table: Table) -> None:
    async with table.proxied(Fault(Kind.DROP)) as client:
        error = await refused(client, 0.3)
    assert Code.DEADLINE_EXCEEDED == error.code
    assert 1 == len(table.backend.got)
    assert table.passed[0].answer is not None
    assert "CSI704" not in table.breaches, "the driver has answered in time"


async def test_a_call_that_hangs(table: Table) -> None:
    async with table.proxied(Fault(Kind.HANG)) as client:
        error = await refused(client, 0.2)
    assert Code.DEADLINE_EXCEEDED == error.code
    assert [] == table.backend.got


@pytest.mark.parametrize("at_once", [False, True])
async def test_a_call_sent_twice(table: Table, at_once: bool) -> None:
    async with table.proxied(Fault(Kind.TWICE, at_once=at_once)) as client:
        answer = await create(client)
    assert [(CREATE, REQUEST.SerializeToString())] * 2 == table.backend.got
    assert (2 if at_once else 1) == table.backend.together
    assert at_once or answer == "v2", "the second one's answer"
    assert at_once or "CSI201" in table.breaches, "this driver made two volumes of one name"


@pytest.mark.parametrize("when", list(When))
async def test_a_connection_that_is_cut(table: Table, when: When) -> None:
    async with table.proxied(Fault(Kind.CUT, nth=(1,), when=when)) as client:
        error = await refused(client)
        assert (Code.UNAVAILABLE, LOST_TEXT) == (error.code, error.message)
        assert (1 if when is When.AFTER else 0) == len(table.backend.got)
        assert await create(client), "the next connection works"
    assert "CSI707" not in table.breaches, "the driver did not die"


# -- a driver that is gone


async def test_a_driver_that_dies_takes_its_callers_connections_along(tmp_path: Path) -> None:
    table = Table(tmp_path)
    async with table.driver():
        proxied = table.proxied()
        client = await proxied.__aenter__()
        await create(client)
        assert client.is_connected
    async with asyncio.timeout(5):
        await client.lost()
    error = await refused(client)
    assert Code.UNAVAILABLE == error.code
    assert "connect: no such file or directory" in error.message
    async with table.driver():
        assert await create(client), "and it is found again"
    await proxied.__aexit__(None, None, None)


async def test_a_driver_that_breaks_off_a_call(table: Table) -> None:
    async def cut(_: bytes) -> bytes:
        raise ConnectionCut

    table.backend.act = cut
    async with table.proxied() as client:
        error = await refused(client)
    assert (Code.UNAVAILABLE, LOST_TEXT) == (error.code, error.message)
    assert "CSI707" in table.breaches
