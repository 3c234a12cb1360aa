"""A terminal whose screen can be read: a pseudo-terminal, and the picture that it would show."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Callable

import pyte

HISTORY = 5000


class Emulator:
    """out: the side that a program writes to and reads from; the other one is drawn here."""

    def __init__(self, columns: int = 80, lines: int = 24) -> None:
        self._here, there = pty.openpty()
        self.out = os.fdopen(there, "r+b", buffering=0)
        self.screen = pyte.HistoryScreen(columns, lines, history=HISTORY)
        self._stream = pyte.ByteStream(self.screen)
        self.written = b""
        self.resize(columns, lines)

    def resize(self, columns: int, lines: int) -> None:
        """The window gets another size. Programs in its foreground hear of it (SIGWINCH). Lines at the bottom go,
        longer ones are cut.
        """
        if (
            self.screen.cursor.y < lines < self.screen.lines
        ):  # pyte would take them from the top, and leave the cursor where it is
            self.screen.save_cursor()
            self.screen.cursor_position()
            self.screen.insert_lines(self.screen.lines - lines)
            self.screen.restore_cursor()
        self.screen.resize(lines, columns)
        fcntl.ioctl(self._here, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def shown(self) -> list[str]:
        """The lines on the screen."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def scrolled(self) -> list[str]:
        """The lines that have left it at the top."""
        width = self.screen.columns
        return ["".join(line[column].data for column in range(width)).rstrip() for line in self.screen.history.top]

    @property
    def echoes(self) -> bool:
        """True where typed keys are shown."""
        return bool(termios.tcgetattr(self._here)[3] & termios.ECHO)

    def type(self, keys: str) -> None:
        os.write(self._here, keys.encode())

    def draw(self, timeout_s: float = 0.0) -> bool:
        """Takes in what was written, waiting for its first byte; False where nothing came, or the other side has
        closed.
        """
        came = False
        while select.select([self._here], [], [], 0.0 if came else timeout_s)[0]:
            try:
                data = os.read(self._here, 65536)
            except OSError:  # what Linux answers when the other side has closed
                return came
            came = True
            self.written += data
            self._stream.feed(data)
        return came

    def until(self, holds: Callable[[], bool], timeout_s: float = 20.0) -> bool:
        """Draws until it holds; False where it does not within the time."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline:
                return False
            self.draw(0.1)
        return True

    def shows(self, pattern: str, timeout_s: float = 20.0) -> bool:
        """True as soon as a line on the screen, or scrolled off it, matches."""
        return self.until(lambda: any(re.search(pattern, line) for line in (*self.scrolled, *self.shown)), timeout_s)

    def close(self) -> None:
        self.out.close()
        os.close(self._here)
