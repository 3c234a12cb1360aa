"""What a seed chooses before a life of growing claims begins."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random
from tests.sim.growth.habits import Habits, habits_of
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

DRIVER: Final = "csi.example.com"
NAMESPACE: Final = "default"
SECRET: Final = "storage-secret"
GROWING: Final = "growing"
"""The name of the StorageClass that lets its volumes grow."""
GIB: Final = 1 << 30
CLAIMS_MAX: Final = 4
"""At once."""
SIZE_MAX: Final = 9
"""The largest wish of a user, in GiB."""
CLASSES: Final = ("bronze", "silver", "gold")
"""Of attributes. A fourth one is infeasible for the driver, and a fifth one never made."""
INFEASIBLE_CLASS: Final = "platinum"
MISSING_CLASS: Final = "diamond"
OTHER_CLASS: Final = "of-another-driver"
OTHER_DRIVER: Final = "other.example.com"

ACTS: Final = {
    "make_claim": 6,
    "drop_claim": 2,
    "grow": 12,
    "shrink": 8,
    "choose_class": 8,
    "drop_class": 4,
    "restore_class": 2,
    "change_secret": 2,
    "drop_secret": 1,
    "restore_secret": 3,
    "use": 4,
    "leave": 4,
    "limit": 3,
    "unlimit": 3,
    "touch": 2,
    "restart_driver": 1,
    "kill_resizer": 2,
    "roll_resizer": 1,
}
_ALWAYS: Final = ("make_claim", "grow", "shrink", "restore_class", "restore_secret", "unlimit", "leave")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan(AnyPlan):
    """One life.

    on_node: the driver grows volumes on their nodes alone. node_share: of the volumes that their nodes have a part of,
    else. offline: the driver refuses to grow a volume that a pod uses. modifies: it has classes of attributes. lies:
    probability of an answer that tells of a smaller size than the volume has. kubelet_fails: probability that a node's
    part fails for good. granularity: the driver rounds sizes up to a multiple of this. habits: what is worse than that.
    server, stops: of the API server, and of processes that stand still.
    """

    on_node: bool
    node_share: float
    offline: bool
    modifies: bool
    wants_secret: bool
    annotates: bool
    in_use_errors: bool
    granularity: int
    workers: int
    retry_start_s: float
    retry_max_s: float
    resync_s: float
    lies: float
    kubelet_fails: float
    habits: Habits
    volumes: tuple[VolumePlan, ...] = ()


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    randomness = Random(seed)
    retry_start_s = randomness.uniform(0.1, 1.0)
    timeout_s = randomness.uniform(0.5, 3.0)
    return Plan(
        seed=seed,
        on_node=randomness.happens(0.15),
        node_share=(0.0, 0.5, 1.0)[randomness.below(3)],
        offline=randomness.happens(0.3),
        modifies=(modifies := randomness.happens(0.6)),
        wants_secret=randomness.happens(0.3),
        annotates=randomness.happens(0.5),
        in_use_errors=randomness.happens(0.7),
        granularity=(1, GIB // 2, 3 * GIB)[randomness.below(3)],
        chaos_s=randomness.uniform(5.0, 30.0),
        pause_s=randomness.uniform(0.05, 0.8),
        timeout_s=timeout_s,
        workers=1 + randomness.below(4),
        retry_start_s=retry_start_s,
        retry_max_s=(retry_max_s := retry_start_s * 2 ** randomness.below(5)),
        resync_s=randomness.uniform(5.0, 30.0) if randomness.happens(0.3) else 0.0,
        **memory(randomness, 0.3),
        **deaths(randomness, 0.005, 0.1, 6, 2.0),
        lies=perhaps(randomness, 0.2, 0.05, 0.3),
        kubelet_fails=perhaps(randomness, 0.3, 0.1, 0.5),
        api=api_faults(randomness),
        driver=driver_faults(randomness, timeout_s),
        acts=weighted(randomness, ACTS, _ALWAYS),
        habits=habits_of(seed, modifies=modifies, retry_max_s=retry_max_s),
        server=server_habits(seed),
        stops=dataclasses.replace(stops(seed), replicas=1),
    )
