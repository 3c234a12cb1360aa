"""What real drivers do at the CSI boundary, each shape with those that have it: volumes are made and deleted all the
same, as by the Go sidecar. Shapes that have a test elsewhere carry their number in its name: 1 and 3 to 4 in
`test_second_volumes.py`, `test_bad_input.py` and `test_volumes_of_others.py`, 2 in `test_deletion_life.py`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.apiserver.local import LocalCluster
from mooring.base.metrics import Metrics
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.options import BinderOptions
from mooring.control.runtime import Runtime
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code, go_name
from tests.support.builders import a_csi_node, a_pod, a_pv, a_ready_node
from tests.support.provisioning import CLAIMS, CREATE, DELETE, PVS, AnsweringDriver, GiB, ProvisioningWorld, an_answer
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose, Step
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import ZonalDriver

pytestmark = in_virtual_time
ERRORS = [code for code in Code if code is not Code.OK]


def a_world(*, topology: bool = False) -> ProvisioningWorld:
    return ProvisioningWorld(AnsweringDriver(topology={"zone": "a"} if topology else None))


async def answered(*answers: Any, topology: bool = False) -> ProvisioningWorld:
    """A world whose driver gives these answers first."""
    world = a_world(topology=topology)
    assert isinstance(world.driver, AnsweringDriver)
    world.driver.answers = list(answers)
    if topology:
        await world.make_node("n1", "a")
    return await world.base()


PLACES: dict[str, tuple[Sequence[Mapping[str, str]], Sequence[Mapping[str, str]] | None]] = {
    "9 cinder: another zone than was asked for": ([{"zone": "b"}], [{"zone": "b"}]),
    "10 alibaba, gcp-pd: more keys": ([{"zone": "a", "disk-type": "ssd"}], [{"disk-type": "ssd", "zone": "a"}]),
    "10 oci: a term for each key": (
        [{"zone": "a"}, {"domain": "x"}],
        [{"zone": "a"}, {"domain": "x"}],
    ),
    "10 vultr, digitalocean: no place": ([], None),
    "10 a term without segments": ([{}], None),
    "10 azuredisk: a value that is empty": ([{"zone": ""}], [{"zone": ""}]),
}


@each_row(("given", "terms"), PLACES.values(), ids=PLACES)
async def test_zoo_places_are_stored_as_they_are_answered(
    given: Sequence[Mapping[str, str]], terms: Sequence[Mapping[str, str]] | None
):
    places = [{"segments": dict(one)} for one in given]
    world = await answered(an_answer(capacity_bytes=GiB, accessible_topology=places), topology=True)
    async with world.provisioning():
        spec = (await world.provisioned())["spec"]
    stored = [
        {one["key"]: one["values"][0] for one in term["matchExpressions"]}
        for term in spec.get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", [])
    ]
    assert (terms or []) == stored
    assert 1 == len(world.driver.made(CREATE))
    assert [] == world.driver.made(DELETE)


async def test_zoo_11_powerscale_portworx_no_node_has_the_topology_that_is_announced():
    world = a_world(topology=True)
    await world.make_csi_node("n1", keys=())
    await world.base()
    async with world.provisioning():
        assert "no topology key found on CSINode n1" in await world.failed() or await world.failed("no available")
        assert [] == world.driver.made(CREATE)


KEYS = {
    "12 vsphere: a prefix, and not on every node": ("topology.csi.vmware.com/k8s-zone",),
    "12 vultr: a key without prefix": ("region",),
    "12 aws-ebs: keys of many prefixes": (
        "kubernetes.io/os",
        "topology.ebs.csi.aws.com/zone",
        "topology.kubernetes.io/zone",
    ),
}


@each_row("binding", ["Immediate", "WaitForFirstConsumer"])
@each_row("keys", KEYS.values(), ids=KEYS)
async def test_zoo_12_only_some_nodes_have_the_driver_by_whatever_keys(keys: tuple[str, ...], binding: str):
    """A node without the driver may carry its labels all the same: upstream takes its place for one, too."""
    here, there = dict.fromkeys(keys, "here"), dict.fromkeys(keys, "there")
    world = ProvisioningWorld(AnsweringDriver(topology=here))
    for name, labels in (("with", here), ("without", {}), ("labelled", there)):
        await world.create(a_ready_node(name, **labels))
    await world.make_csi_node("with", keys=keys)
    await world.create(a_csi_node("without", {"other.csi": "id"}))
    await world.make_class(binding=binding)
    await world.make_claim(node=None if binding == "Immediate" else "with")
    async with world.provisioning():
        term = (await world.provisioned())["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    places = [dict(one.segments) for one in world.request.accessibility_requirements.requisite]
    assert [here, there] == places
    assert [[{"key": key, "operator": "In", "values": ["here"]} for key in keys]] == [
        one["matchExpressions"] for one in term
    ]


@each_row(
    ("capacity_bytes", "shown"),
    [(0, "1Gi"), (GiB + 1, str(GiB + 1)), (1288490188800, "1200Gi")],
    ids=["18 nfs, smb: 0 on purpose", "18 an odd number", "18 fsx: 1.2 TiB"],
)
async def test_zoo_18_any_capacity_that_is_not_less_is_taken(capacity_bytes: int, shown: str):
    world = await answered(an_answer(capacity_bytes=capacity_bytes))
    async with world.provisioning():
        assert shown == (await world.provisioned())["spec"]["capacity"]["storage"]
    assert [] == world.driver.made(DELETE)


@each_row("lost", [False, True], ids=["refused", "the volume is made all the same"])
@each_row("code", ERRORS, ids=[f"19 {code.name}" for code in ERRORS])
async def test_zoo_19_any_error_three_times_and_then_a_volume(code: Code, lost: bool):
    world = a_world()
    step = Lose(code, "three times") if lost else Fail(code, "three times")
    world.driver.script(CREATE, step, step, step)
    await world.base()
    async with world.provisioning():
        await world.settle(700)
        await world.provisioned()
    assert 4 == len(world.driver.made(CREATE))
    assert 1 == len(world.driver.volumes)
    assert [] == world.driver.made(DELETE)


@each_row("code", ERRORS, ids=[f"19 {code.name}" for code in ERRORS])
async def test_zoo_19_any_error_three_times_after_which_nobody_waits(code: Code):
    """The volume is made each time. Differs from upstream, which never asks again after most of the codes."""
    world = a_world()
    world.driver.script(CREATE, Lose(), Lose(code), Lose(code))
    await world.base()
    async with world.provisioning(calls=1):
        uid = (await world.claim())["metadata"]["uid"]
        await world.delete_claim()
        pv = await world.volume(f"pvc-{uid}", 3000)
        await world.patch(PVS, pv["metadata"]["name"], {"status": {"phase": "Released"}}, subresource="status")
        await world.settle(60)
    assert {} == world.driver.volumes == world.intents.open()


@each_row("code", [99, Code.UNKNOWN, Code.UNAUTHENTICATED], ids=["20 99", "20 oci, cubefs", "20 gcs-fuse"])
@each_row("waits", [True, False])
async def test_zoo_20_a_code_that_says_little_is_final_and_tried_again_while_the_claim_waits(code: int, waits: bool):
    world = a_world()
    gate = world.driver.gate(CREATE)
    world.driver.script(CREATE, Fail(code, "who knows"))
    await world.base()
    async with world.provisioning(calls=1):
        if not waits:
            await world.delete_claim()
        gate.set()
        if waits:
            assert f"code = {go_name(code)} desc = who knows" in await world.failed()
            await world.provisioned()
        await world.settle(3600)
        assert {} == world.intents.open()
    assert (1 + waits, 1 if waits else 0) == (len(world.driver.made(CREATE)), len(world.driver.volumes))


@each_row("code", ERRORS, ids=[f"21 {code.name}" for code in ERRORS])
async def test_zoo_2_and_21_any_error_of_a_deletion_is_an_error(code: Code):
    """NotFound, too: azurefile and powerscale answer it while the share is there."""
    world = a_world()
    world.driver.volumes["vol-1"] = GiB
    world.driver.script(DELETE, *[Fail(code, "not yet")] * 3)
    await world.create(a_pv("pv", "vol-1", phase="Released", persistentVolumeReclaimPolicy="Delete"))
    async with world.provisioning():
        await world.settle(0.5)
        assert ["vol-1"] == list(world.driver.volumes)
        assert "deletionTimestamp" not in (await world.get(PVS, "pv"))["metadata"]
        await world.settle(100)
    assert {} == world.driver.volumes
    assert 4 == len(world.driver.made(DELETE))


async def test_zoo_22_digitalocean_vultr_upcloud_the_volume_that_is_there_is_answered_without_its_source():
    """As upstream, this one alone is deleted: it can't be told from an empty volume."""
    world = await answered(an_answer(capacity_bytes=GiB))
    world.driver.controller = (*world.driver.controller, RPC.CLONE_VOLUME)
    origin = await world.make_claim("origin", ask=False, volumeName="pv")
    await world.create(a_pv("pv", "vol-1", claim=origin, phase="Bound"))
    await world.patch(CLAIMS, "origin", {"status": {"phase": "Bound"}}, "default", "status")
    await world.delete_claim()
    await world.make_claim(dataSource={"kind": "PersistentVolumeClaim", "name": "origin"})
    async with world.provisioning():
        assert "volume content source missing" in await world.failed()
        await world.settle(60)
        await world.provisioned()
    assert (2, ["vol-x"]) == (
        len(world.driver.made(CREATE)),
        [call.request.volume_id for call in world.driver.made(DELETE)],
    )


@each_row(
    "volume",
    [
        {"volume_id": "v" * 200},
        {"volume_id": "/subscriptions/a/b" * 40},
        {"volume_id": "v" * 70_000},
        {"volume_id": "uuid/array/proto##é#;,=|"},
        {"volume_id": "vol-x", "volume_context": {"a key!": "v", "": "empty", "storage.kubernetes.io/x": "y"}},
        {"volume_id": "vol-x", "volume_context": {"storage.kubernetes.io/csiProvisionerIdentity": "mine"}},
    ],
    ids=["200 bytes", "700 bytes", "70,000 bytes", "any signs", "odd keys", "the key of the identity"],
)
async def test_zoo_23_any_handle_and_any_context_is_stored(volume: Mapping[str, Any]):
    world = await answered(an_answer(capacity_bytes=GiB, **volume))
    async with world.provisioning():
        source = (await world.provisioned())["spec"]["csi"]
    assert volume["volume_id"] == source["volumeHandle"]
    assert dict(volume.get("volume_context", {})).items() <= source["volumeAttributes"].items()


async def test_zoo_41_efs_nfs_a_handle_of_several_volumes_is_deleted_with_the_last():
    world = a_world()
    world.driver.volumes["share"] = GiB
    for name, phase in (("one", "Released"), ("two", "Bound")):
        await world.create(a_pv(name, "share", phase=phase, persistentVolumeReclaimPolicy="Delete"))
    async with world.provisioning():
        await world.settle(30)
        assert [] == world.driver.made(DELETE)
        await world.patch(PVS, "two", {"status": {"phase": "Released"}}, subresource="status")
        await world.settle(30)
    assert ["share"] == [call.request.volume_id for call in world.driver.made(DELETE)]


class FullInOneZone(ZonalDriver):
    """The zone that is asked for first has no room. frees_s: for how long."""

    def __init__(self, code: int, frees_s: float = math.inf) -> None:
        super().__init__(topology={"zone": ""})
        self.zones: list[str] = []
        frees_at = asyncio.get_running_loop().time() + frees_s

        def step(request: csi.CreateVolumeRequest) -> Step:
            self.zones.append(request.accessibility_requirements.preferred[0].segments["zone"])
            is_full = self.zones[-1] == self.zones[0] and asyncio.get_running_loop().time() < frees_at
            return Fail(code, "no space left in the volume group") if is_full else None

        self.always(CREATE, step)


async def placed(driver: FullInOneZone) -> str:
    """The node of a pod whose claim gets its volume there, of two equal ones, each a zone, with our own scheduler."""
    world = ProvisioningWorld(driver)
    for name in ("n1", "n2"):
        await world.create(a_ready_node(name, zone=name))
        await world.patch(NODES, name, {"spec": {"taints": None}})
        await world.make_csi_node(name)
    await world.make_class(binding="WaitForFirstConsumer")
    cluster = LocalCluster(world.store, clock=world.clock, randomness=world.randomness)
    binder = make_binder(Runtime(cluster, world.clock, world.randomness, Metrics()), BinderOptions())
    async with world.provisioning(), world.running(binder.run()):
        await world.make_claim(ask=False)
        await world.create(a_pod("p", "c"))
        pod = await world.shown(PODS, "p", lambda body: body["spec"].get("nodeName"), "on a node", wait_s=3600)
    return str(pod["spec"]["nodeName"])


async def test_zoo_44_topolvm_linode_without_room_in_the_selected_zone_the_pod_goes_elsewhere():
    """Nothing tells the scheduler that it is full but the driver's ResourceExhausted."""
    driver = FullInOneZone(Code.RESOURCE_EXHAUSTED)
    node = await placed(driver)
    assert [*{"n1", "n2"} - {node}, node] == driver.zones


async def test_zoo_44_civo_an_exhausted_quota_is_waited_for_where_the_pod_is():
    """OutOfRange says nothing about the zone: as upstream, no other node is asked for."""
    driver = FullInOneZone(Code.OUT_OF_RANGE, frees_s=600)
    node = await placed(driver)
    assert {node} == set(driver.zones)
    assert len(driver.zones) > 1


async def test_zoo_45_an_id_that_is_used_again_after_its_deletion_is_another_volume():
    world = await answered(*[an_answer(capacity_bytes=GiB)] * 2)
    async with world.provisioning():
        first = await world.provisioned()
        await world.delete_claim()
        await world.patch(PVS, first["metadata"]["name"], {"status": {"phase": "Released"}}, subresource="status")
        await world.settle(5)
        await world.patch(PVS, first["metadata"]["name"], {"metadata": {"finalizers": None}})
        assert {} == world.driver.volumes
        await world.make_claim("again")
        assert "vol-x" == (await world.provisioned("again"))["spec"]["csi"]["volumeHandle"]
        await world.settle(60)
    assert ["vol-x"] == list(world.driver.volumes)
