"""Blocking work of a driver: in threads, with CSI's codes, and finished before its volume is free again."""

from __future__ import annotations

import asyncio
import errno
import sys
import threading
from urllib.error import URLError

import pytest

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.blocking import blocking
from mooring.driver.sdk import Plugin
from mooring.mounts.system import ToolFailed, ToolHangs
from mooring.mounts.targets import Occupied
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.driver.calls import a_creation, refused


def failing(error: BaseException) -> None:
    raise error


async def test_the_loop_goes_on_meanwhile() -> None:
    gate = threading.Event()
    waiting = asyncio.ensure_future(blocking(gate.wait, timeout=10))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    assert await waiting is True


@each_row(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), Code.RESOURCE_EXHAUSTED),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), Code.RESOURCE_EXHAUSTED),
        (OSError(errno.EACCES, "Permission denied"), Code.INTERNAL),
        (ToolFailed("mount: wrong fs type"), Code.INTERNAL),
        (ToolFailed("mkfs.ext4: No space left on device"), Code.RESOURCE_EXHAUSTED),
        (ToolHangs("mount: no end after 60 s"), Code.DEADLINE_EXCEEDED),
        (TimeoutError("timed out"), Code.DEADLINE_EXCEEDED),
        (URLError(TimeoutError("timed out")), Code.DEADLINE_EXCEEDED),
        (ConnectionResetError("reset by peer"), Code.UNAVAILABLE),
        (URLError(ConnectionRefusedError("refused")), Code.UNAVAILABLE),
        (URLError("unknown url type"), Code.INTERNAL),
        (Occupied("something else is mounted"), Code.ALREADY_EXISTS),
    ],
)
async def test_errors_of_the_system_have_the_codes_of_csi(error: BaseException, code: Code) -> None:
    await refused(blocking(failing, error), code, str(error))


async def test_other_errors_pass() -> None:
    with pytest.raises(ZeroDivisionError):
        await blocking(failing, ZeroDivisionError())
    with pytest.raises(RuntimeError, match="StopIteration"):
        await blocking(failing, StopIteration())


async def test_a_library_that_ends_the_process_ends_its_call_alone() -> None:
    with pytest.raises(RuntimeError, match="SystemExit: goodbye"):
        await blocking(sys.exit, "goodbye")


class Slow(Plugin):
    name = "slow.example.com"

    def __init__(self) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        await blocking(self._work)
        return csi.CreateVolumeResponse(volume={"volume_id": "v"})

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        return csi.DeleteVolumeResponse()

    def _work(self) -> None:
        self.begun.set()
        assert self.gate.wait(10)


async def test_a_volume_stays_locked_until_the_work_of_a_caller_who_gave_up_has_ended() -> None:
    plugin = Slow()
    first = asyncio.ensure_future(plugin.create_volume(a_creation()))
    await asyncio.to_thread(plugin.begun.wait, 10)
    first.cancel()
    await asyncio.sleep(0)
    await refused(plugin.create_volume(a_creation()), Code.ABORTED, "CreateVolume is pending")
    plugin.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    await plugin.create_volume(a_creation())


async def test_at_the_end_of_the_process_nobody_waits_for_a_thread_that_hangs() -> None:
    plugin = Slow()
    call = asyncio.ensure_future(plugin.create_volume(a_creation()))
    await asyncio.to_thread(plugin.begun.wait, 10)
    for _ in range(2):
        call.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not plugin.gate.is_set()
    plugin.gate.set()


async def test_a_volume_stays_locked_while_its_thread_works_whatever_limit_the_author_has_set() -> None:
    class Hasty(Slow):
        async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
            async with asyncio.timeout(0.05):
                return await super().create_volume(request)

    plugin = Hasty()
    first = asyncio.ensure_future(plugin.create_volume(a_creation()))
    await asyncio.to_thread(plugin.begun.wait, 10)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await refused(plugin.create_volume(a_creation()), Code.ABORTED, "CreateVolume is pending")
    plugin.gate.set()
    async with asyncio.timeout(10):
        while plugin._guard._running:  # noqa: ASYNC110 - a thread ends
            await asyncio.sleep(0.01)
    await plugin.create_volume(a_creation())


async def test_work_that_a_branch_begins_after_its_call_has_ended_does_not_lock_the_volume_for_ever() -> None:
    class Branching(Slow):
        async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
            if self.begun.is_set():
                return csi.CreateVolumeResponse(volume={"volume_id": "v"})
            await asyncio.gather(self._two(), blocking(self._work), self._failing())
            raise AssertionError

        async def _two(self) -> None:
            await blocking(self.begun.wait, 10)
            await blocking(self.gate.wait, 10)

        async def _failing(self) -> None:
            await asyncio.to_thread(self.begun.wait, 10)
            await asyncio.sleep(0.05)
            raise DriverError(Code.INTERNAL, "one of three")

    plugin = Branching()
    await refused(plugin.create_volume(a_creation()), Code.INTERNAL, "one of three")
    await refused(plugin.create_volume(a_creation()), Code.ABORTED, "CreateVolume is pending")
    plugin.gate.set()
    async with asyncio.timeout(10):
        while plugin._guard._running:  # noqa: ASYNC110 - threads end
            await asyncio.sleep(0.01)
    await plugin.create_volume(a_creation())
