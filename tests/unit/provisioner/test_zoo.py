"""What real drivers do at the CSI boundary, each shape with those that have it: volumes are made and deleted all the
same, as by the Go sidecar. Shapes that have a test elsewhere carry their number in its name: 1 and 3 to 4 in
`test_second_volumes.py`, `test_bad_input.py` and `test_volumes_of_others.py`, 2 in `test_deletion_life.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mooring.wire.grpc.codes import Code
from tests.support.builders import a_pv
from tests.support.provisioning import CLAIMS, CREATE, DELETE, PVS, AnsweringDriver, GiB, ProvisioningWorld, an_answer
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose
from tests.support.virtual_loop import in_virtual_time

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
