"""Imported group snapshots, and imported snapshots as their members. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

import pytest

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS as VGSC
from mooring.api.group_snapshot import GROUP_SNAPSHOTS as VGS
from mooring.api.snapshot_names import GROUP_CONTENT_FINALIZER, IN_GROUP_FINALIZER, group_content_name
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_group_class, a_group_content, a_group_snapshot, a_new_content, a_new_snapshot
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail
from tests.support.snapshot_crds import GROUP_CRDS
from tests.support.snapshot_driver import CREATE_GROUP, GET_GROUP, RPC, SnapshotDriver
from tests.support.snapshotting import VS, VSC, SnapshotWorld, error_of
from tests.support.virtual_loop import in_virtual_time
from tests.unit.snapshots.situations import OWNER
from tests.unit.snapshots.test_groups import ON, a_world

pytestmark = in_virtual_time

SOURCE = {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["h"]}}
GROUP_CUT = {"readyToUse": True, "volumeGroupSnapshotHandle": "g", "creationTime": "2026-01-02T03:04:05Z"}


def an_import(name: str = "groupcontent", **more: object):
    return a_group_content(name, **{"ref_uid": None, "source": SOURCE, **more})


async def told_of_the_group(world: SnapshotWorld) -> list[tuple[str, str]]:
    await world.settle(3.0)
    return [(reason, text) for kind, reason, text, _ in await world.events("group") if kind == "Warning"]


def stopped(text: str) -> tuple[str, str]:
    return "GroupSnapshotFinalizerError", f"Failed to check and update group snapshot: {text}"


async def test_S19_an_imported_group_gets_the_class_of_the_group_that_names_it():
    world = await a_world()
    async with world.controlling(**ON):
        await world.create(an_import(volumeGroupSnapshotClassName=None), a_group_snapshot(content="groupcontent"))
        named = await world.shown(
            VGSC, "groupcontent", lambda body: body["spec"].get("volumeGroupSnapshotClassName"), "with a class", 20.0
        )
        group = await world.get(VGS, "group")
        assert ("groupclass", group["metadata"]["uid"]) == (
            named["spec"]["volumeGroupSnapshotClassName"],
            named["spec"]["volumeGroupSnapshotRef"]["uid"],
        )


async def test_S19_one_that_was_bound_without_a_class_gets_it_too():
    world = await a_world()
    group = await world.create(a_group_snapshot(content="groupcontent"))
    await world.create(
        an_import(
            ref_uid=group["metadata"]["uid"], volumeGroupSnapshotClassName=None, finalizers=[GROUP_CONTENT_FINALIZER]
        )
    )
    async with world.controlling(**ON):
        await world.shown(
            VGSC,
            "groupcontent",
            lambda body: body["spec"].get("volumeGroupSnapshotClassName") == "groupclass",
            "named",
            20.0,
        )


@each_row(
    ("content", "event", "text"),
    [
        pytest.param(
            a_group_content(ref_uid=None),
            "GroupSnapshotContentMismatch",
            "VolumeGroupSnapshotContent is dynamically provisioned while expecting a pre-provisioned one",
            id="made",
        ),
        pytest.param(
            an_import(ref_uid="another"),
            "GroupSnapshotContentMisbound",
            "VolumeGroupSnapshotContent [groupcontent] is bound to a different group snapshot",
            id="of another",
        ),
    ],
)
async def test_S21_S22_a_content_that_a_group_can_not_take_is_told_with_what_it_stops(content, event, text):
    world = await a_world()
    async with world.controlling(content, a_group_snapshot(content="groupcontent"), **ON):
        assert [(event, text), stopped(text)] == await told_of_the_group(world)
        assert text == error_of(await world.get(VGS, "group"))


async def test_S23_a_group_does_not_take_an_imported_content_of_its_contents_name():
    world = await a_world()
    group = await world.create(a_group_snapshot())
    name = group_content_name(group["metadata"]["uid"])
    text = f"VolumeGroupSnapshotContent {name} is pre-provisioned while expecting a dynamically provisioned one"
    async with world.controlling(an_import(name), **ON):
        assert [("GroupSnapshotContentMismatch", text), stopped(text)] == await told_of_the_group(world)


async def test_S46_an_imported_group_that_the_driver_does_not_know():
    world = await a_world()
    world.driver.always(GET_GROUP, Fail(Code.NOT_FOUND, "no such group"))
    async with world.snapshotting(an_import(ref_uid="uid-group"), **ON):
        text = await world.error("groupcontent", kind=VGSC)
        listing = "failed to list group snapshot for group snapshot content groupcontent: "
        assert f"Failed to check and update group snapshot content: {listing}" in text
        assert text == await world.told("groupcontent", "GroupSnapshotContentCheckandUpdateFailed")
        world.driver.forget_scripts()
        world.driver.groups["g"] = []
        await world.shown(VGSC, "groupcontent", lambda body: body["status"].get("readyToUse") is True, "ready")
    assert [] == world.driver.made(CREATE_GROUP)


# -- snapshots that were there before, as members


async def a_listed_snapshot(world: SnapshotWorld) -> None:
    """The test as the driver's side, too: the imported snapshot `snap` is one of group g."""
    await world.create(a_new_content(handle="h", ref_uid=None), a_new_snapshot(content="content"))
    await world.cut("content", volumeGroupSnapshotHandle="g")
    await world.settle(5.0)


async def a_listed_group_content(world: SnapshotWorld) -> None:
    await world.create(an_import())
    await world.patch(VGSC, "groupcontent", {"status": GROUP_CUT}, subresource="status")


async def joined(world: SnapshotWorld) -> None:
    def is_member(body):
        return (body.get("status") or {}).get("volumeGroupSnapshotName") == "group" and body["metadata"].get(
            "ownerReferences"
        )

    snapshot = await world.shown(VS, "snap", is_member, "a member of the group", 20.0)
    assert snapshot["status"]["readyToUse"]


async def test_a_snapshot_of_a_group_wakes_when_the_content_of_its_group_comes():
    world = await a_world()
    async with world.controlling(a_group_snapshot(content="groupcontent"), **ON):
        await a_listed_snapshot(world)
        assert "status" not in await world.get(VS, "snap")
        await a_listed_group_content(world)
        await joined(world)


async def test_and_when_the_group_comes():
    world = await a_world()
    async with world.controlling(**ON):
        await a_listed_group_content(world)
        await a_listed_snapshot(world)
        assert "ownerReferences" not in (await world.ready())["metadata"]
        await world.create(a_group_snapshot(content="missing"))
        await joined(world)


async def test_and_is_owned_at_once_where_both_are_there():
    world = await a_world()
    async with world.controlling(a_group_snapshot(content="groupcontent"), **ON):
        await a_listed_group_content(world)
        await world.settle(5.0)
        await a_listed_snapshot(world)
        await joined(world)


@each_row(
    "traces",
    [
        pytest.param({"ownerReferences": [{**OWNER, "uid": "former"}]}, id="an owner"),
        pytest.param({"finalizers": [IN_GROUP_FINALIZER]}, id="a finalizer"),
    ],
)
@each_row("groups", [False, True])
async def test_S19_an_import_with_the_traces_of_a_former_group_is_an_import(traces, groups):
    """As a backup tool brings back the manifest of a member, with a content as its source."""
    world = await SnapshotWorld(SnapshotDriver(groups=True)).base()
    await world.make_snapshot_kinds(GROUP_CRDS)
    world.driver.add("h")
    async with world.both(groups=groups):
        await world.create(a_new_content("import", snapshot="one", handle="h", ref_uid=None, policy="Retain"))
        await world.snap("one", content="import", **traces)
        await world.ready("one")


async def test_S20_a_member_that_was_imported_gets_its_lost_content_again():
    world = await a_world()
    async with world.controlling(a_group_snapshot(content="groupcontent"), **ON):
        await a_listed_group_content(world)
        await a_listed_snapshot(world)
        await joined(world)
        await world.tear_away(VSC, "content")
        await world.shown(VS, "snap", lambda body: body["status"]["readyToUse"] is False, "without its content")
        await world.create(a_new_content(handle="h", ref_uid=None))
        await world.cut("content", volumeGroupSnapshotHandle="g")
        await world.ready()


async def test_S60_a_snapshot_that_names_its_group_in_its_status_alone_goes_when_the_group_is_gone():
    world = await a_world()
    async with world.controlling(**ON):
        await world.create(a_new_content(handle="h", ref_uid=None, policy="Retain"), a_new_snapshot(content="content"))
        await world.settle(5.0)
        await world.patch(VS, "snap", {"status": {"volumeGroupSnapshotName": "group"}}, subresource="status")
        await world.create(a_group_snapshot(content="missing"))
        await world.settle(1.0)
        await world.delete(VS, "snap")
        assert "it belongs to group snapshot default/group." in await world.told("snap", "SnapshotDeletePending")
        await world.settle(600.0)
        await world.remove(VGS, "group")
        await world.gone(VS, "snap", wait_s=10.0)


async def test_an_imported_snapshot_of_a_group_that_nobody_has_imported_says_so():
    world = await SnapshotWorld(SnapshotDriver(groups=True, controller=[RPC.LIST_SNAPSHOTS])).base()
    await world.make_snapshot_kinds(GROUP_CRDS)
    world.driver.add("h").group_snapshot_id = "g"
    world.driver.groups["g"] = ["h"]
    async with world.both(**ON):
        await world.create(a_new_content("imported", handle="h", ref_uid=None), a_new_snapshot(content="imported"))
        await world.content_ready("imported")
        assert 'no VolumeGroupSnapshotContent of the group "g"' in await world.told(
            "snap", "SnapshotStatusUpdateFailed"
        )
        await world.create(a_group_class(), an_import(), a_group_snapshot(content="groupcontent"))
        await world.ready(wait_s=20.0)
