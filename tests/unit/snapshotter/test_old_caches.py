"""Before a snapshot is deleted, the contents that may keep it are read from the API server: the watch may hide them.

Ids: docs/behaviours/snapshotter.md.
"""

from __future__ import annotations

from typing import Any

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS as VGSC
from mooring.api.meta import Kind
from mooring.api.snapshot_names import (
    BEING_DELETED,
    CONTENT_FINALIZER,
    GROUP_BEING_DELETED,
    GROUP_CONTENT_FINALIZER,
    MANAGED_BY,
    YES,
)
from mooring.kube.cache.informer import SILENCE_S_MAX
from mooring.kube.errors import Forbidden, TooLarge
from mooring.wire.grpc.codes import Code
from tests.support.builders import Json, a_group_content, a_new_content
from tests.support.cluster_world import HeldWatch
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail
from tests.support.snapshot_crds import GROUP_CRDS
from tests.support.snapshot_driver import CREATE, DELETE, DELETE_GROUP, LIST, RPC, SnapshotDriver
from tests.support.snapshotting import PATCH_VSC_STATUS, VSC, SnapshotWorld, finalizers
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

FAILING = Fail(Code.INTERNAL, "no")
ON = {"groups": True}
OTHERS = "kit.example.com/hold"
SILENT_S = SILENCE_S_MAX + 1
A_WHILE_S = 1000.0
STEADY = {"retry_interval_max_s": 10.0}


def a_content(name: str = "content", policy: str = "Delete", **fields: Any) -> Json:
    """Of the snapshot `h`, which the driver has made."""
    return a_new_content(name, handle="h", policy=policy, **{"finalizers": [CONTENT_FINALIZER], **fields})


def a_group(name: str = "group", policy: str = "Delete", **fields: Any) -> Json:
    """Of the group `g` of the snapshot `h`."""
    source = {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["h"]}}
    fields = {"finalizers": [GROUP_CONTENT_FINALIZER], "volumeGroupSnapshotClassName": "", **fields}
    return a_group_content(name, source=source, policy=policy, **fields)


async def a_world(*plurals: str) -> tuple[SnapshotWorld, HeldWatch]:
    """plurals: the kinds whose watches can be held."""
    watch = HeldWatch(*plurals)
    world = await SnapshotWorld(SnapshotDriver(groups=True), watch).kinds()
    await world.make_snapshot_kinds(GROUP_CRDS)
    world.driver.add("h")
    world.driver.groups["g"] = ["h"]
    world.driver.always(DELETE, FAILING)
    world.driver.always(DELETE_GROUP, FAILING)
    return world, watch


async def ready(world: SnapshotWorld, kind: Kind[Any], name: str) -> None:
    await world.shown(kind, name, lambda body: (body.get("status") or {}).get("readyToUse") is True, "ready")


async def end(world: SnapshotWorld, kind: Kind[Any], name: str) -> None:
    """The snapshot, or group, of this content is deleted; the driver fails."""
    await ready(world, kind, name)
    await world.annotate(kind, name, **{GROUP_BEING_DELETED if kind is VGSC else BEING_DELETED: YES})
    await world.delete(kind, name)
    await world.settle(1.0)


async def stays(world: SnapshotWorld) -> None:
    """The driver is well again, and nobody asks it to delete anything."""
    before = len(world.driver.made(DELETE)), len(world.driver.made(DELETE_GROUP))
    assert 0 < sum(before), "else there is nothing to be held up"
    world.driver.forget_scripts()
    await world.settle(A_WHILE_S)
    assert before == (len(world.driver.made(DELETE)), len(world.driver.made(DELETE_GROUP)))
    assert {"h"} == set(world.driver.snapshots)


# -- a content that the cache has, as it was


@each_row(
    "change", [{"spec": {"deletionPolicy": "Retain"}}, {"metadata": {"annotations": {GROUP_BEING_DELETED: None}}}]
)
async def test_S39_a_group_that_another_content_keeps_by_now_stays_though_its_watch_hangs(change: Json):
    """The other one was left to the first while that lived, and somebody else holds it."""
    world, watch = await a_world(VGSC.plural)
    async with world.snapshotting(a_group(), a_group("second", finalizers=[OTHERS]), **ON):
        await end(world, VGSC, "second")
        await end(world, VGSC, "group")
        watch.hold()
        await world.patch(VGSC, "second", change)
        await stays(world)


async def test_S39_a_snapshot_that_another_content_keeps_by_now_stays_though_its_watch_hangs():
    world, watch = await a_world(VSC.plural)
    async with world.snapshotting(a_content(), a_content("second", finalizers=[OTHERS])):
        await end(world, VSC, "second")
        await end(world, VSC, "content")
        watch.hold()
        await world.patch(VSC, "second", {"spec": {"deletionPolicy": "Retain"}})
        await stays(world)


async def test_S39_a_group_with_a_snapshot_that_is_kept_by_now_stays_though_its_watch_hangs():
    world, watch = await a_world(VSC.plural)
    async with world.snapshotting(a_group(), a_content("single", finalizers=[OTHERS]), **ON):
        await end(world, VSC, "single")
        await end(world, VGSC, "group")
        watch.hold()
        await world.patch(VSC, "single", {"spec": {"deletionPolicy": "Retain"}})
        await stays(world)


async def test_S39_a_snapshot_is_deleted_with_its_last_content_though_the_watch_hides_that_it_is_the_last():
    """The other one, which kept it, was torn away; the answer to a write shows the deletion of this one."""
    watch = HeldWatch(VSC.plural)
    world = await SnapshotWorld(SnapshotDriver(controller=[RPC.LIST_SNAPSHOTS]), watch).kinds()
    world.driver.add("h")
    async with world.snapshotting(a_content("second")):
        await ready(world, VSC, "second")
        gate = world.driver.gate(LIST)
        await world.create(a_content())
        await world.settle(1.0)
        watch.hold()
        await world.tear_away(VSC, "second")
        await world.delete_by_controller("content")
        gate.set()
        await world.gone(VSC, "content", wait_s=10.0)
    assert {} == world.driver.snapshots


# -- one that the cache has not


@each_row("held", [VSC, VGSC])
async def test_S39_a_snapshot_that_was_imported_meanwhile_stays_though_its_watch_is_silent(held: Kind[Any]):
    world, watch = await a_world(held.plural)
    async with world.snapshotting(a_content(), **ON):
        await end(world, VSC, "content")
        watch.hold()
        await world.create(a_content("imported", policy="Retain") if held is VSC else a_group("imported"))
        await world.settle(SILENT_S)
        await stays(world)


@each_row("held", [VSC, VGSC])
async def test_S39_so_does_a_group(held: Kind[Any]):
    world, watch = await a_world(held.plural)
    async with world.snapshotting(a_group(), **ON):
        await end(world, VGSC, "group")
        watch.hold()
        await world.create(a_content("imported") if held is VSC else a_group("imported", policy="Retain"))
        await world.settle(SILENT_S)
        await stays(world)


async def test_S39_nothing_is_deleted_while_nobody_says_what_a_silent_watch_hides():
    world, watch = await a_world(VSC.plural)
    async with world.snapshotting(a_content(), **STEADY):
        await end(world, VSC, "content")
        watch.hold()
        await world.settle(SILENT_S)
        rule = world.cluster.refuse("list volumesnapshotcontents", times=None, error=Forbidden("no list"))
        await stays(world)
        assert "no list" in await world.told("content", "SnapshotContentCheckandUpdateFailed")
        rule.times = 0
        await world.gone(VSC, "content")
    assert {} == world.driver.snapshots


async def test_S55_missing_group_kinds_keep_no_snapshot():
    world = await SnapshotWorld(SnapshotDriver(groups=True)).kinds()
    world.driver.add("h")
    async with world.snapshotting(a_content(), **ON):
        await world.settle(SILENT_S)
        await world.delete_by_controller("content")
        await world.gone(VSC, "content", wait_s=10.0)
    assert {} == world.driver.snapshots


async def test_S58_a_silent_watch_brings_no_content_of_another_node():
    world, watch = await a_world(VSC.plural)
    mine, other = {MANAGED_BY: "n1"}, {MANAGED_BY: "n2"}
    async with world.snapshotting(a_content(labels=mine), node_name="n1"):
        await end(world, VSC, "content")
        watch.hold()
        await world.create(a_new_content("other", handle="x", labels=other))
        await world.settle(SILENT_S)
        world.driver.forget_scripts()
        await world.gone(VSC, "content")
        await world.settle(10.0)
        assert (None, []) == ((await world.get(VSC, "other")).get("status"), finalizers(await world.get(VSC, "other")))


# -- one whose handle can't be saved


@each_row("by", ["import", "policy"])
async def test_S38_what_can_not_be_saved_and_is_kept_by_now_stays_though_the_watch_hangs(by: str):
    watch = HeldWatch(VSC.plural)
    world = await SnapshotWorld(faults=watch).base()
    world.cluster.refuse(PATCH_VSC_STATUS, times=None, error=TooLarge("Request entity too large"))
    body = a_new_content("content", volumeSnapshotClassName="snapclass", finalizers=[CONTENT_FINALIZER])
    async with world.snapshotting(body, **STEADY):
        await world.settle(5.0)
        [handle] = world.driver.snapshots
        world.driver.always(CREATE, FAILING)
        await world.delete_by_controller("content")
        await world.settle(20.0)
        watch.hold()
        if by == "import":
            await world.create(a_new_content("imported", handle=handle, policy="Retain"))
        else:
            await world.patch(VSC, "content", {"spec": {"deletionPolicy": "Retain"}})
        world.driver.forget_scripts()
        await world.settle(60.0)
    assert ([], {handle}) == (world.driver.made(DELETE), set(world.driver.snapshots))
