"""Splits a stream of chunks into lines, with a bound.

aiohttp's own `readline` gives up at 128 KiB, and a watch line may hold 1.5 MB and more; so the cutting is done here, without
ever copying a line's beginning twice.
"""

from __future__ import annotations


class LineTooLong(Exception):
    """A line passed the bound; the stream can't be used any more."""


class LineSplitter:
    """Takes chunks, gives the lines that they complete. length_max: bytes of a line, without its end."""

    def __init__(self, length_max: int) -> None:
        assert length_max > 0
        self._length_max = length_max
        self._begun: list[bytes] = []
        self._begun_length = 0

    @property
    def pending(self) -> bool:
        """True while a line has begun and not ended."""
        return self._begun_length > 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without their ends and without the empty ones. Raises LineTooLong."""
        *ended, rest = chunk.split(b"\n")
        if ended and self._begun:
            self._check(self._begun_length + len(ended[0]))
            ended[0] = b"".join((*self._begun, ended[0]))
            self._begun, self._begun_length = [], 0
        if rest:
            self._begun.append(rest)
            self._begun_length += len(rest)
            self._check(self._begun_length)
        lines = [line for line in ended if line and not line.isspace()]
        for line in lines:
            self._check(len(line))
        return lines

    def _check(self, length: int) -> None:
        if length > self._length_max:
            raise LineTooLong(f"a line is longer than {self._length_max} bytes")
