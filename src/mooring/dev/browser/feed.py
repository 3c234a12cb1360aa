"""What the page shows: the latest lines of the story, and the board of nodes and volumes, each change with a number."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import msgspec

from mooring.base.clock import Clock
from mooring.base.text import shortened
from mooring.dev.live.board import Board
from mooring.dev.story import StoryLine

LINES_MAX: Final = 1_000
"""Lines that a page which comes late still sees."""
FULL_BYTES_MAX: Final = 16 * 1024
"""How much of a call's request, and of its answer, a page gets."""
WAIT_S: Final = 5.0
GATHERING_S: Final = 0.05
"""A page is told of changes that come together at once."""


class Feed:
    """Implements `Viewer`; the story's lines come by `add`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: deque[dict[str, Any]] = deque(maxlen=LINES_MAX)
        self._news = asyncio.Event()
        self._board: Callable[[], Board] = Board
        self._last = 0

    def changed(self) -> None:
        """The board may be another."""
        self._news.set()

    def add(self, line: StoryLine) -> None:
        self._last += 1
        full = tuple(shortened(text, FULL_BYTES_MAX) for text in line.full)
        kept = msgspec.structs.replace(line, full=full)
        self._lines.append({"number": self._last, **msgspec.to_builtins(kept)})
        self._news.set()

    @contextlib.asynccontextmanager
    async def viewing(self, board: Callable[[], Board], _clock: Clock) -> AsyncGenerator[None, None]:
        """The board can be asked for as long as the block runs."""
        self._board = board
        self.changed()
        try:
            yield
        finally:
            self._board = Board

    async def since(self, number: int) -> dict[str, Any]:
        """The board, and the lines after this number; waits for a while where nothing has happened. 0: at once, all
        that is kept.
        """
        if 0 < number <= self._last:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    if number == self._last:
                        await self._news.wait()
            await self._clock.sleep(GATHERING_S)
        board = msgspec.to_builtins(self._board())
        return {"last": self._last, "lines": [line for line in self._lines if line["number"] > number], **board}
