"""What a seed chooses before a life of nodes begins: drivers, volumes, and how much of each fault there is."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random
from mooring.node.drivers import CALL_S
from tests.sim.habits import server_habits, stops
from tests.sim.node.habits import NO_TROUBLE, Habits, habits_of
from tests.sim.plan import AnyPlan, ApiFaults, DriverFaults, api_faults, deaths, memory, perhaps, weighted
from tests.support.node_habits import PLAIN, NodeHabits

NAMESPACE: Final = "default"
RWO, RWOP, RWX = "ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"
MODES: Final = (RWO, RWO, RWO, RWOP, RWX)
SECRET_MARK: Final = "sesame"
"""In every secret value: it must show up nowhere but in a driver's call."""
PODS_MAX: Final = 5
"""At once."""

ACTS: Final = {
    "make_pod": 12,
    "delete_pod": 7,
    "force_delete_pod": 2,
    "finish_pod": 1,
    "move_pod": 4,
    "touch_pod": 2,
    "touch_node": 1,
    "bind_claim": 3,
    "drop_secret": 1,
    "restore_secret": 2,
    "change_secret": 1,
    "restart_driver": 2,
    "remove_socket": 1,
    "make_socket": 2,
    "kill_agent": 2,
    "roll_agent": 1,
    "reboot": 1,
}
"""What users, administrators and accidents can do, with weights."""

_NOT_CALM: Final = (
    "drop_secret",
    "change_secret",
    "restart_driver",
    "remove_socket",
    "make_socket",
    "kill_agent",
    "roll_agent",
    "reboot",
)
LONG_S: Final = 600.0
_FS_TYPES_SEED: Final = 1 << 47
_ALWAYS: Final = ("make_pod", "delete_pod", "move_pod", "bind_claim", "restore_secret", "make_socket")


@dataclasses.dataclass(frozen=True, slots=True)
class DriverPlan:
    """attaches: its volumes need an attachment. stages: STAGE_UNSTAGE_VOLUME. inline: it takes inline volumes.
    asks_again: requiresRepublish. leaves_folders: its unpublish leaves the empty target behind. habits: in which it
    differs from others.
    """

    name: str
    attaches: bool
    stages: bool
    inline: bool
    asks_again: bool
    pod_info: bool
    leaves_folders: bool
    habits: NodeHabits = PLAIN


@dataclasses.dataclass(frozen=True, slots=True)
class VolumePlan:
    """name: of the PersistentVolume and of its claim. bound_late: the claim is bound by an act. stage_secret,
    publish_secret: the names of its secrets, "" for none. fs_type: of its file system, "" where nobody says.
    """

    name: str
    handle: str
    driver: str
    mode: str
    block: bool
    bound_late: bool
    stage_secret: str
    publish_secret: str
    fs_type: str = ""

    @property
    def single_node(self) -> bool:
        return self.mode != RWX


@dataclasses.dataclass(frozen=True, slots=True)
class DiskFaults:
    """Probabilities. failed: per change of the disk. hung: per piece of work, which then begins late, perhaps after its
    caller gave up.
    """

    failed: float
    hung: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan(AnyPlan):
    """One life.

    impatient: how often the attach/detach controller detaches what a node still has in use. step_s: the longest pause
    between two steps of that controller. half: how often a driver's call that fails has done a part of its work. lies:
    how often one that did its work fails with an error that says it did not. verbosity: of the agents' logs. habits:
    what else the world does.
    server, stops: the habits of the API server and of processes.
    """

    drivers: tuple[DriverPlan, ...]
    volumes: tuple[VolumePlan, ...]
    nodes: tuple[str, ...]
    disk: DiskFaults
    half: float
    lies: float
    impatient: float
    step_s: float
    verbosity: int
    habits: Habits = NO_TROUBLE

    def driver_of(self, name: str) -> DriverPlan:
        return next(driver for driver in self.drivers if driver.name == name)

    def volume_of(self, handle: str) -> VolumePlan | None:
        """None for an inline volume's."""
        return next((volume for volume in self.volumes if volume.handle == handle), None)


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    plan = _plan(seed)
    habits, of_drivers = habits_of(seed, len(plan.drivers))
    drivers = tuple(
        dataclasses.replace(driver, habits=own) for driver, own in zip(plan.drivers, of_drivers, strict=True)
    )
    plan = dataclasses.replace(plan, drivers=drivers, habits=habits)
    if habits.groups:
        randomness = Random(_FS_TYPES_SEED + seed)
        typed = (
            dataclasses.replace(volume, fs_type="ext4" if randomness.happens(0.6) else "") for volume in plan.volumes
        )
        plan = dataclasses.replace(plan, volumes=tuple(typed))
    if habits.calm:
        return _calm(plan)
    server = dataclasses.replace(server_habits(seed), set_back=False)
    plan = dataclasses.replace(plan, server=server, stops=dataclasses.replace(stops(seed), replicas=1))
    return _long(plan) if habits.long else plan


def _long(plan: Plan) -> Plan:
    chaos_s = max(plan.chaos_s, LONG_S)
    return dataclasses.replace(plan, chaos_s=chaos_s, pause_s=plan.pause_s * chaos_s / plan.chaos_s)


def _calm(plan: Plan) -> Plan:
    """Nothing goes wrong but what the habits name."""
    return dataclasses.replace(
        _long(plan),
        history_max=10_000,
        crash=0.0,
        api=ApiFaults(refused=0.0, lost=0.0, slow=0.0, stale=0.0, stale_s=plan.api.stale_s, cut=0.0, gone=0.0),
        driver=DriverFaults(failed=0.0, lost=0.0, hung=0.0, latency_s=plan.driver.latency_s),
        disk=DiskFaults(0.0, 0.0),
        half=0.0,
        lies=0.0,
        impatient=0.0,
        acts=tuple(act for act in plan.acts if act not in _NOT_CALM),
    )


def _plan(seed: int) -> Plan:
    randomness = Random(seed)
    drivers = tuple(_driver(randomness, number) for number in range(1 + randomness.below(2)))
    chaos_s = randomness.uniform(8.0, 40.0)
    faults = _driver_faults(randomness)
    if faults.hung:
        chaos_s *= 5.0
    return Plan(
        seed=seed,
        drivers=drivers,
        volumes=tuple(_volume(randomness, number, drivers) for number in range(1 + randomness.below(4))),
        nodes=tuple(f"node{number}" for number in range(1 + randomness.below(3))),
        chaos_s=chaos_s,
        pause_s=chaos_s / (8 + randomness.below(20)) / 2,
        timeout_s=CALL_S,
        **memory(randomness, 0.2),
        **deaths(randomness, 0.003, 0.05, 6, 5.0),
        api=api_faults(randomness),
        driver=faults,
        disk=DiskFaults(perhaps(randomness, 0.3, 0.005, 0.08), perhaps(randomness, 0.2, 0.01, 0.1)),
        half=perhaps(randomness, 0.5, 0.1, 0.6),
        lies=perhaps(randomness, 0.3, 0.1, 0.6),
        impatient=perhaps(randomness, 0.2, 0.1, 0.6),
        step_s=perhaps(randomness, 0.7, 0.05, 3.0),
        verbosity=5 if randomness.happens(0.15) else 0,
        acts=weighted(randomness, ACTS, _ALWAYS),
    )


def _driver(randomness: Random, number: int) -> DriverPlan:
    return DriverPlan(
        name=f"d{number}.example.com",
        attaches=randomness.happens(0.75),
        stages=randomness.happens(0.8),
        inline=randomness.happens(0.5),
        asks_again=randomness.happens(0.2),
        pod_info=randomness.happens(0.5),
        leaves_folders=randomness.happens(0.3),
    )


def _volume(randomness: Random, number: int, drivers: tuple[DriverPlan, ...]) -> VolumePlan:
    return VolumePlan(
        name=f"pv{number}",
        handle=f"handle{number}",
        driver=drivers[randomness.below(len(drivers))].name,
        mode=MODES[randomness.below(len(MODES))],
        block=randomness.happens(0.25),
        bound_late=randomness.happens(0.15),
        stage_secret=f"pv{number}-stage" if randomness.happens(0.2) else "",
        publish_secret=f"pv{number}-publish" if randomness.happens(0.2) else "",
    )


def _driver_faults(randomness: Random) -> DriverFaults:
    return DriverFaults(
        failed=perhaps(randomness, 0.4, 0.05, 0.4),
        lost=perhaps(randomness, 0.5, 0.05, 0.4),
        hung=perhaps(randomness, 0.25, 0.03, 0.2),
        latency_s=randomness.uniform(0.0, 2.0),
    )
