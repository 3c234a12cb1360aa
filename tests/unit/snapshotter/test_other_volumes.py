"""Drivers that name the source of a snapshot in their own way, both programs on one store."""

from __future__ import annotations

from collections.abc import Callable

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS as VGSC
from mooring.api.group_snapshot import GROUP_SNAPSHOTS as VGS
from mooring.api.snapshot_names import GROUP_BEING_CREATED
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import TooLarge
from tests.support.builders import APP, a_group_class, a_group_snapshot, a_new_content
from tests.support.rows import each_row
from tests.support.snapshot_crds import GROUP_CRDS
from tests.support.snapshot_driver import DELETE, DELETE_GROUP, RPC, SnapshotDriver
from tests.support.snapshotting import PVC, VS, VSC, SnapshotWorld, error_of
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

ON = {"groups": True}


async def nothing_left(world: SnapshotWorld) -> None:
    await world.settle(2.0)
    assert ([], [], {}) == (await world.list(VS), await world.list(VSC), world.driver.snapshots)


# -- spellings


@each_row("told", [str.upper, "disks/{}".format, lambda _: "", lambda _: "0f3a"], ids=["letters", "path", "none", "id"])
@each_row("controller", [(), (RPC.LIST_SNAPSHOTS,), (RPC.GET_SNAPSHOT,)], ids=["asked to create", "listed", "got"])
async def test_another_spelling_is_taken(told, controller):
    world = await SnapshotWorld(SnapshotDriver(controller=controller)).base()
    world.driver.spells, world.driver.ready = told, False
    async with world.both():
        await world.snap()
        content = await world.content(lambda body: (body.get("status") or {}).get("snapshotHandle"))
        await world.settle(30.0)
        world.driver.ready = True
        await world.ready()
        assert [] == await world.reasons(content["metadata"]["name"])
        await world.delete(VS, "snap")
        await world.gone(VS, "snap")
        await nothing_left(world)


async def test_a_driver_that_lists_under_names_of_its_own_is_asked_by_the_snapshots_name():
    """Nobody can say whose the listed one is; the answer to the request itself can."""

    class Opaque(SnapshotDriver):
        async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
            answer = await super().list_snapshots(request)
            for entry in answer.entries:
                entry.snapshot.source_volume_id = "0f3a"
            return answer

    world = await SnapshotWorld(Opaque(controller=[RPC.LIST_SNAPSHOTS])).base()
    world.driver.ready = False
    async with world.both():
        await world.snap()
        await world.content(lambda body: (body.get("status") or {}).get("snapshotHandle"))
        world.driver.ready = True
        await world.ready()


# -- one snapshot of two contents


async def test_a_snapshot_that_two_contents_name_is_deleted_with_the_last_of_them():
    """The driver answers with what it has, or the snapshot was kept and imported again."""
    world = await SnapshotWorld().base()
    await world.claim("other", volume="pv2", handle="elsewhere")
    async with world.both():
        await world.snap("first", claim="other")
        await world.ready("first")
        [one] = world.driver.snapshots.values()
        world.driver.answer = csi.Snapshot(snapshot_id=one.snapshot_id, ready_to_use=True)
        await world.snap()
        await world.ready()
        await world.delete(VS, "first")
        await world.settle(60.0)
        assert [] == world.driver.made(DELETE)
        await world.delete(VS, "snap")
        await world.gone(VS, "snap")
        await world.gone(VS, "first")
        assert one.snapshot_id not in world.driver.snapshots


async def test_an_import_is_found_in_the_spelling_of_the_driver():
    """Azure's ids are the same in any letters: the first entry of the answer is the answer."""

    class Letters(SnapshotDriver):
        async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
            request.snapshot_id = request.snapshot_id.lower()
            return await super().list_snapshots(request)

    world = await SnapshotWorld(Letters(controller=[RPC.LIST_SNAPSHOTS])).base()
    world.driver.add("kept", "vol")
    async with world.both():
        await world.create(a_new_content("imported", handle="KEPT", ref_uid=None))
        await world.shown(VSC, "imported", lambda body: (body.get("status") or {}).get("readyToUse"), "ready")
        assert "KEPT" == (await world.get(VSC, "imported"))["status"]["snapshotHandle"]


# -- groups


async def a_group_world(spells: Callable[[str], str], driver: SnapshotDriver | None = None) -> SnapshotWorld:
    world = await SnapshotWorld(driver or SnapshotDriver(groups=True)).kinds()
    world.driver.spells = spells
    await world.make_snapshot_kinds(GROUP_CRDS)
    await world.create(a_group_class())
    for name in "ab":
        await world.claim(name, volume=f"pv-{name}", handle=f"vol-{name}")
        await world.patch(PVC, name, {"metadata": {"labels": APP}})
    return world


@each_row("spelled", [str.upper, lambda volume: volume.rpartition("-")[2], lambda volume: f"SVC:1;{volume}"])
async def test_a_group_in_another_spelling_is_taken(spelled):
    world = await a_group_world(spelled)
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.shown(VGS, "group", lambda body: (body.get("status") or {}).get("readyToUse"), "ready")
        await world.settle(5.0)
        assert ["a", "b"] == sorted(one["spec"]["source"]["persistentVolumeClaimName"] for one in await world.list(VS))
        [content] = await world.list(VGSC)
        assert [] == await world.reasons(content["metadata"]["name"])
        await world.remove(VGS, "group")
        await nothing_left(world)


@each_row("told", [lambda _: "", lambda _: "vol-b", lambda _: "x"])
async def test_a_group_whose_snapshots_can_not_be_told_apart_can_be_deleted(told):
    world = await a_group_world(told)
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.error("group", "the driver answered with snapshots of", VGS)
        await world.settle(20.0)
        assert [] == await world.list(VS), "of which claim would they be?"
        await world.delete(VGS, "group")
        await world.gone(VGS, "group")
        assert 1 == len(world.driver.made(DELETE_GROUP))
        await nothing_left(world)


async def test_a_driver_that_tells_of_a_group_under_names_of_its_own_is_asked_by_the_groups_name():
    class Opaque(SnapshotDriver):
        async def get_volume_group_snapshot(
            self, request: csi.GetVolumeGroupSnapshotRequest
        ) -> csi.GetVolumeGroupSnapshotResponse:
            answer = await super().get_volume_group_snapshot(request)
            answer.group_snapshot.snapshots[0].source_volume_id = "0f3a"
            return answer

    world = await a_group_world(str, Opaque(groups=True))
    world.driver.ready = False
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.settle(5.0)
        world.driver.ready = True
        await world.shown(VGS, "group", lambda body: (body.get("status") or {}).get("readyToUse"), "ready")
        [content] = await world.list(VGSC)
        assert ([], 2) == (await world.reasons(content["metadata"]["name"]), len(await world.list(VS)))


async def test_S36_a_group_that_the_api_server_does_not_take_is_told_and_stays_marked():
    world = await a_group_world(str)
    world.cluster.refuse("patch volumegroupsnapshotcontents/status", error=TooLarge("Request entity too large"))
    async with world.both(retry_interval_start_s=60.0, **ON):
        await world.create(a_group_snapshot())
        text = await world.error("group", "the API server refused the driver's answer: Request entity too large", VGS)
        [content] = await world.list(VGSC)
        assert (True, text) == (GROUP_BEING_CREATED in content["metadata"]["annotations"], error_of(content))
        assert text == await world.told(content["metadata"]["name"], "GroupSnapshotCreationFailed")
        await world.remove(VGS, "group")
        await nothing_left(world)


async def test_S38_a_group_that_the_api_server_never_takes_can_be_deleted():
    world = await a_group_world(str)
    world.cluster.refuse(
        "patch volumegroupsnapshotcontents/status", times=None, error=TooLarge("Request entity too large")
    )
    async with world.both(retry_interval_max_s=10.0, **ON):
        await world.create(a_group_snapshot())
        await world.settle(5.0)
        await world.delete(VGS, "group")
        await world.gone(VGS, "group", wait_s=60.0)
        [call] = world.driver.made(DELETE_GROUP)
        assert 2 == len(call.request.snapshot_ids)
        await nothing_left(world)


async def test_S39_a_group_that_is_never_taken_is_kept_with_a_snapshot_of_it_that_is_in_use():
    world = await a_group_world(str)
    world.cluster.refuse(
        "patch volumegroupsnapshotcontents/status", times=None, error=TooLarge("Request entity too large")
    )
    async with world.both(retry_interval_max_s=10.0, **ON):
        await world.create(a_group_snapshot())
        await world.settle(5.0)
        await world.create(a_new_content("single", handle=min(world.driver.snapshots), ref_uid=None))
        await world.settle(1.0)
        await world.delete(VGS, "group")
        await world.settle(60.0)
        assert ([], 2) == (world.driver.made(DELETE_GROUP), len(world.driver.snapshots))
        await world.delete(VSC, "single")
        await world.gone(VGS, "group", wait_s=60.0)
        await nothing_left(world)
