"""Does the consequences of a write in portions, one in each turn of the loop: a request waits for one portion at the
most.
"""

from __future__ import annotations

from typing import Final, Protocol

from mooring.apiserver.table import Stored

_STEPS: Final = 32
"""Small objects in one turn: some milliseconds."""
_STEP_BYTES: Final = 4096


class Portion:
    """The work that may be done in one turn. It is counted and not timed, so that a seed lives the same life each
    time.
    """

    def __init__(self, steps: int = _STEPS) -> None:
        self.size = steps
        self._left = steps

    @property
    def is_spent(self) -> bool:
        return self._left <= 0

    def spend(self, stored: Stored | None = None, steps: int = 1) -> None:
        """stored: a large object is worth many small ones."""
        self._left -= steps + (len(stored.body) // _STEP_BYTES if stored is not None else 0)


class PortionWorker(Protocol):
    """A part of the server that has work left over from writes."""

    @property
    def due(self) -> float | None:
        """When there is work, in seconds since the epoch, 0 for now; None while only a change can bring some."""

    def work(self, now: float, portion: Portion) -> None:
        """Does as much as the portion allows, and something in any case."""
