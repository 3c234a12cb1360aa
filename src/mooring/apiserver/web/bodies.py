"""Bodies of requests as they come off the wire, by length or in chunks. What is too large is read to its end and not kept."""

from __future__ import annotations

import re
from typing import Final

from mooring.apiserver.web.http1 import Malformed

BODY_BYTES_MAX: Final = 3 * 1024 * 1024
DRAINED_BYTES_MAX: Final = 4 * BODY_BYTES_MAX
"""Read on and thrown away, so that the client gets to read its refusal; what is larger is cut."""

_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[^\r\n]*)?")
_CHUNK_LINE_MAX: Final = 256
_TRAILER_BYTES_MAX: Final = 8 * 1024


class Body:
    """A body that is being read. length: None for one in chunks. is_kept: False for one that nobody will look at."""

    __slots__ = ("_chunks", "_left", "_parts", "_size", "is_kept", "is_whole")

    def __init__(self, length: int | None, *, is_kept: bool = True) -> None:
        self._chunks = Chunks() if length is None else None
        self._left, self._size = length or 0, 0
        self._parts: list[bytes] = []
        self.is_kept, self.is_whole = is_kept, length == 0

    @property
    def is_too_large(self) -> bool:
        return self._size > BODY_BYTES_MAX

    def feed(self, data: bytearray) -> None:
        """Takes its part off the front of data. Raises Malformed."""
        if self._chunks is not None:
            part = self._chunks.feed(data)
            self.is_whole = self._chunks.is_whole
        else:
            part = bytes(data[: self._left])
            del data[: self._left]
            self._left -= len(part)
            self.is_whole = self._left == 0
        self._size += len(part)
        if self._size > DRAINED_BYTES_MAX:
            raise Malformed("the body is far too large", 413)
        if self.is_too_large:
            self._parts.clear()
        elif self.is_kept and part:
            self._parts.append(part)

    def content(self) -> bytes:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class Chunks:
    """A body in chunks, decoded as it comes."""

    __slots__ = ("_in_trailer", "_left", "_trailer", "is_whole")

    def __init__(self) -> None:
        self._left = 0  # of the chunk that is being read, its line end included
        self._in_trailer, self._trailer = False, 0
        self.is_whole = False

    def feed(self, data: bytearray) -> bytes:
        """Takes what it can from the front of data, and gives the content in it. Raises Malformed."""
        found = []
        while not self.is_whole:
            if self._left:
                part = bytes(data[: self._left])
                if self._left <= 2 or not part:
                    if not self._end_of_chunk(data):
                        break
                    continue
                content = part[: self._left - 2]
                del data[: len(content)]
                self._left -= len(content)
                found.append(content)
                continue
            if not self._line(data):
                break
        return b"".join(found)

    def _end_of_chunk(self, data: bytearray) -> bool:
        if len(data) < 2:
            return False
        if data[:2] != b"\r\n":
            raise Malformed("a chunk is longer than it says")
        del data[:2]
        self._left = 0
        return True

    def _line(self, data: bytearray) -> bool:
        """Reads the size of the next chunk, or a line of the trailer; False while it is not all there."""
        end = data.find(b"\r\n")
        if end < 0:
            if len(data) > _CHUNK_LINE_MAX:
                raise Malformed("the line of a chunk is too long")
            return False
        line = bytes(data[:end])
        if end > _CHUNK_LINE_MAX:
            raise Malformed("the line of a chunk is too long")
        del data[: end + 2]
        if self._in_trailer:
            self._trailer += end + 2
            if self._trailer > _TRAILER_BYTES_MAX:
                raise Malformed("the trailer is too long", 431)
            self.is_whole = not line
            return True
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise Malformed("the size of a chunk is no number")
        size = int(match[1], 16)
        self._in_trailer, self._left = size == 0, size + 2 if size else 0
        return True
