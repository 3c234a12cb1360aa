"""Contents that were kept, and are bound once more; several contents of one snapshot. Ids:
docs/behaviours/snapshotter.md.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import SECRETS
from mooring.api.meta import Key
from mooring.api.snapshot_kinds import SINGLES
from mooring.api.snapshot_names import BEING_DELETED, YES
from mooring.api.snapshot_names import SECRET_NAME as DELETION_SECRET_NAME
from mooring.api.snapshot_names import SECRET_NAMESPACE as DELETION_SECRET_NAMESPACE
from mooring.cluster.snapshots.decision import MarkDeleted
from mooring.cluster.snapshots.reconcile import Reconciler
from mooring.control.caches import Caches
from mooring.control.result import Stale
from tests.support.builders import Json, a_new_content, a_secret, a_snapshot_class
from tests.support.cluster_world import SlowGets
from tests.support.rows import each_row
from tests.support.snapshot_driver import DELETE
from tests.support.snapshotting import PATCH_VSC, VS, VSC, SnapshotWorld
from tests.support.virtual_loop import in_virtual_time
from tests.unit.snapshots.situations import a_view

pytestmark = in_virtual_time


async def a_kept_content(world: SnapshotWorld) -> None:
    """Content `import` of the snapshot `there`, which its VolumeSnapshot has left behind."""
    world.driver.add("there")
    await world.create(a_new_content("import", snapshot="one", handle="there", ref_uid=None, policy="Retain"))
    await world.snap("one", content="import")
    await world.ready("one")
    await world.remove(VS, "one")
    await world.settle(2.0)
    assert YES == marks(await world.get(VSC, "import")).get(BEING_DELETED)


async def hand_over(world: SnapshotWorld, uid: str | None = None, **spec: Any) -> None:
    """The administrator gives that content to the snapshot `two`. uid: as they write it."""
    await world.patch(
        VSC, "import", {"spec": {**spec, "volumeSnapshotRef": {"name": "two", "namespace": "default", "uid": uid}}}
    )


def marks(content: Json) -> Json:
    return content["metadata"].get("annotations") or {}


@each_row("by_hand", [False, True], ids=["bound by us", "bound by hand"])
async def test_S19_a_content_that_is_bound_again_is_not_being_deleted_any_more(by_hand):
    """To delete it by hand deletes no snapshot that is in use."""
    world = await SnapshotWorld().base()
    async with world.both():
        await a_kept_content(world)
        if not by_hand:
            await hand_over(world, deletionPolicy="Delete")
        two = await world.snap("two", content="import")
        if by_hand:
            await hand_over(world, two["metadata"]["uid"], deletionPolicy="Delete")
        await world.ready("two")
        await world.shown(VSC, "import", lambda body: BEING_DELETED not in marks(body), "unmarked")
        await world.delete(VSC, "import")
        await world.settle(60.0)
        assert ([], {"there"}) == (world.driver.made(DELETE), set(world.driver.snapshots))
        await world.remove(VS, "two")
        await world.settle(2.0)
        assert ([], {}) == (await world.list(VSC), world.driver.snapshots)


async def test_S19_binding_and_unmarking_are_one_write():
    """Else a deletion by hand between the two would count as that of the snapshot."""
    world = await SnapshotWorld().base()
    async with world.both():
        await a_kept_content(world)
        await hand_over(world)
        world.story.clear()
        await world.snap("two", content="import")
        await world.ready("two")
        assert 1 == world.written().count(PATCH_VSC)


async def test_S43_a_mark_that_another_program_has_left_goes_from_what_is_in_use():
    """Upstream's controller binds such a content, and leaves the mark; also a content that is deleted by hand
    already.
    """
    world = await SnapshotWorld().base()
    world.driver.add("there")
    async with world.snapshotting():
        async with world.controlling():
            await world.create(a_new_content("import", snapshot="two", handle="there", ref_uid=None))
            await world.snap("two", content="import")
            await world.ready("two")
            await world.settle(2.0)
        await world.delete(VSC, "import")
    await world.annotate(VSC, "import", **{BEING_DELETED: YES})
    async with world.controlling():
        await world.shown(VSC, "import", lambda body: BEING_DELETED not in marks(body), "unmarked")
    async with world.both():
        await world.settle(60.0)
        assert {"there"} == set(world.driver.snapshots)


async def test_S19_a_mark_that_comes_late_does_not_hit_who_is_bound_by_then():
    world = await SnapshotWorld().base()
    await world.create(a_new_content("import", handle="there", ref_uid="uid-one", policy="Retain"))
    caches = Caches(world.runtime)
    contents = caches.of(VSC)
    async with world.running(contents.run()):
        await contents.synced()
        judged = contents.store.get(Key("", "import"))
        await hand_over(world, "uid-two")
        with pytest.raises(Stale):
            await Reconciler(world.cluster, a_view(), {VSC.plural: contents}, world.recorder, world.clock).carry_out(
                SINGLES, Key("", "import"), (MarkDeleted(judged),)
            )
        assert {} == marks(await world.get(VSC, "import"))


@each_row("bound", [False, True], ids=["kept", "bound again"])
async def test_S39_a_content_that_was_kept_keeps_its_snapshot(bound):
    """From the deletion of a second content of the same handle."""
    world = await SnapshotWorld().base()
    async with world.both():
        await a_kept_content(world)
        if bound:
            await hand_over(world)
            await world.snap("two", content="import")
            await world.ready("two")
        await world.create(a_new_content("second", snapshot="three", handle="there", ref_uid=None))
        await world.snap("three", content="second")
        await world.ready("three")
        await world.delete(VS, "three")
        assert "import" in await world.told("second", "SnapshotKept")
        await world.gone(VS, "three")
        await world.settle(5.0)
        assert ([], {"there"}) == (world.driver.made(DELETE), set(world.driver.snapshots))


@each_row("by", ["another content", "its policy"])
async def test_S39_what_is_to_stay_while_the_secret_is_read_is_not_deleted(by):
    slow = SlowGets(SECRETS)
    world = await SnapshotWorld(faults=slow).base()
    world.driver.add("there")
    await world.create(a_secret(data={"user": "dQ=="}))
    secret = {DELETION_SECRET_NAME: "secret", DELETION_SECRET_NAMESPACE: "default"}
    async with world.both():
        await world.create(a_new_content("import", snapshot="one", handle="there", ref_uid=None, annotations=secret))
        await world.snap("one", content="import")
        await world.ready("one")
        await world.delete(VS, "one")
        await slow.asked.wait()
        if by == "its policy":
            await world.patch(VSC, "import", {"spec": {"deletionPolicy": "Retain"}})
        else:
            await world.create(a_new_content("second", snapshot="two", handle="there", ref_uid=None))
        await world.settle(2.0)
        slow.gate.set()
        await world.gone(VSC, "import")
        assert ([], {"there"}) == (world.driver.made(DELETE), set(world.driver.snapshots))


async def test_S39_two_contents_of_one_snapshot_that_go_together_take_turns():
    world = await SnapshotWorld().base()
    world.driver.add("there")
    for name in ("one", "two"):
        await world.create(a_new_content(f"import-{name}", snapshot=name, handle="there", ref_uid=None))
    gate = world.driver.gate(DELETE)
    async with world.both():
        for name in ("one", "two"):
            await world.snap(name, content=f"import-{name}")
            await world.ready(name)
        await world.settle(2.0)
    async with world.controlling():
        for name in ("one", "two"):
            await world.delete(VS, name)
            await world.shown(VSC, f"import-{name}", lambda body: body["metadata"].get("deletionTimestamp"))
    async with world.both():
        await world.settle(10.0)
        assert 1 == len(world.driver.made(DELETE))
        gate.set()
        await world.gone(VS, "one")
        await world.gone(VS, "two")
        assert {} == world.driver.snapshots


# -- contents as hands write them


async def test_S19_a_content_whose_uid_is_empty_is_bound():
    world = await SnapshotWorld().base()
    world.driver.add("there")
    content = a_new_content("import", handle="there", ref_uid=None, policy="Retain", volumeSnapshotClassName="")
    content["spec"]["volumeSnapshotRef"]["uid"] = ""
    await world.create(content)
    async with world.both():
        await world.snap(content="import", snapshot_class="snapclass")
        await world.ready(wait_s=20.0)
        assert "snapclass" == (await world.get(VSC, "import"))["spec"]["volumeSnapshotClassName"]


async def test_S44_a_snapshot_with_a_class_of_another_driver_is_refused_and_can_be_deleted():
    world = await SnapshotWorld().base()
    world.driver.add("there")
    await world.create(
        a_snapshot_class("others", driver="other.csi"), a_new_content("import", handle="there", ref_uid=None)
    )
    async with world.both():
        await world.snap(content="import", snapshot_class="others")
        assert 'class "others" is of driver "other.csi"' in await world.told("snap", "SnapshotBindFailed")
        assert "" == (await world.get(VSC, "import"))["spec"]["volumeSnapshotRef"].get("uid", "")
        await world.delete(VS, "snap")
        await world.gone(VS, "snap", wait_s=5.0)
        await world.snap(content="import")
        await world.ready()
