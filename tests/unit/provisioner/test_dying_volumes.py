"""A volume of no use whose deletion was begun is deleted, and never asked for again: in process, in virtual time.

A deletion goes on after its deadline. Until it is over, a driver may answer CreateVolume with the volume that is about
to vanish.
"""

from __future__ import annotations

import itertools

import pytest

from mooring.api.coordination import LEASES
from mooring.kube.errors import Invalid, ServerError
from mooring.sidecars.provisioner.intents.journal import Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_pv
from tests.support.provisioning import CREATE, DELETE, POST_PV, PVS, ProvisioningWorld
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
LATE = Fail(Code.DEADLINE_EXCEEDED, "still at it")


def journal(world: ProvisioningWorld, who: str) -> Journal:
    return Journal(world.cluster, JournalLocation("default", "csi.test"), who, world.clock)


async def refused() -> ProvisioningWorld:
    """The object of the claim's volume is refused once, and the driver does not say that the volume is deleted."""
    world = await ProvisioningWorld(resync_s=0.0).base()
    world.intents = journal(world, "one")
    world.cluster.refuse(POST_PV, error=Invalid("too odd", reason="Invalid"))
    world.driver.always(DELETE, LATE)
    return world


def acts(world: ProvisioningWorld) -> list[str]:
    """Each once, where it was done several times in a row."""
    found = [step for step in world.story if step in (CREATE, DELETE, POST_PV)]
    return [step for number, step in enumerate(found) if number == 0 or found[number - 1] != step]


@each_row("claim", ["there", "gone"])
async def test_it_is_deleted_before_anything_else_is_asked_for(claim: str):
    world = await refused()
    async with world.provisioning():
        await world.failed("Cleanup of volume")
        if claim == "gone":
            await world.delete_claim()
        await world.settle(400)
        assert [CREATE, POST_PV, DELETE] == acts(world)
        world.driver.forget_scripts()
        if claim == "there":
            await world.provisioned()
            assert [CREATE, POST_PV, DELETE, CREATE, POST_PV] == acts(world)
        await world.settle(400)
        assert (claim == "there") == bool(world.driver.volumes)
        assert {} == world.intents.open()


async def test_the_driver_is_given_time_between_the_tries():
    """CSI asks for a back-off. A driver that says at once that a deletion is at work had five calls of each attempt in
    one moment.
    """
    world = await refused()
    world.driver.always(DELETE, Fail(Code.ABORTED, "a deletion is at work"))
    async with world.provisioning():
        await world.calls(5, DELETE)
    times = [call.started_s for call in world.driver.made(DELETE)]
    assert [0.1, 0.2, 0.4, 0.8] == pytest.approx([after - before for before, after in itertools.pairwise(times)])


async def test_the_next_process_goes_on_with_the_deletion():
    world = await refused()
    async with world.provisioning():
        await world.calls(1, DELETE)
    await world.delete_claim()
    world.driver.forget_scripts()
    world.intents = journal(world, "two")
    async with world.provisioning():
        await world.settle(100)
        assert {} == world.driver.volumes == world.intents.open()
    assert [CREATE, POST_PV, DELETE] == acts(world)


async def test_a_deletion_that_can_not_be_written_down_is_not_begun():
    world = await refused()
    gate = world.driver.gate(CREATE)
    async with world.provisioning(calls=1):
        world.cluster.refuse("update leases", times=10, error=ServerError("overloaded", code=500))
        gate.set()
        await world.failed("overloaded")
        assert DELETE not in world.told
        await world.provisioned()
    assert 1 == len(world.driver.volumes)


async def test_one_that_somebody_has_imported_meanwhile_is_left_alone():
    world = await refused()
    async with world.provisioning():
        await world.failed("Cleanup of volume")
        [handle] = world.driver.volumes
        await world.create(a_pv("data", handle, phase="Bound"))
        world.driver.forget_scripts()
        await world.failed('PersistentVolume "data" names the volume')
    assert handle in world.driver.volumes


async def test_one_that_has_an_object_of_the_claims_own_meanwhile_is_the_claims():
    """Another provisioner made it, after an exchange of images."""
    world = await refused()
    async with world.provisioning():
        await world.failed("Cleanup of volume")
        uid = (await world.claim())["metadata"]["uid"]
        body = a_pv(f"pvc-{uid}", f"vol-pvc-{uid}", claimRef={"namespace": "default", "name": "c", "uid": uid})
        world.driver.forget_scripts()
        await world.create(body)
        await world.settle(1000)
        assert {} == world.intents.open()
        assert 1 == len(await world.list(PVS)) == len(world.driver.volumes)
        assert await world.list(LEASES)
