"""Blocking work of a driver: in threads, with CSI's codes, and finished before its volume is free again."""

from __future__ import annotations

import asyncio
import errno
import threading

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.blocking import blocking
from mooring.driver.sdk import Plugin
from mooring.mounts.system import ToolFailed
from mooring.mounts.targets import Occupied
from mooring.wire.grpc.codes import Code
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


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), Code.RESOURCE_EXHAUSTED),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), Code.RESOURCE_EXHAUSTED),
        (OSError(errno.EACCES, "Permission denied"), Code.INTERNAL),
        (ToolFailed("mount: wrong fs type"), Code.INTERNAL),
        (ToolFailed("mkfs.ext4: No space left on device"), Code.RESOURCE_EXHAUSTED),
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
