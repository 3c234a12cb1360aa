"""One run of conform against a driver: connects, runs the checks, and lets everything go.

`driver_process.py` runs the driver where conform does that.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from mooring.base.clock import Clock
from mooring.conform.asker import Asker
from mooring.conform.book.rule import Breach
from mooring.conform.book.watcher import Watcher
from mooring.conform.check import Check, Stopped
from mooring.conform.options import Options
from mooring.conform.reviving import Program
from mooring.conform.runner import Report, Result, run
from mooring.conform.running_time import running_time
from mooring.conform.watched import Sight, Watch, WatchedDriver

CONNECT_S_MAX: Final = 60.0
"""A command may compile the driver first, as `go run` does."""
NODE: Final = ""
"""One socket is the controller and one node: the rules speak of no place."""
_CREDENTIALS: Final = struct.Struct("3i")


@asynccontextmanager
async def asking(
    path: Path, options: Options, clock: Clock, *, sees: bool, program: Program | None, connect_s: float = CONNECT_S_MAX
) -> AsyncGenerator[Asker, None]:
    """Asks the driver at this socket as long as the block runs. sees: its mounts are those of this process. Raises
    ConfigError.
    """
    told: list[Callable[[Breach], None]] = []
    async with running_time(clock) as ran:
        watcher = Watcher(lambda breach: told[0](breach), every=True, now=ran.now)
        watch = Watch(watcher, NODE, Sight() if sees else None)
        driver = WatchedDriver(str(path), watch=watch, clock=clock)
        asker = Asker(driver, options, ran, program)
        asker.sees = sees
        told.append(asker.breach)
        await driver.connect(
            connect_s, "start the driver, or check the command: it must serve on the path that it gets for {socket}"
        )
        try:
            yield asker
        finally:
            await driver.close()


async def judge(
    asker: Asker, checks: Sequence[Check], clock: Clock, report: Report, on_result: Callable[[Result], None]
) -> None:
    """Runs the checks; a driver that does not introduce itself has a report, too."""
    try:
        await run(asker, checks, clock, report, on_result)
    except Stopped as reason:
        report.obstacle = f"nothing could be asked: {reason}"


def shares_mounts(path: Path) -> bool:
    """True where the process that listens on this socket has the mounts of this process."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            pid, _, _ = _CREDENTIALS.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    except OSError:
        return False
