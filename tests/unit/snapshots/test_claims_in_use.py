"""A claim stays as long as a snapshot of it may be in the making. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS as VGSC
from mooring.api.group_snapshot import GROUP_SNAPSHOTS as VGS
from mooring.api.snapshot_kinds import SINGLES
from mooring.api.snapshot_names import CLAIM_FINALIZER
from mooring.cluster.snapshots.decision import ReleaseClaim
from mooring.cluster.snapshots.reconcile import Reconciler
from mooring.control.caches import Caches
from mooring.kube.errors import LATE_S, ServerError, Unreachable
from mooring.wire.grpc.codes import Code
from tests.support.builders import APP, a_group_class, a_group_snapshot
from tests.support.cluster_world import WAIT_S
from tests.support.rows import each_row
from tests.support.scripted_driver import Lose
from tests.support.snapshot_crds import GROUP_CRDS
from tests.support.snapshot_driver import CREATE, CREATE_GROUP, SnapshotDriver
from tests.support.snapshotting import CREATE_VSC, PUT_PVC, PVC, VS, VSC, SnapshotWorld, error_of, finalizers
from tests.support.virtual_loop import in_virtual_time
from tests.unit.snapshots.situations import CLAIM, a_view, its_content
from tests.unit.snapshots.test_lost_writes import CREATE_VGSC, SLOW

pytestmark = in_virtual_time

ON = {"groups": True}


async def is_held(world: SnapshotWorld, claim: str = "claim") -> bool:
    return CLAIM_FINALIZER in finalizers(await world.get(PVC, claim))


async def let_go(world: SnapshotWorld, claim: str = "claim", wait_s: float = WAIT_S) -> None:
    await world.shown(PVC, claim, lambda body: CLAIM_FINALIZER not in finalizers(body), "let go", wait_s)


@each_row("policy", ["Delete", "Retain"])
async def test_S14_a_claim_stays_while_the_outcome_of_its_snapshot_is_open(policy):
    """Also after the snapshot was deleted: a driver may be at work on the volume."""
    world = await SnapshotWorld().base(policy=policy)
    world.driver.always(CREATE, Lose(Code.DEADLINE_EXCEEDED))
    async with world.both():
        await world.snap()
        await world.error("snap", "connection lost")
        await world.delete(PVC, "claim")
        await world.delete(VS, "snap")
        await world.settle(60.0)
        assert await is_held(world)
        world.driver.forget_scripts()
        await let_go(world, "claim")
        await world.settle(5.0)
        assert ([], policy == "Retain") == (await world.list(VS), bool(await world.list(VSC)))


@each_row("policy", ["Delete", "Retain"])
async def test_S14_a_claim_that_a_restart_finds_held_is_judged_by_the_contents(policy):
    world = await SnapshotWorld().base(policy=policy)
    world.driver.always(CREATE, Lose(Code.DEADLINE_EXCEEDED))
    async with world.both():
        await world.snap()
        await world.error("snap", "connection lost")
        await world.delete(PVC, "claim")
        await world.delete(VS, "snap")
    async with world.controlling():
        await world.settle(60.0)
        assert await is_held(world)


async def test_S14_a_claim_whose_content_came_meanwhile_is_not_let_go():
    """The question is asked again at the last moment."""
    world = await SnapshotWorld().base()
    await world.set_finalizers(PVC, "claim", CLAIM_FINALIZER)
    caches = Caches(world.runtime)
    view = a_view(contents=[its_content()], claims=[await world.get(PVC, "claim")])
    reconciler = Reconciler(world.cluster, view, {PVC.plural: caches.of(PVC)}, world.recorder, world.clock)
    await reconciler.carry_out(SINGLES, CLAIM, (ReleaseClaim(CLAIM),))
    assert [] == world.written()


async def a_group_world(policy: str = "Delete") -> SnapshotWorld:
    """Claims `a` and `b`, which the group chooses."""
    world = await SnapshotWorld(SnapshotDriver(groups=True)).kinds()
    await world.make_snapshot_kinds(GROUP_CRDS)
    await world.create(a_group_class(policy=policy))
    for name in "ab":
        await world.claim(name, volume=f"pv-{name}", handle=f"vol-{name}")
        await world.patch(PVC, name, {"metadata": {"labels": APP}})
    return world


async def test_S14_the_claims_of_a_group_are_protected_until_it_is_ready():
    world = await a_group_world()
    gate = world.driver.gate(CREATE_GROUP)

    async def is_asked() -> bool:
        return bool(world.driver.made(CREATE_GROUP))

    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.until(is_asked)
        await world.settle(60.0)
        assert [True, True] == [await is_held(world, name) for name in "ab"]
        await world.delete(PVC, "a")
        gate.set()
        await let_go(world, "a")
        await let_go(world, "b")
        await world.settle(2.0)
        assert 4 == world.written().count(PUT_PVC)


async def _has_made(world: SnapshotWorld) -> bool:
    contents = await world.list(VGSC)
    return all((one.get("status") or {}).get("readyToUse") for one in contents)


@each_row("policy", ["Delete", "Retain"])
async def test_S14_and_while_its_outcome_is_open_though_it_was_deleted(policy):
    world = await a_group_world(policy=policy)
    world.driver.always(CREATE_GROUP, Lose(Code.DEADLINE_EXCEEDED))
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        [content] = await world.until(lambda: world.list(VGSC))
        await world.shown(VGSC, content["metadata"]["name"], error_of)
        await world.delete(PVC, "a")
        await world.delete(VGS, "group")
        await world.settle(60.0)
        assert await is_held(world, "a")
        world.driver.forget_scripts()
        await world.until(lambda: _has_made(world), what="the group is made")
        await let_go(world, "a", wait_s=5.0)
        await world.gone(VGS, "group")


async def test_S14_a_group_that_is_given_up_before_its_content_was_made_lets_go():
    world = await a_group_world()
    await world.set_finalizers(PVC, "a", CLAIM_FINALIZER)
    async with world.controlling(**ON):
        await world.create(a_group_snapshot(group_class="missing"))
        await world.settle(60.0)
        assert await is_held(world, "a")
        await world.delete(VGS, "group")
        await let_go(world, "a", wait_s=5.0)


async def test_S14_a_claim_is_held_while_the_content_of_a_deleted_group_may_come():
    """The group speaks for its claims no more, and no cache shows the content yet."""
    world = await a_group_world()
    world.cluster.refuse(CREATE_VGSC, error=Unreachable("timed out"), late_s=20.0)
    async with world.both(**ON, **SLOW):
        await world.create(a_group_snapshot())
        await world.settle(1.0)
        await world.delete(VGS, "group")
        await world.settle(15.0)
        assert [True, True] == [await is_held(world, name) for name in "ab"]
        await world.gone(VGS, "group")
        await let_go(world, "a", wait_s=LATE_S)


@each_row("late_s", [20.0, 0.0], ids=["it comes", "it never comes"])
async def test_S14_a_claim_is_held_while_the_content_of_a_torn_snapshot_may_come(late_s):
    """Whoever takes the finalizers off a snapshot does not know that its content is on its way, and a driver then makes
    it.
    """
    world = await SnapshotWorld().base()
    world.cluster.refuse(CREATE_VSC, error=Unreachable("timed out"), late_s=late_s)
    async with world.controlling(**SLOW):
        await world.snap()
        await world.settle(1.0)
        await world.tear_away(VS, "snap")
        await world.settle(45.0)
        assert (late_s > 0, True) == (bool(await world.list(VSC)), await is_held(world))
        await world.settle(LATE_S)
        assert (late_s > 0) == await is_held(world), "the content needs it"


async def test_S14_a_claim_is_held_while_its_content_is_being_made():
    """Its snapshot is torn away before the API server has answered."""
    world = await SnapshotWorld().base()
    creation = world.cluster.hold(CREATE_VSC)
    async with world.controlling():
        await world.snap()
        await world.settle(45.0)
        assert await is_held(world)
        await world.tear_away(VS, "snap")
        await world.settle(45.0)
        assert ([], True) == (await world.list(VSC), await is_held(world))
        creation.go.set()
        await world.settle(1.0)
        assert await is_held(world), "the content needs it"
        await world.tear_away(VSC, (await world.content())["metadata"]["name"])
        await let_go(world)


async def test_S10_no_group_of_a_claim_that_is_being_deleted():
    world = await a_group_world()
    await world.set_finalizers(PVC, "a", "test/claim")
    await world.delete(PVC, "a")
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        assert 'claim "a" is being deleted' in await world.error("group", kind=VGS)
        await world.settle(5.0)
        assert ([], False) == (await world.list(VGSC), await is_held(world, "b"))


async def test_S14_a_claim_of_a_group_that_can_not_be_protected_is_told():
    world = await a_group_world()
    world.cluster.refuse(PUT_PVC, times=1, error=ServerError("no"))
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        assert "no" in await world.told("group", "GroupSnapshotContentCreationFailed")
        await world.shown(VGS, "group", lambda body: (body.get("status") or {}).get("readyToUse") is True, "ready")
