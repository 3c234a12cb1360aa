"""What a seed chooses for the placing of pods."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random

SHARE: Final = 0.2
"""Of the seeds, those with the real scheduler."""
_OWN: Final = 1 << 41
"""So that seeds without the scheduler live as if there was none, the choice is drawn from a randomness of its own."""


@dataclasses.dataclass(frozen=True, slots=True)
class PlacingPlan:
    """runs: the scheduler places the pods, and volumes come from claims. waits: they are made for their first pod's
    node. chosen: the share of pods whose users have chosen the node, by its label. faults: the line of binder and
    scheduler is bad, too.
    """

    runs: bool = False
    waits: bool = False
    faults: bool = False
    chosen: float = 0.0


def placing_of(seed: int) -> PlacingPlan:
    randomness = Random(_OWN + seed)
    if not randomness.happens(SHARE):
        return PlacingPlan()
    return PlacingPlan(True, randomness.happens(0.5), randomness.happens(0.5), randomness.uniform(0.2, 1.0))
