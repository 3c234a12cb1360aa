"""When programs have come to rest, told by the processor time that they take.

A program that polls is never idle: kube-controller-manager takes a third of a processor for 10,000 volumes and nothing
to do. So rest is a level that stays, whatever its height. A program that never polls does nothing at rest: there a high
level that stays is work.
"""

from __future__ import annotations

from collections.abc import Sequence

SAMPLE_S = 0.25
LASTS_S = 5.0
SHARE = 0.05
"""Of one processor, for each program: less than this is no work."""
IDLE = 0.25
"""Processors that programs which never poll may take at rest."""
_UNEVEN = 1.5
"""How many times its lowest second a level may take in another one."""
_SECOND = 4

Sample = tuple[float, float]
"""A moment, in seconds, and the processor time of all programs until then, in seconds."""


def rested_at(samples: Sequence[Sample], programs: int, *, polls: bool = True) -> float | None:
    """The moment since which they take no more than now; None unless that has lasted for LASTS_S.

    samples: one each SAMPLE_S. polls: False for programs of which none polls.
    """
    rested, last = len(samples) - _SECOND, round(LASTS_S / SAMPLE_S) - _SECOND
    if rested <= last:
        return None
    level = _UNEVEN * min(_load(samples, number) for number in range(rested - last - 1, rested)) + SHARE * programs
    if not polls:
        level = min(level, IDLE + SHARE * programs)
    while rested and _load(samples, rested - 1) <= level:
        rested -= 1
    return samples[rested][0] if samples[-1][0] - samples[rested][0] >= LASTS_S else None


def _load(samples: Sequence[Sample], number: int) -> float:
    """Processors busy in the second from this sample on."""
    (began, before), (ended, after) = samples[number], samples[number + _SECOND]
    return (after - before) / (ended - began)
