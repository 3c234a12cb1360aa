"""Both programs on one store: from the claim to the storage and back. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

import pytest

from mooring.api.core import EVENTS, SECRETS
from mooring.api.meta import Key
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES
from mooring.api.snapshot_kinds import SINGLES
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BEING_CREATED,
    BOUND_FINALIZER,
    CLAIM_FINALIZER,
    CONTENT_FINALIZER,
)
from mooring.cluster.snapshots.decision import Release
from mooring.cluster.snapshots.reconcile import Reconciler
from mooring.control.caches import Caches
from mooring.control.decision import TELL_S
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Stale
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import Forbidden, Invalid, ServerError
from mooring.sidecars.snapshotter.reconcile import release
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_claim, a_new_content, a_new_snapshot, a_secret, a_snapshot_class
from tests.support.cluster_world import HeldWatch, LateWatch
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail, Lose
from tests.support.snapshot_driver import CREATE, DELETE, GET, LIST, RPC, SnapshotDriver
from tests.support.snapshotting import (
    CREATE_VSC,
    DELETE_VSC,
    PATCH_VS,
    PATCH_VS_STATUS,
    PATCH_VSC,
    PATCH_VSC_STATUS,
    PUT_PVC,
    PVC,
    VS,
    VSC,
    SnapshotWorld,
    error_of,
    finalizers,
)
from tests.support.virtual_loop import in_virtual_time
from tests.unit.snapshots.situations import CLAIM, a_view

pytestmark = in_virtual_time

SECRET_NAME, SECRET_NAMESPACE = (f"csi.storage.k8s.io/snapshotter-secret-{what}" for what in ("name", "namespace"))
SECRET_CLASS = {SECRET_NAME: "secret", SECRET_NAMESPACE: "default"}


async def nothing_left(world: SnapshotWorld) -> None:
    """No object and no snapshot in the driver."""
    assert ([], [], {}) == (await world.list(VS), await world.list(VSC), world.driver.snapshots)


# -- what a life costs


async def test_S13_a_snapshot_takes_eight_writes_and_five_to_go():
    world = await SnapshotWorld().base()
    async with world.both():
        await world.snap()
        await world.ready()
        await world.settle(2.0)
        made = [PATCH_VS, PUT_PVC, CREATE_VSC, PATCH_VS_STATUS, PATCH_VSC_STATUS, PATCH_VSC, PATCH_VS_STATUS, PUT_PVC]
        assert Counter(made) == Counter(world.written())
        assert ["CreatingSnapshot", "SnapshotCreated", "SnapshotReady"] == await world.reasons("snap")
        [content] = await world.list(VSC)
        assert BEING_CREATED not in (content["metadata"].get("annotations") or {})
        world.story.clear()
        await world.remove(VS, "snap")
        await world.settle(2.0)
        assert Counter([PATCH_VSC, DELETE_VSC, PATCH_VS, PATCH_VSC, PATCH_VS]) == Counter(world.written())
        await nothing_left(world)


async def test_S13_with_a_secret_it_takes_nine():
    """There the mark of the creation is a write of its own: docs/decisions/0014."""
    world = await SnapshotWorld().base(SECRET_CLASS)
    await world.create(a_secret(data={"user": "dQ=="}))
    async with world.both():
        await world.snap()
        await world.ready()
        await world.settle(2.0)
        assert 9 == len(world.written())


async def test_S13_twenty_of_one_claim_share_its_finalizer():
    world = await SnapshotWorld().base()
    names = [f"s{number}" for number in range(20)]
    async with world.both():
        for name in names:
            await world.snap(name)
        for name in names:
            await world.ready(name)
        await world.settle(2.0)
        assert 20 == len(world.driver.made(CREATE)) == len(world.driver.snapshots)
        assert 2 >= world.written().count(PUT_PVC)
        for name in names:
            await world.delete(VS, name)
        for name in names:
            await world.gone(VS, name)
        await world.settle(2.0)
        await nothing_left(world)


async def test_a_restart_over_ready_snapshots_writes_nothing():
    world = await SnapshotWorld().base()
    async with world.both():
        await world.snap()
        await world.ready()
        await world.settle(2.0)
    world.story.clear()
    async with world.both():
        await world.settle(5.0)
    assert [] == world.written()


# -- the driver takes its time


async def test_S34_a_slow_snapshot_is_asked_for_at_growing_intervals_without_a_write():
    world = await SnapshotWorld().base()
    world.driver.ready = False
    async with world.both():
        await world.snap()
        await world.shown(VS, "snap", lambda body: (body.get("status") or {}).get("creationTime"))
        assert CLAIM_FINALIZER in finalizers(await world.get(PVC, "claim"))
        await world.settle(5.0)
        world.story.clear()
        await asyncio.sleep(60.0)
        assert [] == world.written()
        before = len(world.driver.made(CREATE))
        world.driver.ready = True
        await world.ready(wait_s=20.0)
        assert before + 1 == len(world.driver.made(CREATE))
    starts = [call.started_s for call in world.driver.made(CREATE)]
    pauses = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert sorted(pauses) == pauses


@each_row("took_s", [3.0, 17.0, 40.0, 600.0, 3600.0])
async def test_S34_a_ready_snapshot_is_seen_after_a_quarter_of_its_time(took_s):
    """And after five minutes at the most."""
    world = await SnapshotWorld().base()
    world.driver.ready = False
    async with world.both():
        await world.snap()
        await asyncio.sleep(took_s)
        world.driver.ready = True
        await world.ready(wait_s=min(max(took_s / 3, 1.5), 300.5))


async def test_S34_a_driver_whose_snapshot_takes_four_hours_is_asked_once_in_five_minutes():
    """external-snapshotter asks about 56 times."""
    world = await SnapshotWorld().base()
    world.driver.ready = False
    async with world.both():
        await world.snap()
        await asyncio.sleep(4 * 3600.0)
    assert 100 > len(world.driver.made(CREATE))


@each_row(("rpc", "method"), [(RPC.LIST_SNAPSHOTS, LIST), (RPC.GET_SNAPSHOT, GET)])
async def test_S34_a_driver_that_can_be_asked_makes_it_once(rpc, method):
    world = await SnapshotWorld(SnapshotDriver(controller=[rpc])).base()
    world.driver.ready = False
    async with world.both():
        await world.snap()
        await world.until(_made(world, method, 3))
        world.driver.ready = True
        await world.ready()
    assert 1 == len(world.driver.made(CREATE))


async def test_S34_a_snapshot_that_is_not_listed_yet_is_asked_for_by_name():
    world = await SnapshotWorld(SnapshotDriver(controller=[RPC.LIST_SNAPSHOTS])).base()
    world.driver.ready = False
    world.driver.answer = csi.Snapshot(snapshot_id="elsewhere", source_volume_id="vol")
    async with world.both():
        await world.snap()
        await world.until(_made(world, CREATE, 3))
    assert 2 == len(world.driver.made(LIST)), "by turns"


def _made(world, method, count):
    async def check():
        return len(world.driver.made(method)) >= count

    return check


# -- failures


async def test_S15_S16_S36_an_error_reaches_the_user_once_and_goes():
    world = await SnapshotWorld().base()
    world.driver.always(CREATE, Fail(Code.INTERNAL, "on fire"))
    async with world.both():
        await world.snap()
        assert "on fire" in await world.error()
        await world.until(_made(world, CREATE, 6))
        [content] = await world.list(VSC)
        assert ["SnapshotCreationFailed"] == await world.reasons(content["metadata"]["name"])
        assert 1 == world.written().count(PATCH_VSC_STATUS)
        world.driver.forget_scripts()
        ready = await world.ready()
        assert "error" not in ready["status"]


async def test_a_failure_whose_event_was_lost_with_its_process_is_told_by_the_next_one():
    world = await SnapshotWorld().base()
    world.driver.always(CREATE, Fail(Code.INTERNAL, "on fire"))
    for _ in range(2):
        async with world.both():
            if await world.find(VS, "snap") is None:
                await world.snap()
                await world.snap("nobodys", claim="missing")
            await world.error()
            await world.error("nobodys")
            [content] = await world.list(VSC)
            assert ["SnapshotCreationFailed"] == await world.reasons(content["metadata"]["name"])
            assert ["SnapshotContentCreationFailed"] == await world.reasons("nobodys")
            await world.annotate(VS, "nobodys", touched="yes")
            assert ["SnapshotContentCreationFailed"] == await world.reasons("nobodys")
        for event in await world.list(EVENTS):
            await world.delete(EVENTS, event["metadata"]["name"], event["metadata"]["namespace"])
        world.story.clear()
    assert [] == [step for step in world.written() if "/status" in step]


async def test_S36_the_mark_goes_with_a_final_error_and_comes_back_before_each_call():
    world = await SnapshotWorld().base()
    world.driver.script(CREATE, Fail(Code.INTERNAL, "no"))
    async with world.both(retry_interval_start_s=60.0):
        await world.snap()
        await world.error()
        await world.settle(5.0)
        [content] = await world.list(VSC)
        assert BEING_CREATED not in (content["metadata"].get("annotations") or {})
        gate = world.driver.gate(CREATE)
        await world.until(_made(world, CREATE, 2))
        [content] = await world.list(VSC)
        assert "yes" == content["metadata"]["annotations"][BEING_CREATED]
        gate.set()
        await world.ready()


@each_row("code", [Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE])
async def test_S37_S38_a_lost_answer_is_found_out_before_the_content_goes(code):
    world = await SnapshotWorld().base()
    world.driver.always(CREATE, Lose(code, "perhaps"))
    async with world.both():
        await world.snap()
        await world.error(text="perhaps")
        [content] = await world.list(VSC)
        assert "yes" == content["metadata"]["annotations"][BEING_CREATED]
        await world.delete(VS, "snap")
        await world.settle(30.0)
        assert ([], 1) == (world.driver.made(DELETE), len(world.driver.snapshots))
        world.driver.forget_scripts()
        await world.gone(VS, "snap")
        await world.settle(2.0)
        await nothing_left(world)


async def test_S43_a_content_deleted_by_hand_waits_for_its_back_off_as_others_do():
    world = await SnapshotWorld().base()
    world.driver.script(CREATE, *[Fail(Code.INTERNAL)] * 200)
    async with world.both():
        await world.snap()
        content = await world.content()
        await world.error(text="Internal")
        await world.delete(VSC, content["metadata"]["name"])
        await world.settle(10.0)
        assert 6 > len(world.driver.made(CREATE))


async def test_S38_deleted_while_the_driver_works():
    world = await SnapshotWorld().base()
    gate = world.driver.gate(CREATE)
    async with world.both():
        await world.snap()
        await world.until(_made(world, CREATE, 1))
        assert {AS_SOURCE_FINALIZER, BOUND_FINALIZER} == set(finalizers(await world.get(VS, "snap")))
        await world.delete(VS, "snap")
        await world.content(lambda body: body["metadata"].get("deletionTimestamp"))
        await world.settle(10.0)
        assert [] == world.driver.made(DELETE)
        gate.set()
        await world.gone(VS, "snap", wait_s=5.0)
        await world.settle(2.0)
        assert 1 == len(world.driver.made(DELETE))
        await nothing_left(world)


async def test_S38_a_secret_and_a_class_that_vanish_do_not_stop_a_deletion():
    world = await SnapshotWorld().base(SECRET_CLASS)
    await world.create(a_secret(data={"user": "dQ=="}))
    world.driver.always(CREATE, Lose(Code.DEADLINE_EXCEEDED, "perhaps"))
    async with world.both():
        await world.snap()
        await world.error(text="perhaps")
        await world.users.delete(SECRETS, "secret", "default")
        await world.users.delete(VOLUME_SNAPSHOT_CLASSES, "snapclass")
        await world.delete(VS, "snap")
        world.driver.forget_scripts()
        await world.settle(30.0)
        assert 1 == len(await world.list(VSC)), "the Secret may come back"
        await world.gone(VS, "snap")
        await world.settle(2.0)
        assert {} == dict(world.driver.made(DELETE)[-1].request.secrets)
        await nothing_left(world)


async def test_S38_a_found_snapshot_that_is_not_ready_is_deleted_at_once():
    world = await SnapshotWorld().base()
    world.driver.ready = False
    world.driver.always(CREATE, Lose(Code.DEADLINE_EXCEEDED, "perhaps"))
    async with world.both():
        await world.snap()
        await world.error(text="perhaps")
        await world.delete(VS, "snap")
        world.driver.forget_scripts()
        await world.gone(VS, "snap", wait_s=20.0)
        await world.settle(2.0)
        await nothing_left(world)


async def test_a_content_whose_creation_had_no_answer_goes_with_its_snapshot():
    """The watch of contents is late, too."""
    world = await SnapshotWorld(faults=LateWatch("volumesnapshotcontents", seconds=5.0)).base()
    world.cluster.refuse(CREATE_VSC, times=1, error=ServerError("no"), after=True)
    async with world.controlling(), world.snapshotting():
        await world.snap()
        await world.error(text="Failed to create snapshot content")
        await world.delete(VS, "snap")
        await world.gone(VS, "snap")
        await world.settle(20.0)
        await nothing_left(world)


async def test_S26_an_unready_snapshot_can_be_deleted():
    world = await SnapshotWorld().base()
    world.driver.ready = False
    async with world.both():
        await world.snap()
        await world.shown(VS, "snap", lambda body: (body.get("status") or {}).get("creationTime"))
        await world.delete(VS, "snap")
        await world.gone(VS, "snap", wait_s=5.0)
        await world.settle(2.0)
        await nothing_left(world)
        assert CLAIM_FINALIZER not in finalizers(await world.get(PVC, "claim"))


async def test_S35_a_secret_that_comes_late():
    world = await SnapshotWorld().base(SECRET_CLASS)
    async with world.both():
        await world.snap()
        text = await world.error()
        assert text.startswith("Failed to create snapshot: failed to get input parameters to create snapshot")
        [content] = await world.list(VSC)
        assert ([], False) == (world.driver.made(CREATE), BEING_CREATED in content["metadata"]["annotations"])
        await world.create(a_secret(data={"user": "dQ=="}))
        await world.ready()
        assert {"user": "u"} == dict(world.driver.made(CREATE)[0].request.secrets)


async def test_S35_a_snapshot_without_its_secret_can_be_deleted():
    world = await SnapshotWorld().base(SECRET_CLASS)
    async with world.both():
        await world.snap()
        await world.error()
        await world.delete(VS, "snap")
        await world.gone(VS, "snap", wait_s=5.0)
        await world.settle(2.0)
        assert [] == world.driver.calls
        await nothing_left(world)


async def test_S41_a_deletion_that_fails_is_told_and_tried_again():
    world = await SnapshotWorld().base()
    world.driver.script(DELETE, Fail(Code.INTERNAL, "no"), Fail(Code.NOT_FOUND, "no"))
    async with world.both():
        await world.snap()
        await world.ready()
        [content] = await world.list(VSC)
        await world.delete(VS, "snap")
        assert (await world.told(content["metadata"]["name"], "SnapshotDeleteError")).startswith(
            "Failed to delete snapshot"
        )
        await world.gone(VS, "snap")
        assert 3 == len(world.driver.made(DELETE))
        await world.settle(2.0)
        await nothing_left(world)


async def test_S41_a_content_that_is_kept_by_now_keeps_its_snapshot_though_its_watch_hangs():
    watch = HeldWatch("volumesnapshotcontents")
    world = await SnapshotWorld(faults=watch).base()
    world.driver.script(DELETE, Fail(Code.INTERNAL, "no"))
    async with world.both():
        await world.snap()
        await world.ready()
        [content] = await world.list(VSC)
        await world.delete(VS, "snap")
        await world.told(content["metadata"]["name"], "SnapshotDeleteError")
        watch.hold()
        await world.patch(VSC, content["metadata"]["name"], {"spec": {"deletionPolicy": "Retain"}})
        await world.settle(600.0)
    assert 1 == len(world.driver.made(DELETE))


async def test_S31_the_api_server_refuses_the_deletion_of_the_content():
    world = await SnapshotWorld().base()
    async with world.both():
        await world.snap()
        await world.ready()
        await world.settle(2.0)
        world.cluster.refuse(DELETE_VSC, times=2, error=ServerError("no"))
        await world.delete(VS, "snap")
        await world.told("snap", "SnapshotContentObjectDeleteError")
        assert {AS_SOURCE_FINALIZER, BOUND_FINALIZER} == set(finalizers(await world.get(VS, "snap")))
        await world.gone(VS, "snap")
        await world.settle(2.0)
        await nothing_left(world)


# -- crashes


@each_row("lost", [False, True], ids=["refused", "answer lost"])
@each_row("short", [PATCH_VS, PUT_PVC, CREATE_VSC, PATCH_VSC_STATUS, PATCH_VSC, PATCH_VS_STATUS])
async def test_every_write_of_a_creation_may_fail(short, lost):
    """Each of them twice: nothing is made twice, and nothing is left."""
    world = await SnapshotWorld().base()
    world.cluster.refuse(short, times=2, error=ServerError("no"), after=lost)
    async with world.both():
        await world.snap()
        await world.ready()
        await world.shown(PVC, "claim", lambda body: CLAIM_FINALIZER not in finalizers(body))
        assert (1, 1) == (len(world.driver.snapshots), len({call.request.name for call in world.driver.made(CREATE)}))
        await world.content(lambda body: BEING_CREATED not in (body["metadata"].get("annotations") or {}))
        await world.remove(VS, "snap")
        await world.settle(2.0)
        await nothing_left(world)


@each_row("lost", [False, True], ids=["refused", "answer lost"])
@each_row("short", [PATCH_VSC, DELETE_VSC, PATCH_VS])
async def test_every_write_of_a_deletion_may_fail(short, lost):
    world = await SnapshotWorld().base()
    async with world.both():
        await world.snap()
        await world.ready()
        await world.settle(2.0)
        world.cluster.refuse(short, times=2, error=ServerError("no"), after=lost)
        await world.remove(VS, "snap")
        await world.settle(5.0)
        await nothing_left(world)


@each_row("moment", range(1, 13))
async def test_both_killed_after_each_step(moment):
    """kill -9 after so many steps of the story, in the life and in the end: one snapshot, then none."""
    world = await SnapshotWorld().base()
    world.look_s = 0.001

    async def grown():
        return len(world.story) >= moment

    async with world.both():
        await world.snap()
        await world.until(grown)
    async with world.both():
        await world.ready()
        await world.settle(2.0)
        assert 1 == len(world.driver.snapshots)
        world.story.clear()
        await world.delete(VS, "snap")
        await world.until(_either(grown, world))
    async with world.both():
        await world.gone(VS, "snap")
        await world.settle(2.0)
        await nothing_left(world)


def _either(grown, world):
    async def check():
        return await grown() or await world.find(VS, "snap") is None

    return check


# -- policies, imports, restores


async def test_S27_kept_on_the_storage_then_brought_back():
    world = await SnapshotWorld().base(policy="Retain")
    async with world.both():
        await world.snap()
        await world.ready()
        [handle] = world.driver.snapshots
        await world.remove(VS, "snap")
        await world.settle(2.0)
        assert ([handle], []) == (list(world.driver.snapshots), world.driver.made(DELETE))
        [kept] = await world.list(VSC)
        await world.create(a_new_content("imported", snapshot="again", handle=handle, ref_uid=None))
        await world.snap("again", content="imported")
        again = await world.ready("again")
        assert again["metadata"]["uid"] == (await world.get(VSC, "imported"))["spec"]["volumeSnapshotRef"]["uid"]
        await world.delete(VSC, kept["metadata"]["name"])
        await world.remove(VS, "again")
        await world.settle(2.0)
        assert {} == world.driver.snapshots


async def test_S30_a_restore_holds_the_snapshot_until_its_claim_is_bound():
    world = await SnapshotWorld().base()
    async with world.both(resync_s=0.0):
        await world.snap()
        await world.ready()
        source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"}
        await world.create(a_claim("restored", dataSource=source))
        await world.settle(2.0)
        await world.delete(VS, "snap")
        assert "Snapshot is being used to restore a PVC" == await world.told("snap", "SnapshotDeletePending")
        await world.settle(TELL_S + 60.0)
        assert [2] == [
            count for _, reason, _, count in await world.events("snap") if reason == "SnapshotDeletePending"
        ], "also without resyncs"
        assert [] == world.driver.made(DELETE)
        await world.patch(PVC, "restored", {"status": {"phase": "Bound"}}, subresource="status")
        await world.gone(VS, "snap", wait_s=5.0)


async def test_S1_S24_finalizers_of_others_stay():
    """On snapshot, claim and content, when ours come and when they go."""
    world = await SnapshotWorld().base()
    await world.set_finalizers(PVC, "claim", "test/claim")
    async with world.both():
        await world.snap(finalizers=["test/snap"])
        await world.ready()
        await world.shown(PVC, "claim", lambda body: finalizers(body) == ["test/claim"])
        assert ["test/snap", AS_SOURCE_FINALIZER, BOUND_FINALIZER] == finalizers(await world.get(VS, "snap"))
        [content] = await world.list(VSC)
        name = content["metadata"]["name"]
        await world.set_finalizers(VSC, name, "test/content", CONTENT_FINALIZER)
        await world.delete(VS, "snap")
        left = await world.shown(VSC, name, lambda body: finalizers(body) == ["test/content"])
        assert "snapshotHandle" not in (left.get("status") or {})
        await world.set_finalizers(VSC, name)
        await world.shown(VS, "snap", lambda body: finalizers(body) == ["test/snap"])


async def test_S14_a_claim_that_is_needed_by_now_is_not_released():
    """The question is asked again at the last moment."""
    world = await SnapshotWorld().base()
    await world.set_finalizers(PVC, "claim", CLAIM_FINALIZER)
    caches = Caches(world.runtime)
    claims = caches.of(PVC)
    async with world.running(claims.run()):
        await claims.synced()
        for snapshots, written in (([a_new_snapshot()], []), ([], [PUT_PVC])):
            view = a_view(snapshots=snapshots, claims=[await world.get(PVC, "claim")])
            await Reconciler(world.cluster, view, {PVC.plural: claims}, world.recorder, world.clock).release_claim(
                CLAIM
            )
            assert written == world.written()


async def test_S40_a_content_is_let_go_only_under_the_policy_that_was_judged():
    """Else its snapshot would stay behind: by now it is to be deleted with it."""
    world = await SnapshotWorld().base()
    content = a_new_content("kept", policy="Retain", finalizers=[CONTENT_FINALIZER])
    await world.create(content)
    contents = Caches(world.runtime).of(VSC)
    async with world.running(contents.run()):
        await contents.synced()
        old = contents.store.get(Key("", "kept"))
        await world.patch(VSC, "kept", {"spec": {"deletionPolicy": "Delete"}})
        with pytest.raises(Stale):
            await ObjectWriter(world.cluster, VSC, contents).patch(old, release(old))
        assert [CONTENT_FINALIZER] == finalizers(await world.get(VSC, "kept"))


@each_row("kind", [VS, VSC])
async def test_S26_S39_a_finalizer_is_removed_only_from_the_place_where_it_stands(kind):
    """The list has moved since: nobody else's goes."""
    ours = AS_SOURCE_FINALIZER if kind is VS else CONTENT_FINALIZER
    world = await SnapshotWorld().base()
    before = {"finalizers": ["others/gone", ours, "others/stays"]}
    await world.create(a_new_snapshot("kept", **before) if kind is VS else a_new_content("kept", **before))
    caches = Caches(world.runtime)
    snapshots, contents = caches.of(VS), caches.of(VSC)
    async with world.running(snapshots.run(), contents.run()):
        await snapshots.synced()
        await contents.synced()
        [judged] = (snapshots if kind is VS else contents).store.values()
        await world.set_finalizers(kind, "kept", ours, "others/stays")
        reconciler = Reconciler(world.cluster, a_view(), {VS.plural: snapshots}, world.recorder, world.clock)
        removal = (
            reconciler.carry_out(SINGLES, Key("default", "kept"), (Release(judged, (ours,)),))
            if kind is VS
            else ObjectWriter(world.cluster, VSC, contents).patch(judged, release(judged))
        )
        with pytest.raises(Stale):
            await removal
        assert [ours, "others/stays"] == finalizers(await world.get(kind, "kept"))


async def test_S17_a_snapshot_is_not_made_again_with_other_data():
    world = await SnapshotWorld().base()
    async with world.both():
        await world.snap()
        await world.ready()
        [content] = await world.list(VSC)
        await world.tear_away(VSC, content["metadata"]["name"])
        assert "VolumeSnapshotContent is missing" == await world.error()
        await world.annotate(VS, "snap", touched="1")
        await world.settle(60.0)
        assert ([], 1) == (await world.list(VSC), len(world.driver.made(CREATE)))
        assert "VolumeSnapshotContent is missing" == error_of(await world.get(VS, "snap"))


async def test_S20_a_content_that_comes_late_is_bound():
    world = await SnapshotWorld().base()
    world.driver.add("h")
    async with world.both():
        await world.create(a_new_snapshot(content="late"))
        assert "VolumeSnapshotContent is missing" == await world.error()
        await world.create(a_new_content("late", handle="h", ref_uid=None))
        await world.ready()
        assert CONTENT_FINALIZER in finalizers(await world.get(VSC, "late"))


async def test_S4_S8_what_comes_late_wakes_the_snapshot_at_once():
    world = await SnapshotWorld().kinds()
    async with world.both():
        await world.snap()
        assert "not found" in await world.error()
        await world.create(a_snapshot_class())
        assert "cannot get claim" in await world.error(text="cannot get claim")
        await world.claim()
        await world.ready(wait_s=5.0)


async def test_a_snapshot_deleted_before_its_content_was_bound_is_deleted_with_it():
    """An import whose status was never written: found by the name that the snapshot wants."""
    world = await SnapshotWorld().base()
    world.driver.add("h")
    await world.create(a_new_content("imported", handle="h", ref_uid=None))
    world.cluster.refuse(PATCH_VS_STATUS, times=None, error=ServerError("no"))
    async with world.both():
        await world.create(a_new_snapshot(content="imported"))
        await world.shown(VSC, "imported", lambda body: body["spec"]["volumeSnapshotRef"].get("uid"))
        await world.delete(VS, "snap")
        await world.gone(VS, "snap")
        await world.settle(2.0)
        await nothing_left(world)


async def test_S14_a_claim_that_can_not_be_let_go_is_told():
    world = await SnapshotWorld().base()
    gate = world.driver.gate(CREATE)
    async with world.both():
        await world.snap()
        await world.until(_made(world, CREATE, 1))
        refusal = world.cluster.refuse(PUT_PVC, times=None, error=ServerError("no"))
        gate.set()
        await world.told("snap", "ErrorPVCFinalizer")
        await world.settle(5.0)  # until nothing but the back-off brings the claim again
        refusal.times = 0
        await world.shown(PVC, "claim", lambda body: CLAIM_FINALIZER not in finalizers(body), wait_s=60.0)


@each_row("error", [ServerError("no"), Forbidden("no"), Invalid("no", details={"causes": [{"field": "status"}]})])
async def test_a_status_that_can_not_be_written_is_told_by_events(error):
    """Of an answer of the driver, and of its refusal, also where the status can't take either."""
    world = await SnapshotWorld().base()
    world.cluster.refuse(PATCH_VSC_STATUS, times=None, error=error)
    async with world.both():
        await world.snap()
        name = (await world.content())["metadata"]["name"]

        async def warned_of(text: str) -> None:
            async def is_told() -> bool:
                return any(text in message for _, _, message, _ in await world.events(name))

            await world.until(is_told, what=text)

        await warned_of("no")
        world.driver.always(CREATE, Fail(Code.PERMISSION_DENIED, "not you"))
        await warned_of("not you")


async def test_S8_a_content_that_the_api_server_refuses_is_told():
    world = await SnapshotWorld().base()
    world.cluster.refuse(CREATE_VSC, times=1, error=ServerError("no"))
    async with world.both():
        await world.snap()
        assert (await world.told("snap", "SnapshotContentCreationFailed")).startswith(
            "Failed to create snapshot content with error "
        )
        assert (await world.told("snap", "CreateSnapshotContentFailed")).startswith(
            "Error creating volume snapshot content object"
        )
        await world.ready()
