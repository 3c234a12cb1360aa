"""What a seed chooses before a life of claims begins."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.api.core import PersistentVolume
from mooring.base.randomness import Random
from mooring.sidecars.provisioner.intents.lease_codec import PAGE_BYTES_MAX, JournalLocation
from tests.sim.habits import server_habits
from tests.sim.plan import (
    AnyPlan,
    DriverFaults,
    VolumePlan,
    api_faults,
    deaths,
    driver_faults,
    memory,
    perhaps,
    weighted,
)
from tests.sim.provisioning.habits import KIND, ZONES, DriverHabits, habits_of
from tests.sim.provisioning.slow_world import BACK_ACTS, SLOW_ACTS, SlowWorld, slow_world

DRIVER: Final = "csi.example.com"
NODES: Final = ("node0", "node1")
NAMESPACE: Final = "default"
SECRET: Final = "storage-secret"
OTHER_SECRET: Final = "other-secret"
SECRETS_OF: Final = {SECRET: "token0", OTHER_SECRET: "token1"}
"""Each with the token of its account."""
PLACE: Final = JournalLocation(NAMESPACE, DRIVER)
"""Of the journal."""
FOREIGN: Final = "foreign"
"""The label of PersistentVolumes that are nobody's here, and what their handles begin with."""
IMPORTED: Final = "imported"
"""The label of PersistentVolumes that were written by hand for a volume of ours."""
RESTORED: Final = "restored"
"""The label of PersistentVolumes that somebody has written in place of the provisioner."""
STATIC: Final = "static"
"""A class without a provisioner, and a label of its volumes, which are foreign, too."""
CLAIMS_MAX: Final = 6
"""At once, all of one secret."""

ACTS: Final = {
    "make_claim": 10,
    "drop_claim": 8,
    "drop_volume": 1,
    "keep_volume": 1,
    "take_name": 4,
    "free_name": 1,
    "drop_class": 1,
    "restore_class": 2,
    "change_class": 3,
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
GROUPS: Final = (
    ("spoil_secret",) * 3 + ("mend_secret",) * 3 + ("change_account",) * 3,
    ("foreign_class",) * 2 + ("own_class",) * 3,
    ("tear_volume",) * 3 + ("restore_volume",) * 4 + ("claim_by_name",) * 2,
    ("make_pod",) * 4 + ("drop_pod",) + ("tear_claim",) * 3 + ("delete_orphans",) * 3,
    ("import_under_name",) * 4,
    ("damage_ref",) * 4,
    ("name_again",) * 4 + ("drop_claim",) * 4,
    ("make_odd_claim",) * 3,
    ("make_clone",) * 6,
    ("make_snapshot",) * 4 + ("make_restore",) * 8 + ("drop_snapshot",) * 4,
    ("write_later_intent",) * 3 + ("kill_provisioner",) * 3,
    ("spoil_page",) * 3,
    ("look_for_orphans",) * 2 + ("delete_orphans",) * 4,
)
"""More acts, with weights: each group is in some lives."""
_DRIVERS: Final = (
    (DriverHabits(zoned=True, zonal=True, full="zone0"), ("choose_again",) * 8),
    (
        DriverHabits(zoned=True, zonal=True, reuses=True, late=0.3),
        ("choose_again",) * 8 + ("drop_node", "restore_nodes", "restore_nodes"),
    ),
    (DriverHabits(tenants=True), ("change_account",) * 5),
    (DriverHabits(tenants=True, reuses=True), ("change_account",) * 4 + ("kill_provisioner",) * 4),
    (
        DriverHabits(tenants=True),
        ("tear_volume",) * 3 + ("restore_volume",) * 6 + ("drop_class",) * 6 + ("restore_class",) * 2,
    ),
    (DriverHabits(odd=0.6), ("touch",)),
)
"""Drivers whose habits come to something with certain acts."""
_OF_NODES: Final = ("drop_csi_node",) * 2 + ("drop_node",) * 2 + ("restore_nodes",) * 4 + ("choose_again",) * 4
_STATIC: Final = ("make_static_claim",) * 4 + ("drop_static_claim",) * 3 + ("free_static_volume",) * 3
_COPIES: Final = (
    ("make_claim",) * 3
    + ("make_two_clones",) * 6
    + ("drop_clone_and_source",) * 6
    + ("restore_class", "restore_secret")
)
_ALWAYS: Final = ("make_claim", "drop_claim", "restore_class", "restore_secret", "detach", "free_name")
_ODD_SEED: Final = 1_000_000
_MEAN_SEED: Final = 3_000_000
_SERVER_SEED: Final = 4_000_000
_STATIC_SEED: Final = 5_000_000
_OUTGROWN_SEED: Final = 6_000_000
_COPIES_SEED: Final = 7_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class ClassPlan:
    name: str
    policy: str
    waits: bool
    secret: bool


@dataclasses.dataclass(frozen=True, slots=True)
class SaveFaults:
    """Probabilities per creation of a PersistentVolume.

    denied: by admission, before anybody looks for its name. lost: its answer. denied_then: denied, where an earlier
    answer about the name was lost: the volume is stored, and its provisioner hears that it can't be. forbidden: of
    names, by a policy, for ever.
    """

    denied: float
    lost: float
    denied_then: float
    forbidden: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan(AnyPlan):
    """One life. binder_faults: the binder's line is
    bad, too.

    page_bytes_max: of the journal. habits: of the driver. server: of the API server. stops: of the processes.
    """

    classes: tuple[ClassPlan, ...]
    publishes: bool
    binder_faults: bool
    worker_threads: int
    retry_start_s: float
    retry_max_s: float
    saves: SaveFaults
    page_bytes_max: int
    habits: DriverHabits = KIND
    volumes: tuple[VolumePlan, ...] = ()


def is_foreign(pv: PersistentVolume) -> bool:
    """True for one that only has the name of ours."""
    return FOREIGN in (pv.metadata.labels or {})


def is_static(pv: PersistentVolume) -> bool:
    """True for one that an administrator made for claims of the class without a provisioner."""
    return STATIC in (pv.metadata.labels or {})


def is_imported(pv: PersistentVolume) -> bool:
    """True for one of a volume of ours that was written by hand."""
    return IMPORTED in (pv.metadata.labels or {})


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    randomness = Random(seed)
    retry_start_s = randomness.uniform(0.1, 1.0)
    timeout_s = randomness.uniform(0.5, 3.0)
    plan = Plan(
        seed=seed,
        classes=tuple(_class(randomness, number) for number in range(1 + randomness.below(3))),
        publishes=randomness.happens(0.6),
        binder_faults=randomness.happens(0.5),
        chaos_s=randomness.uniform(5.0, 30.0),
        pause_s=randomness.uniform(0.05, 0.8),
        timeout_s=timeout_s,
        worker_threads=1 + randomness.below(4),
        retry_start_s=retry_start_s,
        retry_max_s=retry_start_s * 2 ** randomness.below(5),
        **memory(randomness, 0.3),
        **deaths(randomness, 0.005, 0.1, 6, 2.0),
        api=api_faults(randomness),
        driver=driver_faults(randomness, timeout_s),
        acts=weighted(randomness, ACTS, _ALWAYS),
        saves=SaveFaults(
            perhaps(randomness, 0.4, 0.1, 0.5), perhaps(randomness, 0.4, 0.1, 0.5), perhaps(randomness, 0.5, 0.2, 0.9)
        ),
        page_bytes_max=2_000 + randomness.below(6_000) if randomness.happens(0.3) else PAGE_BYTES_MAX,
    )
    if randomness.happens(0.2):
        return _of_changed_minds(plan, randomness)
    plan = _of_mean_world(_of_odd_storage(plan, Random(seed + _ODD_SEED)), Random(seed + _MEAN_SEED))
    plan = _of_administrators(plan, Random(seed + _STATIC_SEED))
    if Random(seed + _COPIES_SEED).happens(0.08):
        slow = DriverFaults(failed=0.4, lost=0.5, hung=0.0, latency_s=0.5)
        classes = tuple(dataclasses.replace(one, waits=False) for one in plan.classes)
        plan = dataclasses.replace(
            plan, habits=KIND, classes=classes, driver=slow, chaos_s=30.0, pause_s=0.3, worker_threads=4, acts=_COPIES
        )
    if plan.habits.zoned and Random(seed + _OUTGROWN_SEED).happens(0.25):
        plan = dataclasses.replace(
            plan, habits=dataclasses.replace(plan.habits, full=plan.habits.full or ZONES[0], outgrown=True)
        )
    slow = slow_world(seed)
    return plan if slow.is_fast else _of_slow_world(plan, slow)


def _of_slow_world(plan: Plan, slow: SlowWorld) -> Plan:
    """Nobody waits for ever there: an hour of elections is long."""
    saves, habits = (
        dataclasses.replace(plan.saves, forbidden=0.0),
        DriverHabits(lingers=plan.habits.lingers, tenants=plan.habits.tenants),
    )
    plain = tuple(act for act in plan.acts if act in ACTS and act not in ("change_class", "take_name", "free_name"))
    acts = plain + (BACK_ACTS if slow.server.set_back else SLOW_ACTS)
    limit = plan.list_limit or (2 if slow.server.set_back else 0)
    return dataclasses.replace(
        plan, server=slow.server, stops=slow.stops, saves=saves, habits=habits, list_limit=limit, acts=acts
    )


def _of_odd_storage(plan: Plan, randomness: Random) -> Plan:
    """From a source of its own: what a seed had before stays as it is, where nothing of this comes."""
    if randomness.happens(0.25):
        # Another request of an imported volume's name is refused for ever, and so its intent is kept: there is no rest
        # in that.
        acts = *(act for act in plan.acts if act != "change_class"), *("import_volume",) * 4
        plan = dataclasses.replace(plan, acts=acts)
    if randomness.happens(0.25):
        saves = dataclasses.replace(plan.saves, denied=randomness.uniform(0.2, 0.6))  # so that volumes are of no use
        plan = dataclasses.replace(plan, habits=DriverHabits(lingers=randomness.uniform(0.3, 0.9)), saves=saves)
    if randomness.happens(0.25):
        classes = tuple(dataclasses.replace(one, secret=True) for one in plan.classes)
        acts = *plan.acts, *("drop_secret",) * 5, *("kill_provisioner",) * 3
        plan = dataclasses.replace(
            plan, habits=dataclasses.replace(plan.habits, tenants=True), classes=classes, acts=acts
        )
    return plan


def _of_mean_world(plan: Plan, randomness: Random) -> Plan:
    """Drivers and users as mean as real ones; from a source of its own, too."""
    if randomness.happens(0.5):
        found = habits_of(randomness)
        plan = dataclasses.replace(
            plan, habits=dataclasses.replace(found, lingers=plan.habits.lingers, tenants=plan.habits.tenants)
        )
        if found.zoned:
            plan = _zoned(plan, randomness)
        if found.lasting:
            plan = dataclasses.replace(plan, retry_max_s=max(60.0, plan.retry_max_s))
    if Random(plan.seed + _SERVER_SEED).happens(0.4):
        # Late writes, and a server that is set back, have lives of their own (`_of_slow_world`).
        plan = dataclasses.replace(plan, server=dataclasses.replace(server_habits(plan.seed), late=0.0, set_back=False))
    if randomness.happens(0.4):
        return _themed(plan, randomness)
    if randomness.happens(0.12):
        plan = dataclasses.replace(plan, saves=dataclasses.replace(plan.saves, forbidden=randomness.uniform(0.2, 0.7)))
    for group in GROUPS:
        if randomness.happens(0.12):
            plan = dataclasses.replace(plan, acts=plan.acts + group)
    return plan


def _of_administrators(plan: Plan, randomness: Random) -> Plan:
    """Volumes that are made, and given back, by hand; from a source of its own, too."""
    return dataclasses.replace(plan, acts=plan.acts + _STATIC) if randomness.happens(0.12) else plan


def _themed(plan: Plan, randomness: Random) -> Plan:
    """One group of acts above all, and not too much beside it, so that it comes to something."""
    theme = randomness.below(len(GROUPS) + len(_DRIVERS))
    busy = (
        ("make_claim",) * 8
        + ("drop_claim",) * 4
        + ("restore_class", "restore_secret", "detach", "free_name", "kill_provisioner")
    )
    if theme < len(GROUPS):
        habits = KIND if randomness.happens(0.6) else plan.habits
        plan = dataclasses.replace(plan, habits=habits, acts=busy + GROUPS[theme] * 3)
    else:
        habits, acts = _DRIVERS[theme - len(GROUPS)]
        secret = habits.tenants
        classes = tuple(
            dataclasses.replace(one, waits=habits.zoned, secret=secret, policy="Delete") for one in plan.classes
        )
        lost = DriverFaults(failed=0.2, lost=randomness.uniform(0.3, 0.6), hung=0.0, latency_s=0.2)
        plan = dataclasses.replace(plan, habits=habits, acts=busy + acts, classes=classes, driver=lost)
    plan = dataclasses.replace(plan, chaos_s=randomness.uniform(15.0, 30.0), pause_s=randomness.uniform(0.05, 0.4))
    if randomness.happens(0.6):
        quiet = SaveFaults(0.0, 0.0, 0.0)
        plan = dataclasses.replace(
            plan, saves=quiet, api=dataclasses.replace(plan.api, refused=min(plan.api.refused, 0.1), lost=0.0)
        )
    return plan


def _zoned(plan: Plan, randomness: Random) -> Plan:
    """Most claims wait for a node, which may go, or be exchanged."""
    classes = tuple(dataclasses.replace(one, waits=one.waits or randomness.happens(0.6)) for one in plan.classes)
    return dataclasses.replace(plan, classes=classes, acts=plan.acts + (_OF_NODES if randomness.happens(0.5) else ()))


def _of_changed_minds(plan: Plan, randomness: Random) -> Plan:
    """The class changes while the driver makes volumes and says that it did not, so that claims want another one than
    there may be.

    What else could go wrong would only keep it from happening.
    """
    retry_start_s = randomness.uniform(0.05, 0.3)
    return dataclasses.replace(
        plan,
        classes=(ClassPlan("class0", "Delete", waits=False, secret=False),),
        chaos_s=randomness.uniform(10.0, 25.0),
        retry_start_s=retry_start_s,
        retry_max_s=4 * retry_start_s,
        crash=randomness.uniform(0.01, 0.05),
        crashes_max=10,
        restart_s=0.2,
        api=dataclasses.replace(
            plan.api, refused=0.0, lost=perhaps(randomness, 0.7, 0.1, 0.3), slow=0.0, cut=0.0, gone=0.0
        ),
        driver=DriverFaults(
            failed=randomness.uniform(0.3, 0.6), lost=randomness.uniform(0.4, 0.8), hung=0.0, latency_s=0.2
        ),
        acts=("make_claim",) * 4 + ("drop_claim",) * 2 + ("change_class",) * 4,
        saves=SaveFaults(0.0, 0.0, 0.0),
    )


def _class(randomness: Random, number: int) -> ClassPlan:
    return ClassPlan(
        f"class{number}",
        "Retain" if randomness.happens(0.25) else "Delete",
        randomness.happens(0.3),
        randomness.happens(0.3),
    )
