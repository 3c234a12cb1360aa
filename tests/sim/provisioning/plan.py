"""What a seed chooses before a life of claims begins."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.chance import Chance
from tests.sim.plan import ApiFaults, DriverFaults, VolumePlan, api_faults, driver_faults, perhaps

DRIVER: Final = "csi.example.com"
NODES: Final = ("node0", "node1")
NAMESPACE: Final = "default"
SECRET: Final = "storage-secret"
CLAIMS_MAX: Final = 6
"""At once, all of one secret."""

ACTS: Final = {
    "make_claim": 10,
    "drop_claim": 8,
    "drop_volume": 1,
    "keep_volume": 1,
    "drop_class": 1,
    "restore_class": 2,
    "drop_secret": 1,
    "restore_secret": 2,
    "attach": 3,
    "detach": 3,
    "touch": 2,
    "restart_driver": 1,
    "kill_provisioner": 2,
    "roll_provisioner": 1,
    "kill_binder": 1,
}
_ALWAYS: Final = ("make_claim", "drop_claim", "restore_class", "restore_secret", "detach")


@dataclasses.dataclass(frozen=True, slots=True)
class ClassPlan:
    name: str
    policy: str
    waits: bool
    secret: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """One life. Fields as in the attacher's plan where they have the same names. binder_faults: the binder's line is bad, too."""

    seed: int
    classes: tuple[ClassPlan, ...]
    publishes: bool
    binder_faults: bool
    chaos_s: float
    pause_s: float
    timeout_s: float
    worker_threads: int
    retry_start_s: float
    retry_max_s: float
    history_max: int
    list_limit: int
    crash: float
    crashes_max: int
    restart_s: float
    api: ApiFaults
    driver: DriverFaults
    acts: tuple[str, ...]
    volumes: tuple[VolumePlan, ...] = ()


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    chance = Chance(seed)
    retry_start_s = chance.uniform(0.1, 1.0)
    timeout_s = chance.uniform(0.5, 3.0)
    return Plan(
        seed=seed,
        classes=tuple(_class(chance, number) for number in range(1 + chance.below(3))),
        publishes=chance.happens(0.6),
        binder_faults=chance.happens(0.5),
        chaos_s=chance.uniform(5.0, 30.0),
        pause_s=chance.uniform(0.05, 0.8),
        timeout_s=timeout_s,
        worker_threads=1 + chance.below(4),
        retry_start_s=retry_start_s,
        retry_max_s=retry_start_s * 2 ** chance.below(5),
        history_max=8 + chance.below(32) if chance.happens(0.3) else 10_000,
        list_limit=1 + chance.below(3) if chance.happens(0.3) else 0,
        crash=perhaps(chance, 0.6, 0.005, 0.1),
        crashes_max=1 + chance.below(6),
        restart_s=chance.uniform(0.0, 2.0),
        api=api_faults(chance),
        driver=driver_faults(chance, timeout_s),
        acts=_acts(chance),
    )


def _class(chance: Chance, number: int) -> ClassPlan:
    return ClassPlan(f"class{number}", "Retain" if chance.happens(0.25) else "Delete", chance.happens(0.3), chance.happens(0.3))


def _acts(chance: Chance) -> tuple[str, ...]:
    chosen = [act for act in ACTS if act in _ALWAYS or chance.happens(0.5)]
    return tuple(act for act in chosen for _ in range(ACTS[act]))
