"""Bodies as bytes: by their length, or in chunks, with the bounds of each."""

from __future__ import annotations

import re
from typing import Final

from mooring.wire.http1.syntax import Malformed, header_fields

BODY_BYTES_MAX: Final = 3 * 1024 * 1024
"""For a request."""
DRAINED_BYTES_MAX: Final = 4 * BODY_BYTES_MAX
"""Read on and thrown away, so that the client gets to read its refusal; what is larger is cut."""

_BARE_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[^\r\n]*)?")
_CHUNK_LINE_MAX: Final = 256
_TRAILER_BYTES_MAX: Final = 8 * 1024


class Body:
    """A request's body that is being read. length: None for one in chunks. is_kept: False for one that is dropped."""

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
            count, part = self._chunks.feed(bytes(data))
            del data[:count]
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
    """A body in chunks, decoded as it comes. Extensions and trailers are checked and dropped."""

    __slots__ = ("_in_trailer", "_left", "_trailer", "is_whole")

    def __init__(self) -> None:
        self._left = 0  # of the chunk that is being read, its line end included
        self._in_trailer, self._trailer = False, 0
        self.is_whole = False

    def feed(self, data: bytes) -> tuple[int, bytes]:
        """How many bytes at the front of data are done with, and the content in them. Raises Malformed.

        The bytes that are left come behind the body's end, or are the beginning of a line, some 250 at most: they are
        fed again with those that follow.
        """
        at, end = 0, len(data)
        found = []
        while at < end and not self.is_whole:
            if self._left > 2:
                part = data[at : at + self._left - 2]
                found.append(part)
                at += len(part)
                self._left -= len(part)
            elif self._left:
                if end - at < 2:
                    break
                if data[at : at + 2] != b"\r\n":
                    raise Malformed("a chunk is longer than it says")
                at, self._left = at + 2, 0
            elif not self._in_trailer and (size := _BARE_SIZE.match(data, at)) is not None:
                at = size.end()
                self._begin(int(size[1], 16))
            elif (after := self._line(data, at)) > at:
                at = after
            else:
                break
        return at, found[0] if len(found) == 1 else b"".join(found)

    def _begin(self, size: int) -> None:
        self._in_trailer, self._left = size == 0, size + 2 if size else 0

    def _line(self, data: bytes, at: int) -> int:
        """Reads the size of the next chunk, or a line of the trailer; gives where it ends, `at` while it is not all
        there.
        """
        end = data.find(b"\r\n", at, at + _CHUNK_LINE_MAX + 2)
        if end < 0:
            if len(data) - at > _CHUNK_LINE_MAX + 1:
                raise Malformed("the line of a chunk is too long")
            return at
        if self._in_trailer:
            self._trailer += end + 2 - at
            if self._trailer > _TRAILER_BYTES_MAX:
                raise Malformed("the trailer is too long", 431)
            self.is_whole = end == at
            header_fields(data[at:end])  # dropped, and yet no more than a header may be
            return end + 2
        match = _CHUNK_SIZE.fullmatch(data, at, end)
        if match is None:
            raise Malformed("the size of a chunk is no number")
        self._begin(int(match[1], 16))
        return end + 2
