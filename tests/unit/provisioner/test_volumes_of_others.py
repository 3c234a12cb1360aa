"""A volume that an object of another name names, too, is stored for the claim that is answered with it, and never
deleted for it: in process, in virtual time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.apiserver.local import ServerFaults
from mooring.kube.cache.informer import SILENCE_S_MAX
from mooring.kube.errors import Invalid, ServerError
from mooring.sidecars.provisioner.intents.journal import Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation
from mooring.sidecars.provisioner.options import NodeOptions
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_pv
from tests.support.provisioning import (
    CLAIMS,
    CREATE,
    DELETE,
    POST_PV,
    PVS,
    AnsweringDriver,
    GiB,
    ProvisioningWorld,
    an_answer,
)
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail, Lose, Wait
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import VolumeDriver

pytestmark = in_virtual_time
PLACE = JournalLocation("default", "csi.test")
KEPT = {"phase": "Bound", "persistentVolumeReclaimPolicy": "Retain"}
OWN_NAMES = 'PersistentVolume "data" names the volume "{}" already'


async def names_of_volumes(world: ProvisioningWorld) -> list[str]:
    return [pv["metadata"]["name"] for pv in await world.list(PVS)]


async def test_a_volume_that_was_imported_while_its_creation_was_open_is_left_to_who_imported_it():
    """The answer was lost, then the backend fails: an administrator makes the object by hand, and deletes the claim."""
    world = await ProvisioningWorld().base()
    handle = f"vol-pvc-{(await world.claim())['metadata']['uid']}"
    world.driver.script(CREATE, Lose())
    world.driver.always(CREATE, Fail(Code.INTERNAL, "backend down"))
    async with world.provisioning():
        await world.failed("backend down")
        await world.create(a_pv("data", handle, **KEPT))
        await world.delete_claim()
        world.driver.forget_scripts()
        await world.settle(1000)
        assert ["data"] == await names_of_volumes(world)
        assert {} == world.intents.open()
    assert DELETE not in world.told
    assert handle in world.driver.volumes


async def test_a_claim_whose_object_was_written_by_hand_without_its_uid_is_not_asked_for_in_a_loop():
    """The answer was lost, and the backend fails from then on. Until the binder fills the uid in, it is not sure that
    the object is the claim's; the former call is repeated, and nothing is wanted that could be asked for in its place.
    """
    world = await ProvisioningWorld().base()
    uid = (await world.claim())["metadata"]["uid"]
    world.driver.script(CREATE, Lose())
    async with world.provisioning(calls=1):
        await world.create(a_pv(f"pvc-{uid}", f"vol-pvc-{uid}", claimRef={"namespace": "default", "name": "c"}))
        world.driver.always(
            CREATE, lambda _: Fail(Code.RESOURCE_EXHAUSTED, "full") if len(world.driver.made(CREATE)) < 20 else None
        )
        await world.settle(60)
    assert len(world.driver.made(CREATE)) < 5


async def test_a_claim_that_waits_gets_its_volume_though_somebody_has_imported_it():
    world = await ProvisioningWorld().base()
    handle = f"vol-pvc-{(await world.claim())['metadata']['uid']}"
    world.driver.script(CREATE, Lose())
    async with world.provisioning(calls=1):
        await world.create(a_pv("data", handle, **KEPT))
        assert handle == (await world.provisioned())["spec"]["csi"]["volumeHandle"]
        assert {} == world.intents.open()
    assert DELETE not in world.told


async def test_an_intent_whose_end_was_not_written_does_not_bring_back_a_volume_that_has_another_name_by_now():
    """Killed before the end of the intent was stored; the volume was moved to an object of another name before the next
    start.
    """
    world = await ProvisioningWorld().base()
    world.intents = Journal(world.users, PLACE, "one", world.clock)
    async with world.provisioning():
        pv = await world.provisioned()
    name, handle = pv["metadata"]["name"], pv["spec"]["csi"]["volumeHandle"]
    await world.delete_claim()
    await world.patch(PVS, name, {"metadata": {"finalizers": None}})
    await world.delete(PVS, name)
    await world.create(a_pv("data", handle, **KEPT))
    world.intents = Journal(world.users, PLACE, "two", world.clock)
    async with world.provisioning(calls=2):
        await world.settle(100)
        assert ["data"] == await names_of_volumes(world)
        assert {} == world.intents.open()
    assert handle in world.driver.volumes


async def test_an_answer_with_a_volume_that_is_being_deleted_is_asked_for_again():
    """Stored at once, it would be gone a moment later."""
    world = ProvisioningWorld(AnsweringDriver())
    await world.create(a_pv("data", "vol-x", phase="Released", persistentVolumeReclaimPolicy="Delete"))
    world.driver.volumes["vol-x"] = GiB
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = [an_answer()]
    gate = world.driver.gate(DELETE)
    await world.base()
    async with world.provisioning():
        await world.failed('PersistentVolume "data" names the volume "vol-x" and is being deleted')
        gate.set()
        pv = await world.provisioned()
    assert pv["spec"]["csi"]["volumeHandle"] in world.driver.volumes
    assert 1 == len(world.driver.made(DELETE))


async def test_an_answer_with_a_volume_that_another_object_keeps_is_stored_though_a_third_one_is_being_deleted():
    """All claims of a path of the class, or of an image, have one volume. One of their objects may go for long: it is
    attached still.
    """
    world = ProvisioningWorld(AnsweringDriver())
    for name, phase in (("kept", "Bound"), ("going", "Released")):
        held = {"finalizers": ["external-attacher/csi-test"], "persistentVolumeReclaimPolicy": "Delete"}
        await world.create(a_pv(name, "vol-x", phase=phase, **held))
    world.driver.volumes["vol-x"] = GiB
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = [an_answer() for _ in range(100)]
    await world.base()
    async with world.provisioning():
        pv = await world.provisioned()
    assert "vol-x" == pv["spec"]["csi"]["volumeHandle"]
    assert 1 == len(world.driver.made(CREATE))
    assert DELETE not in world.told


async def test_an_answer_with_somebody_elses_volume_that_does_not_fit_does_not_delete_it():
    """The backend cuts names short, say."""
    size = GiB // 2
    world = ProvisioningWorld(AnsweringDriver())
    await world.create(a_pv("data", "vol-x", phase="Bound"))
    world.driver.volumes["vol-x"] = GiB // 2
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = [an_answer(capacity_bytes=size)]
    await world.base()
    async with world.provisioning():
        assert OWN_NAMES.format("vol-x") == await world.failed("names the volume")
        await world.provisioned()
    assert "vol-x" in world.driver.volumes
    assert DELETE not in world.told


async def test_an_in_tree_object_names_the_volume_of_its_csi_driver():
    world = ProvisioningWorld(AnsweringDriver("ebs.csi.aws.com"))
    await world.create(a_pv("data", source={"awsElasticBlockStore": {"volumeID": "vol-x"}}, phase="Bound"))
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = [an_answer(capacity_bytes=1)]
    await world.make_class(provisioner="ebs.csi.aws.com")
    await world.make_claim(annotations={"volume.kubernetes.io/storage-provisioner": "ebs.csi.aws.com"})
    async with world.provisioning():
        await world.failed(OWN_NAMES.format("vol-x"))
    assert DELETE not in world.told


@each_row("other", ["another driver's", "gone", "made anew"])
async def test_what_names_no_volume_of_the_driver_keeps_none(other: str):
    """A cache that is behind may show an object that is gone, or that has become another one."""
    deaf = DeafToVolumes()
    world = ProvisioningWorld(AnsweringDriver(), deaf)
    driver = "other" if other == "another driver's" else "csi.test"
    await world.create(a_pv("data", source={"csi": {"driver": driver, "volumeHandle": "vol-x"}}))
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = [an_answer(capacity_bytes=1)]
    gate = world.driver.gate(CREATE)
    await world.base()
    async with world.provisioning(calls=1):
        if other != "another driver's":
            await world.patch(PVS, "data", {"metadata": {"finalizers": None}})
            await world.delete(PVS, "data")
        if other == "made anew":
            await world.create(a_pv("data", "vol-y"))
        gate.set()
        await world.failed("less than requested")
    assert [CREATE, DELETE] == world.told[:2]


async def test_an_object_that_has_become_another_volumes_does_not_keep_this_one_from_being_stored():
    """The cache still shows it as it was. Taken for its owner, the volume would be nobody's once the claim is
    deleted.
    """
    world = ProvisioningWorld(AnsweringDriver(), DeafToVolumes())
    await world.create(a_pv("data", "vol-x"))
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = [an_answer()]
    gate = world.driver.gate(CREATE)
    await world.base()
    async with world.provisioning(calls=1):
        await world.patch(PVS, "data", {"metadata": {"finalizers": None}})
        await world.delete(PVS, "data")
        await world.create(a_pv("data", "vol-y"))
        gate.set()
        await world.provisioned()
    assert [CREATE, POST_PV] == world.told


async def test_on_one_node_the_volume_of_another_node_may_have_the_same_handle():
    world = ProvisioningWorld(VolumeDriver(topology={"host": "node1"}), node=NodeOptions(node_name="node1"))
    await world.make_class(binding="WaitForFirstConsumer")
    uid = (await world.make_claim(node="node1"))["metadata"]["uid"]
    await world.create(a_pv("theirs", f"vol-pvc-{uid}", affinity={"host": "node2"}))
    async with world.provisioning():
        await world.provisioned()


class DeafToVolumes(ServerFaults):
    """The watch of PersistentVolumes shows nothing until `hears`."""

    def __init__(self) -> None:
        self.hears = asyncio.Event()

    async def deliver(self, kind: Any, event: Any) -> None:
        if kind is PVS:
            await self.hears.wait()


async def to_be_imported_unseen() -> tuple[ProvisioningWorld, asyncio.Event, str]:
    """A world whose provisioner has not been shown an object that names the volume which its driver is about to answer
    with.
    """
    world = await ProvisioningWorld(VolumeDriver(), DeafToVolumes(), timeout_s=1000.0).base()
    handle, gate = f"vol-pvc-{(await world.claim())['metadata']['uid']}", world.driver.gate(CREATE)
    return world, gate, handle


async def test_before_a_volume_is_deleted_the_api_server_is_asked_who_names_it():
    world, gate, handle = await to_be_imported_unseen()
    world.cluster.refuse(POST_PV, error=Invalid("too odd", reason="Invalid"))
    async with world.provisioning(calls=1):
        await world.create(a_pv("data", handle, **KEPT))
        gate.set()
        await world.failed(OWN_NAMES.format(handle))
    assert DELETE not in world.told


async def test_while_nobody_can_say_who_names_a_volume_it_is_not_deleted():
    world, gate, handle = await to_be_imported_unseen()
    world.cluster.refuse(POST_PV, times=None, error=Invalid("too odd", reason="Invalid"))
    async with world.provisioning(calls=1):
        await world.create(a_pv("data", handle, **KEPT))
        world.cluster.refuse("list persistentvolumes", times=3, error=ServerError("overloaded", code=500))
        gate.set()
        await world.failed(OWN_NAMES.format(handle))
    assert DELETE not in world.told


async def test_an_import_that_a_silent_watch_hides_keeps_the_volume_of_a_claim_that_is_gone():
    world, gate, handle = await to_be_imported_unseen()
    async with world.provisioning(calls=1):
        await world.create(a_pv("data", handle, **KEPT))
        await world.delete_claim()
        await world.settle(SILENCE_S_MAX + 1)
        gate.set()
        await world.settle(100)
        assert ["data"] == await names_of_volumes(world)
        assert {} == world.intents.open()
    assert DELETE not in world.told


class SlowJournal(ServerFaults):
    """After the second list of PersistentVolumes the next write to a Lease takes a while in which somebody imports the
    claim's volume.

    own: under the name that the claim's own object would have. handle: with the claim's uid in it.
    """

    def __init__(self, *, own: bool, handle: str) -> None:
        self.own, self.handle = own, handle
        self.world: ProvisioningWorld | None = None
        self.lists_count = 0

    async def before(self, verb: str, kind: Any, name: str) -> None:
        self.lists_count += verb == "list" and kind.plural == PVS.plural
        if self.lists_count > 1 and kind.plural == "leases" and self.world is not None:
            world, self.world = self.world, None
            uid = (await world.claim())["metadata"]["uid"]
            await world.create(a_pv(f"pvc-{uid}" if self.own else "data", self.handle.format(uid), **KEPT))
            await asyncio.sleep(1.0)


@each_row(
    ("own", "handle"),
    [(False, "vol-pvc-{}"), (False, "VOL-PVC-{}"), (True, "vol-pvc-{}"), (True, "share#{}#6f1c")],
    ids=["another name", "in other letters", "its own name", "its own name, spelled otherwise"],
)
async def test_a_volume_that_is_imported_while_its_deletion_is_being_written_down_is_not_deleted(
    own: bool, handle: str
):
    """Its object was refused for good, and nobody named the volume then."""
    faults = SlowJournal(own=own, handle=handle)
    world = ProvisioningWorld(faults=faults)
    world.intents = Journal(world.cluster, PLACE, "one", world.clock)
    world.cluster.refuse(POST_PV, error=Invalid("too odd", reason="Invalid"))
    await world.base()
    faults.world = world
    async with world.provisioning():
        name = f"pvc-{(await world.claim())['metadata']['uid']}"
        named = name if own else "data"
        await world.failed(f'PersistentVolume "{named}" names the volume "vol-{name}" already')
        await world.settle(1000)
        assert sorted({named, name}) == sorted(await names_of_volumes(world))
        assert {} == world.intents.open()
    assert DELETE not in world.told


class SlowPost(ServerFaults):
    async def before(self, verb: str, kind: Any, name: str) -> None:
        if verb == "create" and kind.plural == PVS.plural:
            await asyncio.sleep(1.0)


@each_row("at_once", [True, False])
async def test_zoo_4_two_claims_that_are_answered_with_one_volume_both_get_it(at_once: bool):
    """Seven families of drivers do so on purpose: by the claim's name, a path of the class, an image."""
    world = ProvisioningWorld(AnsweringDriver(), SlowPost())
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = [an_answer() for _ in range(100)]
    await world.make_class()
    await world.make_claim()
    if at_once:
        await world.make_claim("other")
    async with world.provisioning():
        await world.settle(60)
        if not at_once:
            await world.make_claim("other")
        for name in ("c", "other"):
            assert "vol-x" == (await world.provisioned(name))["spec"]["csi"]["volumeHandle"]
        assert {} == world.intents.open()
    assert 2 == len(await names_of_volumes(world)) == len(world.driver.made(CREATE))
    assert DELETE not in world.told


async def test_of_two_objects_of_one_volume_one_at_a_time_calls_the_driver():
    """Both may be deleted with it: their claims went at the same time."""
    world = ProvisioningWorld(AnsweringDriver())
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = [an_answer() for _ in range(100)]
    world.driver.always(DELETE, lambda _: Wait(1.0))
    await world.make_class()
    claims = [await world.make_claim(name) for name in ("c", "other")]
    async with world.provisioning():
        volumes = [(await world.provisioned(claim["metadata"]["name"]))["metadata"]["name"] for claim in claims]
        for claim in claims:
            await world.delete_claim(claim["metadata"]["name"])
        for name in volumes:
            await world.patch(PVS, name, {"status": {"phase": "Released"}}, subresource="status")
        await world.settle(20)
        assert all("deletionTimestamp" in pv["metadata"] for pv in await world.list(PVS))
    assert [] == world.driver.overlaps
    assert ["vol-x", "vol-x"] == [call.request.volume_id for call in world.driver.made(DELETE)]


async def test_a_volume_that_is_being_stored_is_not_deleted_for_a_claim_that_was_answered_with_it_too():
    """It is too small for the other claim, and no object names it yet."""
    world = ProvisioningWorld(AnsweringDriver(), SlowPost())
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = [an_answer(), an_answer(capacity_bytes=1)]
    await world.make_class()
    await world.make_claim("other")
    await world.make_claim()
    async with world.provisioning():
        assert "vol-x" == (await world.provisioned())["spec"]["csi"]["volumeHandle"]
        assert 'the volume "vol-x" is being stored for another claim' == await world.failed(name="other")
        await world.provisioned("other")
    assert DELETE not in world.told


async def test_a_volume_that_is_being_stored_for_another_claim_is_not_deleted_with_its_first_object():
    """The first claim goes while the other one's PersistentVolume is under way."""
    world = ProvisioningWorld(AnsweringDriver(), SlowPost())
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = [an_answer() for _ in range(100)]
    await world.make_class()
    await world.make_claim()
    async with world.provisioning():
        first = (await world.provisioned())["metadata"]["name"]
        await world.make_claim("other")
        await world.settle(0.5)
        await world.delete_claim()
        await world.patch(PVS, first, {"status": {"phase": "Released"}}, subresource="status")
        assert "vol-x" == (await world.provisioned("other"))["spec"]["csi"]["volumeHandle"]
        await world.settle(60)
        assert "deletionTimestamp" in (await world.get(PVS, first))["metadata"]
    assert DELETE not in world.told


@each_row("fits", [False, True])
async def test_a_volume_that_is_being_deleted_is_of_no_use_to_another_claim_that_was_answered_with_it_too(fits: bool):
    """Neither stored, since it would be gone a moment later, nor deleted once more."""
    world = ProvisioningWorld(AnsweringDriver())
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = [an_answer(capacity_bytes=1), an_answer(capacity_bytes=GiB if fits else 1)]
    gate = world.driver.gate(DELETE)
    await world.base()
    async with world.provisioning():
        await world.calls(1, DELETE)
        await world.make_claim("other")
        await world.failed('the volume "vol-x" is another claim\'s, and is being deleted', name="other")
        gate.set()
        for name in ("c", "other"):
            assert (await world.provisioned(name))["spec"]["csi"]["volumeHandle"] in world.driver.volumes
    assert 1 == len(world.driver.made(DELETE))


async def test_a_volume_whose_claim_is_bound_to_it_is_not_deleted_when_its_object_can_not_be_written_again():
    """Killed before the end of the intent was stored; then the object was forced away, and a policy takes no other."""
    world = await ProvisioningWorld().base()
    world.intents = Journal(world.users, PLACE, "one", world.clock)
    async with world.provisioning():
        pv = await world.provisioned()
    name, handle = pv["metadata"]["name"], pv["spec"]["csi"]["volumeHandle"]
    await world.patch(CLAIMS, "c", {"spec": {"volumeName": name}}, "default")
    await world.patch(PVS, name, {"metadata": {"finalizers": None}})
    await world.delete(PVS, name)
    world.cluster.refuse(POST_PV, times=None, error=Invalid("too odd", reason="Invalid"))
    world.intents = Journal(world.users, PLACE, "two", world.clock)
    async with world.provisioning(calls=2):
        await world.failed("it is bound to the volume")
    assert DELETE not in world.told
    assert handle in world.driver.volumes
