"""Calls a server of another implementation of gRPC in every way that a driver is called, and says what went otherwise
than it should.

    python -m bench.interop.check [--rounds=N] NAME=PROGRAM ...

PROGRAM gets the path of a socket, serves on it, prints `ready` once it listens, and ends in good order at SIGTERM:
calls that it has accepted are answered. It takes requests of 64 MiB and, where it can keep to that, four calls at once
on a connection. It looks at no message; by the method's name:

    Probe                      answers with an empty message
    ControllerModifyVolume     answers with the bytes of the request
    DeleteVolume               NotFound, with the text of `TEXT`
    DeleteSnapshot             Internal, with 100,000 times "x"
    ControllerUnpublishVolume  does not answer; counts the calls that the client gave up
    GetCapacity                answers with that count in its first field
    ControllerExpandVolume     answers with the milliseconds that the caller still waits, in its first field
    CreateSnapshot             answers after 0.3 s with an empty message
    all others                 Unimplemented

Exit code 1 when anything went otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from mooring.base.clock import LoopClock
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import LOST_TEXT

TEXT: Final = "no ä \U0001f600 100%25 full\nline\t"
CALL: Final = Call(20.0)
PROBE: Final = csi.ProbeRequest()


class Server:
    """A server under test. command: without the socket's path."""

    def __init__(self, command: list[str], socket: Path) -> None:
        self.socket = socket
        self._command = command
        self.process = self._started()

    def _started(self) -> subprocess.Popen[str]:
        process = subprocess.Popen([*self._command, str(self.socket)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", f"the server said {line!r}"
        return process

    def restart(self) -> None:
        """Kills it, and starts it anew on the same path."""
        self.stop()
        self.process = self._started()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.socket.unlink(missing_ok=True)


async def error_of(answer: Awaitable[object]) -> DriverError:
    """The error that it must end with."""
    try:
        await answer
    except DriverError as error:
        return error
    raise AssertionError("it went well")


def echo(size: int) -> csi.ControllerModifyVolumeRequest:
    """A request of about so many bytes."""
    return csi.ControllerModifyVolumeRequest(volume_id="v" * size)


async def echoed(driver: WireDriver, size: int) -> None:
    request = echo(size)
    answer = await driver.controller_modify_volume(request, CALL)
    assert answer.SerializeToString() == request.SerializeToString()


async def many_small_calls(driver: WireDriver, server: Server) -> None:
    for _ in range(300):
        await driver.probe(PROBE, CALL)


async def calls_side_by_side(driver: WireDriver, server: Server) -> None:
    """More than the server takes at once."""
    await asyncio.gather(*(echoed(driver, size) for size in range(0, 60_000, 600)))
    await asyncio.gather(*(driver.create_snapshot(csi.CreateSnapshotRequest(), CALL) for _ in range(12)))


async def large_messages(driver: WireDriver, server: Server) -> None:
    """Beyond every window, and just at the limits of frames."""
    for size in (0, 1, 16_370, 16_384, 16_390, 65_535, 65_536, 5_000_000, 60_000_000):
        await echoed(driver, size)
    await asyncio.gather(*(echoed(driver, 3_000_000) for _ in range(8)))


async def errors(driver: WireDriver, server: Server) -> None:
    error = await error_of(driver.delete_volume(csi.DeleteVolumeRequest(), CALL))
    assert (error.code, error.message) == (Code.NOT_FOUND, TEXT), repr(error.message)
    error = await error_of(driver.delete_snapshot(csi.DeleteSnapshotRequest(), CALL))
    assert (error.code, error.message) == (Code.INTERNAL, "x" * 100_000), (error.code, error.message[:200])
    error = await error_of(driver.node_get_info(csi.NodeGetInfoRequest(), CALL))
    assert error.code == Code.UNIMPLEMENTED


async def deadlines(driver: WireDriver, server: Server) -> None:
    """The server hears of the deadline, never of a later one; a late call ends with Go's words, and is given up at the
    server.
    """
    for timeout_s in (0.5, 1.0, 15.0, 600.0, 100_000.0, 1e9):
        answer = await driver.controller_expand_volume(csi.ControllerExpandVolumeRequest(), Call(timeout_s))
        assert timeout_s * 900 - 400 < answer.capacity_bytes <= timeout_s * 1000, (timeout_s, answer.capacity_bytes)
    before = await given_up(driver)
    for _ in range(5):
        error = await error_of(driver.controller_unpublish_volume(csi.ControllerUnpublishVolumeRequest(), Call(0.5)))
        assert str(error) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded", str(error)
    await until_given_up(driver, before + 5)


async def cancellations(driver: WireDriver, server: Server) -> None:
    before = await given_up(driver)
    async with asyncio.TaskGroup() as group:
        calls = [
            group.create_task(
                driver.controller_unpublish_volume(csi.ControllerUnpublishVolumeRequest(), CALL), name=f"call/{number}"
            )
            for number in range(3)
        ]
        await asyncio.sleep(0.2)
        for call in calls:
            call.cancel()
    await until_given_up(driver, before + 3)


async def given_up(driver: WireDriver) -> int:
    return (await driver.get_capacity(csi.GetCapacityRequest(), CALL)).available_capacity


async def until_given_up(driver: WireDriver, count: int) -> None:
    ends_at = time.monotonic() + 5.0
    while (found := await given_up(driver)) != count:
        assert time.monotonic() < ends_at, f"the server knows of {found} calls that were given up, not of {count}"
        await asyncio.sleep(0.02)


async def a_server_that_ends(driver: WireDriver, server: Server) -> None:
    """In good order: the call that it has accepted is answered, the loss is seen, and its successor is found."""
    async with asyncio.TaskGroup() as group:
        call = group.create_task(driver.create_snapshot(csi.CreateSnapshotRequest(), CALL), name="call")
        lost = group.create_task(driver.lost(), name="lost")
        await asyncio.sleep(0.1)
        server.process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(lost, 5.0)
    assert call.result() == csi.CreateSnapshotResponse()
    await asyncio.to_thread(server.restart)
    await asyncio.wait_for(driver.reconnected(), 5.0)
    await driver.probe(PROBE, CALL)


async def a_server_that_is_killed(driver: WireDriver, server: Server) -> None:
    async with asyncio.TaskGroup() as group:
        call = group.create_task(error_of(driver.create_snapshot(csi.CreateSnapshotRequest(), CALL)), name="call")
        await asyncio.sleep(0.1)
        await asyncio.to_thread(server.restart)
    assert (call.result().code, call.result().message) == (Code.UNAVAILABLE, LOST_TEXT), str(call.result())
    await asyncio.wait_for(driver.reconnected(), 5.0)
    await echoed(driver, 1_000_000)


CHECKS: Final[tuple[Callable[[WireDriver, Server], Awaitable[None]], ...]] = (
    *(many_small_calls, calls_side_by_side, large_messages, errors, deadlines, cancellations),
    *(a_server_that_ends, a_server_that_is_killed, many_small_calls),
)


@contextlib.asynccontextmanager
async def connected(socket: Path) -> AsyncIterator[WireDriver]:
    driver = WireDriver(str(socket), clock=LoopClock())
    await driver.connect(10.0)
    try:
        yield driver
    finally:
        await driver.close()


async def checked(name: str, command: list[str], rounds: int) -> int:
    """How many checks failed."""
    failures = 0
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        server = Server(command, Path(folder) / "s.sock")
        try:
            async with connected(server.socket) as driver:
                for _ in range(rounds):
                    for check in CHECKS:
                        failures += await passes(name, check, driver, server)
        finally:
            server.stop()
    return failures


async def passes(
    name: str, check: Callable[[WireDriver, Server], Awaitable[None]], driver: WireDriver, server: Server
) -> int:
    began = time.monotonic()
    try:
        async with asyncio.timeout(120.0):
            await check(driver, server)
    except (AssertionError, DriverError, TimeoutError, ExceptionGroup) as error:
        inner = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        print(f"{name:12} {check.__name__:26} FAILED: {type(inner).__name__}: {inner}", flush=True)
        return 1
    print(f"{name:12} {check.__name__:26} ok, {time.monotonic() - began:.2f} s", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("servers", nargs="+", metavar="NAME=PROGRAM")
    arguments = parser.parse_args()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    failures = 0
    for word in arguments.servers:
        name, _, command = word.partition("=")
        failures += asyncio.run(checked(name, shlex.split(command), arguments.rounds))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
