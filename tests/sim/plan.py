"""What a seed chooses before a life begins: the world, its options, and how much of each fault it has.

Each kind of fault is absent from many lives, so that no fault hides behind another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, Final

from mooring.base.randomness import Random
from tests.sim.habits import NO_HABITS, NO_STOPS, ArrayHabits, ServerHabits, Stops, array_habits, server_habits, stops

DRIVER: Final = "csi.example.com"
FINALIZER: Final = "external-attacher/csi-example-com"
AGAIN: Final = "-again"
"""How the name of a second PersistentVolume of one volume ends."""
_NAMESAKE_SEED: Final = 13_000_027
TWIN: Final = "twin-"
"""How the name of a second attachment of a volume to one node begins."""

MODES: Final = ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany")


@dataclasses.dataclass(frozen=True, slots=True)
class VolumePlan:
    """name: of the PersistentVolume; an inline volume has none, and the name only stands for it. secret: its calls need
    one.
    """

    name: str
    handle: str
    mode: str
    secret: bool
    inline: bool

    @property
    def single_node(self) -> bool:
        return self.mode != "ReadWriteMany"

    @property
    def secret_name(self) -> str:
        return f"{self.name}-secret"


@dataclasses.dataclass(frozen=True, slots=True)
class ApiFaults:
    """Probabilities per request or per watch event. stale_s: the longest delay of an event."""

    refused: float
    lost: float
    slow: float
    stale: float
    stale_s: float
    cut: float
    gone: float


@dataclasses.dataclass(frozen=True, slots=True)
class DriverFaults:
    """Probabilities per call. latency_s: the longest of a healthy call."""

    failed: float
    lost: float
    hung: float
    latency_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AnyPlan:
    """What the lives of all parts have. Durations in virtual seconds.

    chaos_s: how long faults come. pause_s: between two acts, on average. timeout_s: of the driver's calls.
    history_max: changes of a kind that the API server remembers. list_limit: objects a page at the most, 0 for no
    limit. crash: probability at each point where a process can be killed; crashes_max: of its incarnations, those that
    can be; restart_s: the longest time until the next one. api, driver: their faults. acts: of users and
    administrators, each as often as its weight says. server: the API server's habits. stops: processes that stand
    still.
    """

    seed: int
    chaos_s: float
    pause_s: float
    timeout_s: float
    history_max: int
    list_limit: int
    crash: float
    crashes_max: int
    restart_s: float
    api: ApiFaults
    driver: DriverFaults
    acts: tuple[str, ...]
    server: ServerHabits = NO_HABITS
    stops: Stops = NO_STOPS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan(AnyPlan):
    """One life of the attacher.

    hasty: how often the attach/detach controller does not wait. meddling: how often others move their finalizers on an
    object while a write of the attacher is on its way there. inherits: another attacher was here before. array: the
    driver's habits.
    """

    volumes: tuple[VolumePlan, ...]
    nodes: tuple[str, ...]
    lists_published: bool
    single_node_multi_writer: bool
    page_size: int
    worker_threads: int
    retry_start_s: float
    retry_max_s: float
    reconcile_s: float
    resync_s: float
    hasty: float
    meddling: float
    inherits: bool
    array: ArrayHabits


ACTS: Final = {
    "move": 12,
    "share": 6,
    "unwant": 4,
    "recreate_attachment": 4,
    "drop_volume": 2,
    "want_volume_back": 3,
    "unregister": 2,
    "register": 4,
    "replace_machine": 1,
    "touch": 2,
    "hold": 4,
    "make_twin": 3,
    "make_foreign": 1,
    "tear_away": 1,
    "tear_in_mid_call": 6,
    "let_go": 4,
    "change_secret": 1,
    "drop_secret": 1,
    "restore_secret": 2,
    "restart_driver": 1,
    "take_away": 3,
    "kill_attacher": 1,
    "roll_attacher": 1,
    "swap_machine": 1,
    "tear_settled": 2,
}
"""What the actor can do, with weights."""

ACCIDENTS: Final = {
    "stop_attacher": 3,
    "back_up": 3,
    "set_back": 1,
}
"""Those that came with the world's habits (`accidents.py`)."""
_ACCIDENTS_SEED: Final = 7_000_003

_ALWAYS: Final = ("move", "share", "unwant", "want_volume_back", "register", "let_go", "restore_secret")


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    randomness = Random(seed)
    retry_start_s = randomness.uniform(0.1, 1.0)
    timeout_s = randomness.uniform(0.5, 3.0)
    server, still = server_habits(seed), stops(seed)
    return Plan(
        seed=seed,
        volumes=_with_namesake(
            seed, [_volume(randomness, number) for number in range(1 + randomness.below(3) + randomness.below(2))]
        ),
        nodes=tuple(f"node{number}" for number in range(2 + randomness.below(2))),
        lists_published=randomness.happens(0.5),
        single_node_multi_writer=randomness.happens(0.3),
        page_size=randomness.below(3),
        chaos_s=randomness.uniform(5.0, 30.0),
        pause_s=randomness.uniform(0.05, 0.8),
        timeout_s=timeout_s,
        worker_threads=1 + randomness.below(3),
        retry_start_s=retry_start_s,
        retry_max_s=retry_start_s * 2 ** randomness.below(5),
        reconcile_s=randomness.uniform(1.0, 10.0),
        resync_s=randomness.uniform(5.0, 30.0) if randomness.happens(0.3) else 0.0,
        **memory(randomness, 0.3),
        hasty=perhaps(randomness, 0.5, 0.1, 1.0),
        **deaths(randomness, 0.005, 0.1, 4, 2.0),
        api=api_faults(randomness),
        driver=driver_faults(randomness, timeout_s),
        acts=weighted(randomness, ACTS, _ALWAYS) + _accidents(seed, server, still),
        meddling=perhaps(randomness, 0.5, 0.1, 1.0),
        inherits=randomness.happens(0.1),
        server=server,
        array=array_habits(seed),
        stops=still,
    )


def _volume(randomness: Random, number: int) -> VolumePlan:
    return VolumePlan(
        name=f"pv{number}",
        handle=f"handle{number}",
        mode=MODES[randomness.below(len(MODES))],
        secret=randomness.happens(0.3),
        inline=randomness.happens(0.1),
    )


def _with_namesake(seed: int, volumes: list[VolumePlan]) -> tuple[VolumePlan, ...]:
    """In some lives a second PersistentVolume, written by hand, means the first volume."""
    first = volumes[0]
    if first.inline or first.secret or not Random(seed + _NAMESAKE_SEED).happens(0.15):
        return tuple(volumes)
    return (*volumes, dataclasses.replace(first, name=f"{first.name}{AGAIN}"))


def perhaps(randomness: Random, share: float, low: float, high: float) -> float:
    """Nothing in most lives, else something between low and high."""
    return randomness.uniform(low, high) if randomness.happens(share) else 0.0


def memory(randomness: Random, share: float) -> dict[str, Any]:
    """Of an API server. share: of lives in which it is short."""
    return {
        "history_max": 8 + randomness.below(32) if randomness.happens(share) else 10_000,
        "list_limit": 1 + randomness.below(3) if randomness.happens(share) else 0,
    }


def deaths(randomness: Random, low: float, high: float, most: int, away_s: float) -> dict[str, Any]:
    """Of processes, in most lives."""
    return {
        "crash": perhaps(randomness, 0.6, low, high),
        "crashes_max": 1 + randomness.below(most),
        "restart_s": randomness.uniform(0.0, away_s),
    }


def weighted(randomness: Random, weights: Mapping[str, int], always: Collection[str]) -> tuple[str, ...]:
    """The acts of a life, each as often as its weight says. Any but those of `always` may be missing."""
    chosen = [act for act in weights if act in always or randomness.happens(0.5)]
    return tuple(act for act in chosen for _ in range(weights[act]))


def api_faults(randomness: Random) -> ApiFaults:
    return ApiFaults(
        refused=perhaps(randomness, 0.4, 0.02, 0.3),
        lost=perhaps(randomness, 0.4, 0.02, 0.3),
        slow=perhaps(randomness, 0.5, 0.05, 0.5),
        stale=perhaps(randomness, 0.5, 0.05, 0.5),
        stale_s=randomness.uniform(0.05, 5.0),
        cut=perhaps(randomness, 0.4, 0.01, 0.1),
        gone=perhaps(randomness, 0.3, 0.1, 0.6),
    )


def driver_faults(randomness: Random, timeout_s: float) -> DriverFaults:
    return DriverFaults(
        failed=perhaps(randomness, 0.5, 0.05, 0.5),
        lost=perhaps(randomness, 0.5, 0.05, 0.5),
        hung=perhaps(randomness, 0.5, 0.05, 0.4),
        latency_s=randomness.uniform(0.0, timeout_s / 2),
    )


def _accidents(seed: int, server: ServerHabits, still: Stops) -> tuple[str, ...]:
    """The same of what befalls machines and servers, from a source of its own."""
    randomness = Random(seed + _ACCIDENTS_SEED)
    wanted = {"stop_attacher": still.still > 0, "back_up": server.set_back, "set_back": server.set_back}
    return tuple(
        act for act, count in ACCIDENTS.items() if wanted.get(act, randomness.happens(0.3)) for _ in range(count)
    )
