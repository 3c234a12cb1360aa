"""A driver over a real socket: what it answers, and what stands in the way of the socket."""

from __future__ import annotations

import asyncio
import socket
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.csi.driver import Call, time_left_s
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.driver.blocking import blocking
from mooring.driver.capabilities import methods_of
from mooring.driver.sdk import Plugin
from mooring.driver.server import LIMITS, serving, serving_at, socket_path
from mooring.wire.grpc import server
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.server import listening_on_tcp
from tests.support.rows import each_row
from tests.unit.driver.calls import a_creation, a_driver, a_publication
from tests.unit.driver.test_node_service import Publishing
from tests.unit.driver.test_sdk import Creating, OnlyIdentity
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.unary_servers import Echo


async def asked(path: Path, method: str, request: Any) -> bytes:
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        call = channel.unary_unary(f"/csi.v1.{method}", request_serializer=lambda message: message.SerializeToString())
        answer: bytes = await call(request, timeout=5)
        return answer


async def code_of(path: Path, method: str, request: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asked(path, method, request)
    return caught.value.code(), caught.value.details() or ""


async def test_a_driver_answers_on_its_socket(tmp_path: Path) -> None:
    with a_driver(tmp_path / "state") as driver:
        async with serving(driver, f"unix://{tmp_path}/csi.sock") as path:
            answer = await asked(path, "Controller/CreateVolume", a_creation())
            volume = csi.CreateVolumeResponse.FromString(answer).volume
            published = await asked(path, "Controller/ControllerPublishVolume", a_publication(volume.volume_id))
            assert {"publication": "1"} == csi.ControllerPublishVolumeResponse.FromString(published).publish_context
            error = await code_of(path, "Controller/ControllerPublishVolume", a_publication(volume.volume_id, "node-2"))
            assert (grpc.StatusCode.FAILED_PRECONDITION, True) == (error[0], "'node-1'" in error[1])
    assert not path.exists()


async def test_calls_and_services_that_it_lacks_are_unimplemented(tmp_path: Path) -> None:
    async with serving(OnlyIdentity(), str(tmp_path / "csi.sock")) as path:
        await asked(path, "Identity/Probe", csi.ProbeRequest())
        for method, request in (
            ("Controller/CreateVolume", csi.CreateVolumeRequest()),
            ("Controller/ControllerGetCapabilities", csi.ControllerGetCapabilitiesRequest()),
            ("Node/NodeGetInfo", csi.NodeGetInfoRequest()),
            ("Nonsense/Nothing", csi.ProbeRequest()),
        ):
            assert grpc.StatusCode.UNIMPLEMENTED == (await code_of(path, method, request))[0]


async def test_garbage_is_an_error_and_the_driver_lives_on(tmp_path: Path) -> None:
    class Garbage:
        def SerializeToString(self) -> bytes:
            return b"\xff\xff\xff\xff"

    async with serving(Creating(), str(tmp_path / "csi.sock")) as path:
        assert grpc.StatusCode.INTERNAL == (await code_of(path, "Controller/CreateVolume", Garbage()))[0]
        await asked(path, "Controller/CreateVolume", a_creation())


async def test_a_caller_that_gives_up_ends_the_call(tmp_path: Path) -> None:
    driver, entered, ended = Creating(), asyncio.Event(), asyncio.Event()

    async def stuck(request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError("it waits for ever")

    driver._work = stuck  # type: ignore[method-assign]
    async with serving(driver, str(tmp_path / "csi.sock")) as path:
        call = asyncio.ensure_future(asked(path, "Controller/CreateVolume", a_creation()))
        await asyncio.wait_for(entered.wait(), 5)
        call.cancel()
        await asyncio.wait_for(ended.wait(), 5)
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_calls_in_flight_end_before_the_server_does(tmp_path: Path) -> None:
    driver = Creating()
    driver.gate = asyncio.Event()
    async with serving(driver, str(tmp_path / "csi.sock")) as path:
        call = asyncio.ensure_future(asked(path, "Controller/CreateVolume", a_creation("late")))
        await asyncio.wait_for(driver.entered.wait(), 5)
        asyncio.get_running_loop().call_soon(driver.gate.set)
    assert "id of late" == csi.CreateVolumeResponse.FromString(await call).volume.volume_id


async def test_the_socket_is_for_its_owner_only(tmp_path: Path) -> None:
    async with serving(OnlyIdentity(), str(tmp_path / "csi.sock")) as path:
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    async with serving(OnlyIdentity(), str(tmp_path / "csi.sock"), socket_mode=0o660) as path:
        assert 0o660 == stat.S_IMODE(path.stat().st_mode)


async def test_a_dead_socket_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "csi.sock"))
    async with serving(OnlyIdentity(), str(tmp_path / "csi.sock")) as path:
        await asked(path, "Identity/Probe", csi.ProbeRequest())


async def refused(plugin: Plugin, endpoint: str) -> str:
    with pytest.raises(ConfigError) as caught:
        async with serving(plugin, endpoint):
            raise AssertionError("it serves")
    return str(caught.value)


async def test_a_living_socket_is_left_alone(tmp_path: Path) -> None:
    async with serving(OnlyIdentity(), str(tmp_path / "csi.sock")) as path:
        assert "another process answers on it" in await refused(OnlyIdentity(), str(path))
        await asked(path, "Identity/Probe", csi.ProbeRequest())


async def test_what_is_not_a_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "folder", "link"):
        assert "exists and is not a socket" in await refused(OnlyIdentity(), str(tmp_path / name))
    assert "precious" == (tmp_path / "file").read_text()


async def test_a_socket_needs_its_folder(tmp_path: Path) -> None:
    assert "the folder of socket" in await refused(OnlyIdentity(), str(tmp_path / "nowhere" / "csi.sock"))


@each_row("name", ["", "-x", "x-", "a b", "a" * 64])
async def test_a_driver_needs_a_name(tmp_path: Path, name: str) -> None:
    plugin = OnlyIdentity()
    plugin.name = name
    wrong = "driver name" if name else 'OnlyIdentity has no name: set `name = "csi.example.com"`'
    assert wrong in await refused(plugin, str(tmp_path / "csi.sock"))


async def test_a_node_needs_an_id(tmp_path: Path) -> None:
    plugin = Publishing()
    plugin.node_id = ""
    assert "Publishing has no node_id: set it to what the driver calls this node" in await refused(
        plugin, str(tmp_path / "csi.sock")
    )
    plugin = Publishing()  # another one: what a driver offers stays as it was when it was first asked
    plugin.node_id, plugin.withheld = "", methods_of("Node")
    async with serving(plugin, str(tmp_path / "csi.sock")):
        pass


async def test_somebody_elses_socket_is_not_removed_at_the_end(tmp_path: Path) -> None:
    async with serving(OnlyIdentity(), str(tmp_path / "csi.sock")) as path:
        path.rename(tmp_path / "moved.sock")
        path.write_text("another's")
    assert path.exists()


@each_row(
    "endpoint",
    ["unix:///run/csi.sock", "unix:/run/csi.sock", "UNIX:////run/csi.sock", "/run/csi.sock", "//run/csi.sock"],
)
def test_endpoints(endpoint: str) -> None:
    assert Path("/run/csi.sock") == socket_path(endpoint)


def test_a_relative_path_is_below_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getcwd", lambda: "/here")
    assert Path("/here/csi.sock") == socket_path("csi.sock")


@each_row(
    ("endpoint", "reason"),
    [
        ("", "names no socket"),
        ("unix://", "names no socket"),
        ("unix:///", "names no socket"),
        ("tcp://localhost:5000", "is not supported"),
        ("dns:///localhost", "is not supported"),
        ("/" + "x" * 107, "longer than the 107 bytes"),
    ],
)
def test_endpoints_that_are_none(endpoint: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        socket_path(endpoint)


class Hanging(OnlyIdentity):
    """Its Probe never answers."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.is_full = asyncio.Event()

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == LIMITS.streams:
            self.is_full.set()
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            self.running -= 1


@pytest.mark.slow
async def test_one_client_begins_no_more_calls_than_it_was_told(tmp_path: Path) -> None:
    """Others are answered meanwhile."""
    driver = Hanging()
    fields = [(":method", "POST"), (":scheme", "http"), (":path", "/csi.v1.Identity/Probe"), (":authority", "x")]
    fields += [("te", "trailers"), ("content-type", "application/grpc")]
    calls = range(1, 2 * (LIMITS.streams + 500), 2)
    async with serving(driver, str(tmp_path / "csi.sock")) as path:
        reader, writer = await asyncio.open_unix_connection(path)
        flood = b"".join(talk.headers(call, fields) + talk.data(call, talk.message(b""), end=True) for call in calls)
        writer.write(talk.PREFACE + talk.settings() + flood)
        await asyncio.wait_for(driver.is_full.wait(), 20)
        await asked(path, "Identity/GetPluginInfo", csi.GetPluginInfoRequest())
        assert LIMITS.streams == driver.most
        writer.close()
        while await reader.read(65_536):
            pass


# -- a driver that is no `Plugin`, and makes its own rules


class Own:
    """Its methods are those that a test gives it."""

    def __init__(self, **methods: Any) -> None:
        vars(self).update(methods)


def raising(error: Exception) -> Any:
    async def method(request: Any) -> Any:
        raise error

    return method


@asynccontextmanager
async def asking(path: Path, plugin: object) -> AsyncIterator[WireDriver]:
    """Our own client of the driver."""
    async with serving(plugin, str(path)):
        driver = WireDriver(str(path), clock=LoopClock())
        await driver.connect(5)
        try:
            yield driver
        finally:
            await driver.close()


@each_row("code", [0, 17, 77, -1])
async def test_an_error_of_no_known_code_is_unknown(code: int, tmp_path: Path) -> None:
    async with asking(tmp_path / "s", Own(probe=raising(DriverError(code, "odd")))) as driver:
        with pytest.raises(DriverError, match="code = Unknown desc = odd"):
            await driver.probe(csi.ProbeRequest(), Call(5))


async def test_what_a_method_forgot_is_unknown_and_its_log_has_no_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = csi.CreateVolumeRequest(name="a", secrets={"password": "hunter22"})
    async with asking(tmp_path / "s", Own(create_volume=raising(ValueError("no hunter22 here")))) as driver:
        with pytest.raises(DriverError) as caught:
            await driver.create_volume(request, Call(5))
    assert Code.UNKNOWN == caught.value.code
    logged = capsys.readouterr().err
    assert "ValueError" in logged
    assert "test_server.py" in logged
    assert "hunter22" not in logged


async def test_what_is_no_answer_is_internal(tmp_path: Path) -> None:
    async def nothing(request: Any) -> None:
        return None

    async with asking(tmp_path / "s", Own(probe=nothing)) as driver:
        with pytest.raises(DriverError, match="code = Internal desc = the driver's answer is no csi"):
            await driver.probe(csi.ProbeRequest(), Call(5))


async def test_a_method_knows_how_long_its_caller_waits(tmp_path: Path) -> None:
    """Within a second: gRPC sends more than 99 s in whole seconds, rounded up."""
    left: list[float | None] = []

    async def probe(request: csi.ProbeRequest) -> csi.ProbeResponse:
        left.append(time_left_s())
        return csi.ProbeResponse()

    async with (
        serving(Own(probe=probe), str(tmp_path / "s")) as path,
        grpc.aio.insecure_channel(f"unix:{path}") as channel,
    ):
        call = channel.unary_unary("/csi.v1.Identity/Probe")
        await call(b"", timeout=500)
        await call(b"")
    assert left[0] is not None
    assert 400 < left[0] <= 501
    assert left[1] is None


async def test_a_late_call_is_cancelled_once(tmp_path: Path) -> None:
    """By our timer or by the caller's word, whichever comes first: work that blocks gives up at the second time."""
    ends = asyncio.Event()
    cancelled = []

    async def probe(request: csi.ProbeRequest) -> csi.ProbeResponse:
        while not ends.is_set():
            try:
                await ends.wait()
            except asyncio.CancelledError:
                cancelled.append(1)
        return csi.ProbeResponse()

    async def name(request: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse()

    async with asking(tmp_path / "s", Own(probe=probe, get_plugin_info=name)) as driver:
        try:
            calls = [driver.probe(csi.ProbeRequest(), Call(0.5)) for _ in range(50)]
            errors = await asyncio.gather(*calls, return_exceptions=True)
            assert {Code.DEADLINE_EXCEEDED} == {getattr(error, "code", error) for error in errors}
            async with asyncio.timeout(20):
                while len(cancelled) < 50:
                    await driver.get_plugin_info(csi.GetPluginInfoRequest(), Call(5))
        finally:
            ends.set()  # else the loop would wait for the probes for ever
    assert 50 == len(cancelled)


async def test_work_that_hangs_does_not_hold_up_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with the process, which cancels everything a second time."""
    monkeypatch.setattr(server, "ENDING_S_MAX", 0.01)
    begun, mended = asyncio.Event(), threading.Event()

    async def probe(request: csi.ProbeRequest) -> csi.ProbeResponse:
        begun.set()
        await blocking(mended.wait)
        return csi.ProbeResponse()

    driver = WireDriver(str(tmp_path / "s"), clock=LoopClock())
    async with asyncio.timeout(20):
        async with serving(Own(probe=probe), str(tmp_path / "s"), grace_s=0.0):
            await driver.connect(5)
            call = asyncio.ensure_future(driver.probe(csi.ProbeRequest(), Call(500)))
            await begun.wait()
        with pytest.raises(DriverError, match="code = Unavailable"):
            await call
    await driver.close()
    (stuck,) = [task for task in asyncio.all_tasks() if task.get_name() == "served/csi.v1.Identity/Probe"]
    mended.set()
    await asyncio.wait([stuck])


@pytest.mark.slow
async def test_messages_of_64_mib_come_and_go_and_longer_ones_are_refused(tmp_path: Path) -> None:
    most = 64 * 1024 * 1024
    frame = 5  # of the one field: its tag, and a length of four bytes

    async def echo(request: csi.ControllerModifyVolumeRequest) -> csi.ControllerModifyVolumeResponse:
        return csi.ControllerModifyVolumeResponse.FromString(request.SerializeToString())

    async with asking(tmp_path / "s", Own(controller_modify_volume=echo)) as driver:
        request = csi.ControllerModifyVolumeRequest(volume_id="v" * (most - frame))
        assert most == request.ByteSize()
        answer = await driver.controller_modify_volume(request, Call(60))
        assert request.SerializeToString() == answer.SerializeToString()
        request.volume_id += "v"
        with pytest.raises(DriverError, match="code = ResourceExhausted desc = grpc: received message larger than max"):
            await driver.controller_modify_volume(request, Call(60))


# -- on TCP


async def test_on_tcp_it_serves_as_on_a_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"address '{address}' can't be bound: Address already in use"):
            async with serving_at(OnlyIdentity(), f"tcp://{address}"):
                raise AssertionError
    for host in ("127.0.0.1", "[::1]") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
        async with (
            listening_on_tcp({"/a/b": Echo().say}, f"{host}:0") as port,
            grpc.aio.insecure_channel(f"{host}:{port}") as channel,
        ):
            assert b"x" == await channel.unary_unary("/a/b")(b"x", timeout=20)
