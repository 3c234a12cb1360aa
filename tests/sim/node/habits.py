"""What a seed chooses of the world's habits: drivers that differ as real ones do, machines that wear out, users who do
what users do.

Drawn from a randomness of its own, so that a habit more moves no other choice. Each habit is absent from many lives;
those with a driver that hangs have no other fault, so that whoever is held up there is held up by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from mooring.base.randomness import Random
from mooring.wire.grpc.codes import Code
from tests.support.node_habits import LEAVINGS, NodeHabits, Stubborn

_OWN: Final = 1 << 41
_UPGRADES_SEED: Final = 1 << 43
UPGRADED: Final = 0.15
"""Of drivers."""
_GROUPS_SEED: Final = 1 << 45
GROUPED: Final = 0.35
"""Of lives, those whose pods want groups."""
GROUP_POLICIES: Final = ("", "ReadWriteOnceWithFSType", "File", "None")

TROUBLES: Final = {
    "spoil_record": 6,
    "mend_records": 1,
    "fill_disk": 1,
    "protect_folder": 2,
    "make_lost_pod": 2,
    "remake_pod": 6,
    "share_volume": 3,
    "fill_node": 2,
    "forget_node": 1,
    "take_other_id": 2,
    "remake_claim": 2,
}
"""What else can happen, with weights: each is a method of `troubles.py`."""

HANGING: Final = (
    ("stage",),
    ("publish",),
    ("unpublish",),
    ("unstage",),
    ("stats",),
    ("stage", "stats"),
    ("info",),
    ("publish", "unpublish"),
)
_CODES: Final = tuple(sorted(set(Code) - {Code.OK}))
_STUBBORN_VERBS: Final = ("stage", "unstage", "publish", "unpublish")


@dataclasses.dataclass(frozen=True, slots=True)
class Habits:
    """one_host: all nodes are on one machine, and see each other's mounts. often: how often an act is followed by a
    trouble. troubles: as the acts of a plan. calm: nothing goes wrong but a driver that hangs, or the reads of one
    claim. long: the life lasts until waits of minutes have ended. slow_claims: claims of an even number are read so
    slowly that it seems for ever. groups: pods want their files to belong to a group. walk_s: how long it takes to give
    a volume one, at the most.
    """

    one_host: bool = False
    often: float = 0.0
    troubles: tuple[str, ...] = ()
    calm: bool = False
    long: bool = False
    slow_claims: bool = False
    groups: bool = False
    walk_s: float = 0.0

    @property
    def hangs(self) -> bool:
        """True for a life with a driver that hangs."""
        return self.calm and not self.slow_claims


NO_TROUBLE: Final = Habits()


def habits_of(seed: int, drivers_count: int) -> tuple[Habits, tuple[NodeHabits, ...]]:
    """Those of the world, and of each driver."""
    randomness = Random(_OWN + seed)
    if randomness.happens(0.12):
        return _hanging(randomness, drivers_count)
    upgrades = Random(_UPGRADES_SEED + seed)
    drivers = tuple(
        dataclasses.replace(_driver(randomness), is_upgraded=upgrades.happens(UPGRADED)) for _ in range(drivers_count)
    )
    groups = Random(_GROUPS_SEED + seed)
    if has_groups := groups.happens(GROUPED):
        drivers = tuple(_of_groups(groups, driver) for driver in drivers)
    troubles = [name for name in TROUBLES if randomness.happens(0.35)] if randomness.happens(0.6) else []
    if "spoil_record" in troubles:
        troubles.append("mend_records")
    many = tuple(name for name in troubles for _ in range(TROUBLES[name]))
    return Habits(
        one_host=randomness.happens(0.25),
        often=randomness.uniform(0.1, 0.6) if many else 0.0,
        troubles=many,
        long="fill_node" in troubles,
        groups=has_groups,
        walk_s=groups.uniform(20.0, 200.0) if has_groups and groups.happens(0.3) else 0.0,
    ), drivers


def _hanging(randomness: Random, drivers_count: int) -> tuple[Habits, tuple[NodeHabits, ...]]:
    """The first driver hangs. One that is alone hangs for one pod, so that there is somebody to be held up; or claims
    are slow to read.
    """
    if randomness.happens(0.2):
        return Habits(calm=True, long=True, slow_claims=True), (NodeHabits(stats=True),) * drivers_count
    at_first = drivers_count == 1 or randomness.happens(0.3)
    verbs = ("unpublish",) if at_first else HANGING[randomness.below(len(HANGING))]
    first = NodeHabits(
        hangs=frozenset(verbs), hangs_at_first=at_first, stats=True, counts=100 if "info" in verbs else 0
    )
    return Habits(calm=True, long=True), (first, *(NodeHabits(stats=True) for _ in range(drivers_count - 1)))


def _driver(randomness: Random) -> NodeHabits:
    leavings = sorted(LEAVINGS)
    return NodeHabits(
        mounts_apart=randomness.happens(0.35),
        leaves=leavings[randomness.below(len(leavings))] if randomness.happens(0.25) else "",
        leaves_devices=randomness.happens(0.2),
        forgets=randomness.happens(0.15),
        knows_own=randomness.happens(0.2),
        stubborn=_stubborn(randomness) if randomness.happens(0.15) else None,
        tokens=randomness.happens(0.25),
        stats=randomness.happens(0.3),
        counts=5 + randomness.below(20) if randomness.happens(0.4) else 0,
    )


def _of_groups(randomness: Random, driver: NodeHabits) -> NodeHabits:
    policy = GROUP_POLICIES[randomness.below(len(GROUP_POLICIES))]
    return dataclasses.replace(driver, sets_groups=randomness.happens(0.25), group_policy=policy)


def _stubborn(randomness: Random) -> Stubborn:
    verbs: Sequence[str] = _STUBBORN_VERBS
    return Stubborn(verbs[randomness.below(len(verbs))], _CODES[randomness.below(len(_CODES))], randomness.happens(0.5))
