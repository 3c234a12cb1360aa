"""What the page shows: the latest lines of the story, and the board of nodes and volumes, each change with a number."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import Any, Final

import msgspec

from mooring.base.clock import Clock, Instant
from mooring.control.result import Because
from mooring.dev.live.board import Board
from mooring.dev.story import Listener, Screen, StoryLine
from mooring.driver.guard import CallRecord

LINES_MAX: Final = 1_000
"""Lines that a page which comes late still sees."""
WAIT_S: Final = 5.0
GATHERING_S: Final = 0.05
"""A page is told of changes that come together at once."""


class Feed:
    """A screen beside another one: lines go to both. The board comes with `viewing`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines: deque[dict[str, Any]] = deque(maxlen=LINES_MAX)
        self._news = asyncio.Event()
        self._board: Callable[[], Board] = Board
        self._last = 0

    def over(self, screen: Screen) -> Screen:
        return _Both(screen, self)

    def changed(self) -> None:
        """The board may be another."""
        self._news.set()

    def add(self, **line: Any) -> None:
        self._last += 1
        self._lines.append({"number": self._last, **line})
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
        """The board, and the lines after this number; waits for a while where nothing has happened. 0: at once, all that is kept."""
        if 0 < number <= self._last:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    if number == self._last:
                        await self._news.wait()
            await self._clock.sleep(GATHERING_S)
        board = msgspec.to_builtins(self._board())
        return {"last": self._last, "lines": [line for line in self._lines if line["number"] > number], **board}


class _Both:
    """A screen, and the feed."""

    def __init__(self, screen: Screen, feed: Feed) -> None:
        self._screen, self._feed = screen, feed

    def title(self, text: str) -> None:
        self._screen.title(text)

    def step(self, at_s: float, text: str) -> None:
        self._screen.step(at_s, text)
        self._feed.add(at=at_s, who="", via="", what=text, result="", problem="", seconds=None)

    def happening(self, one: StoryLine) -> None:
        self._screen.happening(one)
        self._feed.add(
            at=one.at_s,
            who=one.who,
            via=one.via,
            what=one.what,
            result=one.result,
            problem=one.problem,
            seconds=one.seconds,
        )

    def check(self, at_s: float, text: str) -> None:
        self._screen.check(at_s, text)

    def failure(self, at_s: float, text: str) -> None:
        self._screen.failure(at_s, text)

    def end(self, at_s: float, text: str) -> None:
        self._screen.end(at_s, text)


class Listeners:
    """Several in the place of one."""

    def __init__(self, *listeners: Listener | None) -> None:
        self._listeners = [one for one in listeners if one is not None]

    def called(self, record: CallRecord, who: str) -> None:
        for one in self._listeners:
            one.called(record, who)

    def explained(self, who: str, queue: str, key: Hashable, because: Because, now: Instant) -> None:
        for one in self._listeners:
            one.explained(who, queue, key, because, now)

    def lost(self, node: str) -> None:
        for one in self._listeners:
            one.lost(node)
