"""How many volumes of one driver are mounted at once, where the node's owner sets a limit: who comes first goes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class MountSlots:
    """limit: for each driver, 0 for none. wake: called with the name of a volume that may find a free slot."""

    def __init__(self, limit: int, wake: Callable[[str], None]) -> None:
        self._limit, self._wake = limit, wake
        self._busy: Counter[str] = Counter()
        self._waiting: dict[str, dict[str, None]] = {}  # by driver: volumes, in the order in which they came

    def has_free(self, driver: str) -> bool:
        return not self._limit or self._busy[driver] < self._limit

    def wait(self, driver: str, unique: str) -> None:
        """The volume is woken when it is its turn."""
        self._waiting.setdefault(driver, {})[unique] = None

    def take(self, driver: str) -> None:
        self._busy[driver] += 1

    def give_back(self, driver: str) -> None:
        self._busy[driver] -= 1

    def pass_on(self) -> None:
        """Wakes as many volumes as there are free slots. To be called whenever a volume was dealt with: it may not have needed its slot."""
        for driver, waiting in self._waiting.items():
            for unique in list(waiting)[: max(0, self._limit - self._busy[driver])]:
                del waiting[unique]
                self._wake(unique)
