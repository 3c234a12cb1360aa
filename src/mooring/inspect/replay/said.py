"""The clock's readings and the random numbers between two gates of a record; handed out in the same order."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Any, Final

from mooring.control.flight import entries
from mooring.control.flight.entries import Entry

SIGNS: Final = frozenset({entries.DECIDED, entries.OPENED, entries.GAVE_UP, entries.DREW, entries.WALL})
"""Lines that only say what the program did between two gates."""


class Said:
    """began: the time of the last gate."""

    def __init__(self) -> None:
        self.began = 0.0
        self._reads: deque[float] = deque()
        self._walls: deque[float] = deque()
        self._draws: dict[str, deque[Any]] = defaultdict(deque)

    def begin(self, record: tuple[Entry, ...], reads: tuple[float, ...]) -> None:
        """Before the first gate. reads: what the clock says until the first line."""
        self._reads = deque(reads)
        self._hand_out(record, 0)

    def pass_gate(self, record: tuple[Entry, ...], place: int) -> None:
        """From here on clock and chance say what they said after this line."""
        self._reads.clear()
        self._walls.clear()
        self.began = record[place].t
        self._reads.extend(record[place].reads)
        self._hand_out(record, place + 1)

    def _hand_out(self, record: tuple[Entry, ...], place: int) -> None:
        for entry in _until_next_gate(record, place):
            self._reads.extend(entry.reads)
            if entry.kind == entries.WALL:
                self._walls.append(entry.value)
            elif entry.kind == entries.DREW:
                self._draws[entry.what].append(entry.value)

    def drew(self, entry: Entry) -> None:
        """A draw, to be handed out to whoever draws so."""
        self._draws[entry.what].append(entry.value)

    @property
    def last(self) -> float | None:
        """The last of what the clock says before the next gate; None where all of it was heard, or is of the gate itself."""
        return self._reads[-1] if self._reads and self._reads[-1] > self.began else None

    def forget_before(self, moment: float) -> None:
        """The clock says nothing more of before this moment."""
        while self._reads and self._reads[0] < moment:
            self._reads.popleft()

    def now(self) -> float | None:
        return self._reads.popleft() if self._reads else None

    def wall(self) -> float | None:
        return self._walls.popleft() if self._walls else None

    def draw(self, method: str) -> Any:
        """The next value that was drawn so; None where the record has no more."""
        values = self._draws.get(method)
        return values.popleft() if values else None


def _until_next_gate(record: tuple[Entry, ...], place: int) -> Iterator[Entry]:
    """What the program did before the next gate."""
    while place < len(record) and record[place].kind in SIGNS:
        yield record[place]
        place += 1
