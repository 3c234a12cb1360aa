"""Group snapshots, both programs on one store. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

import asyncio

from mooring.api.core import EVENTS
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CLASSES
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS as VGSC
from mooring.api.group_snapshot import GROUP_SNAPSHOTS as VGS
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BOUND_FINALIZER,
    CLAIM_FINALIZER,
    GROUP_BEING_CREATED,
    GROUP_CONTENT_FINALIZER,
    GROUP_FINALIZER,
    GROUP_HANDLE,
    IN_GROUP_FINALIZER,
    SECRET_NAME,
    SECRET_NAMESPACE,
    group_content_name,
    member_name,
)
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import parse_rfc3339
from mooring.kube.errors import LATE_S, ServerError, Unreachable
from mooring.wire.grpc.codes import Code
from tests.support.builders import (
    APP,
    a_claim,
    a_group_class,
    a_group_content,
    a_group_snapshot,
    a_new_snapshot,
    a_secret,
    a_snapshot_class,
)
from tests.support.cluster_world import LateWatch
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose
from tests.support.snapshot_crds import GROUP_CRDS
from tests.support.snapshot_driver import CREATE, CREATE_GROUP, DELETE, DELETE_GROUP, GET_GROUP, LIST, SnapshotDriver
from tests.support.snapshotting import CREATE_VSC, PATCH_VSC_STATUS, PVC, VS, VSC, SnapshotWorld, error_of, finalizers
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

ON = {"groups": True}
QUIET = {"resync_s": 0.0}
"""Nothing is looked at again without a change."""


async def a_world(
    *names: str, policy: str = "Delete", faults: ServerFaults | None = None, **group_class: object
) -> SnapshotWorld:
    """Claims `a` and `b` with the volumes `vol-a` and `vol-b`, unless named."""
    world = await SnapshotWorld(SnapshotDriver(groups=True), faults).kinds()
    await world.make_snapshot_kinds(GROUP_CRDS)
    await world.create(a_group_class(policy=policy, **group_class))
    for name in names or ("a", "b"):
        await world.claim(name, volume=f"pv-{name}", handle=f"vol-{name}")
        await world.patch(PVC, name, {"metadata": {"labels": APP}})
    return world


async def ready(world):
    return await world.shown(VGS, "group", lambda body: (body.get("status") or {}).get("readyToUse") is True, "ready")


def notes_of(body):
    return body["metadata"].get("annotations") or {}


async def nothing_left(world):
    await world.settle(2.0)
    found = [await world.list(kind) for kind in (VGS, VGSC, VS, VSC)]
    assert ([[], [], [], []], {}) == (found, world.driver.snapshots)


async def test_S57_the_life_of_a_group():
    world = await a_world("a", "b", "c")
    async with world.both(**ON):
        group = await world.create(a_group_snapshot())
        await ready(world)
        names = [member_name(group["metadata"]["uid"], f"vol-{claim}") for claim in "abc"]
        for claim, name in zip("abc", names, strict=True):
            member = await world.ready(name)
            assert {"source": {"persistentVolumeClaimName": claim}} == member["spec"]
            assert {AS_SOURCE_FINALIZER, BOUND_FINALIZER, IN_GROUP_FINALIZER} == set(finalizers(member))
            assert "group" == member["status"]["volumeGroupSnapshotName"]
            content = await world.get(VSC, member["status"]["boundVolumeSnapshotContentName"])
            assert f"g-groupsnapshot-{group['metadata']['uid']}" == content["metadata"]["annotations"][GROUP_HANDLE]
        assert ([], 1) == (world.driver.made(CREATE), len(world.driver.made(CREATE_GROUP)))
        assert GROUP_FINALIZER in finalizers(await world.get(VGS, "group"))
        [content] = await world.list(VGSC)
        assert (group_content_name(group["metadata"]["uid"]), [GROUP_CONTENT_FINALIZER]) == (
            content["metadata"]["name"],
            finalizers(content),
        )
        assert GROUP_BEING_CREATED not in (content["metadata"].get("annotations") or {})
        await world.remove(VGS, "group")
        await nothing_left(world)
        assert ([], 1) == (world.driver.made(DELETE), len(world.driver.made(DELETE_GROUP)))


async def test_a_group_and_a_snapshot_whose_driver_tells_no_time_are_of_now(monkeypatch):
    monkeypatch.setattr("tests.support.snapshot_driver.CREATED_S", 0)
    world = await a_world("a")
    await world.create(a_snapshot_class())
    async with world.both(**ON):
        await world.create(a_group_snapshot(), a_new_snapshot("alone", claim="a"))
        made = [await ready(world), *[await world.ready(one["metadata"]["name"]) for one in await world.list(VS)]]
        age_s = [world.clock.wall_s() - parse_rfc3339(one["status"]["creationTime"]) for one in made]
        assert (3, []) == (len(age_s), [one for one in age_s if not 0 <= one < 10])


async def test_members_are_asked_for_with_the_secret_of_their_group():
    key = "csi.storage.k8s.io/group-snapshotter-secret-"
    world = await a_world(parameters={f"{key}name": "secret", f"{key}namespace": "default"})
    world.driver = SnapshotDriver(controller=[RPC.LIST_SNAPSHOTS], groups=True)
    world.driver.ready = False
    await world.create(a_secret(data={"user": "dQ=="}))
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.settle(1000.0)  # the resync brings them: no change of a status alone wakes the sidecar
        noted = [notes_of(content) for content in await world.list(VSC)]
        assert [("secret", "default")] * 2 == [(one[SECRET_NAME], one[SECRET_NAMESPACE]) for one in noted]
        assert {"u"} == {call.request.secrets.get("user") for call in world.driver.made(LIST)}


async def test_S43_a_content_deleted_by_hand_waits_for_its_back_off():
    world = await a_world()
    world.driver.script(CREATE_GROUP, *[Fail(Code.INTERNAL)] * 200)
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.error("group", "Internal", VGS)
        [content] = await world.list(VGSC)
        await world.delete(VGSC, content["metadata"]["name"])
        await world.settle(10.0)
        assert 6 > len(world.driver.made(CREATE_GROUP))


async def test_S60_a_member_can_not_go_alone():
    world = await a_world()
    async with world.both(**ON):
        group = await world.create(a_group_snapshot())
        await ready(world)
        name = member_name(group["metadata"]["uid"], "vol-a")
        await world.ready(name)
        await world.delete(VS, name)
        assert "belongs to group snapshot default/group" in await world.told(name, "SnapshotDeletePending")
        assert 2 == len(world.driver.snapshots)
        await world.remove(VGS, "group")
        await nothing_left(world)


async def a_ready_member(world):
    """The names of the snapshot of volume `vol-a` in a ready group, and of its content."""
    group = await world.create(a_group_snapshot())
    await ready(world)
    member = await world.ready(member_name(group["metadata"]["uid"], "vol-a"))
    return member["metadata"]["name"], member["status"]["boundVolumeSnapshotContentName"]


async def is_whole(world, name, content):
    """The member is ready, as its group's driver made it, and the driver was asked once."""
    await world.shown(VSC, content, lambda body: (body.get("status") or {}).get("readyToUse") is True, "ready")
    member, body = await world.ready(name), await world.get(VSC, content)
    assert (member["metadata"]["uid"], content) == (
        body["spec"]["volumeSnapshotRef"]["uid"],
        member["status"]["boundVolumeSnapshotContentName"],
    )
    assert body["status"]["snapshotHandle"] in world.driver.snapshots
    assert 1 == len(world.driver.made(CREATE_GROUP))


async def test_a_ready_group_makes_a_lost_content_of_its_member_again():
    """As after a set-back of the API server: the group got ready by a cache that still had the content."""
    world = await a_world()
    async with world.both(**ON, **QUIET):
        name, content = await a_ready_member(world)
        await world.tear_away(VSC, content)
        await is_whole(world, name, content)


async def test_a_ready_group_makes_a_lost_member_again_once_its_content_is_lost_too():
    """As long as the content is there, its snapshot was torn away by somebody, and stays away."""
    world = await a_world()
    async with world.both(**ON, **QUIET):
        name, content = await a_ready_member(world)
        await world.tear_away(VS, name)
        await world.settle(60.0)
        assert 1 == len(await world.list(VS))
        await world.tear_away(VSC, content)
        await is_whole(world, name, content)


async def test_a_content_that_is_not_ready_any_more_gets_what_its_ready_group_says():
    world = await a_world()
    async with world.both(**ON, **QUIET):
        name, content = await a_ready_member(world)
        await world.patch(VSC, content, {"status": None}, subresource="status")
        await is_whole(world, name, content)


async def test_S27_a_group_that_is_kept():
    world = await a_world(policy="Retain")
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await ready(world)
        await world.settle(2.0)
        await world.remove(VGS, "group")
        await world.settle(2.0)
        kept = [len(await world.list(kind)) for kind in (VSC, VGSC, VS)]
        assert ([2, 1, 0], 2) == (kept, len(world.driver.snapshots))


async def test_S30_a_restored_member_holds_its_group():
    world = await a_world()
    async with world.both(**ON):
        group = await world.create(a_group_snapshot())
        await ready(world)
        name = member_name(group["metadata"]["uid"], "vol-a")
        await world.create(
            a_claim(
                "restored", dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name}
            )
        )
        await world.settle(2.0)
        await world.delete(VGS, "group")
        text = f"Snapshot default/{name} belonging to VolumeGroupSnapshot default/group is being used to restore a PVC"
        assert text == await world.told("group", "SnapshotDeletePending")
        await world.patch(PVC, "restored", {"status": {"phase": "Bound"}}, subresource="status")
        await world.gone(VGS, "group", wait_s=10.0)
        await nothing_left(world)


async def test_S34_an_unready_group_is_asked_for_at_steady_intervals():
    world = await a_world()
    world.driver.ready = False
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await asyncio.sleep(60.0)
        assert (1, True) == (len(world.driver.made(CREATE_GROUP)), len(world.driver.made(GET_GROUP)) <= 20)
        world.driver.ready = True
        await ready(world)
        for snapshot in await world.list(VS):
            await world.ready(snapshot["metadata"]["name"], wait_s=20.0)


async def test_S34_a_group_that_the_driver_does_not_tell_of_is_created_again():
    world = await a_world()
    world.driver.ready = False
    world.driver.always(GET_GROUP, Fail(Code.NOT_FOUND, "being cut"))
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.settle(60.0)
        names = {call.request.name for call in world.driver.made(CREATE_GROUP)}
        asked, made = len(world.driver.made(GET_GROUP)), len(world.driver.made(CREATE_GROUP))
        assert (1, made, True) == (len(names), asked + 1, 2 < made <= 20), "a request after each question"
        [content] = await world.list(VGSC)
        assert ("", False) == (error_of(content), GROUP_BEING_CREATED in (content["metadata"].get("annotations") or {}))
        world.driver.ready = True
        await ready(world)


@each_row("step", [Fail(Code.INTERNAL, "no"), Lose(Code.DEADLINE_EXCEEDED, "no")])
async def test_S36_a_group_that_fails_is_told_and_tried_again(step):
    world = await a_world()
    world.driver.script(CREATE_GROUP, step)
    async with world.both(**ON):
        group = await world.create(a_group_snapshot())
        content = group_content_name(group["metadata"]["uid"])
        text = await world.error(content, kind=VGSC)
        assert "failed to take group snapshot of the volumes [vol-a vol-b]" in text
        assert text == await world.told(content, "GroupSnapshotCreationFailed")
        assert "error" not in (await ready(world))["status"]
        assert 2 == len(world.driver.snapshots)


async def test_a_failure_whose_event_was_lost_with_its_process_is_told_by_the_next_one():
    world = await a_world()
    world.driver.always(CREATE_GROUP, Fail(Code.INTERNAL, "no"))
    await world.create(a_group_snapshot())
    classless = a_group_snapshot("classless", group_class="missing")
    await world.create(classless)
    told: list[list[str]] = []
    for _ in range(2):
        async with world.both(**ON):
            await world.error("classless", kind=VGS)
            await world.settle(5.0)
            [content] = await world.list(VGSC)
            told.append([*await world.reasons(content["metadata"]["name"]), *await world.reasons("classless")])
        for event in await world.list(EVENTS):
            await world.delete(EVENTS, event["metadata"]["name"], event["metadata"]["namespace"])
    assert ["GroupSnapshotCreationFailed", "GetGroupSnapshotClassFailed"] == told[0] == told[1]


async def test_S38_a_lost_group_is_found_out_before_its_content_goes():
    world = await a_world()
    world.driver.always(CREATE_GROUP, Lose(Code.DEADLINE_EXCEEDED, "perhaps"))
    async with world.both(**ON):
        group = await world.create(a_group_snapshot())
        await world.error(group_content_name(group["metadata"]["uid"]), kind=VGSC)
        await world.delete(VGS, "group")
        await world.settle(30.0)
        assert [] == world.driver.made(DELETE_GROUP)
        world.driver.forget_scripts()
        await world.gone(VGS, "group")
        await nothing_left(world)


async def test_S38_a_refusal_after_an_open_request_lets_no_group_go():
    world = await a_world()
    world.driver.script(CREATE_GROUP, Lose(Code.DEADLINE_EXCEEDED, "perhaps"))
    async with world.both(retry_interval_max_s=20.0, **ON):
        group = await world.create(a_group_snapshot())
        content = group_content_name(group["metadata"]["uid"])
        await world.error(content, "perhaps", kind=VGSC)
        world.driver.always(CREATE_GROUP, Fail(Code.INVALID_ARGUMENT, "no such volume"))
        await world.delete(VGS, "group")
        await world.settle(120.0)
        text = f"take the annotation {GROUP_BEING_CREATED} off"
        assert (True, 2) == (text in error_of(await world.get(VGSC, content)), len(world.driver.snapshots))
        assert ["GroupSnapshotCreationFailed"] == sorted(set(await world.reasons(content)))
        world.driver.forget_scripts()
        await world.gone(VGS, "group")
        await nothing_left(world)


async def test_S38_a_first_request_for_a_group_that_is_refused_has_made_nothing():
    world = await a_world()
    world.driver.always(CREATE_GROUP, Fail(Code.INVALID_ARGUMENT, "no"))
    gate = world.driver.gate(CREATE_GROUP)
    async with world.both(**ON):
        group = await world.create(a_group_snapshot())
        await world.shown(
            VGSC,
            group_content_name(group["metadata"]["uid"]),
            lambda body: GROUP_BEING_CREATED in notes_of(body),
            "marked",
        )
        await world.delete(VGS, "group")
        await world.settle(2.0)
        gate.set()
        await world.gone(VGS, "group", wait_s=5.0)
        assert [] == world.driver.made(DELETE_GROUP)
        await nothing_left(world)


async def test_S38_a_request_for_a_group_that_found_no_driver_is_none():
    world = await a_world()
    world.driver.script(CREATE_GROUP, Fail(Code.UNAVAILABLE, "no socket", unsent=True))
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.error("group", "no socket", VGS)
        world.driver.always(CREATE_GROUP, Fail(Code.INVALID_ARGUMENT, "no"))
        await world.delete(VGS, "group")
        await world.gone(VGS, "group", wait_s=10.0)
        await nothing_left(world)


async def test_S38_what_was_sent_for_a_group_is_sent_again_when_the_class_is_gone():
    world = await a_world(parameters={"pool": "a"})
    world.driver.script(CREATE_GROUP, Lose(Code.DEADLINE_EXCEEDED, "perhaps"))
    async with world.both(**ON):
        group = await world.create(a_group_snapshot())
        await world.error(group_content_name(group["metadata"]["uid"]), "perhaps", kind=VGSC)
        refusal = Fail(Code.INVALID_ARGUMENT, "parameter pool is missing")
        world.driver.always(CREATE_GROUP, lambda request: None if request.parameters.get("pool") else refusal)
        await world.delete(GROUP_SNAPSHOT_CLASSES, "groupclass")
        await world.delete(VGS, "group")
        await world.gone(VGS, "group")
        await nothing_left(world)


async def test_S28_a_group_content_that_the_cache_lacks_does_not_stay_behind():
    """The answer to its creation was lost, and the watch is late."""
    world = await a_world("a", faults=LateWatch("volumegroupsnapshotcontents", seconds=30.0))
    world.cluster.refuse("create volumegroupsnapshotcontents", error=Unreachable("lost"), after=True)
    await world.set_finalizers(PVC, "a", CLAIM_FINALIZER)  # so that no write to it wakes the group
    async with world.both(retry_interval_start_s=60.0, **ON):
        await world.create(a_group_snapshot())
        await world.settle(1.0)
        await world.delete(VGS, "group")
        await world.gone(VGS, "group")
        await world.settle(100.0)
        await nothing_left(world)


async def test_S41_a_group_that_is_not_deleted_at_once():
    world = await a_world()
    world.driver.script(DELETE_GROUP, Fail(Code.INTERNAL, "no"), Fail(Code.INTERNAL, "no"))
    async with world.both(**ON):
        group = await world.create(a_group_snapshot())
        await ready(world)
        await world.delete(VGS, "group")
        told = await world.told(group_content_name(group["metadata"]["uid"]), "GroupSnapshotDeleteError")
        assert told.startswith("Failed to delete group snapshot")
        await world.gone(VGS, "group")
        await nothing_left(world)


async def test_S5_the_default_class_of_groups():
    world = await a_world(default=True)
    async with world.both(**ON):
        await world.create(a_group_snapshot(group_class=None))
        assert "groupclass" == (await ready(world))["spec"]["volumeGroupSnapshotClassName"]


@each_row(
    ("labelled", "driver", "text", "more"),
    [
        ((), "csi.test", "not applied to any PVC", []),
        (("a",), "other", 'and class "groupclass" of driver "other"', ["CreateGroupSnapshotContentFailed"]),
    ],
)
async def test_S8_S44_a_group_that_can_not_be_made(labelled, driver, text, more):
    world = await a_world("a", driver=driver)
    if not labelled:
        await world.patch(PVC, "a", {"metadata": {"labels": None}})
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        assert text in await world.told("group", "GroupSnapshotContentCreationFailed")
        assert text in error_of(await world.get(VGS, "group"))
        assert ["GroupSnapshotContentCreationFailed", *more] == await world.reasons("group")
        assert [] == await world.list(VGSC)


async def test_a_group_content_that_is_refused_is_told_twice_and_stands_in_the_status():
    world = await a_world()
    world.cluster.refuse("create volumegroupsnapshotcontents", times=None, error=ServerError("no"))
    async with world.controlling(a_group_snapshot(), **ON):
        text = await world.error("group", kind=VGS)
        assert ("failed to create group snapshot content with error ", "no") == (text[:-2], text[-2:])
        assert text == await world.told("group", "GroupSnapshotContentCreationFailed")
        beginning = "Error creating volume group snapshot content object for group snapshot default/group: "
        assert f"{beginning}no" == await world.told("group", "CreateGroupSnapshotContentFailed")


@each_row("lost", [False, True], ids=["refused", "answer lost"])
@each_row(
    "short",
    [
        *("patch volumegroupsnapshots", "create volumegroupsnapshotcontents", "patch volumegroupsnapshotcontents"),
        *("patch volumegroupsnapshotcontents/status", "patch volumegroupsnapshots/status", "create volumesnapshots"),
        *(CREATE_VSC, PATCH_VSC_STATUS),
    ],
)
async def test_every_write_about_a_group_may_fail(short, lost):
    world = await a_world()
    world.cluster.refuse(short, times=2, error=ServerError("no"), after=lost)
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await ready(world)
        await world.settle(5.0)
        assert (2, 2, 2) == (len(world.driver.snapshots), len(await world.list(VS)), len(await world.list(VSC)))
        await world.remove(VGS, "group")
        await world.settle(LATE_S)  # a member waits for a content that may still be made
        await nothing_left(world)


async def test_S45_an_imported_group():
    world = await a_world()
    for name in "ab":
        world.driver.add(f"h-{name}", f"vol-{name}")
    world.driver.groups["g"] = ["h-a", "h-b"]
    source = {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["h-a", "h-b"]}}
    async with world.both(**ON):
        await world.create(a_group_content(ref_uid=None, source=source), a_group_snapshot(content="groupcontent"))
        await ready(world)
        await world.settle(2.0)
        assert ["a", "b"] == sorted(one["spec"]["source"]["persistentVolumeClaimName"] for one in await world.list(VS))
        await world.remove(VGS, "group")
        await nothing_left(world)


async def test_S55_missing_group_kinds_hold_nobody_up():
    world = await SnapshotWorld(SnapshotDriver(groups=True)).base()
    async with world.both(**ON):
        await world.snap()
        await world.ready()


async def test_S55_nothing_is_done_about_groups_without_the_gate():
    world = await a_world()
    async with world.both():
        await world.create(a_group_snapshot(), a_snapshot_class())
        await world.settle(5.0)
    assert [] == world.written()


async def test_S13_S26_the_metrics_of_single_and_group_snapshots():
    world = await a_world()
    await world.create(a_snapshot_class())

    def counted(operation: str, status: str) -> float | None:
        labels = {
            "driver_name": "csi.test",
            "operation_name": operation,
            "snapshot_type": "dynamic",
            "operation_status": status,
        }
        return world.metrics.registry.get_sample_value("snapshot_controller_operation_total_seconds_count", labels)

    async with world.both(**ON):
        await world.snap(claim="a")
        await world.create(a_group_snapshot())
        await world.ready()
        await ready(world)
        await world.settle(2.0)
        await world.remove(VS, "snap")
        await world.remove(VGS, "group")
        world.driver.always(CREATE_GROUP, Fail(Code.INTERNAL, "no"))
        await world.create(a_group_snapshot("other"))
        await world.create(a_group_snapshot("classless", group_class="missing"))
        await world.error("classless", kind=VGS)
        await world.remove(VGS, "other")
        await world.settle(5.0)
    operations = ("Create{}Snapshot", "Create{}SnapshotAndReady", "Delete{}Snapshot")
    assert [3.0] * 3 == [counted(one.format(""), "success") for one in operations], (
        "the members of a group are snapshots, too"
    )
    assert [1.0, 1.0, 2.0] == [counted(one.format("Group"), "success") for one in operations]
    assert 1.0 == counted("CreateGroupSnapshot", "cancel")
    failed = {
        "operation_name": "CreateGroupSnapshot",
        "operation_status": "failure",
        "driver_name": "unknown",
        "snapshot_type": "dynamic",
    }
    assert 1.0 == world.metrics.registry.get_sample_value("snapshot_controller_operation_total_seconds_count", failed)
