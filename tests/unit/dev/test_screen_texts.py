"""A driver's texts on the screens of `mooring dev`: they stay on their line, and move no cursor."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest

from mooring.csi.errors import DriverError
from mooring.dev.live.screen import ViewScreen
from mooring.dev.screen import LiveScreen, PlainScreen, Shown
from mooring.dev.story import Story
from mooring.driver.guard import CallRecord
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.dev.stepped_clock import StillClock

BAD = "no\x1b]0;PWNED\x07\x1b[2J\x9b31m\u202e\r\nfake line"
SHOWN = "no\\x1b]0;PWNED\\x07\\x1b[2J\\x9b31m\\u202e\\r\\nfake line"
_STYLES = re.compile(r"\x1b\[(?:\d+(?:;\d+)*)?m|\x1b\[\?25[hl]|\x1b\[2K|\r|\x1b\[1A")
"""What our own screens say to a terminal."""


class Terminal(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def fileno(self) -> int:
        return 1


SCREENS: dict[str, Callable[[], tuple[Terminal, Shown]]] = {
    "a file": lambda: _with(PlainScreen, is_terminal=False),
    "a plain terminal": lambda: _with(PlainScreen, is_terminal=True),
    "a live terminal": lambda: _with(LiveScreen, is_terminal=True),
    "the view": lambda: _with(ViewScreen, is_terminal=True),
}


def _with(screen: Callable[[Terminal], Shown], *, is_terminal: bool) -> tuple[Terminal, Shown]:
    stream = Terminal(is_terminal=is_terminal)
    return stream, screen(stream)


@each_row("name", SCREENS)
def test_a_drivers_text_is_shown_and_not_obeyed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TERM", "xterm")
    stream, screen = SCREENS[name]()
    with screen:
        story = Story(screen, StillClock())
        story.called(CallRecord("CreateVolume", '{"name":"a"}', "", DriverError(Code.INTERNAL, BAD), 0.1), BAD)
        story.called(CallRecord("GetPluginInfo", "{}", '{"name":"x\\u001b[2J"}', None, 0.1))
        for tell in (story.title, story.step, story.checked, story.failed, story.ended):
            tell(BAD.replace("\n", " "))
    text = _STYLES.sub("", stream.getvalue())
    assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e", "\r"}
    assert not [line for line in text.splitlines() if line.lstrip().startswith("fake line")]
    assert text.replace(" ", "").count(SHOWN.replace(" ", "")) >= 2
