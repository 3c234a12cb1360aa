"""The screen of `mooring dev`: the view where it can be shown, else lines. Rich is loaded for the view alone."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import TextIO

from mooring.dev.live.watching import Viewer
from mooring.dev.screen import Shown, TerminalStream, screen_for


def screen_and_view(
    stream: TerminalStream, keyboard: TextIO | None, when_gone: Callable[[OSError], None], *, plain: bool
) -> tuple[Shown, Viewer | None]:
    """The screen, and the same as a viewer; None where it shows lines alone. plain: never more than lines. when_gone:
    as for PlainScreen.
    """
    is_terminal = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if plain or not is_terminal or importlib.util.find_spec("rich") is None:
        return screen_for(stream, when_gone), None
    from mooring.dev.live.screen import ViewScreen  # noqa: PLC0415 (here, so that lines need no rich)

    screen = ViewScreen(stream, keyboard, when_gone)
    return screen, screen
