"""Which claims get a volume, and under which name: from the first event to the last write, in process, in virtual
time.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.api.classes import CLASS_BETA
from mooring.api.meta import Kind
from mooring.kube.errors import ApiError, ServerError
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.options import Rules
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_pv
from tests.support.cluster_world import metric
from tests.support.provisioning import (
    CLAIMS,
    CREATE,
    DELETE,
    DRIVER,
    FAILED,
    POST_PV,
    PROVISIONING,
    PVS,
    SUCCEEDED,
    AnsweringDriver,
    GiB,
    ProvisioningWorld,
)
from tests.support.recording import RecordingCluster
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
FAILED_TOTAL = "controller_persistentvolumeclaim_provision_failed_total"


async def test_P01_a_plain_claim_gets_a_volume():
    world = await ProvisioningWorld().base({"colour": "red"})
    async with world.provisioning():
        pv = await world.provisioned()
        await world.settle(2000)
    claim = await world.claim()
    name = f"pvc-{claim['metadata']['uid']}"
    request = world.request
    assert (name, GiB, 0) == (request.name, request.capacity_range.required_bytes, request.capacity_range.limit_bytes)
    assert ({"colour": "red"}, {}, {}) == (
        dict(request.parameters),
        dict(request.secrets),
        dict(request.mutable_parameters),
    )
    assert [CREATE, POST_PV] == world.told
    notes = {names.PROVISIONED_BY: DRIVER, names.DELETION_SECRET_NAME: "", names.DELETION_SECRET_NAMESPACE: ""}
    assert notes == pv["metadata"]["annotations"]
    assert names.VOLUME_FINALIZER in pv["metadata"]["finalizers"]
    spec = pv["spec"]
    identity = spec["csi"]["volumeAttributes"].pop(names.IDENTITY)
    assert DRIVER == identity.split("-", 2)[2]
    assert {"driver": DRIVER, "volumeHandle": f"vol-{name}", "volumeAttributes": {}} == spec["csi"]
    assert ("1Gi", "Delete", "sc", ["ReadWriteOnce"]) == (
        spec["capacity"]["storage"],
        spec["persistentVolumeReclaimPolicy"],
        spec["storageClassName"],
        spec["accessModes"],
    )
    assert claim["metadata"]["uid"] == spec["claimRef"]["uid"]
    assert [
        (PROVISIONING, 'External provisioner is provisioning volume for claim "default/c"'),
        (SUCCEEDED, f"Successfully provisioned volume {name}"),
    ] == await world.told_of()


async def test_a_volume_that_is_to_be_kept_has_no_finalizer_of_ours():
    world = ProvisioningWorld()
    await world.make_class(reclaimPolicy="Retain")
    await world.make_claim()
    async with world.provisioning():
        pv = await world.provisioned()
        await world.settle()
    assert names.VOLUME_FINALIZER not in pv["metadata"].get("finalizers", [])
    assert [CREATE, POST_PV] == world.told


async def test_P02_the_beta_annotation_asks_too():
    world = await ProvisioningWorld().base(ask=False, annotations={names.STORAGE_PROVISIONER_BETA: DRIVER})
    async with world.provisioning():
        await world.provisioned()


@each_row(
    "claim",
    [
        pytest.param(
            {"annotations": {names.STORAGE_PROVISIONER: "other", names.STORAGE_PROVISIONER_BETA: DRIVER}},
            id="P03-the-ga-one-wins",
        ),
        pytest.param({"ask": False}, id="P04-nobody-asked"),
        pytest.param({"volumeName": "some"}, id="P05-it-has-a-volume"),
    ],
)
async def test_claims_of_no_business(claim):
    world = await ProvisioningWorld().base(**claim)
    async with world.provisioning():
        await world.settle(2000)
    assert [] == world.told
    assert [] == await world.told_of()


@each_row("node", [None, ""])
async def test_P06_a_claim_waits_for_its_node(node):
    world = ProvisioningWorld()
    await world.make_class(binding="WaitForFirstConsumer")
    await world.make_claim(node=node)
    async with world.provisioning():
        await world.settle(2000)
        assert [] == world.told
        assert [] == await world.told_of()
        await world.annotate({names.SELECTED_NODE: "node1"})
        await world.provisioned(wait_s=1)
    assert not world.request.HasField("accessibility_requirements")


async def test_P06_the_alpha_annotation_makes_no_claim_due():
    world = ProvisioningWorld()
    await world.make_class(binding="WaitForFirstConsumer")
    await world.make_claim(annotations={names.SELECTED_NODE_ALPHA: "node1"})
    async with world.provisioning():
        await world.settle(2000)
    assert [] == world.told


async def test_P07_the_class_comes_later():
    """Its arrival wakes the claim; until then it is neither called nor told about."""
    world = ProvisioningWorld(resync_s=0.0)
    await world.make_claim()
    async with world.provisioning():
        await world.settle(2000)
        assert [] == world.told
        assert [] == await world.told_of()
        assert 1 == metric(world.metrics, FAILED_TOTAL, **{"class": "sc", "source": ""})
        await world.make_class()
        await world.provisioned(wait_s=1)


async def test_P08_a_class_of_another_driver_is_passed_over_in_silence():
    world = ProvisioningWorld()
    await world.make_class(provisioner="other")
    await world.make_claim()
    async with world.provisioning():
        await world.settle(2000)
    assert [] == world.told
    assert [] == await world.told_of()


async def test_the_beta_annotation_names_the_class():
    world = ProvisioningWorld()
    await world.make_class({"right": "no"})
    await world.make_class({"right": "yes"}, name="sc2")
    await world.make_claim(annotations={CLASS_BETA: "sc2"})
    async with world.provisioning():
        pv = await world.provisioned()
    assert {"right": "yes"} == dict(world.request.parameters)
    assert "sc2" == pv["spec"]["storageClassName"]


async def test_P09_the_volume_is_there_already():
    world = await ProvisioningWorld().base(ask=False)
    uid = (await world.claim())["metadata"]["uid"]
    await world.create(a_pv(f"pvc-{uid}", "earlier"))
    async with world.provisioning():
        await world.annotate({names.STORAGE_PROVISIONER: DRIVER})
        await world.settle(2000)
    assert CREATE not in world.told


async def test_a_volumes_object_that_is_torn_away_is_made_again_at_once():
    """Somebody takes the finalizers off and deletes it, before it is bound: the same volume gets another object."""
    world = await ProvisioningWorld().base()
    async with world.provisioning():
        pv = await world.provisioned()
        await world.delete(PVS, pv["metadata"]["name"])
        await world.patch(PVS, pv["metadata"]["name"], {"metadata": {"finalizers": None}})
        again = await world.volume(pv["metadata"]["name"], wait_s=1)
    assert pv["spec"]["csi"]["volumeHandle"] == again["spec"]["csi"]["volumeHandle"]
    assert 1 == len(world.driver.volumes)


async def test_a_volumes_object_that_goes_with_its_claim_is_not_made_again():
    world = await ProvisioningWorld().base()
    async with world.provisioning():
        pv = await world.provisioned()
        await world.delete_claim()
        await world.patch(PVS, pv["metadata"]["name"], {"status": {"phase": "Released"}}, subresource="status")
        await world.patch(PVS, pv["metadata"]["name"], {"metadata": {"finalizers": [names.VOLUME_FINALIZER]}})
        await world.gone(PVS, pv["metadata"]["name"])
        await world.settle(1000)
    assert 1 == len(world.driver.made(CREATE))
    assert {} == world.driver.volumes


async def test_P10_names_of_volumes():
    """The guard against a second call knows the name that the flags make, too."""
    world = ProvisioningWorld(rules=Rules(volume_name_prefix="vol", volume_name_uuid_length=8))
    await world.base()
    name = "vol-" + (await world.claim())["metadata"]["uid"].replace("-", "")[:8]
    async with world.provisioning():
        await world.volume(name)
        assert f"Successfully provisioned volume {name}" == await world.event(SUCCEEDED)
        await world.touch()
        await world.settle(2000)
    assert [CREATE, POST_PV] == world.told
    assert name == world.request.name


async def test_names_cut_too_short_do_not_give_two_claims_one_volume():
    world = ProvisioningWorld(rules=Rules(volume_name_prefix="vol", volume_name_uuid_length=1))
    await world.make_class()
    for number in range(20):
        await world.make_claim(f"c{number}")
    async with world.provisioning():
        await world.settle(10)
    owners = [pv["spec"]["claimRef"]["uid"] for pv in await world.list(PVS)]
    assert len(set(owners)) == len(owners) == len(world.driver.volumes)


async def test_names_cut_too_short_do_not_meet_in_the_driver():
    """While the volume of one claim is being made, the other one waits, and is told."""
    world = ProvisioningWorld(rules=Rules(volume_name_prefix="vol", volume_name_uuid_length=1))
    await world.make_class()
    for number in range(40):
        await world.make_claim(f"c{number}")
    world.driver.gate(CREATE)
    async with world.provisioning():
        await world.settle(5)
        asked = [call.request.name for call in world.driver.made(CREATE)]
        assert len(set(asked)) == len(asked) < 40
        told = [text for number in range(40) for reason, text in await world.told_of(f"c{number}") if reason == FAILED]
        assert all("is being made for another claim" in text for text in told)
        assert told


async def test_names_cut_too_short_are_told_while_the_first_volume_is_still_to_be_stored():
    world = ProvisioningWorld(rules=Rules(volume_name_prefix="vol", volume_name_uuid_length=1))
    world.cluster.refuse(POST_PV, times=None)
    await world.make_class()
    for number in range(17):
        await world.make_claim(f"c{number}")
    async with world.provisioning():
        await world.settle(5)
        told = [text for number in range(17) for reason, text in await world.told_of(f"c{number}") if reason == FAILED]
        assert any("is being made for another claim" in text for text in told)


async def test_P11_an_empty_prefix_is_told():
    world = await ProvisioningWorld(rules=Rules(volume_name_prefix="")).base()
    async with world.provisioning():
        assert (await world.failed()).endswith("volume name prefix cannot be of length 0")
    assert [] == world.told


async def test_P12_a_selector_is_refused():
    world = await ProvisioningWorld().base(selector={"matchLabels": {"a": "b"}})
    async with world.provisioning():
        assert (await world.failed()).endswith("claim Selector is not supported")
        await world.settle(10)
    assert [] == world.told
    assert {PROVISIONING, FAILED} == {reason for reason, _ in await world.told_of()}


async def test_P48_a_driver_that_creates_nothing():
    driver = AnsweringDriver()
    driver.controller = (RPC.LIST_VOLUMES,)
    world = await ProvisioningWorld(driver).base()
    async with world.provisioning():
        assert "controller CREATE_DELETE_VOLUME capability is not reported" in await world.failed()
    assert [] == world.told


async def test_a_driver_without_a_controller_service():
    driver = AnsweringDriver()
    driver.plugin = ()
    world = await ProvisioningWorld(driver).base()
    async with world.provisioning():
        assert "plugin CONTROLLER_SERVICE capability is not reported" in await world.failed()


async def test_a_claim_that_is_being_deleted_still_gets_its_volume():
    world = await ProvisioningWorld().base()
    await world.patch(CLAIMS, "c", {"metadata": {"finalizers": ["kit/hold"]}}, "default")
    await world.delete(CLAIMS, "c", "default")
    async with world.provisioning():
        await world.provisioned()


async def test_updates_during_a_call_do_not_repeat_it():
    world = await ProvisioningWorld().base()
    gate = world.driver.gate(CREATE)
    async with world.provisioning(calls=1):
        for _ in range(5):
            await world.touch()
            await world.settle()
        gate.set()
        await world.provisioned()
        await world.settle(2000)
    assert [CREATE, POST_PV] == world.told


async def test_so_many_calls_run_at_once_and_no_more():
    world = ProvisioningWorld(worker_threads=3)
    await world.make_class()
    gate = world.driver.gate(CREATE)
    for number in range(6):
        await world.make_claim(f"c{number}")
    async with world.provisioning():
        await world.settle(5)
        assert 3 == len(world.driver.made(CREATE))
        gate.set()
        for number in range(6):
            await world.provisioned(f"c{number}")
    assert [] == world.driver.overlaps


async def test_creations_and_deletions_are_counted_apart():
    """Issue 27, A12: a driver that is slow to make volumes has those deleted all the same, and the reverse."""
    world = await ProvisioningWorld(worker_threads=1, timeout_s=10_000.0).base()
    async with world.provisioning():
        pv = (await world.provisioned())["metadata"]["name"]
        gate = world.driver.gate(CREATE)
        await world.make_claim("slow")
        await world.calls(2)
        await world.delete_claim()
        await world.patch(PVS, pv, {"status": {"phase": "Released"}}, subresource="status")
        await world.calls(1, DELETE)
        gate.set()
        await world.provisioned("slow")


async def test_the_drivers_return_ends_the_wait():
    world = await ProvisioningWorld(retry_interval_start_s=600.0, retry_interval_max_s=600.0).base()
    world.driver.script(CREATE, Fail(Code.UNAVAILABLE, "away", unsent=True))
    async with world.provisioning() as provisioner:
        await world.failed("away")
        provisioner.driver_returned()
        await world.provisioned(wait_s=1)


async def test_an_end_in_good_order_lets_the_call_end_and_stores_its_volume():
    world = await ProvisioningWorld().base()
    gate = world.driver.gate(CREATE)
    async with world.provisioning(calls=1) as provisioner:
        await world.make_claim("late")
        gate.set()
        assert await provisioner.drain(20.0)
    assert 1 == len(await world.list(PVS)) == len(world.driver.volumes)


@each_row("error", [None, ServerError("lost", code=500)], ids=["stored", "stored, the answer is lost"])
async def test_a_class_of_an_in_tree_plugin_gets_an_in_tree_volume(error: ApiError | None):
    driver = AnsweringDriver("ebs.csi.aws.com")
    world = ProvisioningWorld(driver)
    if error is not None:
        world.cluster.refuse(POST_PV, after=True, error=error)
    await world.make_class({"fsType": "xfs", "type": "gp3"}, provisioner="kubernetes.io/aws-ebs")
    asked = {names.STORAGE_PROVISIONER: "kubernetes.io/aws-ebs", names.MIGRATED_TO: "ebs.csi.aws.com"}
    await world.make_claim(annotations=asked)
    async with world.provisioning():
        pv = await world.provisioned()
    assert {"type": "gp3"} == dict(world.request.parameters)
    assert "xfs" == world.request.volume_capabilities[0].mount.fs_type
    assert {"volumeID": f"vol-{pv['metadata']['name']}", "fsType": "xfs"} == pv["spec"]["awsElasticBlockStore"]
    assert "kubernetes.io/aws-ebs" == pv["metadata"]["annotations"][names.PROVISIONED_BY]


async def test_a_volume_that_has_no_in_tree_form_is_deleted():
    driver = AnsweringDriver("pd.csi.storage.gke.io")
    world = ProvisioningWorld(driver)
    await world.make_class(provisioner="kubernetes.io/gce-pd")
    await world.make_claim(annotations={names.STORAGE_PROVISIONER: "pd.csi.storage.gke.io"})
    async with world.provisioning():
        assert "failed to translate CSI PV to in-tree due to: " in await world.failed()
        await world.settle()
    assert {} == driver.volumes
    assert [] == await world.list(PVS)


async def test_P49_a_claim_that_a_populator_fills_is_told_so_and_left_alone():
    """Two sources of events in one instant of virtual time give them one name, so the second event is looked for among
    the requests.
    """
    world = await ProvisioningWorld(resync_s=0.0).base(dataSourceRef={"apiGroup": "x.io", "kind": "Foo", "name": "f"})
    async with world.provisioning():
        await world.settle(2000)
        assert [
            (PROVISIONING, 'External provisioner is provisioning volume for claim "default/c"')
        ] == await world.told_of()
    [event] = [request.body for request in world.cluster.writes("create events")]
    assert ("Normal", PROVISIONING) == (event["type"], event["reason"])
    assert "Assuming an external populator will provision the volume" == event["message"]
    assert [] == world.told


class SlowEvents(RecordingCluster):
    """Events take their time."""

    async def create(self, kind: Kind[Any], body: Any, namespace: str = "") -> Any:
        if kind.plural == "events":
            await asyncio.sleep(0.5)
        return await super().create(kind, body, namespace)


async def test_the_end_waits_for_the_event_that_leaves_a_claim_to_a_populator():
    world = ProvisioningWorld()
    world.cluster = SlowEvents(world.users, world.story)
    await world.base(dataSourceRef={"apiGroup": "x.io", "kind": "Backup", "name": "b"})
    async with world.provisioning() as provisioner:
        await world.settle(0.1)
        assert await provisioner.drain(20.0)
        await world.settle(5)
    assert ["create events"] == world.story
