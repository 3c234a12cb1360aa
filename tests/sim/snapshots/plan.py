"""What a seed chooses before a life of snapshots begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from mooring.base.randomness import Random
from tests.sim.habits import server_habits, stops
from tests.sim.plan import (
    AnyPlan,
    VolumePlan,
    api_faults,
    deaths,
    driver_faults,
    memory,
    perhaps,
    weighted,
)
from tests.sim.snapshots.habits import Habits, habits_of

CONTROLLER: Final = "snapshot-controller"
SNAPSHOTTER: Final = "snapshotter"
DRIVER: Final = "csi.example.com"
NAMESPACE: Final = "default"
SECRET: Final = "storage-secret"
OTHER_DRIVER: Final = "other.example.com"
OTHER_CLASS: Final = "other-class"
MISSING_CLASS: Final = "missing-class"
GROUPED: Final = {"group": "yes"}
"""The labels of claims that group snapshots are of."""
SNAPSHOTS_MAX: Final = 5
"""Of users, at once."""
CLAIMS_MAX: Final = 3

SPELLINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "same": str,
    "letters": str.upper,
    "path": "pools/one/{}".format,
    "none": lambda volume: "",
}

ACTS: Final = {
    "make_snapshot": 12,
    "drop_snapshot": 8,
    "import_content": 3,
    "import_snapshot": 3,
    "import_again": 3,
    "hand_over": 4,
    "drop_content": 2,
    "tear_content": 1,
    "change_policy": 3,
    "hold_content": 2,
    "hold_snapshot": 2,
    "let_go": 3,
    "touch": 3,
    "restore": 3,
    "end_restore": 4,
    "make_claim": 3,
    "drop_claim": 2,
    "drop_class": 2,
    "restore_class": 3,
    "break_class": 1,
    "drop_secret": 1,
    "restore_secret": 3,
    "change_secret": 1,
    "make_group": 4,
    "drop_group": 3,
    "drop_member": 1,
    "restart_driver": 1,
    "kill_controller": 2,
    "kill_snapshotter": 2,
    "roll_controller": 1,
    "roll_snapshotter": 1,
}
_ALWAYS: Final = (
    "make_snapshot",
    "drop_snapshot",
    "make_claim",
    "restore_class",
    "restore_secret",
    "let_go",
    "end_restore",
    "import_snapshot",
)
_OF_GROUPS: Final = ("make_group", "drop_group", "drop_member")


@dataclasses.dataclass(frozen=True, slots=True)
class ClassPlan:
    name: str
    policy: str
    default: bool
    secret: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan(AnyPlan):
    """One life.

    controllers, snapshotters: how many at once. cutting_s: the longest time until a snapshot is ready. lists, gets: how
    the driver can be asked. judges_first: the driver judges a request before it looks up its name, so that it refuses
    what it has made. spells: how it names the source of a snapshot, one of SPELLINGS. lies: probability that it answers
    with a snapshot of another volume. habits: what is worse than that. server, stops: of the API server, and of
    processes that stand still.
    """

    classes: tuple[ClassPlan, ...]
    controllers: int
    snapshotters: int
    groups: bool
    lists: bool
    gets: bool
    cutting_s: float
    worker_threads: int
    retry_start_s: float
    retry_max_s: float
    resync_s: float
    judges_first: bool
    spells: str
    lies: float
    habits: Habits
    volumes: tuple[VolumePlan, ...] = ()


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    randomness = Random(seed)
    retry_start_s = randomness.uniform(0.1, 1.0)
    timeout_s = randomness.uniform(0.5, 3.0)
    groups = randomness.happens(0.4)
    return Plan(
        seed=seed,
        classes=tuple(_class(randomness, number) for number in range(1 + randomness.below(2))),
        controllers=2 if randomness.happens(0.15) else 1,
        snapshotters=2 if randomness.happens(0.15) else 1,
        groups=groups,
        lists=randomness.happens(0.5),
        gets=randomness.happens(0.3),
        cutting_s=perhaps(randomness, 0.6, 0.5, 20.0),
        chaos_s=randomness.uniform(5.0, 30.0),
        pause_s=randomness.uniform(0.05, 0.8),
        timeout_s=timeout_s,
        worker_threads=1 + randomness.below(4),
        retry_start_s=retry_start_s,
        retry_max_s=(retry_max_s := retry_start_s * 2 ** randomness.below(5)),
        resync_s=randomness.uniform(5.0, 30.0) if randomness.happens(0.2) else 0.0,
        **memory(randomness, 0.3),
        **deaths(randomness, 0.005, 0.1, 6, 2.0),
        api=api_faults(randomness),
        driver=driver_faults(randomness, timeout_s),
        acts=weighted(randomness, {act: ACTS[act] for act in ACTS if groups or act not in _OF_GROUPS}, _ALWAYS),
        judges_first=randomness.happens(0.3),
        spells=_spelling(randomness, groups=groups),
        lies=0.2 if randomness.happens(0.15) else 0.0,
        habits=habits_of(seed, groups=groups, retry_max_s=retry_max_s),
        server=server_habits(seed),
        stops=dataclasses.replace(stops(seed), replicas=1),
    )


def _spelling(randomness: Random, *, groups: bool) -> str:
    """Of a group without names nobody could say which snapshot is of which volume."""
    known = [name for name in SPELLINGS if name != "none" or not groups]
    return known[randomness.below(len(known))] if randomness.happens(0.3) else "same"


def _class(randomness: Random, number: int) -> ClassPlan:
    policy = "Retain" if randomness.happens(0.25) else "Delete"
    return ClassPlan(f"class{number}", policy, default=number == 0, secret=randomness.happens(0.3))
