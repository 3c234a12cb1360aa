"""Sources stay while volumes are made from them, and go when the last one is done: in process, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Kind
from mooring.api.snapshot import GROUP, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.apiserver.local import ServerFaults
from mooring.control.secrets import SecretCache
from mooring.control.topics import Bus
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.in_process import InProcessDriver
from mooring.kube.errors import ApiError, Conflict, Forbidden, NotFound, ServerError, Unreachable
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.environment import Environment, ProvisionerCaches
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import Source, concerns_claims
from mooring.sidecars.provisioner.options import ProvisionerOptions
from mooring.sidecars.provisioner.source_protection.controller import SourceProtection
from tests.support.builders import a_claim, a_content, a_pv, a_snapshot
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import VolumeDriver

pytestmark = in_virtual_time
PUT_CLAIM, PUT_SNAPSHOT = "update persistentvolumeclaims", "update volumesnapshots"
SNAPSHOT = Source("VolumeSnapshot", GROUP, "ns", "snap")
CLAIM = Source("PersistentVolumeClaim", "", "ns", "source")
INTERVAL_S = 300.0
DEFINITIONS: Kind[Any] = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict
)


class ProtectionWorld(ClusterWorld):
    def __init__(self, faults: ServerFaults | None = None, **options: Any) -> None:
        super().__init__(faults)
        self.due: set[str] = set()
        self.bus = Bus()
        self.facts = DriverCapabilities("csi.test", snapshots=True, clones=True)
        self.journal_says: Callable[[SourceProtection], None] | None = lambda protection: None  # None: it can't be read
        self.options = ProvisionerOptions(**{"snapshot_orphan_sweep_interval_s": INTERVAL_S, **options})

    @contextlib.asynccontextmanager
    async def protecting(
        self, on_snapshot: Callable[[str], None] = lambda name: None
    ) -> AsyncIterator[SourceProtection]:
        caches = ProvisionerCaches(self.runtime, self.facts, self.options)
        port, secrets = InProcessDriver(VolumeDriver(), clock=self.clock), SecretCache(self.cluster, self.clock)
        env = Environment(self.runtime, port, self.facts, self.options, caches, self.recorder, secrets, self.bus)

        async def journal_read() -> None:
            if self.journal_says is None:
                raise Unreachable("connection reset")
            self.journal_says(protection)

        protection = SourceProtection(env, lambda claim: claim.metadata.uid in self.due, journal_read)
        caches.snapshots.on_change(lambda change: on_snapshot(str(change.key)) if concerns_claims(change) else None)

        async def work() -> None:
            await asyncio.gather(protection.controller.run(), *(one.run() for one in protection.beside.values()))

        async with self.running_on(caches.shared, work):
            yield protection

    # -- objects

    async def claim(
        self,
        name: str,
        source: Mapping[str, Any] | None = None,
        *,
        namespace: str = "ns",
        phase: str = "Pending",
        due: bool = False,
    ) -> str:
        """Its uid. due: a volume is to be made for it."""
        made = await self.create(a_claim(name, dataSource=source, namespace=namespace, status={"phase": phase}))
        await self.patch(PERSISTENT_VOLUME_CLAIMS, name, {"metadata": {"finalizers": None}}, namespace)
        uid = str(made["metadata"]["uid"])
        self.due |= {uid} if due else set()
        return uid

    async def bind(self, name: str) -> None:
        await self.patch(PERSISTENT_VOLUME_CLAIMS, name, {"status": {"phase": "Bound"}}, "ns", "status")

    async def snapshot(
        self, name: str = "snap", *finalizers: str, driver: str = "csi.test", content: bool = True
    ) -> None:
        await self.create(
            a_snapshot(name, content=name if content else None, namespace="ns", finalizers=list(finalizers))
        )
        if content:
            await self.create(a_content(name, {"namespace": "ns", "name": name}, driver=driver))

    async def finalizers(self, of: Source = SNAPSHOT, name: str = "", after_s: float = 0.0) -> list[str]:
        if after_s:
            await self.settle(after_s)
        kind = VOLUME_SNAPSHOTS if of.is_snapshot else PERSISTENT_VOLUME_CLAIMS
        found: list[str] = (await self.get(kind.whole(), name or of.name, of.namespace))["metadata"].get(
            "finalizers", []
        )
        return found

    def puts(self) -> list[str]:
        return [step for step in self.story if not step.startswith("get ")]


def from_snapshot(name: str = "snap") -> dict[str, str]:
    return {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": name}


def from_claim(name: str = "source") -> dict[str, str]:
    return {"kind": "PersistentVolumeClaim", "name": name}


async def with_snapshot(world: ProtectionWorld | None = None, *finalizers: str, **more: Any) -> ProtectionWorld:
    world = world or ProtectionWorld()
    await world.make_snapshot_kinds()
    await world.snapshot("snap", *finalizers, **more)
    return world


# -- snapshots


@pytest.fixture
async def world() -> ProtectionWorld:
    return await with_snapshot()


async def test_P50_a_snapshot_is_held_before_and_let_go_at_once_after(world: ProtectionWorld):
    uid = await world.claim("c", from_snapshot())
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, uid)
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers()
        await protection.hold(SNAPSHOT, uid)
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers(after_s=1000)
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, uid)
        assert [] == await world.finalizers(after_s=0.1)
    assert [PUT_SNAPSHOT, PUT_SNAPSHOT] == world.puts()


@each_row("first", ["bound", "waits to be bound"])
async def test_P50_the_first_of_two_claims_leaves_the_protection_to_the_second(first: str):
    world = await with_snapshot()
    one, two = [await world.claim(name, from_snapshot()) for name in ("one", "two")]
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, one)
        await protection.hold(SNAPSHOT, two)
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, one)
        if first == "bound":
            await world.bind("one")
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers(after_s=1000)
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, two)
        assert [] == await world.finalizers(after_s=0.1)


async def test_P50_a_claim_whose_turn_has_not_come_counts_until_it_is_deleted(world: ProtectionWorld):
    uid = await world.claim("one", from_snapshot())
    await world.claim("other", from_snapshot(), due=True)
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, uid)
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, uid)
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers(after_s=1000)
        await world.delete(PERSISTENT_VOLUME_CLAIMS, "other", "ns")
        assert [] == await world.finalizers(after_s=0.1)


async def test_P50_a_claim_that_waits_for_something_else_holds_nothing(world: ProtectionWorld):
    """For its first consumer, a class, another driver: perhaps for ever."""
    uid = await world.claim("one", from_snapshot())
    await world.claim("other", from_snapshot())
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, uid)
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, uid)
        assert [] == await world.finalizers(after_s=0.1)


async def test_P50_a_claim_that_begins_to_wait_for_something_else_lets_go(world: ProtectionWorld):
    uid = await world.claim("one", from_snapshot())
    other = await world.claim("other", from_snapshot(), due=True)
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, uid)
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, uid)
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers(after_s=1000)
        world.due.discard(other)  # the scheduler took its node back
        await world.patch(PERSISTENT_VOLUME_CLAIMS, "other", {"metadata": {"annotations": {"no": "node"}}}, "ns")
        assert [] == await world.finalizers(after_s=0.1)


async def test_P50_a_finalizer_that_the_process_before_left_goes_with_the_volume_that_the_journal_names(
    world: ProtectionWorld,
):
    """It was killed between the POST of the PersistentVolume and the removal of the finalizer."""
    uid = await world.claim("c", from_snapshot(), due=True)
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, uid)
    await world.bind("c")
    async with world.protecting() as protection:
        protection.adopt(SNAPSHOT, uid)
        await world.settle(1)
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers()
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, uid)
        assert [] == await world.finalizers(after_s=0.1)


async def test_a_stray_finalizer_of_a_deleted_snapshot_whose_content_is_gone_goes_at_once():
    world = ProtectionWorld()
    await world.make_snapshot_kinds()
    await world.snapshot("snap", names.SNAPSHOT_FINALIZER)
    await world.snapshot("kept", names.SNAPSHOT_FINALIZER)
    for name in ("snap", "kept"):
        await world.delete(VOLUME_SNAPSHOTS, name, "ns")
    await world.delete(VOLUME_SNAPSHOT_CONTENTS, "snap")
    async with world.protecting():
        await world.settle(1)
        assert await world.find(VOLUME_SNAPSHOTS, "snap", "ns") is None
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers(name="kept", after_s=INTERVAL_S - 10)


async def test_P50_a_volume_in_the_making_counts_though_its_claim_is_gone(world: ProtectionWorld):
    uid = await world.claim("c", from_snapshot())
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, uid)
        await world.delete(PERSISTENT_VOLUME_CLAIMS, "c", "ns")
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers(after_s=1000)
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, uid)
        assert [] == await world.finalizers(after_s=0.1)


async def test_P50_a_volume_that_never_will_be_needs_nothing(world: ProtectionWorld):
    gone, waiting = [await world.claim(name, from_snapshot(), due=True) for name in ("gone", "waiting")]
    async with world.protecting() as protection:
        for uid in (gone, waiting):
            await protection.hold(SNAPSHOT, uid)
        await world.delete(PERSISTENT_VOLUME_CLAIMS, "gone", "ns")
        for uid in (gone, waiting, "unknown"):
            world.bus.tell(topics.SOURCE_FREE, uid)
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers(after_s=1000), (
            "one claim still waits for its volume"
        )
        await world.delete(PERSISTENT_VOLUME_CLAIMS, "waiting", "ns")
        assert [] == await world.finalizers(after_s=0.1)


async def test_P50_a_hold_that_comes_while_the_finalizer_goes_puts_it_back():
    class Slow(ServerFaults):
        async def before(self, verb: str, kind: Any, name: str) -> None:
            await asyncio.sleep(0.2 if verb in ("get", "replace") else 0)

    world = await with_snapshot(ProtectionWorld(Slow()))
    one, two = [await world.claim(name, from_snapshot()) for name in ("one", "two")]
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "two", {"status": {"phase": "Bound"}}, "ns", "status")
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, one)
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, one)
        await asyncio.sleep(0.1)
        await protection.hold(SNAPSHOT, two)
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers()
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers(after_s=1000)


async def test_P53_what_others_hold_stays_theirs():
    world = await with_snapshot(None, "kit/hold", names.SNAPSHOT_FINALIZER)
    uid = await world.claim("c", from_snapshot())
    await world.delete(VOLUME_SNAPSHOTS, "snap", "ns")
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, uid)
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, uid)
        assert ["kit/hold"] == await world.finalizers(after_s=0.5)
    assert [PUT_SNAPSHOT] == world.puts()


async def test_P50_without_the_right_to_hold_a_snapshot_it_goes_on(world: ProtectionWorld):
    world.cluster.refuse(PUT_SNAPSHOT, error=Forbidden("no", reason="Forbidden"))
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, "uid")


@each_row("error", [NotFound("gone", reason="NotFound"), ServerError("busy")])
async def test_P50_what_keeps_a_source_from_being_held_is_told(error: ApiError):
    world = await with_snapshot()
    world.cluster.refuse("get volumesnapshots", error=error)
    async with world.protecting() as protection:
        with pytest.raises(type(error)):
            await protection.hold(SNAPSHOT, "uid")


@each_row(("conflicts", "is_held"), [(4, True), (5, False)])
async def test_P50_who_was_slower_tries_again(conflicts: int, is_held: bool):
    world = await with_snapshot()
    world.cluster.refuse(PUT_SNAPSHOT, times=conflicts, error=Conflict("newer", reason="Conflict"))
    async with world.protecting() as protection:
        with contextlib.nullcontext() if is_held else pytest.raises(Conflict):
            await protection.hold(SNAPSHOT, "uid")


async def test_P50_letting_go_is_tried_until_it_works(world: ProtectionWorld):
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, "uid")
        world.cluster.refuse(PUT_SNAPSHOT, times=3, error=ServerError("busy"))
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, "uid")
        assert [] == await world.finalizers(after_s=20)


# -- the sweep


async def test_P53_a_stray_finalizer_goes_after_an_interval_in_which_nobody_needs_it():
    world = await with_snapshot(None, names.SNAPSHOT_FINALIZER, "kit/hold")
    async with world.protecting():
        await world.settle(INTERVAL_S - 1)
        assert [] == world.puts()
        assert ["kit/hold"] == await world.finalizers(after_s=2)
    assert [PUT_SNAPSHOT] == world.puts()


async def test_P53_a_finalizer_that_somebody_needs_is_no_stray():
    world = await with_snapshot(None, names.SNAPSHOT_FINALIZER)
    await world.claim("c", from_snapshot())
    async with world.protecting():
        await world.settle(10 * INTERVAL_S)
        assert [] == world.puts()
        await world.bind("c")
        await world.settle(INTERVAL_S - 1)
        assert [] == world.puts()
        await world.settle(2)
        assert [PUT_SNAPSHOT] == world.puts()


async def test_P53_need_that_comes_and_goes_starts_the_interval_anew():
    world = await with_snapshot(None, names.SNAPSHOT_FINALIZER)
    async with world.protecting():
        await world.settle(INTERVAL_S - 10)
        await world.claim("c", from_snapshot())
        await world.settle(5)
        await world.bind("c")
        await world.settle(INTERVAL_S - 10)
        assert [] == world.puts()


async def test_P53_strays_of_another_driver_are_its_provisioners_business():
    """That one may know of a volume in the making whose claim is gone. The peer sweeps them all."""
    world = await with_snapshot(None, names.SNAPSHOT_FINALIZER, driver="other")
    await world.snapshot("bare", names.SNAPSHOT_FINALIZER, content=False)
    async with world.protecting():
        assert [names.SNAPSHOT_FINALIZER] == await world.finalizers(after_s=3 * INTERVAL_S)
        assert [] == await world.finalizers(name="bare")


async def test_P53_an_interval_of_zero_turns_the_sweep_off_and_asks_for_nothing():
    world = await with_snapshot(ProtectionWorld(snapshot_orphan_sweep_interval_s=0.0), names.SNAPSHOT_FINALIZER)
    async with world.protecting() as protection:
        await world.settle(1000)
        assert [] == world.story
        await world.snapshot("two")
        two = Source("VolumeSnapshot", GROUP, "ns", "two")
        await protection.hold(two, "uid")
        world.bus.tell(topics.SOURCE_DONE, two, "uid")
        await world.settle()
        assert [] == await world.finalizers(two)


class Asked(ServerFaults):
    """Counts what is asked about snapshots."""

    def __init__(self) -> None:
        self.count = 0

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        self.count += kind.plural == "volumesnapshots"


async def test_P53_a_cluster_without_snapshots_is_left_alone_and_they_are_seen_when_they_come(
    capsys: pytest.CaptureFixture[str],
):
    """Not a request every ten seconds for ever, and not a line for each."""
    asked = Asked()
    world, seen = ProtectionWorld(asked), list[str]()
    async with world.protecting(seen.append):
        await world.settle(3600)
        assert asked.count < 3600 / 30
        lines = [line for line in capsys.readouterr().err.splitlines() if "volumesnapshots" in line]
        assert ["The API server does not serve this kind"] == [
            line.split('"')[1].partition(",")[0] for line in lines
        ], lines
        await with_snapshot(world, names.SNAPSHOT_FINALIZER)
        await world.settle(61)
        assert ["ns/snap"] == seen, "claims that wait for it are woken"
        assert [] == await world.finalizers(after_s=INTERVAL_S + 1)


async def test_P50_a_source_whose_kind_has_gone_is_not_let_go_of_for_ever():
    """Who deletes a definition deletes all of its objects."""
    asked = Asked()
    world = await with_snapshot(ProtectionWorld(asked, snapshot_orphan_sweep_interval_s=0.0))
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, "uid")
        await world.patch(VOLUME_SNAPSHOTS, "snap", {"metadata": {"finalizers": None}}, "ns")
        await world.delete(DEFINITIONS, f"volumesnapshots.{GROUP}")
        await world.settle(1)
        before = asked.count
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, "uid")
        await world.settle(3600)
        assert 1 == asked.count - before


@each_row(("error", "sweeps"), [(Forbidden("no", reason="Forbidden"), False), (ServerError("busy"), True)])
async def test_P53_without_the_right_to_list_there_is_no_sweep(error: ApiError, sweeps: bool):
    class Refuses(ServerFaults):
        hits = 0

        async def before(self, verb: str, kind: Any, name: str) -> None:
            if verb == "list" and kind.plural == "volumesnapshots" and self.hits < (1 if sweeps else 1000):
                self.hits += 1
                raise error

    world = await with_snapshot(ProtectionWorld(Refuses()), names.SNAPSHOT_FINALIZER)
    async with world.protecting():
        await world.settle(2 * INTERVAL_S)
        assert sweeps == ([] == await world.finalizers())


# -- clones


async def test_P56_the_source_of_a_clone_is_held_once():
    world = ProtectionWorld()
    await world.claim("source", phase="Bound")
    uid = await world.claim("c", from_claim())
    async with world.protecting() as protection:
        await protection.hold(CLAIM, uid)
        await protection.hold(CLAIM, uid)
        assert [names.CLONE_FINALIZER] == await world.finalizers(CLAIM)
        world.bus.tell(topics.SOURCE_DONE, CLAIM, uid)
        await world.bind("c")
        await world.settle()
        assert [names.CLONE_FINALIZER] == await world.finalizers(CLAIM), (
            "it is in nobody's way until the source is deleted"
        )
    assert [PUT_CLAIM] == world.puts()


async def test_P61_a_deleted_source_goes_the_moment_its_last_clone_is_bound():
    world = ProtectionWorld()
    await world.claim("source", phase="Bound")
    one, _ = [await world.claim(name, from_claim()) for name in ("one", "two")]
    async with world.protecting() as protection:
        await protection.hold(CLAIM, one)
        await world.delete(PERSISTENT_VOLUME_CLAIMS, "source", "ns")
        world.bus.tell(topics.SOURCE_DONE, CLAIM, one)
        await world.bind("two")
        await world.settle(1000)
        assert [names.CLONE_FINALIZER] == await world.finalizers(CLAIM), "a clone that is made counts until it is bound"
        await world.bind("one")
        await world.gone(PERSISTENT_VOLUME_CLAIMS, "source", "ns", wait_s=0.2)
    assert [PUT_CLAIM, PUT_CLAIM] == world.puts()


async def test_P61_the_peers_finalizer_without_clones_goes_at_once():
    world = ProtectionWorld()
    await world.claim("source", phase="Bound")
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "source", {"metadata": {"finalizers": [names.CLONE_FINALIZER]}}, "ns")
    async with world.protecting():
        await world.settle(1000)
        assert [] == world.puts()
        await world.delete(PERSISTENT_VOLUME_CLAIMS, "source", "ns")
        await world.gone(PERSISTENT_VOLUME_CLAIMS, "source", "ns", wait_s=0.2)


async def test_P61_no_finalizer_goes_before_the_journal_has_told_who_was_making_a_clone():
    """The claim of that clone may be gone."""
    world = ProtectionWorld()
    await world.claim("source", phase="Bound")
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "source", {"metadata": {"finalizers": [names.CLONE_FINALIZER]}}, "ns")
    await world.delete(PERSISTENT_VOLUME_CLAIMS, "source", "ns")
    world.journal_says = None
    async with world.protecting():
        await world.settle(100)
        assert [names.CLONE_FINALIZER] == await world.finalizers(CLAIM)
        world.journal_says = lambda protection: protection.adopt(CLAIM, "uid-of-the-clone")
        await world.settle(1000)
        assert [names.CLONE_FINALIZER] == await world.finalizers(CLAIM)
        world.journal_says = lambda protection: None
        world.bus.tell(topics.SOURCE_DONE, CLAIM, "uid-of-the-clone")
        await world.gone(PERSISTENT_VOLUME_CLAIMS, "source", "ns", wait_s=0.2)


async def test_P61_a_clone_in_the_making_counts_though_its_claim_is_gone():
    world = ProtectionWorld()
    await world.claim("source", phase="Bound")
    uid = await world.claim("c", from_claim())
    async with world.protecting() as protection:
        await protection.hold(CLAIM, uid)
        await world.delete(PERSISTENT_VOLUME_CLAIMS, "c", "ns")
        await world.delete(PERSISTENT_VOLUME_CLAIMS, "source", "ns")
        await world.settle(1000)
        assert [names.CLONE_FINALIZER] == await world.finalizers(CLAIM)
        world.bus.tell(topics.SOURCE_DONE, CLAIM, uid)
        await world.gone(PERSISTENT_VOLUME_CLAIMS, "source", "ns", wait_s=0.2)


@each_row(
    ("driver", "clones", "is_ours"), [("csi.test", True, True), ("other.csi", True, False), ("csi.test", False, False)]
)
async def test_P61_the_finalizer_of_another_drivers_clones_is_its_provisioners(
    driver: str, clones: bool, is_ours: bool
):
    """That one may be making a clone for a claim that is gone."""
    world = ProtectionWorld()
    world.facts = DriverCapabilities("csi.test", clones=clones)
    await world.create(a_pv(source={"csi": {"driver": driver, "volumeHandle": "h"}}))
    await world.claim("source", phase="Bound")
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "source", {"spec": {"volumeName": "pv"}}, "ns")
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "source", {"metadata": {"finalizers": [names.CLONE_FINALIZER]}}, "ns")
    async with world.protecting():
        await world.delete(PERSISTENT_VOLUME_CLAIMS, "source", "ns")
        await world.settle(10)
        assert is_ours == (await world.find(PERSISTENT_VOLUME_CLAIMS, "source", "ns") is None)


async def test_P61_without_the_right_to_hold_a_claim_nothing_is_cloned():
    world = ProtectionWorld()
    await world.claim("source", phase="Bound")
    world.cluster.refuse(PUT_CLAIM, error=Forbidden("no", reason="Forbidden"))
    async with world.protecting() as protection:
        with pytest.raises(Forbidden):
            await protection.hold(CLAIM, "uid")


async def test_P91_a_drain_lets_a_release_end(world: ProtectionWorld):
    async with world.protecting() as protection:
        await protection.hold(SNAPSHOT, "uid")
        world.bus.tell(topics.SOURCE_DONE, SNAPSHOT, "uid")
        await asyncio.sleep(0)
        assert await protection.controller.drain(5)
