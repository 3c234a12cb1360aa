"""A driver that ends, by itself or killed, is started again, as a kubelet does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.conform.book.errors import DIED, REVIVED
from mooring.conform.book.rule import Breach
from mooring.conform.book.subject import named_by
from mooring.conform.check import Stopped
from mooring.csi.client import Client
from mooring.csi.driver import Rpc
from mooring.wire.grpc.errors import LOST_TEXT

OUTPUT_LINES: Final = 30
ENDS_S_MAX: Final = 1.0
"""For a driver whose connection broke: it may be writing down why."""
CONNECTS_S_MAX: Final = 5.0
_POLL_S: Final = 0.02
_LINE_END: Final = "\n  "


class Program(Protocol):
    """A driver that this run has started."""

    @property
    def has_ended(self) -> bool:
        """By itself."""

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""

    @property
    def left_socket(self) -> bool:
        """The socket of the process before is there, nobody listens on it, and the next process is to remove it."""

    @property
    def names_its_node(self) -> bool:
        """Each process is told on which node it is."""

    async def kill(self) -> None:
        """At once."""

    async def restart(self, *, clears: bool = False) -> None:
        """Kills it at once, and starts it again. clears: without the socket of the process before.

        Raises OSError, and ConfigError when it does not serve again.
        """

    async def node_id_of(self, node: str) -> str:
        """What another process of it answers on this node. Raises ConfigError, OSError, DriverError."""

    def last_words(self) -> str:
        """The end of its output."""

    def output(self, lines_max: int) -> list[str]:
        """The last lines of the process that runs, or ran last."""


class Reviving:
    """One run's. program: None for a driver that somebody else runs. tell: gets breaches. say: gets a line for
    people.
    """

    def __init__(
        self, driver: Client, program: Program | None, clock: Clock, tell: Callable[[Breach, list[str]], None]
    ) -> None:
        self.driver, self._program, self._clock, self._tell = driver, program, clock, tell
        self.say: Callable[[str], None] = lambda text: None
        self.is_down = False
        """The driver was killed, and did not start again."""
        self.output: list[str] = []
        """The last lines at the last call that was not answered."""
        self._lock = asyncio.Lock()
        self._last: tuple[Rpc[Any, Any], Any] | None = None

    @property
    def program(self) -> Program:
        assert self._program is not None, "a check that restarts asks for it"
        return self._program

    def begins(self, rpc: Rpc[Any, Any], request: Any) -> None:
        """A call goes out."""
        self._last = rpc, request

    async def revive(self) -> bool:
        """True for a driver that had ended by itself, and runs again. Raises Stopped."""
        async with self._lock:
            if self._program is None or self.is_down or not self._program.has_ended:
                return False
            self._ended_after_a_call(self._program.exit_code)
            self.say("the driver ended, started again")
            await self.restart()
            return True

    async def after(self, text: str, *, unsent: bool) -> bool:
        """After a call that was not answered: waits until a driver that is ending has ended, and starts it again. text:
        the call's error.

        True where the driver runs again. Raises Stopped.
        """
        if self._program is None or self.is_down or not (unsent or text == LOST_TEXT):
            return False
        until = self._clock.now() + ENDS_S_MAX
        while not self._program.has_ended and self._clock.now() < until:
            await self._clock.sleep(_POLL_S)
        if text == LOST_TEXT:
            self.output = self.words()
            self._last = None if self._program.has_ended else self._last  # the broken call has its finding
        return await self.revive()

    def words(self) -> list[str]:
        """The last lines of the driver's output."""
        return self._program.output(OUTPUT_LINES) if self._program is not None else []

    def _ended_after_a_call(self, code: int | None) -> None:
        last, self._last = self._last, None
        if last is not None:
            rpc, request = last
            about = named_by(rpc, request)
            found = f"the driver ended with exit code {code} after it had answered"
            self._tell(Breach(DIED, rpc.name, str(about or ""), found, request=request), self.words())

    async def restart(self) -> None:
        """Kills the driver at once, and starts it again. Raises Stopped."""
        try:
            await self.program.restart()
        except (ConfigError, OSError) as error:
            await self._without_its_socket(error)
        try:
            async with asyncio.timeout(CONNECTS_S_MAX):
                await self.driver.reconnected()
        except TimeoutError:
            pass  # the next call says so

    async def _without_its_socket(self, first: Exception) -> None:
        """A driver that may only be unable to remove its socket gets a second start. Raises Stopped."""
        text, had_socket = self._told(first), self.program.left_socket
        if had_socket:
            try:
                await self.program.restart(clears=True)
            except (ConfigError, OSError):
                had_socket = False
        way = "; it starts where somebody removes the socket that the killed process has left" if had_socket else ""
        self._tell(Breach(REVIVED, "start", "", f"the driver ended, and was started again: {text}{way}"), [])
        if not had_socket:
            self.is_down = True
            raise Stopped("the driver does not start again") from first

    def _told(self, error: Exception) -> str:
        words = str(error) if self.program.last_words() in str(error) else f"{error}{self.program.last_words()}"
        return " | ".join(words.split(_LINE_END))
