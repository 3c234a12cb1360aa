"""Bodies that the server packed: gzip, unpacked as it comes, within a bound."""

from __future__ import annotations

import zlib
from typing import Any, Final

from mooring.http1.syntax import Malformed

_GZIP: Final = 31
_PIECE: Final = 16 * 1024
"""Unpacked at once. Each member's end copies what is left of a piece: bodies of many small members stay linear."""


class TooLarge(ValueError):
    """A body holds more than its bound."""


class Gunzip:
    """Unpacks one body, which may be of several members."""

    __slots__ = ("_member",)

    def __init__(self) -> None:
        self._member: Any = None  # zlib's, which has begun and not ended

    def feed(self, data: bytes, bytes_max: int) -> bytes:
        """What data holds, unpacked. Raises TooLarge for more than bytes_max, Malformed for what is no gzip or goes on behind its end."""
        found, view = [], memoryview(data)
        for start in range(0, len(view), _PIECE):
            piece: bytes | memoryview = view[start : start + _PIECE]
            while piece:
                member = self._member
                if member is None:
                    member = self._member = zlib.decompressobj(_GZIP)
                try:
                    part = member.decompress(piece, bytes_max + 1)
                except zlib.error:
                    raise Malformed("what the server sent as gzip is none") from None
                bytes_max -= len(part)
                if bytes_max < 0:
                    raise TooLarge("unpacked it is too large")
                if part:
                    found.append(part)
                piece = member.unused_data
                if member.eof:
                    self._member = None
        return found[0] if len(found) == 1 else b"".join(found)

    def end(self) -> None:
        """The body has ended. Raises Malformed where the gzip has not. (A body without a byte is empty.)"""
        if self._member is not None:
            raise Malformed("what the server sent as gzip breaks off")


def decoder_of(content_encoding: str) -> Gunzip | None:
    """A decoder for an answer's `Content-Encoding`, None where none is needed. Raises Malformed for one that is not known."""
    coding = content_encoding.lower()
    if coding in ("", "identity"):
        return None
    if coding in ("gzip", "x-gzip"):
        return Gunzip()
    raise Malformed(f"unsupported content encoding: {content_encoding[:32]!r}")
