"""A clock for stories: it moves when a test says so."""

from __future__ import annotations


class StillClock:
    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    def wall_s(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")
