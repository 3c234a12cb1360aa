"""A few lines that stay at the bottom of a terminal while others scroll past above them.

The cursor waits on the panel's first line: to erase the panel is to erase what lies below the cursor, whatever the terminal has done to
the lines when it was resized. One frame is one write. Scrolled lines stay in the terminal's own history.
"""

from __future__ import annotations

import contextlib
import termios
from collections.abc import Callable, Sequence
from typing import Final, TextIO

from mooring.dev.screen import is_in_front

_ERASE: Final = "\r\x1b[J"
_HIDE_CURSOR: Final = "\x1b[?25l"
_SHOW_CURSOR: Final = "\x1b[?25h"
_BEGIN_FRAME: Final = "\x1b[?2026h"
_END_FRAME: Final = "\x1b[?2026l"
"""Terminals that know them show the whole frame at once; others pass over them."""


class Panel:
    """write: to the terminal. keyboard: where keys are pressed, None for nowhere; its echo is off meanwhile, since it moves the cursor."""

    def __init__(self, write: Callable[[str], None], keyboard: TextIO | None) -> None:
        self._write, self._keyboard = write, keyboard
        self._echo = False

    def open(self) -> None:
        self._echo = self._set_echo(on=False)
        self._write(_HIDE_CURSOR)

    def draw(self, lines: str, panel: Sequence[str]) -> None:
        """lines: to scroll past, each with its end."""
        up = f"\x1b[{len(panel) - 1}A" if len(panel) > 1 else ""
        self._write(f"{_BEGIN_FRAME}{_ERASE}{lines}" + "\n".join(panel) + f"{up}\r{_END_FRAME}")

    def close(self, lines: str = "") -> None:
        """Leaves the terminal as it was, without the panel. lines: as for `draw`."""
        if self._echo:
            self._set_echo(on=True)
        self._write(f"{_ERASE}{lines}{_SHOW_CURSOR}")

    def _set_echo(self, *, on: bool) -> bool:
        """True when that was another state. A process in the background must not touch its terminal (SIGTTOU)."""
        if self._keyboard is None or not self._keyboard.isatty() or not is_in_front(self._keyboard.fileno()):
            return False
        with contextlib.suppress(termios.error):
            mode = termios.tcgetattr(self._keyboard)
            if bool(mode[3] & termios.ECHO) != on:
                mode[3] ^= termios.ECHO
                termios.tcsetattr(self._keyboard, termios.TCSADRAIN, mode)
                return True
        return False
