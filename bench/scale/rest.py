"""When programs have come to rest, told by the processor time that they take.

A program that polls is never idle: kube-controller-manager takes a third of a processor for 10,000 volumes and nothing to do. So rest is a
level that stays, whatever its height.
"""

from __future__ import annotations

from collections.abc import Sequence

SAMPLE_S = 0.25
LASTS_S = 5.0
SHARE = 0.05
"""Of one processor, for each program: less than this is no work."""
_UNEVEN = 1.5
"""How many times its lowest second a level may take in another one."""
_SECOND = 4

Sample = tuple[float, float]
"""A moment, in seconds, and the processor time of all programs until then, in seconds."""


def rested_at(samples: Sequence[Sample], programs: int) -> float | None:
    """The moment since which they take no more than now; None unless that has lasted for LASTS_S.

    samples: one each SAMPLE_S.
    """
    loads = [(cpu - samples[number][1]) / (at - samples[number][0]) for number, (at, cpu) in enumerate(samples[_SECOND:])]
    last = round(LASTS_S / SAMPLE_S) - _SECOND
    if len(loads) <= last:
        return None
    level = _UNEVEN * min(loads[-last - 1 :]) + SHARE * programs
    busy = [number for number, load in enumerate(loads) if load > level]
    rested = busy[-1] + 1 if busy else 0
    return samples[rested][0] if samples[-1][0] - samples[rested][0] >= LASTS_S else None
