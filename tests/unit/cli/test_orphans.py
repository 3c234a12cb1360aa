"""`mooring orphans` on the in-process ports, in virtual time."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import PERSISTENT_VOLUMES
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.chance import Chance
from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.cli import mooring as command
from mooring.cli.orphans import CANNOT, CLEAN, LEFT, Orphans, OrphansFlags
from mooring.csi.codes import Code, DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.provisioner import pages
from mooring.provisioner.intents import Intent
from mooring.provisioner.pages import Place
from mooring.why.inventory import CannotLook
from tests.support.objects import a_pv
from tests.support.scripted_driver import RPC
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import VolumeDriver

PLACE = Place("default", "csi.test")


class Listing(VolumeDriver):
    """Lists two volumes a page. broken: deleting these fails."""

    def __init__(self, *handles: str, lists: bool = True) -> None:
        super().__init__(controller=(RPC.LIST_VOLUMES,) if lists else ())
        self.volumes = dict.fromkeys(handles, 1 << 30)
        self.broken: set[str] = set()

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        start, handles = int(request.starting_token or 0), sorted(self.volumes)
        entries = [{"volume": {"volume_id": handle, "capacity_bytes": 1 << 30}} for handle in handles[start : start + 2]]
        return csi.ListVolumesResponse(entries=entries, next_token=str(start + 2) if start + 2 < len(handles) else "")

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        if request.volume_id in self.broken:
            raise DriverError(Code.INTERNAL, "stuck")
        return await super().delete_volume(request)


class World:
    def __init__(self, driver: Listing) -> None:
        self.clock, self.driver = LoopClock(1_780_000_000.0), driver
        self.cluster = LocalCluster(new_store(Chance(1), 1_780_000_000.0), clock=self.clock, chance=Chance(1))
        self.out, self.err = io.StringIO(), io.StringIO()

    async def run(self, typed: str = "", **flags: Any) -> int:
        port = InProcessDriver(self.driver, clock=self.clock)
        return await Orphans(OrphansFlags(**flags), self.cluster, port, self.clock, io.StringIO(typed), self.out, self.err).run()

    async def own(self, name: str, handle: str) -> None:
        await self.cluster.create(PERSISTENT_VOLUMES.whole(), a_pv(name, source={"csi": {"driver": "csi.test", "volumeHandle": handle}}))

    async def begin(self, volume_name: str) -> None:
        intent = Intent("u1", "ns", "c1", volume_name, "{}", "{}")
        body = pages.page_body(PLACE, 0, None, "somebody", [pages.encoded(intent)], 0.0)
        await self.cluster.create(LEASES.whole(), body, "default")


@in_virtual_time
async def test_where_everything_has_its_place_the_exit_code_is_0():
    world = World(Listing("h1"))
    await world.own("pv1", "h1")
    assert CLEAN == await world.run()
    assert "csi.test: 1 volumes, 0 leaked, 0 ghost, 0 foreign, 0 begun\n" == world.out.getvalue()


@in_virtual_time
async def test_what_is_found_is_shown_and_stays():
    world = World(Listing("h1", "h2", "h3", "h4", "h5"))
    await world.own("pv1", "h1")
    await world.own("pv9", "h9")
    assert LEFT == await world.run(output="json")
    found = [(entry["kind"], entry["volumeHandle"]) for entry in json.loads(world.out.getvalue())["orphans"]]
    assert [("leaked", "h2"), ("leaked", "h3"), ("leaked", "h4"), ("leaked", "h5"), ("ghost", "h9")] == found
    assert 5 == len(world.driver.volumes)


@in_virtual_time
async def test_deleting_asks_waits_and_looks_again():
    world = World(Listing("h1", "h2", "h3"))
    await world.own("pv1", "h1")

    async def claimed_late() -> None:
        await asyncio.sleep(300)
        await world.own("pv3", "h3")

    late = asyncio.create_task(claimed_late(), name="late")
    assert LEFT == await world.run("csi.test\n", delete=True)
    await late
    assert {"h1", "h3"} == set(world.driver.volumes)
    assert world.clock.now() >= 600
    assert "h3: it is not leaked any more" in world.err.getvalue()


@in_virtual_time
async def test_all_that_had_leaked_is_gone_and_the_exit_code_is_0():
    world = World(Listing("h2"))
    assert CLEAN == await world.run(delete=True, yes=True, prefix="h", older_than_s=0.0)
    assert {} == world.driver.volumes
    assert "leaked  h2      1Gi" in world.out.getvalue()
    assert "deleted" in world.out.getvalue()


@in_virtual_time
async def test_another_word_than_the_drivers_name_deletes_nothing():
    world = World(Listing("h2"))
    assert CANNOT == await world.run("yes\n", delete=True)
    assert {"h2"} == set(world.driver.volumes)


@in_virtual_time
async def test_a_volume_that_can_not_be_deleted_is_told_and_the_others_go():
    world = World(Listing("h1", "h2", "h3"))
    world.driver.broken = {"h2"}
    assert LEFT == await world.run("csi.test\n", delete=True, output="json")
    assert {"h2"} == set(world.driver.volumes)
    problems = [entry.get("problem") for entry in json.loads(world.out.getvalue())["orphans"]]
    assert [None, "rpc error: code = Internal desc = stuck", None] == problems


@in_virtual_time
async def test_only_the_volumes_that_are_named_go():
    world = World(Listing("h1", "h2", "h3"))
    assert LEFT == await world.run(delete=True, yes=True, volume="h1,h3", older_than_s=0.0)
    assert {"h2"} == set(world.driver.volumes)


@in_virtual_time
async def test_a_named_volume_that_has_its_object_is_refused():
    world = World(Listing("h1"))
    await world.own("pv1", "h1")
    with pytest.raises(ConfigError, match="h1 is not deleted: it is no orphan"):
        await world.run(delete=True, yes=True, volume="h1")


@in_virtual_time
async def test_what_a_provisioner_has_begun_is_not_touched():
    world = World(Listing("vol-pvc-1", "opaque"))
    await world.begin("pvc-1")
    assert CLEAN == await world.run(delete=True, yes=True, prefix="o", older_than_s=0.0)
    assert {"vol-pvc-1"} == set(world.driver.volumes)
    world = World(Listing("opaque"))
    await world.begin("pvc-1")
    assert LEFT == await world.run(delete=True, yes=True, prefix="o", older_than_s=0.0)
    assert {"opaque"} == set(world.driver.volumes)


@in_virtual_time
async def test_a_journal_that_can_not_be_read_stops_it():
    """It may name what looks leaked."""
    world = World(Listing("opaque"))
    body = pages.page_body(PLACE, 0, None, "somebody", [], 0.0)
    body["metadata"]["annotations"][pages.ENTRIES] = "9:later"
    await world.cluster.create(LEASES.whole(), body, "default")
    with pytest.raises(CannotLook):
        await world.run()


@in_virtual_time
async def test_a_driver_that_does_not_list_can_not_be_asked():
    with pytest.raises(ConfigError, match="LIST_VOLUMES"):
        await World(Listing(lists=False)).run()


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["-o", "xml"], "o: must be table or json"),
        (["--yes"], "go with --delete"),
        (["--delete", "--yes"], "yes: needs --prefix or --volume"),
        (["--older-than=-1s"], "older-than: must not be negative"),
        (["--delete", "--secret=name"], "secret: must be namespace/name"),
    ],
)
def test_words_that_make_no_sense_are_refused(flags: list[str], problem: str, capsys: pytest.CaptureFixture[str]):
    assert 2 == command.run(["orphans", *flags])
    assert problem in capsys.readouterr().err
