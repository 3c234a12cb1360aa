"""The end of a program's output, for the message that says that the program has failed."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import Final

LINES_MAX: Final = 5
_ERROR: Final = re.compile(r"\w*(?:error|exception)\b|\b(?:panic|fatal|cannot|can't|failed|no such)\b", re.IGNORECASE)


class LastWords:
    """Takes line after line, and keeps the last ones, and the first that tells an error: many runtimes write where they
    were after it.
    """

    def __init__(self, lines: Iterable[str] = (), lines_max: int = LINES_MAX) -> None:
        self._last: deque[str] = deque(maxlen=lines_max)
        self._count = 0
        self._error: tuple[int, str] | None = None
        for line in lines:
            self.append(line)

    def append(self, line: str) -> None:
        if self._error is None and _ERROR.search(line):
            self._error = self._count, line
        self._last.append(line)
        self._count += 1

    @property
    def lines(self) -> list[str]:
        """The error's line comes first where it stands before the last ones."""
        before = self._count - len(self._last)
        if self._error is None or self._error[0] >= before:
            return list(self._last)
        number, line = self._error
        return [line, *(["…"] if number < before - 1 else []), *self._last]
