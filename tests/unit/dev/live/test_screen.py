"""The view on a terminal, with lines that go by above it."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager

import msgspec
import pytest

from mooring.base.clock import LoopClock
from mooring.dev.live.board import Board, NodeRow, VolumeRow
from mooring.dev.live.screen import ViewScreen
from mooring.dev.live.view import screen_and_view
from mooring.dev.screen import LiveScreen, PlainScreen
from mooring.dev.story import StoryLine
from tests.support.emulator import Emulator
from tests.support.virtual_loop import in_virtual_time

NODE = NodeRow("node-1", "Ready", "", 0, None, 0)
WAITING = VolumeRow("data", "pv", "node-1", "Attaching", "waits for the driver", True, 3.0)
RULE = "── 1 node"

pytestmark = in_virtual_time


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    made = Emulator(60, 20)
    yield made
    made.close()


class Shown:
    """A screen on the terminal, and a board that a test sets."""

    def __init__(self, terminal: Emulator, encoding: str = "utf-8") -> None:
        self.terminal = terminal
        self.stream = io.TextIOWrapper(terminal.out, encoding=encoding, errors="strict", write_through=True)
        self.screen = ViewScreen(self.stream, self.stream)
        self.board: Callable[[], Board] = lambda: Board((NODE,))
        self.drawn = 0

    def show(self, *volumes: VolumeRow) -> None:
        self.board = lambda: Board((NODE,), volumes)
        self.screen.changed()

    def _counted(self) -> Board:
        self.drawn += 1
        return self.board()

    @property
    def views(self) -> int:
        """How often it is there."""
        return sum(line.startswith(RULE) for line in (*self.terminal.scrolled, *self.terminal.shown))

    @property
    def rule_width(self) -> int:
        return next((len(line) for line in self.terminal.shown if line.startswith(RULE)), 0)

    def viewing(self) -> AbstractAsyncContextManager[None]:
        return self.screen.viewing(self._counted, LoopClock())

    async def passes(self, seconds: float) -> None:
        """Somebody has to take in what is written: a terminal keeps little of it."""
        for _ in range(int(seconds * 2)):
            self.terminal.draw()
            await asyncio.sleep(0.5)
        self.terminal.draw()

    async def sees(self, holds: Callable[[], bool]) -> bool:
        for _ in range(200):
            self.terminal.draw()
            if holds():
                return True
            await asyncio.sleep(0.02)
        return False


@pytest.fixture
def shown(terminal: Emulator) -> Shown:
    return Shown(terminal)


def a_line(number: int) -> StoryLine:
    return StoryLine(float(number), "driver", "CSI", f"Call number={number}", "OK")


async def test_lines_go_by_above_the_view_and_none_is_lost(shown: Shown) -> None:
    shown.screen.title("before")
    async with shown.viewing():
        for number in range(50):
            shown.screen.happening(a_line(number))
            if number % 7 == 0:
                await asyncio.sleep(0.03)
        assert await shown.sees(lambda: "number=49" in "\n".join(shown.terminal.shown))
        shown.terminal.draw()
        top = shown.terminal.screen.cursor.y
        assert [RULE, "NODE    S", "node-1  R"] == [line[:9] for line in shown.terminal.shown[top:] if line], (
            "the cursor is on its first line"
        )
        assert shown.terminal.screen.cursor.hidden
    shown.screen.title("after")
    shown.terminal.draw()
    everything = [line for line in (*shown.terminal.scrolled, *shown.terminal.shown) if line]
    assert ["before", *(f"Call number={number}  → OK" for number in range(50)), "after"] == [
        line.rpartition("driver    ")[2] for line in everything
    ], "each line once, in order, and nothing of the view"
    assert not shown.terminal.screen.cursor.hidden


async def test_nothing_is_written_and_nothing_is_asked_while_nothing_changes(shown: Shown) -> None:
    async with shown.viewing():
        assert await shown.sees(lambda: "node-1  Ready" in "\n".join(shown.terminal.shown))
        await shown.passes(1)
        before = shown.drawn, len(shown.terminal.written)
        await shown.passes(3600)
        assert before == (shown.drawn, len(shown.terminal.written))


async def test_an_event_that_changes_no_line_writes_nothing(shown: Shown) -> None:
    async with shown.viewing():
        await shown.passes(1)
        before = len(shown.terminal.written)
        shown.screen.changed()
        await shown.passes(1)
        assert (before, 2) == (len(shown.terminal.written), shown.drawn)


async def test_while_something_waits_its_time_goes_on(shown: Shown) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    shown.board = lambda: Board((NODE,), (msgspec.structs.replace(WAITING, for_s=loop.time() - began),))
    async with shown.viewing():
        await shown.passes(60)
        assert any(re.search(r" 5\ds ", line) for line in shown.terminal.shown), shown.terminal.shown
        assert 50 < shown.drawn < 62, "once a second"


async def test_many_changes_are_one_picture(shown: Shown) -> None:
    async with shown.viewing():
        for _ in range(1000):
            shown.screen.changed()
            await asyncio.sleep(0.001)
        assert 8 < shown.drawn < 13, "ten times a second"


async def test_a_large_plane_is_drawn_less_often(shown: Shown) -> None:
    """Drawing takes a tenth of the time at the most."""
    loop = asyncio.get_running_loop()

    def slow() -> Board:
        loop._time.now += 0.5  # type: ignore[attr-defined]
        return Board((NODE,))

    shown.board = slow
    async with shown.viewing():
        for _ in range(100):
            shown.screen.changed()
            await asyncio.sleep(0.1)
        assert 3 > shown.drawn


async def test_a_larger_and_a_smaller_view(shown: Shown) -> None:
    async with shown.viewing():
        shown.show(*(VolumeRow(f"data-{number}", "pv", "n", "Bound") for number in range(4)))
        assert await shown.sees(lambda: "data-3" in "\n".join(shown.terminal.shown))
        shown.show()
        assert await shown.sees(lambda: "data" not in "\n".join(shown.terminal.shown))
        assert 1 == shown.views
    shown.terminal.draw()
    assert 0 == shown.views


async def test_a_window_that_becomes_smaller_shows_one_view(shown: Shown) -> None:
    """The emulator cuts lines, as some terminals do; others break them: the cursor stands above either."""
    async with shown.viewing():
        for number in range(20):
            shown.screen.happening(a_line(number))
        assert await shown.sees(lambda: "number=19" in "\n".join(shown.terminal.shown))
        for columns, lines in ((45, 18), (100, 30), (50, 30)):
            shown.terminal.resize(columns, lines)
            os.kill(os.getpid(), signal.SIGWINCH)
            assert await shown.sees(lambda width=columns - 1: shown.rule_width == width), shown.terminal.shown
            assert 1 == shown.views, shown.terminal.shown


async def test_keys_are_not_shown_in_the_view_and_are_again_after_it(shown: Shown) -> None:
    assert shown.terminal.echoes
    async with shown.viewing():
        assert not shown.terminal.echoes
    assert shown.terminal.echoes


async def test_after_an_error_in_the_block_the_terminal_is_as_it_was(shown: Shown) -> None:
    async def of_the_plane() -> None:
        async with shown.viewing():
            shown.screen.title("the last line")
            raise ValueError("of the plane")

    with pytest.raises(ValueError, match="of the plane"):
        await of_the_plane()
    shown.terminal.draw()
    assert ["the last line"] == [line for line in shown.terminal.shown if line]
    assert (False, True) == (shown.terminal.screen.cursor.hidden, shown.terminal.echoes)


async def test_an_error_of_the_view_ends_the_view_alone(shown: Shown, caplog: pytest.LogCaptureFixture) -> None:
    async with shown.viewing():
        assert await shown.sees(lambda: "node-1" in "\n".join(shown.terminal.shown))

        def broken() -> Board:
            raise ValueError("a fault of the view")

        shown.board = broken
        shown.screen.changed()
        assert await shown.sees(lambda: not any("node-1" in line for line in shown.terminal.shown))
        shown.screen.title("it goes on")
        assert await shown.sees(lambda: "it goes on" in shown.terminal.shown)
    assert "a fault of the view" in caplog.text


async def test_a_terminal_without_unicode(terminal: Emulator) -> None:
    shown = Shown(terminal, "ascii")
    async with shown.viewing():
        shown.screen.happening(StoryLine(1.0, "driver", "CSI", "Probe", problem="no → “way” …"))
        shown.show(WAITING)
        assert await shown.sees(
            lambda: any(line.startswith("-- 1 node - 1 volume, 1 waiting --") for line in terminal.shown)
        )
    assert any(
        'CSI -> driver    Probe  -> failed: no -> "way" ...' in line.replace("\n", "") for line in terminal.shown
    )


async def test_without_colour(terminal: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown = Shown(terminal)
    async with shown.viewing():
        shown.show(WAITING)
        assert await shown.sees(lambda: any("Attaching" in line for line in terminal.shown))
        used = {char.fg for line in terminal.screen.buffer.values() for char in line.values()}
    assert {"default"} == used


async def test_a_drivers_control_characters_move_no_cursor(shown: Shown) -> None:
    async with shown.viewing():
        shown.screen.happening(StoryLine(1.0, "driver", "CSI", "Probe", problem="a\x1b[2J\x07b\rc"))
        assert await shown.sees(lambda: "a\\x1b[2J\\x07b\\rc" in "\n".join(shown.terminal.shown)), shown.terminal.shown


# -- where there is a view


def screen_of(stream: io.TextIOBase, *, plain: bool = False) -> type:
    screen, view = screen_and_view(stream, None, lambda _: None, plain=plain)  # type: ignore[arg-type]
    assert view is (screen if isinstance(screen, ViewScreen) else None)
    return type(screen)


async def test_where_there_is_a_view(terminal: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.TextIOWrapper(terminal.out, write_through=True)
    assert (ViewScreen, LiveScreen) == (screen_of(stream), screen_of(stream, plain=True))
    monkeypatch.setenv("TERM", "dumb")
    assert PlainScreen is screen_of(stream)
    assert PlainScreen is screen_of(io.StringIO())
