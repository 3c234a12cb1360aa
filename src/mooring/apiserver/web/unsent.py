"""Bytes of an answer, or of a watch's lines, for which a client has not made room yet."""

from __future__ import annotations

from typing import Final

_PIECE_BYTES: Final = 256 * 1024
"""For a large answer, what is encrypted at once: the next piece when the client has read most of it."""
_NOTHING: Final = memoryview(b"")


class Unsent:
    """Bytes that wait. Those of watches with the same lines are the same, and counted once."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _NOTHING

    def __len__(self) -> int:
        return len(self._left)

    @property
    def id(self) -> int:
        """The same where the bytes are."""
        return id(self._left.obj)

    def put(self, data: bytes) -> None:
        """Behind what waits already."""
        self._left = memoryview(bytes(self._left) + data if self._left else data)

    def piece(self) -> memoryview:
        """The next, which waits no more."""
        piece, self._left = (
            self._left[:_PIECE_BYTES],
            self._left[_PIECE_BYTES:] if len(self._left) > _PIECE_BYTES else _NOTHING,
        )
        return piece

    def drop(self) -> None:
        self._left = _NOTHING
