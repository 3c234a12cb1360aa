"""One run of conform against a driver: connects, runs the checks, and lets everything go.

Where conform runs the driver itself, it kills it and starts it again when a check asks for that, and ends it with the run.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from mooring.base import supervisor
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.conform.asker import Asker, Program
from mooring.conform.check import Check, Stopped
from mooring.conform.options import Options
from mooring.conform.runner import Report, Result, run
from mooring.conform.running_time import running_time
from mooring.conform.watched import Sight, Watch, WatchedDriver
from mooring.csi.book.rule import Breach
from mooring.csi.book.watcher import Watcher
from mooring.csi.driver_form import CommandLine
from mooring.csi.wire_driver import WireDriver
from mooring.wire.grpc.socket_file import make_room

CONNECT_S_MAX: Final = 60.0
"""A command may compile the driver first, as `go run` does."""
NODE: Final = ""
"""One socket is the controller and one node: the rules speak of no place."""
_END_S_MAX: Final = 5.0
_POLL_S: Final = 0.02
_WRONG_USE: Final = 2
_LAST_LINES: Final = 5
_CREDENTIALS: Final = struct.Struct("3i")


@asynccontextmanager
async def asking(
    path: Path, options: Options, clock: Clock, *, sees: bool, program: Program | None, connect_s: float = CONNECT_S_MAX
) -> AsyncGenerator[Asker, None]:
    """Asks the driver at this socket as long as the block runs. sees: its mounts are those of this process. Raises ConfigError."""
    told: list[Callable[[Breach], None]] = []
    async with running_time(clock) as ran:
        watcher = Watcher(lambda breach: told[0](breach), every=True, now=ran.now)
        watch = Watch(watcher, NODE, Sight() if sees else None)
        driver = WatchedDriver(str(path), watch=watch, clock=clock)
        asker = Asker(driver, options, ran, program)
        told.append(asker.breach)
        await driver.connect(connect_s, "start the driver, or check the command: it must serve on the path that it gets for {socket}")
        try:
            yield asker
        finally:
            await driver.close()


async def judge(asker: Asker, checks: Sequence[Check], clock: Clock, report: Report, on_result: Callable[[Result], None]) -> None:
    """Runs the checks; a driver that does not introduce itself has a report, too."""
    try:
        await run(asker, checks, clock, report, on_result)
    except Stopped as reason:
        report.left.append(f"nothing could be asked: {reason}")


async def _ready_at(path: Path, clock: Clock, patience_s: float) -> None:
    """Returns when a driver answers at this socket. Raises ConfigError."""
    driver = WireDriver(str(path), clock=clock)
    try:
        await driver.connect(patience_s, "the driver was killed and started again")
    finally:
        await driver.close()


def shares_mounts(path: Path) -> bool:
    """True where the process that listens on this socket has the mounts of this process."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            pid, _, _ = _CREDENTIALS.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        return os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt")
    except OSError:
        return False


class DriverProcess:
    """start() once, then restart() as often as needed; close() at the end. log: gets its output. patience_s: until it serves."""

    def __init__(self, command: CommandLine, socket: Path, node: str, log: Path, *, patience_s: float, clock: Clock) -> None:
        self._command, self._socket, self._node, self._log = command, socket, node, log
        self._patience_s, self._clock = patience_s, clock
        self._process: asyncio.subprocess.Process | None = None
        self._lifeline = -1  # our end of the supervisor's input: without it the supervisor kills the driver

    async def start(self) -> None:
        """Raises OSError. The driver may serve only later."""
        make_room(self._socket, even_alive=True)
        theirs, self._lifeline = os.pipe()
        with self._log.open("ab") as output:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", str(Path(supervisor.__file__))),
                    *self._command.for_node(str(self._socket), self._node),
                    stdin=theirs,
                    stdout=output,
                    stderr=output,
                    env=self._command.environment(str(self._socket), self._node),
                    start_new_session=True,
                )
            finally:
                os.close(theirs)

    async def serves(self) -> None:
        """Returns when its socket is there, or the time is over. Raises ConfigError when it ends before."""
        assert self._process is not None
        until = self._clock.now() + self._patience_s
        while not self._socket.exists() and self._clock.now() < until:
            if self._process.returncode is not None:
                told = self.last_words() or "; it said nothing"
                text = f"driver: it ended with exit code {self._process.returncode} before it served its socket{told}"
                raise ConfigError(text, exit_code=_WRONG_USE)
            await self._clock.sleep(_POLL_S)

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    async def restart(self) -> None:
        """Raises OSError, and ConfigError when it does not serve again."""
        await self.kill()
        await self.start()
        await self.serves()
        await _ready_at(self._socket, self._clock, self._patience_s)

    async def close(self) -> None:
        """In good order, and by force when it takes too long."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            try:
                async with asyncio.timeout(_END_S_MAX):
                    await self._process.wait()
            except TimeoutError:
                pass
        await self.kill()

    async def kill(self) -> None:
        """At once."""
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)
        if self._process is not None:
            await self._process.wait()

    def last_words(self) -> str:
        """The end of its output, each line on a line of its own."""
        try:
            lines = self._log.read_text(errors="backslashreplace").splitlines()[-_LAST_LINES:]
        except OSError:
            return ""
        return "".join(f"\n  {line}" for line in lines)
