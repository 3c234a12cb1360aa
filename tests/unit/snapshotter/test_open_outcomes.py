"""Creations whose outcome is open, both programs on one store: a refusal says nothing of an earlier request.

Ids: docs/behaviours/snapshotter.md.
"""

from __future__ import annotations

from typing import Any

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES
from mooring.api.snapshot_names import BEING_CREATED, CONTENT_FINALIZER, GROUP_BEING_CREATED
from mooring.kube.errors import Invalid, ServerError, TooLarge, Unreachable
from mooring.sidecars.snapshotter.creation import GIVE_UP_S
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_group_class, a_group_content, a_new_content
from tests.support.cluster_world import HeldWatch, LateWatch
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail, Lose
from tests.support.snapshot_crds import GROUP_CRDS
from tests.support.snapshot_driver import CREATE, CREATE_GROUP, DELETE, LIST, RPC, SnapshotDriver
from tests.support.snapshotting import PATCH_VSC, PATCH_VSC_STATUS, VS, VSC, SnapshotWorld, error_of, finalizers
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

LOST = Lose(Code.DEADLINE_EXCEEDED, "perhaps")
UNFIT = Invalid("too long", details={"causes": [{"field": "status.snapshotHandle"}]})
GONE = Fail(Code.NOT_FOUND, "no such volume")
A_WHILE_S = 400.0
STEADY = {"retry_interval_max_s": 30.0}


async def nothing_left(world: SnapshotWorld) -> None:
    await world.settle(2.0)
    assert ([], [], {}) == (await world.list(VS), await world.list(VSC), world.driver.snapshots)


async def deleted_while_open(world: SnapshotWorld, then: Fail) -> None:
    """A request took effect without an answer; its snapshot object is deleted, and from now on the driver refuses."""
    world.driver.script(CREATE, LOST)
    await world.snap()
    await world.error(text="perhaps")
    world.driver.always(CREATE, then)
    await world.delete(VS, "snap")


async def marked(world: SnapshotWorld) -> bool:
    [content] = await world.list(VSC)
    return BEING_CREATED in (content["metadata"].get("annotations") or {})


async def told(world: SnapshotWorld, content: dict[str, Any]) -> str:
    return "\n".join(text for _, _, text, _ in await world.events(content["metadata"]["name"]))


def made(world: SnapshotWorld, count: int, method: str = CREATE):
    async def is_made() -> bool:
        return len(world.driver.made(method)) >= count

    return is_made


# -- what is no proof


async def test_S38_a_first_request_that_is_refused_has_made_nothing():
    world = await SnapshotWorld().base()
    gate = world.driver.gate(CREATE)
    world.driver.always(CREATE, Fail(Code.INVALID_ARGUMENT, "no"))
    async with world.both():
        await world.snap()
        await world.until(made(world, 1))
        await world.delete(VS, "snap")
        await world.settle(2.0)
        gate.set()
        await world.gone(VS, "snap", wait_s=5.0)
        assert (1, []) == (len(world.driver.made(CREATE)), world.driver.made(DELETE))
        await nothing_left(world)


async def test_S38_a_request_that_found_no_driver_is_none():
    world = await SnapshotWorld().base()
    world.driver.script(CREATE, Fail(Code.UNAVAILABLE, "no socket", unsent=True))
    async with world.both():
        await world.snap()
        await world.error(text="no socket")
        world.driver.always(CREATE, Fail(Code.INVALID_ARGUMENT, "no"))
        await world.delete(VS, "snap")
        await world.gone(VS, "snap", wait_s=10.0)
        await nothing_left(world)


@each_row("code", [Code.NOT_FOUND, Code.INVALID_ARGUMENT, Code.INTERNAL, Code.UNAUTHENTICATED])
async def test_S38_a_refusal_after_an_open_request_lets_nothing_go(code):
    world = await SnapshotWorld().base()
    async with world.both(**STEADY):
        await deleted_while_open(world, Fail(code, "no"))
        await world.settle(A_WHILE_S)
        [content] = await world.list(VSC)
        assert ([CONTENT_FINALIZER], True) == (finalizers(content), await marked(world))
        assert f"take the annotation {BEING_CREATED} off" in error_of(content)
        assert "SnapshotCreationFailed" in await world.reasons(content["metadata"]["name"])
        world.driver.forget_scripts()
        await world.gone(VS, "snap")
        await nothing_left(world)


async def test_S38_a_driver_that_refuses_for_an_hour_is_believed_and_the_doubt_is_told():
    """Also across restarts: the hour counts from the deletion."""
    world = await SnapshotWorld().base()
    async with world.controlling():
        async with world.snapshotting(**STEADY):
            await deleted_while_open(world, GONE)
            [content] = await world.list(VSC)
            await world.settle(GIVE_UP_S - 120.0)
            assert await marked(world)
        async with world.snapshotting(**STEADY):
            await world.gone(VS, "snap", wait_s=240.0)
            text = await world.told(content["metadata"]["name"], "SnapshotKept")
            assert "an earlier request may have made snapshot" in text
        assert [] == world.driver.made(DELETE)


@each_row("controller", [(), (RPC.LIST_SNAPSHOTS,)])
async def test_S38_a_snapshot_that_was_always_refused_goes_in_each_case(controller):
    """The snapshotter came late, or died in a call; and the volume has a snapshot of somebody else."""
    world = await SnapshotWorld(SnapshotDriver(controller=controller)).base()
    world.driver.add("of-the-backup-service")
    world.driver.always(CREATE, GONE)
    async with world.controlling():
        await world.snap()
        await world.settle(120.0)
        async with world.snapshotting(**STEADY):
            await world.error(text="no such volume")
            gate = world.driver.gate(CREATE)
            await world.until(made(world, 2))
        gate.set()
        async with world.snapshotting(**STEADY):
            await world.delete(VS, "snap")
            await world.gone(VS, "snap", wait_s=GIVE_UP_S + 120.0)
        assert ["of-the-backup-service"] == list(world.driver.snapshots)


async def test_S34_a_question_that_fails_for_the_moment_is_asked_again():
    """A CreateSnapshot is the dearest call of all."""
    world = await SnapshotWorld(SnapshotDriver(controller=[RPC.LIST_SNAPSHOTS])).base()
    world.driver.ready = False
    world.driver.script(LIST, Fail(Code.RESOURCE_EXHAUSTED, "throttled"), Fail(Code.INTERNAL, "broken"))
    async with world.both():
        await world.snap()
        await world.settle(600.0)
        world.driver.ready = True
        await world.ready(wait_s=200.0)
    assert 2 == len(world.driver.made(CREATE)), "once, and once for the error that says nothing of the next time"


async def test_S38_somebody_who_knows_takes_the_mark_off():
    world = await SnapshotWorld().base()
    async with world.both():
        await deleted_while_open(world, GONE)
        await world.settle(30.0)
        [content] = await world.list(VSC)
        world.driver.snapshots.clear()
        await world.annotate(VSC, content["metadata"]["name"], **{BEING_CREATED: None})
        await world.gone(VS, "snap")
        assert [] == world.driver.made(DELETE)
        await nothing_left(world)


async def test_S36_a_refusal_after_an_open_request_keeps_the_mark_of_a_living_content():
    world = await SnapshotWorld().base()
    world.driver.script(CREATE, LOST, Fail(Code.INTERNAL, "busy"))
    async with world.both(retry_interval_start_s=30.0):
        await world.snap()
        await world.error(text="busy")
        assert await marked(world)
        await world.delete(VS, "snap")
        await world.gone(VS, "snap")
        await nothing_left(world)


async def test_S38_a_process_does_not_know_what_the_one_before_has_asked_for():
    world = await SnapshotWorld().base()
    gate = world.driver.gate(CREATE)
    async with world.controlling():
        async with world.snapshotting():
            await world.snap()
            await world.until(made(world, 1))
        world.driver.add("h-of-the-request-that-went-on")
        gate.set()
        world.driver.always(CREATE, GONE)
        async with world.snapshotting():
            await world.until(made(world, 2))
            await world.delete(VS, "snap")
            await world.settle(A_WHILE_S)
            assert await marked(world)


async def test_S38_a_content_from_another_node_comes_with_its_past():
    """It is labelled anew by hand, and looks like one that was just made."""
    world = await SnapshotWorld().base()
    world.driver.always(CREATE, GONE)
    async with world.controlling(), world.snapshotting(node_name="n2"):
        await world.snap()
        name = (await world.content())["metadata"]["name"]
        await world.settle(90.0)
        await world.patch(VSC, name, {"metadata": {"labels": {"snapshot.storage.kubernetes.io/managed-by": "n2"}}})
        await world.until(made(world, 1))
        await world.delete(VS, "snap")
        await world.settle(60.0)
        assert await marked(world)


async def test_S38_what_was_sent_is_sent_again_when_the_class_is_gone():
    world = await SnapshotWorld().base({"pool": "a"})
    world.driver.script(CREATE, LOST)
    async with world.both():
        await world.snap()
        await world.error(text="perhaps")
        refusal = Fail(Code.INVALID_ARGUMENT, "parameter pool is missing")
        world.driver.always(CREATE, lambda request: None if request.parameters.get("pool") else refusal)
        await world.users.delete(VOLUME_SNAPSHOT_CLASSES, "snapclass")
        await world.delete(VS, "snap")
        await world.gone(VS, "snap")
        await nothing_left(world)


@each_row("error", [TooLarge("Request entity too large"), UNFIT])
@each_row("policy", ["Delete", "Retain"])
async def test_S38_what_can_not_be_saved_is_deleted_at_once_where_it_would_be_deleted(policy, error):
    world = await SnapshotWorld().base()
    world.cluster.refuse(PATCH_VSC_STATUS, times=None, error=error)
    body = a_new_content("content", policy=policy, volumeSnapshotClassName="snapclass", finalizers=[CONTENT_FINALIZER])
    async with world.snapshotting(body, retry_interval_max_s=10.0):
        await world.settle(5.0)
        await world.delete_by_controller("content")
        await world.settle(20.0)
        kept = policy == "Retain"
        assert (kept, kept) == (await world.find(VSC, "content") is not None, bool(world.driver.snapshots))
        assert (not kept) == bool(world.driver.made(DELETE))


async def test_an_error_that_could_not_be_saved_is_saved_later():
    world = await SnapshotWorld().base()
    world.cluster.refuse(PATCH_VSC_STATUS, error=ServerError("not now"))
    async with world.snapshotting(a_new_content("content", volumeSnapshotClassName="nothing"), resync_s=0.0):
        await world.settle(10.0)
        assert "nothing" in error_of(await world.get(VSC, "content"))


async def test_S38_what_was_deleted_because_it_could_not_be_saved_is_not_made_again():
    """Nobody has taken the mark of its creation off: the write that does so is refused."""
    world = await SnapshotWorld().base()
    world.cluster.refuse(PATCH_VSC_STATUS, times=None, error=UNFIT)
    body = a_new_content("content", volumeSnapshotClassName="snapclass", finalizers=[CONTENT_FINALIZER])
    async with world.snapshotting(body, retry_interval_max_s=10.0):
        await world.settle(5.0)
        await world.delete_by_controller("content")
        world.cluster.refuse(PATCH_VSC, error=ServerError("not now"))
        await world.settle(30.0)
        assert (None, {}, 1) == (
            await world.find(VSC, "content"),
            world.driver.snapshots,
            len(world.driver.made(DELETE)),
        )
        deletion = world.driver.made(DELETE)[0]
        assert [] == [one for one in world.driver.calls[world.driver.calls.index(deletion) :] if one.method == CREATE]


@each_row("status", [None, {"error": {"message": "no"}}], ids=["its first status", "after an error"])
async def test_S40_an_import_whose_handle_was_saved_without_an_answer_takes_its_snapshot_along(status):
    """The cache shows no handle, as of an import that the driver has never told of: the snapshot of such a one is
    left.
    """
    watch = HeldWatch(VSC.plural)
    world = await SnapshotWorld(SnapshotDriver(controller=[RPC.LIST_SNAPSHOTS]), watch).base()
    world.driver.add("old", "elsewhere")
    gate = world.driver.gate(LIST)
    body = a_new_content("content", handle="old", finalizers=[CONTENT_FINALIZER], status=status)
    async with world.snapshotting(body):
        await world.until(made(world, 1, LIST))
        await world.delete_by_controller("content")
        await world.settle(1.0)
        watch.hold()
        world.cluster.refuse(PATCH_VSC_STATUS, error=Unreachable("lost"), after=True)
        gate.set()
        await world.settle(10.0)
        watch.let_go()
        await world.settle(5.0)
        assert (None, {}) == (await world.find(VSC, "content"), world.driver.snapshots)


# -- the mark


@each_row("error", [Unreachable("lost"), ServerError("lost", code=500)])
async def test_S36_the_mark_comes_back_when_nobody_knows_whether_it_went(error):
    """The answer to its removal was lost, and the watch, which would show that it is off, is late."""
    world = await SnapshotWorld(faults=LateWatch("volumesnapshotcontents", seconds=30.0)).base()
    world.driver.script(CREATE, Fail(Code.INTERNAL, "no"))
    async with world.both():
        world.cluster.refuse(PATCH_VSC, error=error, after=True)
        await world.snap()
        await world.until(made(world, 1))
        await world.settle(0.5)
        gate = world.driver.gate(CREATE)
        await world.until(made(world, 2))
        assert await marked(world)
        gate.set()


async def test_S38_a_mark_that_came_back_is_not_doubted_again():
    """Else each request is the first one under its mark, and its refusal counts as proof."""
    world = await SnapshotWorld().base()
    world.driver.script(CREATE, Fail(Code.INTERNAL, "no"), LOST)
    async with world.both(**STEADY):
        world.cluster.refuse(PATCH_VSC, error=Unreachable("lost"), after=True)
        await world.snap()
        await world.error(text="perhaps")
        world.driver.always(CREATE, GONE)
        await world.delete(VS, "snap")
        await world.settle(A_WHILE_S)
        assert await marked(world)


@each_row("error", [Unreachable("lost"), ServerError("lost", code=500)])
async def test_S36_so_does_the_mark_of_a_group(error):
    world = await SnapshotWorld(
        SnapshotDriver(groups=True), faults=LateWatch("volumegroupsnapshotcontents", seconds=30.0)
    ).kinds()
    await world.make_snapshot_kinds(GROUP_CRDS)
    await world.create(a_group_class(), a_group_content())
    world.driver.script(CREATE_GROUP, Fail(Code.INTERNAL, "no"))

    gate = world.driver.gate(CREATE_GROUP)
    async with world.snapshotting(groups=True):
        await world.until(made(world, 1, CREATE_GROUP))
        world.cluster.refuse("patch volumegroupsnapshotcontents", error=error, after=True)
        gate.set()
        await world.settle(0.5)
        gate.clear()
        await world.until(made(world, 2, CREATE_GROUP))
        [content] = await world.list(GROUP_SNAPSHOT_CONTENTS)
        assert GROUP_BEING_CREATED in (content["metadata"].get("annotations") or {})
        gate.set()
