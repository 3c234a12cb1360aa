"""One provisioner on each node: in process, in virtual time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from mooring.api.classes import CLASS_BETA
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.storage import CSI_STORAGE_CAPACITIES
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.csi.errors import DriverError
from mooring.kube.errors import Conflict, Forbidden
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.local_node import reasons as why
from mooring.sidecars.provisioner.options import CapacityOptions, NodeOptions, Rules
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_pv, a_reference
from tests.support.cluster_world import metric
from tests.support.provisioning import DRIVER, POST_PV, PUT_CLAIM, ProvisioningWorld
from tests.support.recording import RecordingCluster
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose, Wait
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import CAPACITY, CREATE, DELETE, GiB, VolumeDriver

pytestmark = in_virtual_time
NODE = "node1"
HOST = "csi.test/host"
HERE = {HOST: NODE}
WFFC = "WaitForFirstConsumer"


def a_world(
    rules: Rules | None = None, *, immediate_binding: bool = True, node: str = NODE, **options: Any
) -> ProvisioningWorld:
    driver = VolumeDriver(controller=[RPC.GET_CAPACITY], topology={HOST: node})
    return ProvisioningWorld(
        driver, rules=rules, node=NodeOptions(node_name=node, immediate_binding=immediate_binding), **options
    )


async def selected(world: ProvisioningWorld, name: str = "c") -> str:
    claim = await world.get(PERSISTENT_VOLUME_CLAIMS, name, "default")
    return str(claim["metadata"].get("annotations", {}).get(names.SELECTED_NODE, ""))


async def volumes(world: ProvisioningWorld) -> list[dict[str, Any]]:
    return await world.list(PERSISTENT_VOLUMES)


def acts(world: ProvisioningWorld) -> list[str]:
    return [step for step in world.story if step in (PUT_CLAIM, CREATE, POST_PV, DELETE)]


async def one_volume(world: ProvisioningWorld, wait_s: float = 100.0) -> dict[str, Any]:
    async def is_there() -> bool:
        return bool(await volumes(world))

    await world.until(is_there, wait_s)
    return (await volumes(world))[0]


# -- whose claim it is


@pytest.fixture
async def world() -> ProvisioningWorld:
    return a_world()


async def test_P88_a_claim_for_our_node_is_ours(world: ProvisioningWorld):
    await world.make_class(binding=WFFC)
    await world.make_claim(node=NODE)
    async with world.provisioning():
        pv = await one_volume(world)
        await world.settle()
    request = world.driver.made(CREATE)[0].request.accessibility_requirements
    assert ([HERE], [HERE]) == (
        [dict(one.segments) for one in request.requisite],
        [dict(one.segments) for one in request.preferred],
    )
    assert [CREATE, POST_PV] == acts(world)
    assert pv["spec"]["csi"]["volumeAttributes"][names.IDENTITY].endswith(f"-{DRIVER}-{NODE}")


async def test_P88_a_claim_for_another_node_is_its_business(world: ProvisioningWorld):
    await world.make_class(binding=WFFC)
    await world.make_claim(node="other")
    async with world.provisioning():
        await world.settle(2000)
        assert [] == await world.events("c")
    assert [] == acts(world)


async def test_P88_a_claim_for_another_node_is_its_business_though_the_class_is_missing(world: ProvisioningWorld):
    await world.make_claim(node="other")
    async with world.provisioning():
        await world.settle(2000)
    failed = "controller_persistentvolumeclaim_provision_failed_total"
    assert metric(world.metrics, failed, **{"class": "sc", "source": ""}) is None


async def test_P88_a_driver_that_does_not_tell_its_place_ends_it(world: ProvisioningWorld):
    world.driver.node_get_info = None  # type: ignore[method-assign, assignment]
    with pytest.raises(DriverError):
        async with world.provisioning():
            await world.settle()


@each_row("selected_when", ["before the answer", "after it"])
async def test_P88_a_volume_that_may_be_here_is_not_settled_by_one_that_another_node_made(selected_when: str):
    """The answer was lost, the scheduler chose another node, and that was quicker."""
    world = a_world()
    await world.make_class(binding=WFFC)
    uid = (await world.make_claim(node=NODE))["metadata"]["uid"]
    world.driver.script(CREATE, Wait(5.0, Lose()) if selected_when.startswith("before") else Lose())
    async with world.provisioning(calls=1):
        await world.settle(0.1)
        await make_elsewhere(world, uid)
        await world.annotate({names.SELECTED_NODE: "other"})
        await world.settle(20)
        assert ({}, {}) == (world.driver.volumes, world.intents.open())
        assert ["there"] == [pv["spec"]["csi"]["volumeHandle"] for pv in await volumes(world)]


async def test_P88_a_volume_that_may_be_here_though_it_was_refused_is_deleted_once_the_claim_has_another_nodes(
    world: ProvisioningWorld,
):
    await world.make_class(binding=WFFC)
    uid = (await world.make_claim(node=NODE))["metadata"]["uid"]
    world.driver.script(CREATE, Lose(), Fail(Code.RESOURCE_EXHAUSTED, "full"))
    async with world.provisioning(calls=2):
        await world.settle()
        await world.annotate({names.SELECTED_NODE: "other"})
        await make_elsewhere(world, uid)
        await world.patch(PERSISTENT_VOLUME_CLAIMS, "c", {"spec": {"volumeName": f"pvc-{uid}"}}, "default")
        await world.settle(20)
        assert ({}, {}) == (world.driver.volumes, world.intents.open())
        assert ["there"] == [pv["spec"]["csi"]["volumeHandle"] for pv in await volumes(world)]


async def make_elsewhere(world: ProvisioningWorld, uid: str) -> None:
    """The volume of the claim with this uid, as another node's provisioner makes it."""
    await world.create(a_pv(f"pvc-{uid}", "there", claimRef=a_reference("c", uid), affinity={HOST: "other"}))


# -- becoming the owner


async def test_P89_a_free_claim_is_bid_for(world: ProvisioningWorld):
    await world.base({"csi.storage.k8s.io/fstype": "xfs", "a": "b"})
    async with world.provisioning():
        await one_volume(world)
        await world.settle()
        assert NODE == await selected(world)
    assert [PUT_CLAIM, CREATE, POST_PV] == acts(world)
    [question] = [call.request for call in world.driver.made(CAPACITY)]
    assert (HERE, {"a": "b"}) == (dict(question.accessible_topology.segments), dict(question.parameters))
    assert 1 == len(question.volume_capabilities)
    assert world.driver.made(CAPACITY)[0].started_s <= 20


async def test_P89_without_room_nobody_bids_until_something_changes(world: ProvisioningWorld):
    world.driver.capacity_bytes = GiB - 1
    await world.base()
    async with world.provisioning():
        await world.settle(300)
        assert 1 == len(world.driver.made(CAPACITY))
        assert ("", []) == (await selected(world), acts(world))
        await world.settle(700)
        assert 2 == len(world.driver.made(CAPACITY)), "looked at again with the resync"
        world.driver.capacity_bytes = GiB
        await world.touch()
        await one_volume(world, 30)


async def test_P89_a_deletion_here_makes_room(world: ProvisioningWorld):
    """The peer waits for the resync."""
    world.driver.capacity_bytes = lambda request: GiB * (not world.driver.volumes)
    await world.make_class()
    await world.make_claim("first")
    async with world.provisioning():
        pv = await one_volume(world)
        await world.make_claim("second")
        await world.settle(100)
        assert "" == await selected(world, "second")
        name = pv["metadata"]["name"]
        await world.patch(PERSISTENT_VOLUMES, name, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
        await world.patch(PERSISTENT_VOLUMES, name, {"status": {"phase": "Released"}}, subresource="status")
        await world.settle(30)
        assert NODE == await selected(world, "second")


@each_row("step", [Fail(Code.INTERNAL), Fail(Code.UNIMPLEMENTED), Wait(100)])
async def test_P89_a_driver_that_can_not_say_is_given_the_claim(step: Fail | Wait):
    """So that provisioning can tell the user."""
    world = a_world()
    world.driver.always(CAPACITY, step)
    await world.base()
    async with world.provisioning():
        await one_volume(world)


async def test_P89_what_can_not_work_is_bid_for_so_that_the_user_is_told(world: ProvisioningWorld):
    await world.base({"csi.storage.k8s.io/unknown": "x"})
    async with world.provisioning():
        await world.settle(60)
        assert any("reserved namespace" in message for _, _, message, _ in await world.events("c"))
    assert [PUT_CLAIM] == acts(world)
    assert [] == world.driver.made(CAPACITY)


async def test_P89_a_secret_that_the_class_names_is_looked_up_for_the_question(world: ProvisioningWorld):
    await world.base(
        {
            "csi.storage.k8s.io/provisioner-secret-name": "s",
            "csi.storage.k8s.io/provisioner-secret-namespace": "default",
        }
    )
    await world.make_secret("s")
    async with world.provisioning():
        await one_volume(world)
    assert 1 == len(world.driver.made(CAPACITY))


@each_row(
    ("options", "binding", "claim"),
    [
        ({"immediate_binding": False}, "Immediate", {}),
        ({}, WFFC, {}),
        ({}, "Immediate", {"ask": False}),
        ({}, "Immediate", {"node": "other"}),
        ({}, "Immediate", {"sc": "unknown"}),
        ({}, "Immediate", {"volumeName": "there"}),
    ],
)
async def test_P89_what_is_not_free_is_let_alone(options: dict[str, Any], binding: str, claim: dict[str, Any]):
    world = a_world(**options)
    await world.make_class(binding=binding)
    await world.make_claim(**claim)
    async with world.provisioning():
        await world.settle(1000)
    assert [] == acts(world)
    assert [] == world.driver.made(CAPACITY)


async def test_P89_a_class_that_comes_late_wakes_its_claims(world: ProvisioningWorld):
    await world.make_claim()
    async with world.provisioning():
        await world.settle(100)
        await world.make_class()
        await one_volume(world, 30)


@each_row("strict", [False, True])
async def test_P89_a_class_that_does_not_allow_the_node_gets_no_bid(strict: bool):
    world = a_world(Rules(strict_topology=strict))
    await world.make_class(allowedTopologies=[{"matchLabelExpressions": [{"key": HOST, "values": ["elsewhere"]}]}])
    await world.make_claim()
    async with world.provisioning():
        await world.settle(1000)
    assert [] == acts(world)


async def test_P89_who_is_slower_lets_it_be(world: ProvisioningWorld):
    await world.base()
    async with world.provisioning():
        await world.annotate({names.SELECTED_NODE: "other"})
        await world.settle(1000)
    assert [] == acts(world)
    assert [] == world.driver.made(CAPACITY)


async def test_P89_a_node_that_was_chosen_a_moment_ago_stands(world: ProvisioningWorld):
    """The cache here does not know of it yet."""

    class Quicker(ServerFaults):
        async def before(self, verb: str, kind: Any, name: str) -> None:
            if verb == "get" and kind.plural == "persistentvolumeclaims":
                await world.annotate({names.SELECTED_NODE: "other"})

    world.cluster = RecordingCluster(
        LocalCluster(world.store, clock=world.clock, randomness=world.randomness, faults=Quicker()), world.story
    )
    await world.base()
    async with world.provisioning():
        await world.settle(300)
        assert "other" == await selected(world)
    assert [] == acts(world)


async def test_P89_waiting_occupies_no_worker():
    world = a_world(worker_threads=1)
    await world.make_class()
    for number in range(20):
        await world.make_claim(f"c{number}")
    async with world.provisioning():
        await world.settle(25)
        assert 20 == len(await volumes(world))


async def test_P89_each_conflict_makes_the_wait_longer(world: ProvisioningWorld):
    world.cluster.refuse(PUT_CLAIM, times=3, error=Conflict("newer", reason="Conflict"))
    await world.base()
    async with world.provisioning():
        await one_volume(world, 300)
    puts = [request.at_s for request in world.cluster.writes(PUT_CLAIM)]
    assert 4 == len(puts)
    calls = [call.started_s for call in world.driver.made(CAPACITY)]
    gaps = [after - before for before, after in itertools.pairwise(calls)]
    assert 20 <= gaps[0] <= 40
    assert all(40 <= gap <= 60 for gap in gaps[1:])


async def test_P89_another_error_is_told_and_tried_again(world: ProvisioningWorld):
    world.cluster.refuse(PUT_CLAIM, error=Forbidden("no rights", reason="Forbidden"))
    await world.base()
    async with world.provisioning():
        await one_volume(world, 300)
        assert ("Warning", "ProvisioningFailed", f"could not select node {NODE}: no rights", 1) in await world.events(
            "c"
        )


async def test_P89_no_room_after_all_begins_the_race_anew(world: ProvisioningWorld):
    """The peer then writes with conflicts for ever."""
    world.driver.script(CREATE, Fail(Code.RESOURCE_EXHAUSTED))
    await world.base()
    async with world.provisioning():
        await one_volume(world, 300)
    assert [PUT_CLAIM, CREATE, PUT_CLAIM, PUT_CLAIM, CREATE, POST_PV] == acts(world)


async def test_P89_of_two_nodes_one_gets_it():
    one = a_world(node="node1")
    two = a_world(node="node2")
    for part in ("store", "users"):
        setattr(two, part, getattr(one, part))
    two.cluster = type(two.cluster)(one.users, two.story)
    await one.make_class()
    for number in range(10):
        await one.make_claim(f"c{number}")
    async with one.provisioning(), two.provisioning():
        await one.settle(300)
        assert 10 == len(await volumes(one))
        homes = {await selected(one, f"c{number}") for number in range(10)}
    assert {"node1", "node2"} == homes
    assert 10 == len(one.driver.volumes) + len(two.driver.volumes)
    assert not one.driver.volumes.keys() & two.driver.volumes.keys()


async def test_P89_a_claim_with_the_beta_class_annotation_is_bid_for(world: ProvisioningWorld):
    """The peer crashes there."""
    await world.make_class()
    await world.make_claim(sc=None, annotations={CLASS_BETA: "sc"})  # type: ignore[arg-type]
    async with world.provisioning():
        await one_volume(world)


async def test_P89_without_topology_there_is_one_question_about_anywhere():
    world = a_world(Rules(topology=False))
    await world.base()
    async with world.provisioning():
        await one_volume(world)
    assert [False] == [call.request.HasField("accessible_topology") for call in world.driver.made(CAPACITY)]


async def test_P91_a_drain_ends_the_bidding(world: ProvisioningWorld):
    await world.base()
    async with world.provisioning() as provisioner:
        await world.settle(0.1)
        assert await provisioner.drain(10)
        await world.settle(100)
    assert [] == acts(world)


def test_P89_reasons_are_told_in_words():
    of_text = (why.NotFree, why.Taken, why.NotAllowedHere, why.LookingUp, why.BecomesOwner, why.Slower, why.NotWritten)
    of_bytes = (why.NoRoom, why.Asking)
    assert all("x" in str(reason("x")) for reason in of_text)
    assert all("7" in str(reason(7)) for reason in of_bytes)


# -- capacity and deletion


async def test_P88_the_nodes_capacity_follows_what_is_made_and_deleted():
    world = a_world(capacity=CapacityOptions(namespace="default", owner_level=-1, poll_interval_s=5000.0))
    world.driver.capacity_bytes = lambda request: 10 * GiB - GiB * len(world.driver.volumes)
    await world.make_class(binding=WFFC)

    async def published() -> list[str]:
        return [obj["capacity"] for obj in await world.list(CSI_STORAGE_CAPACITIES)]

    await world.make_namespace("default")
    async with world.provisioning():
        await world.settle()
        assert ["10Gi"] == await published()
        await world.make_claim(node=NODE)
        pv = await one_volume(world)
        await world.settle()
        assert ["9Gi"] == await published()
        name = pv["metadata"]["name"]
        await world.patch(PERSISTENT_VOLUMES, name, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
        await world.patch(PERSISTENT_VOLUMES, name, {"status": {"phase": "Released"}}, subresource="status")
        await world.settle()
        assert ["10Gi"] == await published()
        world.driver.script(CREATE, Fail(Code.OUT_OF_RANGE))
        asked = len(world.driver.made(CAPACITY))
        await world.make_claim("fails", node=NODE)
        await world.settle(0.3)
        assert asked + 1 == len(world.driver.made(CAPACITY))


async def test_P90_volumes_of_other_nodes_stay(world: ProvisioningWorld):
    for node in (NODE, "elsewhere"):
        await released(world, f"pv-{node}", {HOST: node})
    async with world.provisioning():
        await world.settle(100)
    assert [f"pv-{NODE}"] == [call.request.volume_id for call in world.driver.made(DELETE)]


async def released(world: ProvisioningWorld, name: str, place: Mapping[str, str]) -> None:
    notes = {names.PROVISIONED_BY: DRIVER, names.DELETION_SECRET_NAME: "", names.DELETION_SECRET_NAMESPACE: ""}
    spec = {"persistentVolumeReclaimPolicy": "Delete", "finalizers": [names.VOLUME_FINALIZER], "annotations": notes}
    await world.create(a_pv(name, affinity=place, phase="Released", **spec))
