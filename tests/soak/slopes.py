"""Whether a measure grows with time, told by its slope: the median of the slopes between all pairs of points (Theil and
Sen).

Many points may be anything, so that a restart beside the measured process or a neighbour's minute changes nothing. What
changes with the age of a process that is begun anew now and then is compared at equal ages: its rise in each life would
be taken for growth.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Sequence

POINTS_MIN = 20
POINTS_MAX = 400
"""More are thinned out: pairs grow with the square."""

Point = tuple[float, float]
"""Seconds, value."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """share, slack: what may be added in an hour, as a share of the median and in the measure's unit."""

    what: str
    share: float
    slack: float


def slope_per_h(points: Sequence[Point], ages: Sequence[int] = ()) -> float:
    """points: with at least two different times. ages: of what was measured, for each point; () where that does not
    matter.
    """
    step = -(-len(points) // POINTS_MAX)
    thinned = list(zip(points, ages or (0,) * len(points), strict=True))[::step]
    return 3600.0 * statistics.median(
        (after - before) / (later - sooner)
        for ((sooner, before), one), ((later, after), other) in itertools.combinations(thinned, 2)
        if later > sooner and one == other
    )


def growth(points: Sequence[Point], bound: Bound, ages: Sequence[int] = ()) -> str:
    """A text for a measure that grows more than its bound, "" for one that does not. ages: as of `slope_per_h`."""
    assert len(points) >= POINTS_MIN, f"{bound.what}: {len(points)} points are too few to tell growth from noise"
    slope, median = slope_per_h(points, ages), statistics.median(value for _, value in points)
    if slope <= bound.share * median + bound.slack:
        return ""
    return f"{bound.what} grows by {slope:.1f} an hour, from {median:.1f} in the middle"
