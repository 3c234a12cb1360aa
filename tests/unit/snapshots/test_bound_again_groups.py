"""Group contents that were kept, and are bound once more; others that stand for a group, or for a snapshot of it."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.api.core import SECRETS
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS as VGSC
from mooring.api.group_snapshot import GROUP_SNAPSHOTS as VGS
from mooring.api.snapshot_names import (
    BEING_DELETED,
    GROUP_BEING_DELETED,
    GROUP_CONTENT_FINALIZER,
    GROUP_HANDLE,
    GROUP_SECRET_NAME,
    GROUP_SECRET_NAMESPACE,
    YES,
)
from mooring.control.decision import TELL_S
from tests.support.builders import Json, a_group_class, a_group_content, a_group_snapshot, a_new_content, a_secret
from tests.support.cluster_world import SlowGets
from tests.support.rows import each_row
from tests.support.snapshot_crds import GROUP_CRDS
from tests.support.snapshot_driver import DELETE, DELETE_GROUP, SnapshotDriver
from tests.support.snapshotting import VS, VSC, SnapshotWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

ON = {"groups": True}
PATCH_VGSC = "patch volumegroupsnapshotcontents"


async def a_world(slow: SlowGets | None = None) -> SnapshotWorld:
    """Group `g` of the one snapshot `h` is on the storage."""
    world = await SnapshotWorld(SnapshotDriver(groups=True), slow).kinds()
    await world.make_snapshot_kinds(GROUP_CRDS)
    await world.create(a_group_class())
    world.driver.add("h")
    world.driver.groups["g"] = ["h"]
    return world


async def import_group(world: SnapshotWorld, content: str, group: str, policy: str = "Delete", **more: Any) -> None:
    """A group snapshot and its content, which is bound to it."""
    source = {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["h"]}}
    body = a_group_content(content, ref_uid=None, policy=policy, source=source, **more)
    body["spec"]["volumeGroupSnapshotRef"]["name"] = group
    await world.create(body, a_group_snapshot(group, content=content))
    await group_ready(world, group)


async def group_ready(world: SnapshotWorld, name: str) -> None:
    await world.shown(VGS, name, lambda body: (body.get("status") or {}).get("readyToUse") is True, "ready")
    await world.settle(2.0)


async def import_snapshot(world: SnapshotWorld, policy: str = "Delete") -> None:
    """Snapshot `single` of `h`, by a content of its own; the driver says nothing of a group."""
    await world.create(a_new_content("single", snapshot="single", handle="h", ref_uid=None, policy=policy))
    await world.snap("single", content="single")
    await world.ready("single")


def marks(content: Json) -> Json:
    return content["metadata"].get("annotations") or {}


@each_row("by_hand", [False, True], ids=["bound by us", "bound by hand"])
async def test_S19_a_group_content_that_is_bound_again_is_not_being_deleted_any_more(by_hand):
    world = await a_world()
    async with world.both(**ON):
        await import_group(world, "import", "one", "Retain")
        await world.remove(VGS, "one")
        await world.settle(2.0)
        assert YES == marks(await world.get(VGSC, "import")).get(GROUP_BEING_DELETED)
        two = await world.create(a_group_snapshot("two", content="import")) if by_hand else None
        uid = None if two is None else two["metadata"]["uid"]
        ref = {"name": "two", "namespace": "default", "uid": uid}
        world.story.clear()
        await world.patch(VGSC, "import", {"spec": {"deletionPolicy": "Delete", "volumeGroupSnapshotRef": ref}})
        if not by_hand:
            await world.create(a_group_snapshot("two", content="import"))
        await group_ready(world, "two")
        assert (1, {}) == (world.written().count(PATCH_VGSC), marks(await world.get(VGSC, "import")))
        await world.delete(VGSC, "import")
        await world.settle(60.0)
        assert ([], {"h"}) == (world.driver.made(DELETE_GROUP), set(world.driver.snapshots))


async def test_S39_a_group_that_another_content_keeps_stays():
    world = await a_world()
    async with world.both(**ON):
        await import_group(world, "import", "one", "Retain")
        await world.remove(VGS, "one")
        for content in await world.list(VSC):
            await world.delete(VSC, content["metadata"]["name"])
        await import_group(world, "second", "two")
        await world.delete(VGS, "two")
        assert "[import]" in await world.told("second", "GroupSnapshotKept")
        await world.gone(VGS, "two")
        await world.settle(5.0)
        assert ([], {"h"}) == (world.driver.made(DELETE_GROUP), set(world.driver.snapshots))


@each_row("policy", ["Delete", "Retain"])
async def test_S39_a_group_of_which_a_snapshot_is_in_use_by_itself_waits_for_that(policy):
    world = await a_world()
    async with world.both(**ON, resync_s=0.0):
        await import_group(world, "import", "group")
        await import_snapshot(world, policy)
        await world.delete(VGS, "group")
        assert "[single]" in await world.told("import", "GroupSnapshotKept")
        await world.settle(TELL_S + 60.0)
        assert [2] == [
            count for _, reason, _, count in await world.events("import") if reason == "GroupSnapshotKept"
        ], "also without resyncs"
        assert {"h"} == set(world.driver.snapshots)
        await world.delete(VS, "single")
        await world.gone(VS, "single")
        if policy == "Retain":
            await world.settle(60.0)
            assert {"h"} == set(world.driver.snapshots)
            await world.delete(VSC, "single")
        await world.gone(VGS, "group", wait_s=5.0)
        assert ([], 1) == (world.driver.made(DELETE), len(world.driver.made(DELETE_GROUP)))


async def test_S39_so_does_an_imported_group_that_no_group_snapshot_was_bound_to():
    world = await a_world()
    source = {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["h"]}}
    async with world.both(**ON):
        await world.create(a_group_content("import", ref_uid=None, source=source, finalizers=[GROUP_CONTENT_FINALIZER]))
        await world.shown(VGSC, "import", lambda body: (body.get("status") or {}).get("readyToUse") is True, "ready")
        await import_snapshot(world)
        await world.delete(VGSC, "import")
        assert "[single]" in await world.told("import", "GroupSnapshotKept")
        await world.remove(VS, "single")
        await world.gone(VGSC, "import", wait_s=5.0)
        assert 1 == len(world.driver.made(DELETE_GROUP))


async def test_S39_what_a_former_group_has_left_behind_is_kept_from_a_later_one():
    world = await a_world()
    async with world.both(**ON):
        await import_group(world, "import", "group")
        kept = a_new_content("former", handle="h", policy="Retain", annotations={GROUP_HANDLE: "g", BEING_DELETED: YES})
        await world.create(kept)
        await world.delete(VGS, "group")
        assert "[former]" in await world.told("import", "GroupSnapshotKept")
        await world.delete(VSC, "former")
        await world.gone(VGS, "group", wait_s=5.0)


async def test_S39_a_snapshot_that_a_group_names_stays_with_it():
    """Also where the content of the member is gone."""
    world = await a_world()
    async with world.both(**ON):
        await import_group(world, "import", "group")
        [member] = await world.list(VSC)
        await world.tear_away(VSC, member["metadata"]["name"])
        await import_snapshot(world)
        await world.delete(VS, "single")
        assert "[import]" in await world.told("single", "SnapshotKept")
        await world.gone(VS, "single")
        assert ([], {"h"}) == (world.driver.made(DELETE), set(world.driver.snapshots))


@each_row("by", ["group", "snapshot", "policy"])
async def test_S39_a_group_that_is_to_stay_while_its_secret_is_read_is_not_deleted(by):
    slow = SlowGets(SECRETS)
    world = await a_world(slow)
    await world.create(a_secret(data={"user": "dQ=="}))
    async with world.both(**ON):
        await import_group(
            world, "import", "group", annotations={GROUP_SECRET_NAME: "secret", GROUP_SECRET_NAMESPACE: "default"}
        )
        await world.delete(VGS, "group")
        await slow.asked.wait()
        if by == "policy":
            await world.patch(VGSC, "import", {"spec": {"deletionPolicy": "Retain"}})
        elif by == "snapshot":
            await import_snapshot(world)
        else:
            await import_group(world, "second", "two")
        await asyncio.sleep(2.0)
        slow.gate.set()
        await world.settle(10.0)
        assert ([], {"h"}) == (world.driver.made(DELETE_GROUP), set(world.driver.snapshots))


# -- contents as hands write them


async def test_S19_a_group_content_whose_uid_is_empty_is_bound():
    world = await a_world()
    source = {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["h"]}}
    content = a_group_content(ref_uid=None, source=source, volumeGroupSnapshotClassName="")
    content["spec"]["volumeGroupSnapshotRef"]["uid"] = ""
    async with world.both(**ON):
        await world.create(content, a_group_snapshot(content="groupcontent"))
        await world.shown(
            VGS, "group", lambda body: (body.get("status") or {}).get("readyToUse") is True, "ready", 20.0
        )


async def test_S44_a_group_with_a_class_of_another_driver_is_refused_and_can_be_deleted():
    world = await a_world()
    source = {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["h"]}}
    content = a_group_content(ref_uid=None, source=source, volumeGroupSnapshotClassName="")
    await world.create(a_group_class("others", driver="other.csi"), content)
    async with world.both(**ON):
        await world.create(a_group_snapshot(content="groupcontent", group_class="others"))
        assert 'class "others" is of driver "other.csi"' in await world.told("group", "GroupSnapshotBindFailed")
        await world.delete(VGS, "group")
        await world.gone(VGS, "group", wait_s=5.0)
        assert [] == world.driver.made(DELETE_GROUP)
