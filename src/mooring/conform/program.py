"""A driver that conform runs itself: killed and started again when a check asks for that, and ended with the run."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

from mooring.base import supervisor
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.conform.session import ready_at
from mooring.csi.driver_form import CommandLine
from mooring.wire.grpc.socket_file import make_room

END_S_MAX: Final = 5.0
POLL_S: Final = 0.02
WRONG_USE: Final = 2
LAST_LINES: Final = 5


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
                raise ConfigError(text, exit_code=WRONG_USE)
            await self._clock.sleep(POLL_S)

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    async def restart(self) -> None:
        """Raises OSError, and ConfigError when it does not serve again."""
        await self.kill()
        await self.start()
        await self.serves()
        await ready_at(self._socket, self._clock, self._patience_s)

    async def close(self) -> None:
        """In good order, and by force when it takes too long."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            try:
                async with asyncio.timeout(END_S_MAX):
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
            lines = self._log.read_text(errors="backslashreplace").splitlines()[-LAST_LINES:]
        except OSError:
            return ""
        return "".join(f"\n  {line}" for line in lines)
