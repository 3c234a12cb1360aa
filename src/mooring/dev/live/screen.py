"""A story on a terminal, with the view of the plane below it while that runs.

The view is a panel: a few lines that stay at the bottom while others scroll past above them. The cursor waits on the
panel's first line: to erase the panel is to erase the lines below the cursor, whatever the terminal did to them when it
was resized. One frame is one write. Scrolled lines stay in the terminal's own history.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import termios
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final, TextIO, cast

from rich.console import Console
from rich.text import Text

from mooring.base.clock import Clock
from mooring.base.errors import first_of
from mooring.base.log import logger
from mooring.dev.live.board import Board
from mooring.dev.live.render import Line, plain, render
from mooring.dev.output import Output
from mooring.dev.screen import LiveScreen, Part, PlainScreen, TerminalStream, is_in_front, wrapped

_PAUSE_S: Final = 0.1
_SHARE_MAX: Final = 0.1
"""The share of one processor that drawing takes: a large plane is drawn less often."""
_TICK_S: Final = 1.0
_SETTLED_S: Final = 0.5
_USUAL: Final = (80, 24)
"""The size of a terminal that does not tell its own."""
_log = logger(__name__)


class ViewScreen(PlainScreen):
    """Lines with colours; while `viewing`, the view stands below them. keyboard: as for Panel. when_gone: as for
    PlainScreen.
    """

    _OK, _FAILED = LiveScreen._OK, LiveScreen._FAILED

    def __init__(
        self,
        stream: TerminalStream,
        keyboard: TextIO | None = None,
        when_gone: Callable[[OSError], None] = lambda _: None,
    ) -> None:
        super().__init__(stream, when_gone)
        self._console = Console(file=cast(TextIO, stream), highlight=False)
        self._ascii_only = not (stream.encoding or "utf-8").lower().startswith("utf")
        self._panel = Panel(self._write, keyboard)
        self._changed = asyncio.Event()
        self._lines: list[str] | None = None
        self._drawn: list[str] = []

    def leave(self) -> None:
        self._close()

    def changed(self) -> None:
        """The board may be another."""
        self._changed.set()

    @contextlib.asynccontextmanager
    async def viewing(self, board: Callable[[], Board], clock: Clock) -> AsyncGenerator[None, None]:
        """Shows the board as long as the block runs, anew after each `changed`. Only then does it cost anything."""
        self._lines = []
        self._panel.open()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, self._resized)
        loop.add_signal_handler(signal.SIGTSTP, self._suspend)
        try:
            async with asyncio.TaskGroup() as group:
                drawing = group.create_task(self._keep_drawing(board, clock), name="dev/view")
                yield
                drawing.cancel()
        except BaseExceptionGroup as errors:
            raise first_of(errors) from errors
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)
            loop.remove_signal_handler(signal.SIGTSTP)
            self._close()

    async def _keep_drawing(self, board: Callable[[], Board], clock: Clock) -> None:
        """An error ends the view alone: lines go on without it."""
        try:
            while True:
                self._changed.clear()
                began = clock.now()
                shown = board()
                self._draw(shown)
                await clock.sleep(max(_PAUSE_S, (clock.now() - began) / _SHARE_MAX))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_TICK_S if shown.ticks else None):
                        await self._changed.wait()
        except Exception as error:
            self._close()
            _log.error("the view ends with an error; lines go on", error=error)

    def _draw(self, board: Board) -> None:
        width, height = self._size()
        panel = [self._styled(line) for line in render(board, width, height, ascii_only=self._ascii_only)]
        if self._lines or panel != self._drawn:
            lines, self._lines, self._drawn = "".join(self._lines or ()), [], panel
            self._panel.draw(lines, panel)

    def _size(self) -> tuple[int, int]:
        """Columns and lines of the terminal."""
        with contextlib.suppress(OSError):
            width, height = os.get_terminal_size(self._console.file.fileno())
            return width or _USUAL[0], height or _USUAL[1]
        return _USUAL

    def _close(self) -> None:
        """The lines that were not drawn yet are shown."""
        if self._lines is not None:
            lines, self._lines, self._drawn = "".join(self._lines), None, []
            self._panel.close(lines)

    def _resized(self) -> None:
        self._drawn = []
        self._changed.set()

    def _suspend(self) -> None:
        """Ctrl-Z: the shell gets its terminal as it was."""
        self._panel.close()
        if isinstance(self._stream, Output):
            self._stream.settle(_SETTLED_S)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._panel.open()
        self._resized()

    # -- lines

    def _line(self, text: str, style: str, *heads: Part) -> None:
        """Text behind heads is broken at words; the terminal itself breaks other text, so that it can be copied as one
        line.
        """
        head = "".join(part for part, _ in heads)
        text = "\n".join(plain(line, ascii_only=self._ascii_only) for line in text.split("\n"))
        shown = wrapped(head, text, self._size()[0]) if head else text
        line = (
            self._styled(
                (*((plain(part, ascii_only=self._ascii_only), given) for part, given in heads), (shown, style))
            )
            + "\n"
        )
        if self._lines is None:
            self._write(line)
        else:
            self._lines.append(line)
            self._changed.set()

    def _styled(self, line: Line) -> str:
        with self._console.capture() as captured:
            self._console.print(Text.assemble(*line), end="", soft_wrap=True)
        return captured.get()


_ERASE: Final = "\r\x1b[J"
_HIDE_CURSOR: Final = "\x1b[?25l"
_SHOW_CURSOR: Final = "\x1b[?25h"
_BEGIN_FRAME: Final = "\x1b[?2026h"
_END_FRAME: Final = "\x1b[?2026l"
"""Terminals that know them show the whole frame at once; others pass over them."""


class Panel:
    """write: to the terminal. keyboard: where keys are pressed, None for nowhere; its echo is off meanwhile, since it
    moves the cursor.
    """

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
