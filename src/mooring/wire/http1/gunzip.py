"""Bodies that the server packed: gzip, unpacked as it comes, within a bound."""

from __future__ import annotations

import zlib
from typing import Any, Final

from mooring.wire.http1.syntax import Malformed

_GZIP: Final = 31
_PIECE: Final = 16 * 1024
"""Unpacked at once. Each member's end copies what is left of a piece: bodies of many small members stay linear."""


class TooLarge(ValueError):
    """A body holds more than its bound."""


class Gunzip:
    """Unpacks one body, which may be of several members."""

    __slots__ = ("_member", "_piece", "_rest")

    def __init__(self) -> None:
        self._member: Any = None  # zlib's, which has begun and not ended
        self._rest = memoryview(b"")  # (what has been put, behind the piece)
        self._piece: bytes | memoryview = b""

    def feed(self, data: bytes, bytes_max: int) -> bytes:
        """The data, unpacked. Raises TooLarge for more than bytes_max, Malformed for what is no gzip or goes on behind
        its end.
        """
        self.put(data)
        found = []
        while part := self.some(bytes_max + 1):
            bytes_max -= len(part)
            if bytes_max < 0:
                raise TooLarge("unpacked it is too large")
            found.append(part)
        return found[0] if len(found) == 1 else b"".join(found)

    def put(self, data: bytes) -> None:
        """data: the next of the body, where all that was put before is unpacked."""
        assert not len(self._piece) + len(self._rest), "what was put is taken first"
        self._rest = memoryview(data)

    def some(self, bytes_max: int) -> bytes:
        """Up to so many bytes of what was put, b"" once it is all unpacked. Raises what feed raises but TooLarge."""
        while self._piece or self._rest:
            if not self._piece:
                self._piece, self._rest = self._rest[:_PIECE], self._rest[_PIECE:]
            member = self._member
            if member is None:
                member = self._member = zlib.decompressobj(_GZIP)
            try:
                part: bytes = member.decompress(self._piece, bytes_max)
            except zlib.error:
                raise Malformed("what the server sent as gzip is none") from None
            if member.eof:
                self._member, self._piece = None, member.unused_data
            else:
                self._piece = member.unconsumed_tail
            if part:
                return part
        return b""

    def end(self) -> None:
        """The body has ended. Raises Malformed where the gzip has not. (A body without a byte is empty.)"""
        if self._member is not None:
            raise Malformed("what the server sent as gzip breaks off")


def decoder_of(content_encoding: str) -> Gunzip | None:
    """A decoder for an answer's `Content-Encoding`, None where none is needed. Raises Malformed for one that is not
    known.
    """
    coding = content_encoding.lower()
    if coding in ("", "identity"):
        return None
    if coding in ("gzip", "x-gzip"):
        return Gunzip()
    raise Malformed(f"unsupported content encoding: {content_encoding[:32]!r}")
