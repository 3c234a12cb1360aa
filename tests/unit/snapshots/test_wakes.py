"""A controller's own writes wake it not, but for what their answers show of others' changes."""

from __future__ import annotations

import pytest

from mooring.api.snapshot_names import AS_SOURCE_FINALIZER
from mooring.cluster.snapshots.own_writes import is_news
from mooring.kube.cache.informer import Cause, Change
from tests.support.builders import DELETED, Json, a_group_content, a_new_snapshot, a_snapshot_class, typed
from tests.support.cluster_world import HeldWatch
from tests.support.rows import each_row
from tests.support.snapshotting import VS, VSC, SnapshotWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

SNAPSHOT = a_new_snapshot(uid="uid-snap")


def news(old: Json, new: Json, cause: Cause = Cause.OWN_WRITE) -> bool:
    return is_news(Change(typed(old), typed(new), cause))


@each_row(
    "new",
    [
        pytest.param(a_new_snapshot(uid="uid-snap", deletionTimestamp=DELETED), id="deleted"),
        pytest.param(a_new_snapshot(uid="uid-snap", snapshot_class="other"), id="another-class"),
        pytest.param(a_new_snapshot(uid="uid-another"), id="another-object"),
    ],
)
def test_the_answer_to_our_own_write_shows_the_work_of_others(new):
    assert news(SNAPSHOT, new)


def test_our_own_write_wakes_nobody():
    written = {**a_new_snapshot(uid="uid-snap", finalizers=["ours"]), "status": {"readyToUse": True}}
    assert not news(SNAPSHOT, written)
    assert news(SNAPSHOT, written, Cause.WATCH)


def test_the_status_may_be_of_others():
    change = Change(typed(a_group_content()), typed(a_group_content(status={"readyToUse": True})), Cause.OWN_WRITE)
    assert (False, True) == (is_news(change), is_news(change, lambda content: content.status))


async def test_another_snapshot_of_the_name_that_our_own_write_has_met_is_looked_at():
    """No event brings it any more: the cache has it already when the watch shows it."""
    watch = HeldWatch(VS.plural)
    world = await SnapshotWorld(faults=watch).base()
    async with world.both():
        await world.create(a_new_snapshot(content="imported", snapshot_class="late", finalizers=[AS_SOURCE_FINALIZER]))
        await world.error(text='"late" not found')
        watch.hold()
        await world.tear_away(VS, "snap")
        await world.snap()
        await world.create(a_snapshot_class("late"))
        await world.settle(2.0)
        assert await world.list(VSC), "the new one has its content"
        watch.let_go()
        await world.ready()


async def test_an_error_that_is_written_late_is_taken_off_a_ready_snapshot():
    """Only the answer to the write that says ready shows it: the watch is behind."""
    watch = HeldWatch(VS.plural)
    world = await SnapshotWorld(faults=watch).base()
    async with world.controlling():
        await world.snap()
        content = await world.content()
        await world.shown(VS, "snap", lambda body: body.get("status"), "bound")
        watch.hold()
        await world.patch(VS, "snap", {"status": {"error": {"message": "given up"}}}, subresource="status")
        await world.cut(content["metadata"]["name"])
        await world.settle(2.0)
        watch.let_go()
        await world.settle(2.0)
        status = (await world.get(VS, "snap"))["status"]
        assert (True, None) == (status["readyToUse"], status.get("error"))


def test_what_a_write_of_our_own_has_found_is_looked_at():
    """Another one of the name stands there, and no event brings it any more."""
    assert is_news(Change(None, typed(SNAPSHOT), Cause.OWN_WRITE))
    assert not is_news(Change(typed(SNAPSHOT), None, Cause.OWN_WRITE))
