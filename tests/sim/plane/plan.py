"""What a seed chooses before a life of the whole plane begins: volumes, nodes, the programs that run, and the share of
each fault.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random
from tests.sim.habits import NO_HABITS as NO_SERVER_HABITS
from tests.sim.habits import server_habits, stops
from tests.sim.plan import (
    AnyPlan,
    api_faults,
    deaths,
    driver_faults,
    memory,
    perhaps,
    weighted,
)
from tests.sim.plane.agent_plan import ACTS as AGENT_ACTS
from tests.sim.plane.agent_plan import AgentPlan, agents_of
from tests.sim.plane.habit_plan import HabitPlan, habits_of
from tests.sim.plane.placing_plan import PlacingPlan, placing_of
from tests.sim.plane.workload_plan import WorkloadPlan, workloads_of
from tests.sim.provisioning.plan import SaveFaults

NAMESPACE: Final = "default"
OTHER: Final = "hush"
"""The namespace of a second claim on a volume, and how the names of its pods begin: no event elsewhere may show
them.
"""
RWO, RWOP, RWX = "ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"
MODES: Final = (RWO, RWO, RWO, RWOP, RWX)
NO_SAVE_FAULTS: Final = SaveFaults(0.0, 0.0, 0.0)
NO_AGENTS: Final = AgentPlan()
NO_PLACING: Final = PlacingPlan()
NO_HABITS: Final = HabitPlan()
NO_WORKLOADS: Final = WorkloadPlan()
PODS_MAX: Final = 5
"""At once."""

ACTS: Final = {
    "make_pod": 14,
    "delete_pod": 7,
    "force_delete_pod": 2,
    "finish_pod": 2,
    "move_pod": 8,
    "recreate_pod": 3,
    "bind_claim": 2,
    "drop_volume": 2,
    "strip_volume": 1,
    "restore_volume": 3,
    "delete_attachment": 2,
    "tear_away": 1,
    "make_foreign": 2,
    "wipe_report": 1,
    "touch_node": 1,
    "kill_node": 3,
    "cut_node": 2,
    "return_node": 5,
    "taint_node": 3,
    "untaint_node": 1,
    "delete_node": 2,
    "jump_clock": 1,
    "restart_driver": 1,
    "kill_attachdetach": 2,
    "roll_attachdetach": 1,
    "kill_attacher": 1,
    "roll_attacher": 1,
    "kill_other": 1,
}
"""What users, administrators and accidents can do, with weights."""

NEVER_PROVISIONED: Final = ("strip_volume", "make_foreign", "tear_away")
"""Whoever strips a volume that was made for a claim leaks it by that."""
_ALWAYS: Final = ("make_pod", "delete_pod", "move_pod", "bind_claim", "restore_volume", "return_node")


@dataclasses.dataclass(frozen=True, slots=True)
class VolumePlan:
    """name: of the PersistentVolume and of its claim. bound_late: the claim is bound by an act. shared: a second
    PersistentVolume means the same volume, for a claim in another namespace.
    """

    name: str
    handle: str
    mode: str
    bound_late: bool
    shared: bool

    @property
    def single_node(self) -> bool:
        return self.mode != RWX


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan(AnyPlan):
    """One life.

    controllers, attachers: how many run at once. health: node health runs, else a hand does its work. provisions:
    provisioner and binder run, and claims get their volumes from them, else volumes are made by hand with their claims;
    publishes, binder_faults, saves: as in the plan of claims. force_after_s, forces: options of the attach/detach
    controller. step_s: the longest pause between two steps of a kubelet. tolerated_s: how long a pod stays on a node
    that is not ready. agents: of the nodes. placing: by the scheduler. manners: of users and kubelets. server: the API
    server's. stops: of controllers. workloads: that users have. skipped: the acts, by number, that are left out.
    """

    volumes: tuple[VolumePlan, ...]
    nodes: tuple[str, ...]
    controllers: int
    attachers: int
    health: bool
    provisions: bool
    force_after_s: float
    forces: bool
    lists_published: bool
    single_node_multi_writer: bool
    page_size: int
    step_s: float
    tolerated_s: float
    worker_threads: int
    retry_start_s: float
    retry_max_s: float
    reconcile_s: float
    resync_s: float
    skipped: tuple[int, ...] = ()
    publishes: bool = True
    binder_faults: bool = False
    saves: SaveFaults = NO_SAVE_FAULTS
    agents: AgentPlan = NO_AGENTS
    placing: PlacingPlan = NO_PLACING
    manners: HabitPlan = NO_HABITS
    workloads: WorkloadPlan = NO_WORKLOADS


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    randomness = Random(seed)
    retry_start_s = randomness.uniform(0.1, 1.0)
    timeout_s = randomness.uniform(0.5, 3.0)
    health = randomness.happens(0.3)
    chaos_s = randomness.uniform(150.0, 400.0) if health else randomness.uniform(10.0, 120.0)
    controllers = 2 if randomness.happens(0.2) else 1
    attachers = 2 if randomness.happens(0.1) else 1
    volumes = tuple(_volume(randomness, number) for number in range(1 + randomness.below(3)))
    placing = placing_of(seed)
    workloads = workloads_of(seed, placing=placing.runs)
    provisions = randomness.happens(0.1) or placing.runs
    if (
        controllers > 1 or provisions
    ):  # two that know nothing of each other attach it twice, and the attacher knows volumes by their PersistentVolume
        volumes = tuple(dataclasses.replace(volume, shared=False, bound_late=False) for volume in volumes)
    agents = agents_of(seed)
    habits = habits_of(seed, by_hand=controllers == 1 and not provisions and not agents.runs, made=provisions)
    chaos_s = max(chaos_s, habits.chaos_s)
    if habits.acts:
        volumes = tuple(dataclasses.replace(volume, bound_late=False) for volume in volumes)
    return Plan(
        seed=seed,
        volumes=volumes,
        nodes=tuple(f"node{number}" for number in range(2 + randomness.below(2))),
        controllers=controllers,
        attachers=attachers,
        health=health,
        provisions=provisions,
        force_after_s=360.0 if randomness.happens(0.3) else randomness.uniform(2.0, 60.0),
        forces=randomness.happens(0.8),
        lists_published=attachers > 1 or randomness.happens(0.3),  # else nobody would see what the older of two undoes
        single_node_multi_writer=False,
        page_size=0,
        chaos_s=chaos_s,
        pause_s=chaos_s / (8 + randomness.below(18)),
        step_s=perhaps(randomness, 0.8, 0.01, 2.0),
        tolerated_s=randomness.uniform(0.0, 60.0),
        timeout_s=timeout_s,
        worker_threads=1 + randomness.below(3),
        retry_start_s=retry_start_s,
        retry_max_s=retry_start_s * 2 ** randomness.below(5),
        reconcile_s=randomness.uniform(5.0, 60.0),
        resync_s=0.0,
        **memory(randomness, 0.2),
        **deaths(randomness, 0.003, 0.06, 4, 5.0),
        api=api_faults(randomness),
        driver=driver_faults(randomness, timeout_s),
        acts=_acts(randomness, NEVER_PROVISIONED if provisions else ())
        + (AGENT_ACTS if agents.runs else ())
        + habits.acts
        + workloads.acts,
        agents=agents,
        placing=placing,
        manners=habits,
        # Two attachers without a Lease, one of which sees long-gone attachments, publish what nobody can know of: the
        # Lease forbids that.
        server=NO_SERVER_HABITS if attachers > 1 else dataclasses.replace(server_habits(seed), set_back=False),
        stops=dataclasses.replace(stops(seed), skew_s=0.0),  # whose clocks differ: `jump_clock`
        binder_faults=placing.faults,
        workloads=workloads,
    )


def _volume(randomness: Random, number: int) -> VolumePlan:
    return VolumePlan(
        name=f"pv{number}",
        handle=f"handle{number}",
        mode=MODES[randomness.below(len(MODES))],
        bound_late=randomness.happens(0.1),
        shared=randomness.happens(0.1),
    )


def _acts(randomness: Random, never: tuple[str, ...]) -> tuple[str, ...]:
    chosen = weighted(randomness, ACTS, _ALWAYS)
    return tuple(act for act in chosen if act not in never)
