"""Writes that give a content to a snapshot, or to a group, and that are carried out after they were given up: nothing
stays behind.
"""

from __future__ import annotations

import pytest

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS as VGSC
from mooring.api.group_snapshot import GROUP_SNAPSHOTS as VGS
from mooring.api.meta import Key
from mooring.api.snapshot_names import BEING_DELETED, CLAIM_FINALIZER, GROUP_BEING_DELETED
from mooring.cluster.snapshots.decision import LookUp
from mooring.cluster.snapshots.reconcile import look_up
from mooring.control.caches import Caches
from mooring.control.result import Stale
from mooring.kube.errors import LATE_S, ApiError, ServerError, Unreachable
from tests.support.builders import a_group_snapshot, a_new_content, a_new_snapshot, a_snapshot_class
from tests.support.cluster_world import LateWatch
from tests.support.rows import each_row
from tests.support.snapshotting import CREATE_VSC, PATCH_VSC, PVC, VS, VSC, SnapshotWorld
from tests.support.virtual_loop import in_virtual_time
from tests.unit.snapshots.test_groups import ON, a_world
from tests.unit.snapshots.test_imported_groups import an_import

pytestmark = in_virtual_time

CREATE_VGSC, PATCH_VGSC = "create volumegroupsnapshotcontents", "patch volumegroupsnapshotcontents"
SLOW = {"retry_interval_start_s": 300.0, "retry_interval_max_s": 300.0}
"""So that no second write comes before the first."""
LOST = each_row("error", [Unreachable("timed out"), ServerError("no", code=503)])


async def nothing_left(world: SnapshotWorld, *kinds: object) -> None:
    await world.settle(LATE_S)
    assert ([[] for _ in kinds], {}) == ([await world.list(kind) for kind in kinds], world.driver.snapshots)


@LOST
async def test_a_content_that_is_made_late_goes_with_its_snapshot(error: ApiError):
    """Else it would stay for ever, and a driver would make its snapshot."""
    world = await SnapshotWorld().base()
    world.cluster.refuse(CREATE_VSC, error=error, late_s=20.0)
    async with world.both(**SLOW):
        await world.snap()
        await world.settle(1.0)
        await world.delete(VS, "snap")
        await world.settle(10.0)
        assert ["snap"] == [one["metadata"]["name"] for one in await world.list(VS)]
        assert (await world.told("snap", "SnapshotDeletePending")).startswith("waits for up to a minute")
        await world.gone(VS, "snap")
        await nothing_left(world, VS, VSC)


async def test_a_content_that_is_refused_is_not_waited_for():
    world = await SnapshotWorld().base()
    world.cluster.refuse(CREATE_VSC)
    async with world.both(**SLOW):
        await world.snap()
        await world.settle(1.0)
        await world.delete(VS, "snap")
        await world.gone(VS, "snap", wait_s=1.0)


async def test_a_content_whose_creation_is_given_up_for_good_holds_its_snapshot_for_a_minute():
    world = await SnapshotWorld().base()
    world.cluster.refuse(CREATE_VSC, error=Unreachable("timed out"))
    async with world.both(**SLOW):
        await world.snap()
        await world.settle(1.0)
        await world.delete(VS, "snap")
        await world.gone(VS, "snap", wait_s=LATE_S + 1.0)


async def test_a_content_that_is_made_twice_goes_twice():
    """The second request was answered; the first one finds nothing in its way once the content is gone."""
    world = await SnapshotWorld().base()
    world.cluster.refuse(CREATE_VSC, error=Unreachable("timed out"), late_s=30.0)
    async with world.both():
        await world.snap()
        await world.ready()
        await world.delete(VS, "snap")
        await world.gone(VS, "snap")
        await nothing_left(world, VS, VSC)


@each_row("group", [False, True], ids=["single", "group"])
async def test_a_content_that_a_former_process_makes_late_goes_too(group: bool):
    """Nothing tells the next process that a request was on its way."""
    world = await a_world("a")
    await world.set_finalizers(PVC, "a", CLAIM_FINALIZER)  # so that no write to it wakes the group
    await world.create(a_snapshot_class())
    kind, name, short = (VGS, "group", CREATE_VGSC) if group else (VS, "snap", CREATE_VSC)
    world.cluster.refuse(short, error=Unreachable("timed out"), late_s=20.0)
    async with world.controlling(**ON, **SLOW):
        await world.create(a_group_snapshot() if group else a_new_snapshot(claim="a"))
        await world.settle(1.0)
    world.cluster.refuse(short)
    async with world.both(**ON, **SLOW):
        await world.settle(1.0)
        await world.delete(kind, name)
        await world.gone(kind, name)
        await nothing_left(world, VGS, VGSC, VS, VSC)


async def test_a_snapshot_that_is_to_go_already_is_let_go_at_once_by_the_next_process():
    world = await SnapshotWorld().base()
    world.cluster.refuse(CREATE_VSC)
    async with world.controlling(**SLOW):
        await world.snap()
        await world.settle(1.0)
    await world.delete(VS, "snap")
    async with world.both():
        await world.gone(VS, "snap", wait_s=5.0)


async def test_a_snapshot_whose_content_was_seen_is_let_go_at_once_by_the_next_process():
    world = await SnapshotWorld().base()
    async with world.both():
        await world.snap()
        await world.ready()
    await world.tear_away(VSC, (await world.get(VS, "snap"))["status"]["boundVolumeSnapshotContentName"])
    await world.delete(VS, "snap")
    async with world.both():
        await world.gone(VS, "snap", wait_s=5.0)


async def test_a_content_that_a_cache_of_before_a_set_back_does_not_take_is_no_missing_one():
    """Its snapshot would go without it."""
    world = await SnapshotWorld().base()
    await world.create(a_new_content("content", finalizers=["others"]))
    cache = Caches(world.runtime).of(VSC)
    cache.store.version = "1000000"
    look = LookUp(VSC, Key("", "content"), strictly=True)
    with pytest.raises(Stale):
        await look_up(world.cluster, cache, look)
    await world.tear_away(VSC, "content")
    await look_up(world.cluster, cache, look)


async def test_an_import_that_is_bound_late_goes_with_its_snapshot():
    world = await SnapshotWorld().base()
    await world.create(a_new_content("imported", handle="h", ref_uid=None, policy="Retain"))
    world.cluster.refuse(PATCH_VSC, error=Unreachable("timed out"), late_s=20.0)
    async with world.controlling(**SLOW):
        await world.create(a_new_snapshot(content="imported"))
        await world.settle(1.0)
        await world.delete(VS, "snap")
        await world.gone(VS, "snap")
        content = await world.get(VSC, "imported")
        assert BEING_DELETED in content["metadata"]["annotations"], "it is kept, and may be deleted"


@LOST
async def test_a_content_of_a_group_that_is_made_late_goes_with_it(error: ApiError):
    world = await a_world()
    world.cluster.refuse(CREATE_VGSC, error=error, late_s=20.0)
    async with world.both(**ON, **SLOW):
        await world.create(a_group_snapshot())
        await world.settle(1.0)
        await world.delete(VGS, "group")
        assert (await world.told("group", "SnapshotDeletePending")).startswith("waits for up to a minute")
        await world.gone(VGS, "group")
        await nothing_left(world, VGS, VGSC, VS, VSC)


async def test_an_imported_group_that_is_bound_late_goes_with_its_group():
    world = await a_world()
    await world.create(an_import(policy="Retain"))
    world.cluster.refuse(PATCH_VGSC, error=Unreachable("timed out"), late_s=20.0)
    async with world.controlling(**ON, **SLOW):
        await world.create(a_group_snapshot(content="groupcontent"))
        await world.settle(1.0)
        await world.delete(VGS, "group")
        await world.gone(VGS, "group")
        content = await world.get(VGSC, "groupcontent")
        assert GROUP_BEING_DELETED in content["metadata"]["annotations"], "it is kept, and may be deleted"


async def test_an_imported_group_whose_binding_is_not_seen_is_looked_at_first():
    """The write was carried out, its answer was lost, and the watch is late."""
    world = await a_world(faults=LateWatch("volumegroupsnapshotcontents", seconds=200.0))
    await world.create(an_import(policy="Retain"))
    world.cluster.refuse(PATCH_VGSC, error=Unreachable("lost"), after=True)
    async with world.controlling(**ON, **SLOW):
        await world.create(a_group_snapshot(content="groupcontent"))
        await world.settle(1.0)
        await world.delete(VGS, "group")
        await world.gone(VGS, "group")
        assert GROUP_BEING_DELETED in (await world.get(VGSC, "groupcontent"))["metadata"]["annotations"]


async def test_a_member_whose_content_is_made_late_leaves_none():
    world = await a_world("a")
    world.cluster.refuse(CREATE_VSC, error=Unreachable("timed out"), late_s=20.0)
    async with world.both(**ON, **SLOW):
        await world.create(a_group_snapshot())
        await world.until(lambda: _member_is_there(world), 30.0, "a member is there")
        await world.settle(1.0)
        await world.delete(VGS, "group")
        await world.gone(VGS, "group")
        await nothing_left(world, VGS, VGSC, VS, VSC)


async def _member_is_there(world: SnapshotWorld) -> bool:
    return bool(await world.list(VS))
