"""The log as a part of the story: one clock and one form for all that is on the screen."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from typing import Final

from mooring.base import log
from mooring.dev.story import Story

_LINE: Final = re.compile(r'(?P<letter>[IWE])\d{4} \S+ +\d+ [^\]]+\] "(?P<message>(?:[^"\\]|\\.)*)"(?P<values>.*)')
_ESCAPED: Final = re.compile(r'\\(["\\])')
"""Escapes of the log in quoted text that are undone for people; line ends stay escaped."""
_WAITS: Final = re.compile(r" retry_in_s=\S+")
_WHO: Final = {"I": "log", "W": "warning", "E": "error"}


class LogLines(io.StringIO):
    """A stream for the log's text form: each record is told, without its own time and place; what else it has of lines, after it."""

    def __init__(self, story: Story) -> None:
        super().__init__()
        self._story = story

    def write(self, text: str, /) -> int:
        line, *more = text.rstrip("\n").split("\n")
        found = _LINE.fullmatch(line)
        if found is None:
            self._story.happened("log", line)
        else:
            self._report(found)
        for one in more:
            self._story.happened("", one.expandtabs(4))
        return len(text)

    def _report(self, found: re.Match[str]) -> None:
        """A warning or an error that comes again is the same, however long it waits for its next try."""
        message, values = _ESCAPED.sub(r"\1", found["message"]), _ESCAPED.sub(r"\1", found["values"])
        waits = "".join(_WAITS.findall(values))
        same = "" if found["letter"] == "I" else f"{message}{_WAITS.sub('', values)}"
        name = f"{message.partition(':')[0]}{waits}"
        self._story.happened(_WHO[found["letter"]], f"{message}{values}", same=same, name=name)


@contextlib.contextmanager
def log_told_in(story: Story, *, verbosity: int, vmodule: str) -> Iterator[None]:
    """Log lines go to the story as long as the block runs, then to stderr again."""
    log.configure(verbosity=verbosity, vmodule=vmodule, stream=LogLines(story))
    try:
        yield
    finally:
        log.configure(verbosity=verbosity, vmodule=vmodule)
