"""A clock on which every sleep is over at once, and which remembers them."""

from __future__ import annotations


class InstantClock:
    """Time moves by sleeping and by `pass_s`, never by itself."""

    def __init__(self, wall_s: float = 1_700_000_000.0) -> None:
        self._now = 0.0
        self._epoch_s = wall_s
        self.slept_s: list[float] = []

    def now(self) -> float:
        return self._now

    def wall_s(self) -> float:
        return self._epoch_s + self._now

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self._now += seconds

    def pass_s(self, seconds: float) -> None:
        self._now += seconds
