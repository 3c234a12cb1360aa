"""A driver that goes on with a call whose caller went away says Aborted meanwhile: what counts is how long, not how
often.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.base.clock import LoopClock
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from tests.support.programs import Program
from tests.support.waiting import eventually
from tests.unit.driver.calls import a_capability

pytestmark = pytest.mark.slow

MOORING = (sys.executable, "-m", "mooring.cli.mooring")
BUSY = """
from mooring.csi.errors import DriverError
from mooring.driver.sdk import Plugin
from mooring.wire.grpc.codes import Code


class Busy(Plugin):
    name = "busy.example.com"
    node_id = "n"

    async def create_volume(self, request):
        raise DriverError(Code.ABORTED, "an operation for this volume is under way")

    async def delete_volume(self, request): ...
    async def validate_volume_capabilities(self, request): ...
    async def node_publish_volume(self, request): ...
    async def node_unpublish_volume(self, request): ...
"""


@contextlib.asynccontextmanager
async def program(words: tuple[str, ...], socket: Path, log: Path) -> AsyncGenerator[Program, None]:
    running = Program([*MOORING, *words], log)
    try:
        await asyncio.to_thread(eventually, socket.exists, 30, "it serves")
        yield running
        running.send(signal.SIGTERM)
        assert 0 == await asyncio.to_thread(running.wait_exit, 20), running.log_tail()
    finally:
        running.kill()


@contextlib.asynccontextmanager
async def watched(folder: Path, by: str) -> AsyncGenerator[tuple[WireDriver, Program], None]:
    """A client of a driver that is watched by this program."""
    (folder / "busy.py").write_text(BUSY)
    socket, behind = folder / "csi.sock", folder / "behind.sock"
    runs = ("driver", "run", f"{folder}/busy.py:Busy")
    async with contextlib.AsyncExitStack() as stack:
        if by == "driver run":
            running = await stack.enter_async_context(
                program((*runs, f"--endpoint=unix://{socket}"), socket, folder / "log")
            )
        else:
            await stack.enter_async_context(
                program((*runs, f"--endpoint=unix://{behind}", "--rules=false"), behind, folder / "driver")
            )
            words = ("proxy", f"--listen=unix://{socket}", f"--to=unix://{behind}")
            running = await stack.enter_async_context(program(words, socket, folder / "log"))
        client = WireDriver(str(socket), clock=LoopClock())
        await client.connect(20)
        stack.push_async_callback(client.close)
        yield client, running


async def ask(client: WireDriver) -> None:
    with pytest.raises(DriverError, match="under way"):
        await client.create_volume(csi.CreateVolumeRequest(name="a", volume_capabilities=[a_capability()]), Call(20))


async def test_an_aborted_is_held_against_a_driver_after_three_seconds(tmp_path: Path) -> None:
    """By both programs at once: it is a wait."""
    async with asyncio.TaskGroup() as group:
        for by in "driver run", "proxy":
            folder = tmp_path / by.replace(" ", "-")
            folder.mkdir()
            group.create_task(it_is_held_against(folder, by), name=by)


async def it_is_held_against(folder: Path, by: str) -> None:
    async with watched(folder, by) as (client, running):
        for _ in range(4):
            await ask(client)
        assert "CSI705" not in running.output_alive(), f"{by}: four within a moment prove nothing"
        await asyncio.sleep(3.5)
        await ask(client)
        words = f"{by} says that it is Aborted still"
        await asyncio.to_thread(eventually, lambda: "CSI705" in running.output_alive(), 10, words)
