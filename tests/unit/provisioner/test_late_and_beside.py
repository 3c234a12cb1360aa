"""What happens beside an attempt, or after it: an object that is stored though the answer was lost, a driver that comes
back, a source whose claim waits for something else, and two writers of one entry of the journal.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from mooring.api.snapshot import VOLUME_SNAPSHOTS
from mooring.base.clock import LoopClock
from mooring.control.result import Retry
from mooring.control.topics import Bus
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import Conflict, ServerError
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords, IntentTracker
from mooring.sidecars.provisioner.model.intent import OwnVolume
from mooring.sidecars.provisioner.model.orders import Order
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_content, a_pv, a_snapshot
from tests.support.provisioning import CLAIMS, CREATE, POST_PV, PVS, AnsweringDriver, ProvisioningWorld
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail
from tests.support.virtual_loop import in_virtual_time
from tests.unit.provisioner.test_journal import JournalWorld, a_request, an_intent

pytestmark = in_virtual_time
OVERLOADED = ServerError("overloaded", code=500)


@each_row("refused_times", [1, 9])
async def test_a_volume_that_was_kept_on_purpose_stays_though_the_answer_to_its_object_was_lost(refused_times: int):
    """Its object was stored; nothing brings that back, with the policy of the class, once it is gone."""
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.cluster.refuse(POST_PV, after=True, error=ServerError("lost", code=500))
    world.cluster.refuse(POST_PV, times=refused_times, error=OVERLOADED)
    async with world.provisioning():
        name = f"pvc-{(await world.claim())['metadata']['uid']}"
        await world.volume(name)
        await world.settle(26)
        await world.touch()
        await world.settle(1)
        await world.patch(PVS, name, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        await world.delete_claim()
        await world.patch(PVS, name, {"status": {"phase": "Released"}}, subresource="status")
        await world.settle(100)
        await world.patch(PVS, name, {"metadata": {"finalizers": None}})
        await world.delete(PVS, name)
        await world.gone(PVS, name)
        await world.settle(400)
        assert await world.find(PVS, name) is None
    assert 1 == len(world.driver.volumes)


async def test_an_object_that_the_watch_shows_is_no_longer_waited_for():
    """Else its intent could bring it back for as long as the back-off of its POST lasts."""
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.cluster.refuse(POST_PV, after=True, error=ServerError("lost", code=500))
    async with world.provisioning():
        await world.provisioned(wait_s=0.2)
        await world.settle(0.2)
        assert {} == world.intents.open()


async def test_an_object_that_the_watch_shows_while_it_is_stored_is_stored_once(capsys: pytest.CaptureFixture[str]):
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.cluster.refuse(POST_PV, error=OVERLOADED)
    async with world.provisioning():
        await world.provisioned()
        await world.settle(1)
    assert "unexpectedly" not in capsys.readouterr().err
    assert [CREATE, POST_PV, POST_PV] == world.told


async def test_an_infeasible_claim_is_tried_again_when_its_driver_comes_back():
    """As by a Go sidecar, which ends with its driver."""
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.driver.script(CREATE, Fail(Code.INVALID_ARGUMENT, "no such tier"))
    async with world.provisioning() as provisioner:
        await world.failed()
        await world.settle(1)
        provisioner.driver_returned()
        await world.settle(100)
    assert [CREATE, CREATE, POST_PV] == world.told


@each_row("how", ["waits for another node", "is bound to another volume"])
async def test_a_source_is_free_while_nothing_is_made_for_the_claim_that_held_it(how: str):
    driver = AnsweringDriver(controller=(RPC.CREATE_DELETE_SNAPSHOT,), topology={"zone": "a"})
    world = ProvisioningWorld(driver, resync_s=0.0)
    await world.make_snapshot_kinds()
    made = await world.create(a_snapshot("s", content="sc1"))
    await world.create(a_content("sc1", {"namespace": "default", "name": "s", "uid": made["metadata"]["uid"]}))
    await world.patch(VOLUME_SNAPSHOTS, "s", {"status": {"readyToUse": True}}, "default", "status")
    await world.make_node("n1", "a")
    await world.make_class(binding="WaitForFirstConsumer")
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    await world.make_claim(node="n1", dataSource=source)
    code = Code.RESOURCE_EXHAUSTED if how == "waits for another node" else Code.INTERNAL
    world.driver.always(CREATE, Fail(code, "full"))
    async with world.provisioning():
        await world.event("ProvisioningFailed", text="full")
        if how == "is bound to another volume":
            await world.create(a_pv("static"))
            await world.patch(CLAIMS, "c", {"spec": {"volumeName": "static"}}, "default")
        await world.settle(1)
        await world.delete(VOLUME_SNAPSHOTS, "s", "default")
        await world.settle(400)
        found = await world.find(VOLUME_SNAPSHOTS, "s", "default")
        assert found is None or names.SNAPSHOT_FINALIZER not in (found["metadata"].get("finalizers") or [])


async def test_a_write_that_returned_is_not_taken_back_by_one_that_failed_before_it():
    world = await JournalWorld().base()
    async with world.journal() as journal:
        await journal.write(an_intent())
        stored = msgspec.structs.replace(an_intent(), own=OwnVolume.STORED)
        hold = world.cluster.hold("update leases")
        world.cluster.refuse("update leases", error=OVERLOADED)
        first = asyncio.create_task(journal.write(stored), name="first")
        await hold.begun.wait()
        second = asyncio.create_task(journal.write(stored), name="second")
        await world.settle(0.1)
        hold.go.set()
        with pytest.raises(ServerError):
            await first
        await second
        await world.settle(20)
        assert {"u1": stored} == await world.stored() == journal.open()


async def test_an_end_that_is_being_written_is_waited_for():
    """The write may be refused yet, and then the volume was released too early."""
    world = await JournalWorld().base()
    refused, made = (
        Order(a_request("u1", request=f'{{"name":"{name}"}}'), csi.CreateVolumeRequest()) for name in ("a", "b")
    )
    async with world.journal() as journal:
        tracker = IntentTracker(journal, ClaimRecords(), LoopClock(), Bus())
        await tracker.begin(refused)
        tracker.mark_unknown(refused.intent)
        await tracker.refuse(refused.intent)
        await tracker.begin(made)
        hold = world.cluster.hold("update leases")
        world.cluster.refuse("update leases", error=OVERLOADED)
        storing = asyncio.create_task(tracker.mark_stored(made.intent), name="storing")
        await hold.begun.wait()
        with pytest.raises(Conflict):
            await tracker.wait_for_end("u1")
        hold.go.set()
        with pytest.raises(Retry):
            await storing
        with pytest.raises(Conflict):
            await tracker.wait_for_end("u1")
        await tracker.mark_stored(made.intent)
        await tracker.wait_for_end("u1")
        assert {"u1": tracker.open["u1"]} == await world.stored()
        assert tracker.open["u1"].is_put_off
