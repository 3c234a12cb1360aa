"""A story as text: plain lines for files and pipes, colours and a clock that runs for terminals."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol, Self, TextIO, cast

from mooring.base.text import visible, visible_lines
from mooring.dev.story import Screen, StoryLine

_ROAD_WIDTH: Final = 14
_WIDTH_MIN: Final = 40
"""Below that a terminal breaks lines as it likes."""
_INDENT: Final = 12
"""Leaves room for a volume's name in one piece on 80 columns."""
_GLUE: Final = "\N{NO-BREAK SPACE}"
_COLOURS: Final = {
    "driver": "magenta",
    "attacher": "cyan",
    "demo": "green",
    "dev": "green",
    "server": "blue",
    "warning": "yellow",
    "error": "red",
}
Part = tuple[str, str]
"""Text, and its style on a live screen."""


class TerminalStream(Protocol):
    """The part of a TextIO that a screen needs."""

    @property
    def encoding(self) -> str: ...
    def isatty(self) -> bool: ...
    def fileno(self) -> int: ...
    def write(self, text: str, /) -> int: ...
    def flush(self) -> None: ...


class Shown(Screen, Protocol):
    """A screen between its beginning and its end."""

    def leave(self) -> None:
        """Gives the terminal back as it was, from any thread: the process ends next."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def screen_for(stream: TerminalStream, when_gone: Callable[[OSError], None] = lambda _: None) -> Shown:
    """A live screen for a terminal, with rich installed; else plain lines. when_gone: as for PlainScreen."""
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        try:
            return LiveScreen(stream)
        except ImportError:
            pass
    return PlainScreen(stream, when_gone)


def is_in_front(descriptor: int) -> bool:
    """False in the background of the terminal, where to read or to change it would stop this process."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return True  # not the terminal that rules over this process


def wrapped(head: str, body: str, width: int) -> str:
    """The body as it stands behind its head: broken at words, further lines indented. Words stay whole, to be
    copied.
    """
    if width < _WIDTH_MIN:
        return body
    indent = " " * min(len(head), _INDENT)
    lines = textwrap.wrap(
        body.replace(" ms)", f"{_GLUE}ms)").replace("→ ", f"→{_GLUE}"),
        width - 1,
        initial_indent=" " * len(head),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)[len(head) :].replace(_GLUE, " ")


class PlainScreen:
    """One line per event, the time first; flushed at once, for pipes. On a terminal, lines are broken at words.

    Once the stream takes nothing more, lines are dropped and the controllers continue. when_gone: called once, then,
    with the stream's error.
    """

    _OK: Part = ("ok: ", "")
    _FAILED: Part = ("FAILED: ", "")

    def __init__(self, stream: TerminalStream, when_gone: Callable[[OSError], None] = lambda _: None) -> None:
        self._stream: TerminalStream | None = stream
        self._when_gone = when_gone
        self._is_terminal = stream.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def leave(self) -> None:
        """There is nothing to give back."""

    def title(self, text: str) -> None:
        self._line(text, "bold")

    def step(self, at_s: float, text: str) -> None:
        self._line("", "")
        self._line(text, "bold", (f"{at_s:6.3f}  ", "dim"))

    def happening(self, one: StoryLine) -> None:
        style = "red" if one.problem else _COLOURS.get(one.who, "")
        way = (f"{visible(road(one)):<{_ROAD_WIDTH}}  ", style)
        self._line(visible(described(one)), "red" if one.problem else "", (f"{one.at_s:6.3f}    ", "dim"), way)

    def check(self, at_s: float, text: str) -> None:
        self._line(text, "", (f"{at_s:6.3f}    ", "dim"), self._OK)

    def failure(self, at_s: float, text: str) -> None:
        self._line("", "")
        self._line(text, "bold red", (f"{at_s:6.3f}  ", "dim"), self._FAILED)

    def end(self, at_s: float, text: str) -> None:
        self.step(at_s, text)

    def _line(self, text: str, _style: str, *heads: Part) -> None:
        """heads: before the text, which is broken where it is too long; without them it stays as it is."""
        text, head = visible_lines(text), "".join(part for part, _ in heads)
        if head and self._is_terminal:
            text = wrapped(head, text, shutil.get_terminal_size().columns)
        self._write(f"{head}{text}\n")

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            self._stream = None
            self._when_gone(error)


def road(one: StoryLine) -> str:
    """`attacher → API`, `CSI → driver`."""
    if one.via == "CSI":
        return f"CSI → {one.who}"
    return f"{one.who} → {one.via}" if one.via else one.who


def described(one: StoryLine) -> str:
    """The action, its result, and its duration."""
    outcome = f"failed: {one.problem}" if one.problem else one.result
    took = "" if one.seconds is None else f"({one.seconds * 1000:.1f} ms)"
    return "  ".join(filter(None, (one.what, f"→ {outcome}" if outcome else "", took)))


class LiveScreen(PlainScreen):
    """Lines that stay, and below them the present step with a clock that runs. Raises ImportError without rich."""

    _OK = ("✓ ", "bold green")
    _FAILED = ("✗ ", "bold red")

    def __init__(self, stream: TerminalStream) -> None:
        from rich.console import Console  # noqa: PLC0415 (here, so that plain lines need no rich)
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        self._text = Text.assemble
        self._console = Console(file=cast(TextIO, stream), highlight=False)
        columns = SpinnerColumn(), TextColumn("{task.description}", style="bold", markup=False), TimeElapsedColumn()
        self._progress = Progress(*columns, console=self._console, transient=True)
        self._task: Any = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def step(self, at_s: float, text: str) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(visible_lines(text), total=None)
        super().step(at_s, text)

    def end(self, at_s: float, text: str) -> None:
        self._progress.stop()
        self._line("", "")
        self._line(text, "bold green", (f"{at_s:6.3f}  ", "dim"))

    def _line(self, text: str, style: str, *heads: Part) -> None:
        """Text behind heads is broken at words; the terminal itself breaks other text, so that it can be copied as one
        line.
        """
        text, head = visible_lines(text), "".join(part for part, _ in heads)
        shown = wrapped(head, text, self._console.width) if head else text
        self._console.print(self._text(*heads, (shown, style)), soft_wrap=True)
