"""What real drivers do at the CSI boundary, each shape with those that have it, both programs on one store: a snapshot
gets ready, and goes with all that the storage has of it, as with the Go programs. Shapes that have a test elsewhere:
36 for a driver that is believed by its list in `test_lives.py`, 38 in `snapshotter/test_other_volumes.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_group_snapshot, a_new_content
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose
from tests.support.snapshot_driver import CREATE, DELETE, LIST, SnapshotDriver
from tests.support.snapshotting import VS, VSC, SnapshotWorld
from tests.support.virtual_loop import in_virtual_time
from tests.unit.snapshots.test_groups import ON, a_world

pytestmark = [in_virtual_time, pytest.mark.slow]

FINAL = (Code.NOT_FOUND, Code.FAILED_PRECONDITION, Code.INTERNAL, Code.ALREADY_EXISTS, Code.UNKNOWN)
PASSING = (Code.ABORTED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED)
ASKED = {"asked to create": (), "listed": (RPC.LIST_SNAPSHOTS,), "got": (RPC.GET_SNAPSHOT,)}


async def nothing_left(world: SnapshotWorld, *kept: str) -> None:
    """The snapshot and its content are deleted, and what the driver made for them."""
    await world.delete(VS, "snap")
    await world.gone(VS, "snap", wait_s=1200.0)
    await world.settle(2.0)
    assert ([], list(kept)) == (await world.list(VSC), list(world.driver.snapshots))


SOURCES: dict[str, tuple[str, Callable[[str], str]]] = {
    "5 spdk: the volume without its node": ("node1:lvol", lambda handle: handle.partition(":")[2]),
    "5 unity: the last part": ("pvc-1-FC-apm001-sv_12", lambda handle: handle.rpartition("-")[2]),
    "5 exos x: the name without protocol and number": ("name##iscsi##600c", lambda handle: handle.partition("#")[0]),
    "6 azuredisk: in other letters": ("/subscriptions/S/disks/d", str.lower),
    "6 powerflex nfs: a bare id": ("system/nfs/fs-1", lambda handle: handle.rpartition("/")[2]),
    "6 scaleway: with a zone": ("0f3a", "fr-par-1/{}".format),
    "6 ibm vpc, across accounts: none": ("r018-1", lambda _: ""),
    "another volume": ("vol", lambda _: "elsewhere"),
}


@each_row(("handle", "spells"), SOURCES.values(), ids=SOURCES)
@each_row("able", ASKED.values(), ids=ASKED)
async def test_zoo_5_and_6_whatever_the_source_is_called(handle, spells, able):
    world = await SnapshotWorld(SnapshotDriver(controller=able)).base(handle=handle)
    world.driver.spells, world.driver.ready = spells, False
    async with world.both():
        await world.snap()
        await world.settle(20.0)
        world.driver.ready = True
        await world.ready()
        assert 1 == len(world.driver.snapshots)
        await nothing_left(world)


class Listing(SnapshotDriver):
    """Answers a question about one snapshot in a way of its own."""

    def __init__(self, change: Callable[[SnapshotDriver, csi.ListSnapshotsResponse], None]) -> None:
        super().__init__(controller=(RPC.LIST_SNAPSHOTS,))
        self.change = change

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        answer = await super().list_snapshots(request)
        self.change(self, answer)
        return answer


def _endless(_: SnapshotDriver, answer: csi.ListSnapshotsResponse) -> None:
    answer.next_token = "0"


def _all_of_the_volume(driver: SnapshotDriver, answer: csi.ListSnapshotsResponse) -> None:
    del answer.entries[:]
    answer.entries.extend({"snapshot": driver._shown(handle)} for handle in driver.snapshots)


def _not_known(_: SnapshotDriver, answer: csi.ListSnapshotsResponse) -> None:
    del answer.entries[:]


def _not_found(_: SnapshotDriver, answer: csi.ListSnapshotsResponse) -> None:
    raise DriverError(Code.NOT_FOUND, "no such snapshot")


def _without_time_and_source(_: SnapshotDriver, answer: csi.ListSnapshotsResponse) -> None:
    for entry in answer.entries:
        entry.snapshot.ClearField("creation_time")
        entry.snapshot.source_volume_id = ""


LISTS = {
    "8 unity, azuredisk: a token on the last page": _endless,
    "37 quobyte: all snapshots of the volume": _all_of_the_volume,
    "37 cinder: a backup is not among the snapshots": _not_known,
    "37 NotFound": _not_found,
    "ibm vpc: no time and no source": _without_time_and_source,
}


@each_row("change", LISTS.values(), ids=LISTS)
async def test_zoo_8_and_37_whatever_the_list_says_of_it(change):
    world = await SnapshotWorld(Listing(change)).base()
    world.driver.add("older")
    world.driver.ready = False
    async with world.both():
        await world.snap()
        await world.settle(60.0)
        world.driver.ready = True
        await world.ready()
        assert 40 > len(world.driver.made(LIST)), "one page for each question"
        await nothing_left(world, "older")


@each_row("code", [*FINAL, *PASSING])
@each_row("lost", [False, True])
async def test_zoo_35_any_error_three_times_and_then_a_snapshot(code, lost):
    """lost: the driver has made it all the same."""
    world = await SnapshotWorld().base()
    world.driver.script(CREATE, *[(Lose if lost else Fail)(code, "no")] * 3)
    async with world.both():
        await world.snap()
        await world.ready(wait_s=60.0)
        assert (4, 1) == (len(world.driver.made(CREATE)), len(world.driver.snapshots))
        await nothing_left(world)


@each_row("code", [*FINAL, *PASSING])
async def test_zoo_39_any_error_of_a_deletion_is_an_error(code):
    """Also longhorn's NotFound, and cephfs' FailedPrecondition as long as there are clones."""
    world = await SnapshotWorld().base()
    world.driver.script(DELETE, *[Fail(code, "no")] * 3)
    async with world.both():
        await world.snap()
        await world.ready()
        await nothing_left(world)
    assert 4 == len(world.driver.made(DELETE))


class Now(SnapshotDriver):
    """Tells the time of the call as that of the snapshot, as powermax, powerstore, spdk, nfs and juicefs do."""

    times = itertools.count(1_700_000_000, 60)

    def _shown(self, handle: str) -> csi.Snapshot:
        shown = super()._shown(handle)
        shown.creation_time.seconds = next(self.times)
        return shown


async def test_zoo_a_time_that_is_now_at_each_call_makes_no_write_of_a_group():
    world = await a_world()
    world.driver = Now(groups=True)
    world.driver.ready = False
    async with world.both(**ON):
        await world.create(a_group_snapshot())
        await world.settle(10.0)
        world.story.clear()
        await world.settle(600.0)
        assert [] == world.written()


async def test_zoo_a_time_that_is_now_at_each_call_is_that_of_the_first():
    world = await SnapshotWorld(Now()).base()
    world.driver.ready = False
    async with world.both():
        await world.snap()
        await world.settle(10.0)
        world.story.clear()
        await world.settle(600.0)
        assert [] == world.written()
        world.driver.ready = True
        first = (await world.get(VS, "snap"))["status"]["creationTime"]
        assert first == (await world.ready(wait_s=300.0))["status"]["creationTime"]
        await nothing_left(world)


@each_row("told", [str.upper, "crn:v1:bluemix:{}".format, lambda handle: handle.rpartition(":")[2]])
async def test_zoo_38_an_import_is_found_under_any_spelling_of_its_id(told):
    """azuredisk, ibm vpc, scaleway: the first entry of an answer to a question about one id is the answer."""

    def spelled(_: SnapshotDriver, answer: csi.ListSnapshotsResponse) -> None:
        for entry in answer.entries:
            entry.snapshot.snapshot_id = told(entry.snapshot.snapshot_id)

    world = await SnapshotWorld(Listing(spelled)).base()
    world.driver.add("zone:kept")
    async with world.both():
        await world.create(a_new_content("import", snapshot="snap", handle="zone:kept", ref_uid=None))
        await world.snap(content="import")
        await world.ready()
        assert "zone:kept" == (await world.get(VSC, "import"))["status"]["snapshotHandle"]
        await nothing_left(world)
