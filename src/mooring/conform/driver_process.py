"""The driver as a process of conform's own: started, killed, started again, and ended with the run."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.base import supervisor
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.last_words import LastWords
from mooring.base.text import visible
from mooring.csi.driver import Call, Driver
from mooring.csi.driver_form import NODE, CommandLine
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.wire.grpc.socket_file import make_room

_END_S_MAX: Final = 5.0
_POLL_S: Final = 0.02
_WRONG_USE: Final = 2
_READ_BYTES_MAX: Final = 1 << 20
"""Of the output of one process, at its beginning and at its end."""
_OTHER_S_MAX: Final = 10.0
"""For a second process of the command, which was built by then."""


class DriverProcess:
    """start() once, then restart() as often as needed; close() at the end. log: gets its output. patience_s: until it
    serves.
    """

    def __init__(
        self, command: CommandLine, socket: Path, node: str, log: Path, *, patience_s: float, clock: Clock
    ) -> None:
        self._command, self._socket, self._node, self._log = command, socket, node, log
        self._patience_s, self._clock = patience_s, clock
        self._process: asyncio.subprocess.Process | None = None
        self._began_at = 0  # in the log: where the output of this process begins
        self._clears = True  # the way for the next process
        self._has_to_clear = False  # as the driver does not
        self._lifeline = -1  # our end of the supervisor's input: without it the supervisor kills the driver

    async def start(self) -> None:
        """Raises OSError. The driver may serve only later."""
        if self._clears:
            make_room(self._socket, even_alive=True)
        self._began_at = self._log.stat().st_size if self._log.exists() else 0
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
        """Returns when it listens on its socket, or the time is over. Raises ConfigError when it ends before."""
        assert self._process is not None
        until = self._clock.now() + self._patience_s
        while not _listens(self._socket) and self._clock.now() < until:
            if self._process.returncode is not None:
                told = self.last_words() or "; it said nothing"
                text = f"driver: it ended with exit code {self._process.returncode} before it served its socket{told}"
                raise ConfigError(text, exit_code=_WRONG_USE)
            await self._clock.sleep(_POLL_S)

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    async def restart(self, *, clears: bool = False) -> None:
        """clears: removes the socket of the process before, now and later. Raises OSError, and ConfigError when it does
        not serve again.
        """
        await self.kill()
        self._clears = clears or self._has_to_clear
        self._has_to_clear = self._clears
        await self.start()
        await self.serves()
        await _ready_at(self._socket, self._clock, self._patience_s)

    @property
    def left_socket(self) -> bool:
        """A socket is there on which nobody listens, and the next process is to remove it."""
        return not self._clears and self._socket.exists() and not _listens(self._socket)

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
        """The end of its output, each line on a line of its own, and the first error before it."""
        return "".join(f"\n  {line}" for line in LastWords(self._lines()).lines)

    def output(self, lines_max: int) -> list[str]:
        """The last lines of this process."""
        return LastWords(self._lines(), lines_max).lines

    def _lines(self) -> Iterator[str]:
        try:
            with self._log.open("rb") as log:
                log.seek(self._began_at)
                data = log.read(_READ_BYTES_MAX)
                end = log.seek(0, os.SEEK_END)
                if end > log.seek(self._began_at) + _READ_BYTES_MAX:
                    log.seek(max(end - _READ_BYTES_MAX, self._began_at + _READ_BYTES_MAX))
                    data += b"\n" + log.read(_READ_BYTES_MAX)
        except OSError:
            return
        for line in data.decode(errors="backslashreplace").splitlines():
            yield visible(line.expandtabs(4))

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    @property
    def names_its_node(self) -> bool:
        """The command tells the driver on which node it is."""
        return any(NODE in word for word in self._command.words)

    async def node_id_of(self, node: str) -> str:
        """What another process of the command answers on another node. Raises ConfigError, OSError, DriverError."""
        path, log = self._socket.with_name("second.sock"), self._log.with_name("second.log")
        other = DriverProcess(self._command, path, node, log, patience_s=_OTHER_S_MAX, clock=self._clock)
        client = WireDriver(str(path), clock=self._clock)
        try:
            await other.start()
            await other.serves()
            await client.connect(_OTHER_S_MAX, "the command was run once more, for another node")
            answer = await client.invoke(Driver.node_get_info, csi.NodeGetInfoRequest(), Call(_OTHER_S_MAX))
        finally:
            await client.close()
            await other.close()
        return answer.node_id


async def _ready_at(path: Path, clock: Clock, patience_s: float) -> None:
    """Returns when a driver answers at this socket. Raises ConfigError."""
    driver = WireDriver(str(path), clock=clock)
    try:
        await driver.connect(patience_s, "the driver was killed and started again")
    finally:
        await driver.close()


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(str(path)) in (0, errno.EAGAIN)
