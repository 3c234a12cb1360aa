"""A claim that has its volume, and may have made another one before: in process, in virtual time.

An answer from zone a was lost, then there was no room, and another node was selected, in zone b: that makes the claim's
volume. What the request for zone a has made goes after that one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mooring.api.snapshot import GROUP, VOLUME_SNAPSHOTS
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import ServerError
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.intents import lease_codec, lease_store
from mooring.sidecars.provisioner.intents.journal import Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_content, a_pv, a_snapshot
from tests.support.cluster_world import metric
from tests.support.provisioning import CLAIMS, CREATE, DELETE, POST_PV, PVS, ProvisioningWorld
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose, Step, Wait
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import VolumeDriver, ZonalDriver

pytestmark = in_virtual_time
FULL = Fail(Code.RESOURCE_EXHAUSTED, "full")


def in_zone_a(step: Step):
    def judged(request: csi.CreateVolumeRequest) -> Step:
        return step if request.accessibility_requirements.preferred[0].segments["zone"] == "a" else None

    return judged


def journal(world: ProvisioningWorld, who: str) -> Journal:
    return Journal(world.cluster, JournalLocation("default", "csi.test"), who, world.clock)


async def torn(driver: VolumeDriver, **claim: Any) -> ProvisioningWorld:
    """Nothing more is said of zone a than that it is full."""
    world = ProvisioningWorld(driver, resync_s=0.0)
    world.intents = journal(world, "one")
    await world.make_node("n1", "a")
    await world.make_node("n2", "b")
    await world.make_class(binding="WaitForFirstConsumer")
    await world.make_claim(node="n1", **claim)
    driver.script(CREATE, Lose())
    driver.always(CREATE, in_zone_a(FULL))
    return world


async def served(world: ProvisioningWorld) -> str:
    """Another node is selected. Gives the handle of the claim's volume."""
    await world.failed("full")
    await world.settle(1)
    await world.annotate({names.SELECTED_NODE: "n2"})
    pv = await world.provisioned()
    return str(pv["spec"]["csi"]["volumeHandle"])


async def released(world: ProvisioningWorld) -> str:
    """Gives the name of the volume whose claim is deleted."""
    name = f"pvc-{(await world.claim())['metadata']['uid']}"
    await world.delete_claim()
    await world.patch(PVS, name, {"status": {"phase": "Released"}}, subresource="status")
    return name


PROTECTION = "kubernetes.io/pv-protection"


async def without_claims(world: ProvisioningWorld, times: int = 2) -> None:
    """The PV controller finds each stored volume released, and lets those go that are deleted."""
    for _ in range(times):
        await world.settle(600)
        for pv in (await world.users.list(PVS.whole())).items:
            if pv["metadata"]["name"].startswith("pvc-"):
                await world.patch(PVS, pv["metadata"]["name"], {"status": {"phase": "Released"}}, subresource="status")
        await world.settle(20)
        for pv in (await world.users.list(PVS.whole())).items:
            if "deletionTimestamp" in pv["metadata"] and pv["metadata"].get("finalizers") == [PROTECTION]:
                await world.patch(PVS, pv["metadata"]["name"], {"metadata": {"finalizers": None}})


async def test_each_node_of_a_full_zone_is_given_up_though_the_request_for_it_is_the_former_one():
    """A request names zones: that for another node of the zone is the same one, and its refusal is about this node."""
    world = await torn(ZonalDriver(topology={}))
    await world.make_node("n3", "a")
    async with world.provisioning():
        await world.failed("full")
        await world.settle(1)
        for _ in range(2):
            await world.annotate({names.SELECTED_NODE: "n3"})
            await world.until(lambda: is_without_node(world), 20)
        await world.annotate({names.SELECTED_NODE: "n2"})
        await world.provisioned()


async def is_without_node(world: ProvisioningWorld) -> bool:
    return names.SELECTED_NODE not in (await world.claim())["metadata"]["annotations"]


async def test_what_was_made_in_the_zone_before_goes_after_the_claims_volume():
    world = await torn(ZonalDriver(topology={}))
    async with world.provisioning():
        handle = await served(world)
        assert handle.startswith("b/")
        world.driver.forget_scripts()
        made = len(world.driver.made(CREATE))
        await world.settle(600)
        assert made == len(world.driver.made(CREATE)), "the claim has its volume, and nothing is asked for"
        assert DELETE not in world.told
        assert (2, 1) == (len(world.driver.volumes), len(world.intents.open()))
        ages = [metric(world.metrics, f"mooring_provisioner_intents_{name}") for name in ("open", "oldest_seconds")]
        assert [1, 0] == ages, "nobody is to be warned of one that waits for its user"
        await world.delete_claim()
        await without_claims(world)
        assert {} == world.driver.volumes == world.intents.open()


async def torn_in_many_zones(count: int) -> ProvisioningWorld:
    """One node after the other is full, and the answer to the first call for each was lost."""
    world = ProvisioningWorld(ZonalDriver(topology={}), resync_s=0.0)
    world.intents = journal(world, "one")
    for number in range(count):
        await world.make_node(f"n{number}", f"z{number}")
    await world.make_class(binding="WaitForFirstConsumer")
    await world.make_claim(node="n0")
    asked = set()

    def judged(request: csi.CreateVolumeRequest) -> Step:
        zone = request.accessibility_requirements.preferred[0].segments["zone"]
        is_first, _ = zone not in asked, asked.add(zone)
        return Lose() if is_first else FULL

    world.driver.always(CREATE, judged)
    return world


async def each_is_full(world: ProvisioningWorld, count: int) -> None:
    for number in range(count):
        await world.annotate({names.SELECTED_NODE: f"n{number}"})
        await world.until(lambda: is_without_node(world), 5000)


async def test_no_former_request_is_given_up_for_a_new_one():
    world = await torn_in_many_zones(12)
    async with world.provisioning():
        await each_is_full(world, 12)
        assert 12 == len(world.driver.volumes)
        await world.delete_claim()
        world.driver.forget_scripts()
        await without_claims(world, 12)
        assert {} == world.driver.volumes == world.intents.open()


async def test_a_request_that_is_one_too_many_is_not_made(monkeypatch: pytest.MonkeyPatch):
    """The user is told, and nothing that may have made a volume is given up."""
    world = await torn_in_many_zones(3)
    async with world.provisioning():
        await each_is_full(world, 2)
        [entry] = world.intents.open().values()
        size = lease_codec.packed_bytes(lease_codec.encoded(entry))
        monkeypatch.setattr(lease_store, "ENTRY_BYTES_MAX", size)
        await world.annotate({names.SELECTED_NODE: "n2"})
        await world.failed("what was asked for and is asked for now is too large to be written down")
        assert [entry] == list(world.intents.open().values())
        assert 2 == len(world.driver.volumes)
        monkeypatch.undo()
        await world.settle(5)
        assert 3 == len(world.driver.volumes), "it is tried again"


async def test_the_next_process_knows_that_there_may_be_a_second_one():
    world = await torn(ZonalDriver(topology={}))
    async with world.provisioning():
        await served(world)
        await world.settle(1)
    world.driver.forget_scripts()
    world.intents = journal(world, "two")
    async with world.provisioning():
        await world.settle(10)
        assert 2 == len(world.driver.volumes)
        await world.delete_claim()
        await without_claims(world)
        assert {} == world.driver.volumes == world.intents.open()


async def test_the_next_process_holds_no_source_for_what_is_put_off():
    """The claim has its data, and may live for years. Another one of that source has it held for a moment."""
    driver = VolumeDriver(controller=(RPC.CREATE_DELETE_SNAPSHOT,), topology={"zone": "b"})
    source = {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "s"}
    world = await torn(driver, dataSource=source)
    await world.make_snapshot_kinds()
    made = await world.create(a_snapshot("s", content="sc1"))
    await world.create(a_content("sc1", {"namespace": "default", "name": "s", "uid": made["metadata"]["uid"]}))
    await world.patch(VOLUME_SNAPSHOTS, "s", {"status": {"readyToUse": True}}, "default", "status")
    async with world.provisioning():
        await served(world)
        await world.settle(10)
    world.intents = journal(world, "two")
    async with world.provisioning():
        await world.settle(10)
        assert [True] == [entry.is_put_off for entry in world.intents.open().values()]
        await world.make_claim("d", node="n2", dataSource=source)
        await world.provisioned("d")
        await world.delete(VOLUME_SNAPSHOTS, "s", "default")
        await world.settle(1000)
        found = await world.find(VOLUME_SNAPSHOTS, "s", "default")
        assert found is None or names.SNAPSHOT_FINALIZER not in (found["metadata"].get("finalizers") or [])


async def test_what_could_not_be_written_down_is_known_from_the_request_of_the_claims_volume():
    """Killed before the journal said whose volume is stored."""
    world = await torn(ZonalDriver(topology={}))
    async with world.provisioning():
        await world.failed("full")
        await world.settle(1)
        gate = world.driver.gate(CREATE)
        await world.annotate({names.SELECTED_NODE: "n2"})
        await world.settle(1)
        refusal = world.cluster.refuse("update leases", times=None, error=ServerError("overloaded", code=500))
        world.intents = journal(world, "two")
        gate.set()
        await world.provisioned()
    refusal.times = 0
    world.driver.forget_scripts()
    async with world.provisioning():
        await world.settle(10)
        assert 2 == len(world.driver.volumes)
        await world.delete_claim()
        await without_claims(world)
        assert {} == world.driver.volumes == world.intents.open()


@each_row("pending", [False, True])
async def test_a_write_that_says_whose_volume_is_stored_is_tried_again(pending: bool):
    """Else a user who takes the object away by hand, to keep the volume, loses it to the next process."""
    world = await torn(VolumeDriver(topology={"zone": "b"}))
    async with world.provisioning():
        await world.failed("full")
        await world.settle(1)
        gate = world.driver.gate(CREATE)
        await world.annotate({names.SELECTED_NODE: "n2"})
        await world.settle(1)
        if pending:
            world.cluster.refuse("create persistentvolumes", error=ServerError("overloaded", code=500))
        world.cluster.refuse("update leases", error=ServerError("overloaded", code=500))
        gate.set()
        name = (await world.provisioned())["metadata"]["name"]
        await world.settle(60)
    await world.delete_claim()
    await world.patch(PVS, name, {"metadata": {"finalizers": None}})
    await world.delete(PVS, name)
    world.intents = journal(world, "two")
    world.driver.forget_scripts()
    async with world.provisioning():
        await without_claims(world)
        assert 1 == len(world.driver.volumes)


@each_row("driver", [ZonalDriver, VolumeDriver])
async def test_the_claims_volume_goes_though_there_may_be_a_second_one(driver: type[VolumeDriver]):
    """And what the former request makes then, perhaps under the handle that the claim's had, goes as well."""
    world = await torn(driver(topology={"zone": "b"}))
    async with world.provisioning():
        handle = await served(world)
        name = await released(world)

        async def is_released() -> bool:
            return names.VOLUME_FINALIZER not in (await world.get(PVS, name))["metadata"].get("finalizers", [])

        await world.until(is_released, 20)
        assert handle not in world.driver.volumes
        world.driver.forget_scripts()
        await without_claims(world)
        assert {} == world.driver.volumes == world.intents.open()
    assert 2 == world.told.count(POST_PV)


async def test_that_the_claims_volume_is_gone_is_known_also_where_its_object_was_never_held():
    """It was to be retained, until its claim was deleted: what the former request makes then has its handle, and is
    another volume.
    """
    world = await torn(VolumeDriver(topology={"zone": "b"}))
    async with world.provisioning():
        await served(world)
        name = f"pvc-{(await world.claim())['metadata']['uid']}"
        await world.patch(PVS, name, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        await released(world)
        await world.settle(5)
        assert names.VOLUME_FINALIZER not in (await world.get(PVS, name))["metadata"]["finalizers"]
        await world.patch(PVS, name, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
        await world.settle(20)
        await world.patch(PVS, name, {"metadata": {"finalizers": None}})
        assert {} == world.driver.volumes
        world.driver.forget_scripts()
        await without_claims(world)
        assert {} == world.driver.volumes == world.intents.open()


async def test_a_second_volume_that_somebody_has_imported_is_left_alone():
    world = await torn(ZonalDriver(topology={}))
    async with world.provisioning():
        handle = await served(world)
        second = f"a/pvc-{(await world.claim())['metadata']['uid']}"
        await world.create(a_pv("data", second, phase="Bound"))
        world.driver.forget_scripts()
        await world.delete_claim()
        await without_claims(world)
        assert [second] == list(world.driver.volumes)
        assert {} == world.intents.open()
    assert [handle] == [call.request.volume_id for call in world.driver.made(DELETE)]


async def test_a_claim_whose_object_is_gone_gets_what_its_former_request_has_made():
    """The scheduler has gone back to the first node meanwhile."""
    world = await torn(ZonalDriver(topology={}))
    async with world.provisioning():
        await served(world)
        name = f"pvc-{(await world.claim())['metadata']['uid']}"
        await world.annotate({names.SELECTED_NODE: "n1"})
        world.driver.forget_scripts()
        await world.patch(PVS, name, {"metadata": {"finalizers": None}})
        await world.delete(PVS, name)
        again = await world.volume(name)
    assert again["spec"]["csi"]["volumeHandle"].startswith("a/")


async def test_nothing_is_asked_for_while_the_claims_volume_is_deleted():
    """A driver whose names are unique could make that one again, and nobody would know it for a new one."""
    world = await torn(VolumeDriver(topology={"zone": "b"}))
    async with world.provisioning():
        await served(world)
        world.driver.forget_scripts()
        world.driver.always(DELETE, Wait(9.0))
        made = len(world.driver.made(CREATE))
        await released(world)
        await world.settle(8)
        assert (1, made) == (len(world.driver.made(DELETE)), len(world.driver.made(CREATE)))
        await without_claims(world)
        assert {} == world.driver.volumes == world.intents.open()
    assert [] == world.driver.overlaps


class Spelling(VolumeDriver):
    """One volume a name; it spells its id in its own way, which changes. It knows all of its spellings."""

    spelled: Callable[[str], str] = staticmethod(lambda handle: handle)

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        answer = await super().create_volume(request)
        answer.volume.volume_id = self.spelled(answer.volume.volume_id)
        return answer

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        known = (one for one in self.volumes if one.lower() in request.volume_id.lower())
        request.volume_id = next(known, request.volume_id)
        return await super().delete_volume(request)


def as_it_is(handle: str) -> str:
    return handle


SPELLINGS: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
    "as it was": (as_it_is, as_it_is),
    "azure: other letters": (as_it_is, str.upper),
    "ibm vpc: a name around the id": (as_it_is, lambda handle: f"crn:v1:x:public:is:eu:a/acc::volume:{handle}"),
    "scaleway: a zone before the id": (lambda handle: f"fr-par-1/{handle}", lambda handle: f"fr-par-2/{handle}"),
    "nfs: what the class says after the id": (
        lambda handle: f"server#share#{handle}##retain",
        lambda handle: f"server#share#{handle}##delete",
    ),
}


@each_row(("before", "after"), SPELLINGS.values(), ids=SPELLINGS)
async def test_zoo_1_the_claims_own_volume_is_deleted_in_no_spelling(
    before: Callable[[str], str], after: Callable[[str], str]
):
    """The driver answers the former request, too, with the one volume of that name."""
    driver = Spelling(topology={"zone": "b"})
    driver.spelled = before
    world = await torn(driver)
    async with world.provisioning():
        await served(world)
        await world.settle(10)
        driver.spelled = after
        driver.forget_scripts()
        await world.settle(600)
        assert 1 == len(driver.volumes)
        assert DELETE not in world.told
        await world.delete_claim()
        await without_claims(world)
        assert {} == driver.volumes == world.intents.open()


@each_row(("before", "after"), SPELLINGS.values(), ids=SPELLINGS)
async def test_zoo_1_a_volume_that_was_kept_is_deleted_in_no_spelling(
    before: Callable[[str], str], after: Callable[[str], str]
):
    """Its object was taken away by hand, and then its claim."""
    driver = Spelling(topology={"zone": "b"})
    driver.spelled = before
    world = await torn(driver)
    async with world.provisioning():
        await served(world)
        driver.spelled = after
        driver.forget_scripts()
        name = f"pvc-{(await world.claim())['metadata']['uid']}"
        await world.patch(PVS, name, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        await world.settle(5)
        await world.patch(PVS, name, {"metadata": {"finalizers": None}})
        await world.patch(CLAIMS, "c", {"spec": {"volumeName": name}}, "default")
        await world.delete(PVS, name)
        await world.settle(600)
        await world.delete_claim()
        again = await world.volume(name)
        assert "Retain" == again["spec"]["persistentVolumeReclaimPolicy"]
        await without_claims(world)
        assert 1 == len(driver.volumes)
        assert {} == world.intents.open()
    assert DELETE not in world.told
