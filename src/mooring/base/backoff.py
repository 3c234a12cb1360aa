"""Waiting longer after each failure."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random

JITTER: Final = 0.02
"""The random share of every queue's back-off. Upstream has none: the intervals are what the flags say, and yet
thousands of keys don't stay in step.
"""
_DOUBLINGS_MAX = 60  # beyond this any cap is reached, and a float would overflow one day


@dataclasses.dataclass(frozen=True, slots=True)
class BackOff:
    """Delays that double from base_s up to cap_s. jitter: the share by which each is moved, so that what failed
    together parts.
    """

    base_s: float
    cap_s: float
    jitter: float = 0.1

    def __post_init__(self) -> None:
        assert self.base_s > 0, "a back-off of nothing is a hot loop"
        assert self.cap_s > 0
        assert 0 <= self.jitter < 1

    def delay_s(self, failures: int) -> float:
        """Delay before the next try, unjittered (client-go's exponential failure limiter). failures: in a row, from
        1.
        """
        assert failures >= 1
        return min(self.cap_s, self.base_s * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))

    def jittered_s(self, failures: int, randomness: Random) -> float:
        """The delay, moved by up to ± jitter of itself, but not beyond cap_s."""
        return min(self.cap_s, randomness.jittered(self.delay_s(failures), self.jitter))


def retry_backoff(base_s: float, cap_s: float) -> BackOff:
    """The back-off of a queue's retries."""
    return BackOff(base_s, cap_s, JITTER)
