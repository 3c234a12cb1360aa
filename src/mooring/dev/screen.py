"""A story as text: plain lines for files and pipes, colours and a clock that runs for terminals."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol, Self, TextIO

from mooring.dev.story import Happening, Screen

_ROAD_WIDTH: Final = 14


class Shown(Screen, Protocol):
    """A screen between its beginning and its end."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


def screen_for(stream: TextIO, when_gone: Callable[[], None] = lambda: None) -> Shown:
    """A live screen when the stream is a terminal that can have one and rich is installed, else plain lines.

    when_gone: as for PlainScreen.
    """
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        try:
            return LiveScreen(stream)
        except ImportError:
            pass
    return PlainScreen(stream, when_gone)


class PlainScreen:
    """One line for each event, the time first; flushed, so that a pipe sees it as it happens.

    A stream that nobody reads any more loses the lines: those who tell the story are in the middle of their work, and go on.
    when_gone: called once, when that is noticed.
    """

    def __init__(self, stream: TextIO, when_gone: Callable[[], None] = lambda: None) -> None:
        self._stream: TextIO | None = stream
        self._when_gone = when_gone

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def title(self, text: str) -> None:
        self._line(text)

    def step(self, at_s: float, text: str) -> None:
        self._line(f"\n{at_s:6.3f}  {text}")

    def happening(self, one: Happening) -> None:
        self._line(f"{one.at_s:6.3f}    {road(one):<{_ROAD_WIDTH}}  {described(one)}")

    def check(self, at_s: float, text: str) -> None:
        self._line(f"{at_s:6.3f}    ok: {text}")

    def failure(self, at_s: float, text: str) -> None:
        self._line(f"\n{at_s:6.3f}  FAILED: {text}")

    def end(self, at_s: float, text: str) -> None:
        self._line(f"\n{at_s:6.3f}  {text}")

    def _line(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        except OSError:
            self._stream = None
            self._when_gone()


def road(one: Happening) -> str:
    """`attacher → API`, `CSI → driver`."""
    if one.via == "CSI":
        return f"CSI → {one.who}"
    return f"{one.who} → {one.via}" if one.via else one.who


def described(one: Happening) -> str:
    """What was done, what came of it, and how long it took."""
    outcome = f"failed: {one.problem}" if one.problem else one.result
    took = "" if one.seconds is None else f"({one.seconds * 1000:.1f} ms)"
    return "  ".join(filter(None, (one.what, f"→ {outcome}" if outcome else "", took)))


class LiveScreen:
    """Lines that stay, and below them the present step with a clock that runs. Raises ImportError without rich."""

    _COLOURS: Final = {
        "driver": "magenta",
        "attacher": "cyan",
        "demo": "green",
        "dev": "green",
        "server": "blue",
        "warning": "yellow",
        "error": "red",
    }

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console  # noqa: PLC0415 (here, so that plain lines need no rich)
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        self._text = Text.assemble
        self._console = Console(file=stream, highlight=False)
        columns = SpinnerColumn(), TextColumn("{task.description}", style="bold", markup=False), TimeElapsedColumn()
        self._progress = Progress(*columns, console=self._console, transient=True)
        self._task: Any = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def title(self, text: str) -> None:
        self._print((text, "bold"))

    def step(self, at_s: float, text: str) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(text, total=None)
        self._print(("", ""))
        self._print((f"{at_s:6.3f}  ", "dim"), (text, "bold"))

    def happening(self, one: Happening) -> None:
        style = "red" if one.problem else self._COLOURS.get(one.who, "")
        way = (f"{road(one):<{_ROAD_WIDTH}}  ", style)
        self._print((f"{one.at_s:6.3f}    ", "dim"), way, (described(one), "red" if one.problem else ""))

    def check(self, at_s: float, text: str) -> None:
        self._print((f"{at_s:6.3f}    ", "dim"), ("✓ ", "bold green"), (text, ""))

    def failure(self, at_s: float, text: str) -> None:
        self._print((f"\n{at_s:6.3f}  ", "dim"), ("✗ ", "bold red"), (text, "bold red"))

    def end(self, at_s: float, text: str) -> None:
        self._progress.stop()
        self._print((f"\n{at_s:6.3f}  ", "dim"), (text, "bold green"))

    def _print(self, *parts: tuple[str, str]) -> None:
        """The terminal itself breaks what is too long, so that it can be copied as one line."""
        self._console.print(self._text(*parts), soft_wrap=True)
