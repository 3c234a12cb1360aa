"""A content is deleted only as the version that was judged: the cache may hide that it is to stay by now. Ids:
docs/behaviours/snapshotter.md.
"""

from __future__ import annotations

from mooring.kube.errors import Unreachable
from tests.support.cluster_world import HeldWatch
from tests.support.snapshotting import DELETE_VSC, VS, VSC, SnapshotWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


async def retain(world: SnapshotWorld) -> None:
    [content] = await world.list(VSC)
    await world.patch(VSC, content["metadata"]["name"], {"spec": {"deletionPolicy": "Retain"}})


async def is_kept(world: SnapshotWorld) -> bool:
    """The only content is there, and is not to go."""
    return ["Retain"] == [
        body["spec"]["deletionPolicy"] for body in await world.list(VSC) if "deletionTimestamp" not in body["metadata"]
    ]


async def test_S27_a_content_that_stays_by_now_is_not_deleted_though_its_watch_hangs() -> None:
    """It was marked, and its deletion refused; then the admin had it retained."""
    watch = HeldWatch(VSC.plural)
    world = await SnapshotWorld(faults=watch).base()
    async with world.both():
        await world.snap()
        await world.ready()
        refused = world.cluster.refuse(DELETE_VSC, times=None)
        await world.delete(VS, "snap")
        await world.settle(10.0)
        watch.hold()
        await retain(world)
        assert refused.hits
        refused.times = refused.hits
        await world.gone(VS, "snap", wait_s=1000.0)
        await world.settle(100.0)
        assert await is_kept(world)


async def test_S27_a_deletion_that_comes_late_takes_no_content_that_stays_by_then() -> None:
    world = await SnapshotWorld().base()
    async with world.both():
        await world.snap()
        await world.ready()
        lost = world.cluster.refuse(DELETE_VSC, times=None, error=Unreachable("no answer"), late_s=50.0)
        await world.delete(VS, "snap")
        await world.settle(10.0)
        await retain(world)
        assert lost.hits
        lost.times = lost.hits
        await world.settle(100.0)
        assert await is_kept(world)
