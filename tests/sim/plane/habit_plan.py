"""What a seed chooses of the habits of users and kubelets, from a randomness of its own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Final

from mooring.base.randomness import Random
from tests.sim.plan import perhaps

SHARE: Final = 0.4
"""Of the seeds, those whose users have habits."""
_OWN: Final = 1 << 42
"""So that seeds without habits live as if there were none."""

WORDS: Final[Mapping[str, float | None]] = {
    "": None,
    "never": math.inf,
    "Never": math.inf,
    "soon": math.inf,
    "5s": 5.0,
    "40s": 40.0,
    "2m": 120.0,
}
"""What a StorageClass may say about forced detaches, and what that means: seconds, None for nothing. What can't be
read means never.
"""

CLASS_ACTS: Final = {"say_in_class": 14, "drop_class": 1, "remake_class": 3, "deny_classes": 2, "strand_volume": 24}
CLAIM_ACTS: Final = {
    "import_volume": 3,
    "rebind_volume": 3,
    "force_claim": 3,
    "blank_reference": 3,
    "restore_backup": 4,
}
"""Where volumes are made by hand, by scripts for kubelets."""
MADE_ACTS: Final = {"blank_reference": 8}
"""Where volumes are made for their claims."""
NODE_ACTS: Final = {
    "blink_node": 8,
    "remake_node": 6,
    "strand_volume": 8,
    "deny_write": 3,
    "own_taint": 6,
    "lose_request": 8,
}
LONG_S: Final = 3000.0
"""Of a life that is long enough for somebody to wait too long in silence."""
FORCE_S: Final = 250.0
"""Of a life in which it matters what classes say about forced detaches."""


@dataclasses.dataclass(frozen=True, slots=True)
class HabitPlan:
    """by_hand: volumes are made by hand. acts: beside those of every life. classes: volumes have StorageClasses.
    unmount_s: the longest time that a kubelet takes to unmount. stamped: the share of Nodes whose statuses say since
    when they are so. long: its chaos lasts for an hour.

    queues, stuck, forgets: of the driver: a call waits for the one before it and is not aborted; this share of calls
    never ends; after a restart it lists nothing as published until that is published again.
    """

    by_hand: bool = False
    acts: tuple[str, ...] = ()
    classes: bool = False
    unmount_s: float = 0.0
    stamped: float = 0.0
    long: bool = False
    queues: bool = False
    stuck: float = 0.0
    forgets: bool = False

    @property
    def chaos_s(self) -> float:
        """How long it lasts at the least."""
        return LONG_S if self.long else FORCE_S if self.classes else 0.0


def habits_of(seed: int, *, by_hand: bool, made: bool) -> HabitPlan:
    """by_hand: volumes are made by hand, and one controller looks at them. made: they are made for their claims."""
    randomness = Random(_OWN + seed)
    if not randomness.happens(SHARE):
        return HabitPlan()
    classes = randomness.happens(0.5)
    tables = (NODE_ACTS, CLASS_ACTS if classes else {}, CLAIM_ACTS if by_hand else {}, MADE_ACTS if made else {})
    chosen = [(act, weight) for table in tables for act, weight in table.items() if randomness.happens(0.5)]
    return HabitPlan(
        by_hand=by_hand,
        acts=tuple(act for act, weight in chosen for _ in range(weight)),
        classes=classes,
        unmount_s=perhaps(randomness, 0.3, 1.0, 20.0),
        stamped=1.0 if randomness.happens(0.5) else randomness.uniform(0.0, 1.0),
        long=randomness.happens(0.1),
        queues=randomness.happens(0.3),
        stuck=perhaps(randomness, 0.2, 0.05, 0.3),
        forgets=randomness.happens(0.3),
    )
