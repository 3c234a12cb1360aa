"""The ring: entries in segments, the oldest of which goes when there are too many bytes.

A segment begins with what the caches held at that moment, as references: an object that has not changed since costs nothing, and one that
has is counted. The first segment has none: there the program began. An entry holds bytes, or values that do not change, so that its size is
known.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

ENTRY_BYTES: Final = 240
"""Of an entry beside the bytes that it holds: a tuple, its time, its texts. Measured."""
KEPT_MIN: Final = 2
"""Segments that stay whatever they take: with hundreds of thousands of objects two bases may be more than the ring should have."""
SEGMENTS_MIN: Final = 4
"""The ring keeps three quarters of its bytes at the least when its oldest segment goes."""

Note = tuple[Any, ...]
"""kind, time, task, the count of clock reads before it, and what belongs to the kind."""


class Segment:
    """base: what the caches held where it begins, by kind and selection; None where the program begins.

    changed: hashes of the keys whose objects have changed since; the base may be all that holds these objects as they were. size,
    base_size: bytes, of what was added and of the base.
    """

    __slots__ = ("base", "base_size", "changed", "notes", "reads", "size")

    def __init__(self, base: Any, base_size: int = 0) -> None:
        self.base, self.base_size = base, base_size
        self.changed: set[int] = set()
        self.notes: list[Note] = []
        self.reads = array("d")
        self.size = 0

    @property
    def whole_size(self) -> int:
        return self.base_size + self.size + 8 * len(self.reads)

    def copied(self) -> Segment:
        """As it is now."""
        copy = Segment(self.base, self.base_size)
        copy.notes, copy.reads, copy.size = self.notes.copy(), self.reads[:], self.size
        return copy


class Ring:
    """bytes_max: of all segments. base: asked for what the caches hold, at the beginning of each segment but the first."""

    def __init__(self, bytes_max: int, base: Callable[[], tuple[Any, int]]) -> None:
        self._bytes_max, self._base = bytes_max, base
        self.turn_at = bytes_max // SEGMENTS_MIN
        """What a segment takes beside its base. In a large cluster the base alone is more: it must not make another turn at once."""
        self._segments: deque[Segment] = deque([Segment(None)])
        self.now = self._segments[0]
        self._size_before = 0  # of all segments but the last
        self.left_out = 0

    @property
    def is_whole(self) -> bool:
        """True while nothing has been left out."""
        return self._segments[0].base is None

    @property
    def size(self) -> int:
        """Bytes, as far as they are known."""
        return self._size_before + self.now.whole_size

    @property
    def base(self) -> Any:
        return self._segments[0].base

    def segments(self) -> Iterator[Segment]:
        """The oldest first."""
        return iter(self._segments)

    def begin_anew(self) -> Segment:
        """Drops all that is kept, and begins with what the caches hold now."""
        self._segments.clear()
        self._size_before = 0
        self.now = Segment(None)
        return self.turn()

    def turn(self) -> Segment:
        """Begins a segment, which takes the notes from now on, and drops old ones."""
        self._size_before += self.now.whole_size
        self.now = Segment(*self._base())
        self._segments.append(self.now)
        while len(self._segments) > KEPT_MIN and self.size > self._bytes_max:
            gone = self._segments.popleft()
            self.left_out += len(gone.notes)
            self._size_before -= gone.whole_size
        return self.now
