"""What no room can do, whatever mistake is in it: each part of the kit catches its fault in three rooms and more.

The faults are planted in functions of the rooms, or between the rooms and their servers. One that nothing stops ends
after FAULTS_MAX times, since at full speed time would never pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import pkgutil
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec
import pytest

from mooring.api.core import EVENTS, NODES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.apiserver.local import LocalCluster
from mooring.control import events
from mooring.control.decision import Decision, Read
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Result
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Request, WatchEvent
from mooring.kube.errors import Forbidden, Unreachable
from mooring.sidecars.provisioner import names
from mooring.wire.grpc.codes import Code
from tests.support.attachdetaching import AttachDetachWorld
from tests.support.binding import PV, PVC, BinderWorld, Tenant
from tests.support.builders import a_claim, a_volume
from tests.support.cluster_world import ClusterWorld
from tests.support.health import HealthWorld
from tests.support.provisioning import ProvisioningWorld
from tests.support.resizing import NODE_PENDING, ResizerWorld
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail
from tests.support.snapshot_driver import CREATE
from tests.support.snapshot_driver import DELETE as DELETE_SNAPSHOT
from tests.support.snapshotting import VS, VSC, SnapshotWorld
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import DELETE

pytestmark = in_virtual_time

LOOK_S: Final = 0.01
KEPT: Final = "example.com/kept"
FAULTS_MAX: Final = 1000
TEN_MINUTES_S: Final = 600.0
QUIET_S: Final = 605.3
STUCK_S: Final = 30.0
"""After this a room will not come to an end with its work any more."""
ROUNDS_MAX: Final = 75
"""Of a key that goes round for ten minutes: it is held for 10 s each time in the end."""


# -- rooms, and what each of them works on


class Room(Protocol):
    """world: the one that the room is in. running: the room runs. work: gives it an object of this number, and returns
    once the room has done all that it does with one.
    """

    @property
    def world(self) -> ClusterWorld: ...

    def running(self) -> contextlib.AbstractAsyncContextManager[None]: ...

    async def work(self, number: int) -> None: ...


class Health:
    """Node health: a pod is evicted."""

    def __init__(self) -> None:
        self.tenant = HealthWorld()
        self.tenant.look_s = LOOK_S
        self.world = self.tenant.ours

    @classmethod
    def failing(cls) -> Health:
        """No pod can be deleted."""
        room = cls()
        room.world.cluster.refuse("delete pods", times=None)
        return room

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.tenant.working():
            yield

    async def work(self, number: int) -> None:
        node, pod = f"n{number}", f"pod{number}"
        await self.tenant.add_node(node, **{"kubernetes.io/os": "linux"})
        await self.tenant.add_pod(pod, node)
        await self.tenant.taint(node, {"key": "maintenance", "effect": "NoExecute"})
        await self.tenant.until_leaving(pod)

    async def lose_a_node(self) -> None:
        """Its pod is removed by force."""
        await self.tenant.add_node("n1")
        await self.tenant.add_pod("pod1", "n1")
        await self.tenant.silence("n1")
        await self.tenant.delete(NODES, "n1")

    async def destroyed(self) -> int:
        """Pods that were removed."""
        return 1 - len((await self.world.users.list(PODS)).items)

    async def silence_a_node(self) -> None:
        """Its conditions become Unknown."""
        await self.tenant.add_node("n1")
        await self.tenant.silence("n1")


class Binder:
    """The binder: a claim gets a volume, and a pod with it a node."""

    def __init__(self) -> None:
        self.world = BinderWorld()
        self.tenant = Tenant(self.world.users, wait_s=self.world.wait_s)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.world.binding() as self.tenant:
            await self.tenant.make_node()
            yield

    async def work(self, number: int) -> None:
        name = f"c{number}"
        await self.world.create(a_volume(name, sc=name), a_claim(name, sc=name))
        await self.tenant.bound(name, name)
        await self.tenant.make_pod(name, base=f"pod{number}")
        await self.tenant.scheduled(self.tenant(f"pod{number}"), self.tenant("n1"))


class Resizing:
    """The resizer: a claim grows."""

    def __init__(self) -> None:
        self.world = ResizerWorld()
        self.world.look_s = LOOK_S

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.world.resizing():
            yield

    async def work(self, number: int) -> None:
        name = f"c{number}"
        await self.world.volume(2, 1, name=name)
        await self.world.state_is(1, 2, NODE_PENDING, 2, name)


class Snapshots:
    """Both programs of snapshots: one is made, and deleted."""

    def __init__(self) -> None:
        self.world = SnapshotWorld()
        self.world.look_s = LOOK_S

    @classmethod
    def failing(cls) -> Snapshots:
        """The driver makes none."""
        room = cls()
        room.world.driver.always(CREATE, Fail(Code.INTERNAL, "no"))
        return room

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.world.base()
        async with self.world.both():
            yield

    async def work(self, number: int) -> None:
        name = f"snap{number}"
        await self.world.snap(name)
        await self.world.ready(name)
        await self.world.remove(VS, name)

    async def destroyed(self) -> int:
        return len(self.world.driver.made(DELETE_SNAPSHOT))


class Provisioning:
    """The provisioner: a claim gets a volume, which is deleted once it is released. The other controllers' part is
    done by hand.
    """

    def __init__(self) -> None:
        self.world = ProvisioningWorld()

    @classmethod
    def failing(cls) -> Provisioning:
        """The driver deletes none."""
        room = cls()
        room.world.driver.always(DELETE, Fail(Code.INTERNAL, "no"))
        return room

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.world.make_class()
        async with self.world.provisioning():
            yield

    async def work(self, number: int) -> None:
        world, claim = self.world, f"c{number}"
        uid = (await world.make_claim(claim))["metadata"]["uid"]
        name = (await world.volume(f"pvc-{uid}"))["metadata"]["name"]
        await world.patch(PV, name, {"metadata": {"finalizers": [KEPT]}})
        await self._is(name, "Bound", {KEPT, names.VOLUME_FINALIZER})
        await world.delete_claim(claim)
        await self._is(name, "Released", {KEPT})

    async def destroyed(self) -> int:
        return len(self.world.driver.made(DELETE))

    async def _is(self, name: str, phase: str, finalizers: set[str]) -> None:
        """It comes to a phase; that the room has these finalizers on it then."""
        await self.world.patch(PV, name, {"status": {"phase": phase}}, subresource="status")
        await self.world.shown(
            PV, name, lambda pv: set(pv["metadata"]["finalizers"]) == finalizers, f"{phase}, {finalizers}"
        )


# -- no room goes round at full speed


Wrong: TypeAlias = Callable[["Fault", Any], Any]
"""Makes another function of a function of a room."""


class Fault:
    """A mistake in functions of a room, by their places. times: how often it was made."""

    def __init__(self, wrongs: dict[str, Wrong]) -> None:
        self._wrongs, self.times = wrongs, 0
        self.kept: Decision[Any] | None = None

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for place, wrong in self._wrongs.items():
            where = f"mooring.{place}"
            monkeypatch.setattr(where, wrong(self, pkgutil.resolve_name(where)))

    def happens(self) -> bool:
        self.times += 1
        return self.times <= FAULTS_MAX


class Nothing:
    """In place of the actions of a decision that has none."""


def decides_for_ever(action: str, **changes: Any) -> Wrong:
    """The first decision with this action is taken again and again. changes: in it."""

    def wrong(fault: Fault, decide: Callable[..., Decision[Any]]) -> Callable[..., Decision[Any]]:
        def decides(*args: Any, **kwargs: Any) -> Decision[Any]:
            decision = decide(*args, **kwargs)
            if fault.kept is None and action in (type(one).__name__ for one in decision.actions or (Nothing(),)):
                fault.kept = msgspec.structs.replace(decision, **{"again": True, **changes})
            return fault.kept if fault.kept is not None and fault.happens() else decision

        return decides

    return wrong


def says_again(fault: Fault, reconcile: Callable[..., Awaitable[Result]]) -> Callable[..., Awaitable[Result]]:
    """It has done all, and there is more to do."""

    async def reconciles(*args: Any) -> Result:
        result = await reconcile(*args)
        return msgspec.structs.replace(result, again=True) if fault.happens() else result

    return reconciles


def wakes_itself(queue: str) -> Wrong:
    """Whatever comes of its actions, it takes a write of its own for news, and cuts its back-off short. queue: the
    room's name of it.
    """

    def wrong(fault: Fault, perform: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def performs(self: Any, key: Any, decision: Decision[Any]) -> Any:
            try:
                result = await perform(self, key, decision)
            finally:
                if decision.actions and fault.happens():
                    getattr(self, queue).add(key)
            return msgspec.structs.replace(result, again=False) if isinstance(result, Result) else result

        return performs

    return wrong


NODES_DECIDED, NODES_DONE = (
    f"cluster.nodehealth.lifecycle.controller.{one}" for one in ("decide_node", "NodeLifecycle._perform")
)
EVICTION_DECIDED, EVICTION_DONE = (
    f"cluster.nodehealth.eviction.controller.{one}" for one in ("decide_eviction", "TaintEviction._perform")
)
BINDING_DECIDED, BINDING_DONE = (
    f"cluster.binder.volumes.controller.{one}" for one in ("decide_claim", "VolumeBinding._perform_claim")
)
DELETION_DECIDED, DELETION_DONE, DECIDED_AGAIN = (
    f"sidecars.provisioner.deletion.{one}"
    for one in ("controller.decide_deletion", "controller.VolumeDeletion._perform", "decide.decide_deletion")
)
SNAPSHOT_DECIDED, SNAPSHOT_DONE = (
    f"sidecars.snapshotter.controller.{one}" for one in ("decide_content", "ContentController._perform")
)
PROTECTION_DECIDED = "cluster.snapshots.controller.decide_claim"
GROWTH_DECIDED = "sidecars.resizer.expansion.reconcile.decide_expansion"
CLAIM_DONE = "sidecars.provisioner.claims.controller.ClaimController._reconcile"

WRITES: Final = [
    (
        Health,
        {NODES_DECIDED: decides_for_ever("SetLabels", again=False), NODES_DONE: wakes_itself("_nodes")},
        'Node="n1"',
    ),
    (
        Binder,
        {BINDING_DECIDED: decides_for_ever("Bind", again=False), BINDING_DONE: wakes_itself("_claims")},
        'PersistentVolumeClaim="default/c1"',
    ),
    (Provisioning, {DELETION_DECIDED: decides_for_ever("Hold"), DELETION_DONE: wakes_itself("controller")}, "pvc-"),
]
CALLS: Final = [
    # Its writes before and after the call have another time each second.
    (Resizing, {GROWTH_DECIDED: decides_for_ever("Expand")}, 'PersistentVolumeClaim="default/c1"'),
    (
        Snapshots,
        {SNAPSHOT_DECIDED: decides_for_ever("Delete"), SNAPSHOT_DONE: wakes_itself("controller")},
        "snapcontent-",
    ),
    (
        Provisioning,
        {
            DELETION_DECIDED: decides_for_ever("DeleteVolume"),
            DECIDED_AGAIN: decides_for_ever("DeleteVolume"),
            DELETION_DONE: wakes_itself("controller"),
        },
        "pvc-",
    ),
]
NOTHING_DONE: Final = [
    (Health, {EVICTION_DECIDED: decides_for_ever("Nothing", again=False, after_s=0.0)}, 'Pod="default/pod1"'),
    (Snapshots, {PROTECTION_DECIDED: decides_for_ever("ReleaseClaim")}, 'PersistentVolumeClaim="default/claim"'),
    (Provisioning, {CLAIM_DONE: says_again}, "uid="),
]
FAILURES: Final = [
    (Health.failing, {EVICTION_DONE: wakes_itself("controller")}, 'Pod="default/pod1"'),
    (Snapshots.failing, {SNAPSHOT_DONE: wakes_itself("controller")}, "snapcontent-"),
    (Provisioning.failing, {DELETION_DONE: wakes_itself("controller")}, "pvc-"),
]


@each_row(("make", "wrongs", "named"), [*WRITES, *CALLS, *NOTHING_DONE, *FAILURES])
async def test_no_room_goes_round_at_full_speed(
    make: Callable[[], Room],
    wrongs: dict[str, Wrong],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fault = Fault(wrongs)
    fault.plant(monkeypatch)
    room = make()
    async with room.running():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(room.work(1), STUCK_S)
        await asyncio.sleep(TEN_MINUTES_S - STUCK_S)
    samples = [one for family in room.world.metrics.registry.collect() for one in family.samples]
    assert 50 < sum(one.value for one in samples if one.name == "mooring_workqueue_held_total") < ROUNDS_MAX
    assert fault.times < 4 * ROUNDS_MAX, "some faults happen four times in each round"
    [line] = [message for message in caplog.messages if "the key is held back" in message]
    assert named in line


# -- no room destroys by its cache alone


class Detaching:
    """Attach/detach: a volume is taken by force from a node that is out of service."""

    def __init__(self) -> None:
        self.world = AttachDetachWorld()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.world.controlling():
            yield

    async def force(self) -> None:
        volume = await self.world.volume()
        node, pod = await self.world.attached(volume)
        await self.world.set_in_use(node, volume)
        await self.world.delete_pod(pod)
        await self.world.taint(node)

    async def destroyed(self) -> int:
        return len(self.world.of("delete volumeattachments"))


def reads_nothing(fault: Fault, reads: Callable[..., Sequence[Read]]) -> Callable[..., Sequence[Read]]:
    """The room forgets what it has to read, where it would read something."""

    def nothing(*args: Any) -> Sequence[Read]:
        fault.times += bool(reads(*args))
        return ()

    return nothing


DESTROYING: Final = [
    (Health, Health.lose_a_node, "cluster.nodehealth.podgc.controller.PodCollector._reads"),
    (Detaching, Detaching.force, "cluster.attachdetach.reconcile.Reconciler._reads"),
    (Provisioning, None, "sidecars.provisioner.deletion.controller.VolumeDeletion._reads"),
    (Snapshots, None, "sidecars.snapshotter.controller.ContentController._reads"),
]


@each_row("is_planted", [False, True])
@each_row(("make", "begin", "place"), DESTROYING)
async def test_no_room_destroys_by_its_cache_alone(
    make: Callable[[], Any],
    begin: Callable[[Any], Awaitable[None]] | None,
    place: str,
    is_planted: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fault = Fault({place: reads_nothing})
    if is_planted:
        fault.plant(monkeypatch)
    room = make()
    async with room.running():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(room.work(1) if begin is None else begin(room), STUCK_S)
        await asyncio.sleep(TEN_MINUTES_S)
        assert (await room.destroyed() > 0) != is_planted
    assert (fault.times > 0) == is_planted
    assert ("would destroy something by the cache alone" in caplog.text) == is_planted


# -- no room writes late


@each_row("is_fenced", [True, False])
@each_row(
    ("make", "begin", "short", "kind"),
    [
        (Health, Health.lose_a_node, "delete pods", PODS),
        (Health, Health.lose_a_node, "patch pods/status", PODS),
        (Health, None, "patch pods/status", PODS),
        (Health, Health.silence_a_node, "patch nodes/status", NODES),
        (Binder, None, "update persistentvolumes", PV),
        (Resizing, None, "patch persistentvolumeclaims/status", PVC),
        (Snapshots, None, "patch volumesnapshotcontents", VSC),
    ],
)
async def test_no_room_writes_late(
    make: Callable[[], Any],
    begin: Callable[[Any], Awaitable[None]] | None,
    short: str,
    kind: Kind[Any],
    is_fenced: bool,
) -> None:
    """A process dies while a write is under way, which is carried out a minute later. The next process fences the
    object.
    """
    room = make()
    world: ClusterWorld = room.world
    lost = world.cluster.refuse(short, error=Unreachable("no answer"), late_s=60.0)

    async def is_lost() -> bool:
        return lost.hits > 0

    async with room.running():
        work = asyncio.ensure_future(room.work(1) if begin is None else begin(room))
        await world.until(is_lost, what=short)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
    [obj] = (await world.users.list(kind)).items
    if is_fenced:
        cache = Informer(world.users, kind, clock=world.clock, randomness=world.randomness)
        obj = await ObjectWriter(world.users, kind, cache).fence(obj)
    await asyncio.sleep(61.0)
    found = list((await world.users.list(kind)).items)
    assert (found == [obj]) == is_fenced


# -- no room waits for its events


async def refused() -> None:
    raise Forbidden("no Events", reason="Forbidden")


async def unanswered() -> None:
    await asyncio.Event().wait()


async def took_s(room: Room, number: int) -> float:
    began = asyncio.get_running_loop().time()
    await room.work(number)
    return asyncio.get_running_loop().time() - began


NUMBERS: Final = range(5)
ROOMS: Final = [Health, Binder, Resizing, Snapshots, Provisioning]


async def usual_s(make: Callable[[], Room]) -> list[float]:
    """The seconds that work takes with healthy servers."""
    room = make()
    async with room.running():
        return [await took_s(room, number) for number in NUMBERS]


@each_row("make", ROOMS)
@each_row("ends", [refused, unanswered])
async def test_no_room_waits_for_its_events(
    make: Callable[[], Room], ends: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor for room among those that wait: there is none for most of them."""
    usual, ask, written = await usual_s(make), LocalCluster.ask, []

    async def asked(self: LocalCluster, request: Request) -> Any:
        if request.writes and request.kind.plural == EVENTS.plural:
            written.append(request)
            await ends()
        return await ask(self, request)

    monkeypatch.setattr(LocalCluster, "ask", asked)
    monkeypatch.setattr(events, "WAITING_MAX", 1)
    room = make()
    async with room.running():
        assert [await took_s(room, number) for number in NUMBERS] == pytest.approx(usual, abs=0.05)
    assert written, "there were some"


# -- no room goes blind


def cut_when_quiet(monkeypatch: pytest.MonkeyPatch, quiet_s: float) -> None:
    """A proxy cuts each watch that has told nothing for a while."""
    watch = LocalCluster.watch

    async def cut(self: LocalCluster, *args: Any, **kwargs: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        async with contextlib.aclosing(watch(self, *args, **kwargs)) as shown:
            while True:
                try:
                    async with asyncio.timeout(quiet_s):
                        event = await anext(shown)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise Unreachable("the connection was cut") from None
                yield event

    monkeypatch.setattr(LocalCluster, "watch", cut)


@each_row("make", ROOMS)
async def test_no_room_goes_blind(make: Callable[[], Room], monkeypatch: pytest.MonkeyPatch) -> None:
    """It sees what there is to do as soon as ever, whenever that comes."""
    usual = await usual_s(make)
    cut_when_quiet(monkeypatch, 10.0)  # the embedded server sends a bookmark every 15 s
    room, found = make(), []
    async with room.running():
        for number in NUMBERS:
            await asyncio.sleep(QUIET_S)
            found.append(await took_s(room, number))
    assert found == pytest.approx(usual, abs=0.05)
