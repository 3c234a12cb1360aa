"""CSIStorageCapacity objects: in process, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from mooring.api.core import NODES, PersistentVolume
from mooring.api.meta import Kind
from mooring.api.storage import CSI_NODES, CSI_STORAGE_CAPACITIES, STORAGE_CLASSES, CSIStorageCapacity
from mooring.apiserver.local import ServerFaults
from mooring.base.errors import ConfigError
from mooring.control.secrets import SecretCache
from mooring.control.topics import Bus
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.session import probe_and_identify
from mooring.kube.errors import NOT_SERVED, ApiError, Conflict, Forbidden, NotFound, NotServed, ServerError, Unreachable
from mooring.sidecars.provisioner.capacity import preflight
from mooring.sidecars.provisioner.capacity.controller import CapacityPublisher
from mooring.sidecars.provisioner.capacity.decide import capacity_of, matches
from mooring.sidecars.provisioner.capacity.reconcile import DRIVER_LABEL, MANAGER_LABEL, manager_of
from mooring.sidecars.provisioner.capacity.view import Capacity, Item, item_of
from mooring.sidecars.provisioner.environment import Environment, ProvisionerCaches
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.topology import places_of
from mooring.sidecars.provisioner.options import CapacityOptions, NodeOptions, ProvisionerOptions
from mooring.wire.grpc.codes import Code
from tests.support.builders import WFFC, a_capacity, a_class, a_csi_node, a_node, a_pod, a_pv, typed
from tests.support.cluster_world import ClusterWorld, metric
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Wait
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import CAPACITY, GiB, VolumeDriver

pytestmark = in_virtual_time
DRIVER = "csi.test"
ZONE = "csi.test/zone"
POST, PUT, DELETE = (f"{verb} csistoragecapacities" for verb in ("create", "update", "delete"))
Table = dict[tuple[str, str], str | None]


class CapacityWorld(ClusterWorld):
    def __init__(
        self,
        faults: ServerFaults | None = None,
        node: NodeOptions | None = None,
        *,
        retry_s: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(faults)
        self.driver = VolumeDriver(controller=[RPC.GET_CAPACITY], topology={}, story=self.story)
        capacity = CapacityOptions(**{"namespace": "ns", "owner_level": -1, "poll_interval_s": 300.0, **options})
        self.options = ProvisionerOptions(capacity=capacity, node=node, retry_interval_start_s=retry_s)
        self.bus = Bus()

    @contextlib.asynccontextmanager
    async def publishing(self, place: Mapping[str, str] | None = None) -> AsyncIterator[CapacityPublisher]:
        await self.make_namespace("ns")
        port = InProcessDriver(self.driver, clock=self.clock)
        facts = capabilities_of(await probe_and_identify(port, clock=self.clock))
        caches = ProvisionerCaches(self.runtime, facts, self.options)
        env = Environment(
            self.runtime,
            port,
            facts,
            self.options,
            caches,
            self.recorder,
            SecretCache(self.cluster, self.clock),
            self.bus,
        )
        capacity = CapacityPublisher(env, place)
        async with self.running_on(caches.shared, capacity.run):
            yield capacity

    # -- objects

    async def base(self) -> CapacityWorld:
        """A node in zone a, and a class."""
        await self.node("n1", "a")
        await self.classes("one")
        return self

    async def node(self, name: str, zone: str | None, keys: tuple[str, ...] = (ZONE,)) -> None:
        labels = {} if zone is None else {ZONE: zone}
        await self.create(a_node(name, labels=labels), a_csi_node(name, {DRIVER: name}, keys=keys))

    async def classes(self, *names: str, binding: str = WFFC, driver: str = DRIVER, **more: Any) -> None:
        for name in names:
            await self.create(a_class(name, provisioner=driver, volumeBindingMode=binding, **more))

    async def stored(
        self,
        class_name: str,
        zone: str,
        value: str = "100Gi",
        driver: str = DRIVER,
        manager: str = "external-provisioner",
    ) -> str:
        """An object as an earlier provisioner left it; its name."""
        labels = {DRIVER_LABEL: driver, MANAGER_LABEL: manager}
        fields = {
            "generateName": "csisc-",
            "namespace": "ns",
            "labels": labels,
            "nodeTopology": {"matchLabels": {ZONE: zone}},
        }
        made = await self.create(a_capacity("", None, value, class_name, **fields))
        return str(made["metadata"]["name"])

    async def objects(self) -> list[dict[str, Any]]:
        return await self.list(CSI_STORAGE_CAPACITIES)

    async def keys(self) -> list[tuple[str, str]]:
        """Class and zone of each object."""
        return sorted(
            (o["storageClassName"], o["nodeTopology"].get("matchLabels", {}).get(ZONE, ""))
            for o in await self.objects()
        )

    async def table(self) -> Table:
        keys = await self.keys()
        assert len(keys) == len(set(keys)), "two objects say the same"
        found = {
            (o["storageClassName"], o["nodeTopology"].get("matchLabels", {}).get(ZONE, "")): o
            for o in await self.objects()
        }
        return {key: obj.get("capacity") for key, obj in found.items()}

    async def has(self, *keys: tuple[str, str]) -> None:
        async def holds() -> bool:
            return sorted(keys) == await self.keys()

        await self.until(holds, 5)

    def asked(self) -> list[tuple[str, str]]:
        """The zones asked for, and the parameters' `a`."""
        requests = [call.request for call in self.driver.made(CAPACITY)]
        return [
            (request.accessible_topology.segments.get(ZONE, ""), request.parameters.get("a", ""))
            for request in requests
        ]

    def zones(self) -> list[str]:
        return sorted(zone for zone, _ in self.asked())

    def writes(self) -> list[str]:
        return [step for step in self.story if step in (POST, PUT, DELETE)][1:]  # the first asks for the API's version


async def two_zones(world: CapacityWorld | None = None, *classes: str) -> CapacityWorld:
    world = world or CapacityWorld()
    await world.classes(*classes)
    await world.create(a_pod("pod", namespace="ns"))
    for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "a")):
        await world.node(name, zone)
    return world


@pytest.fixture
async def world() -> CapacityWorld:
    return await CapacityWorld().base()


async def test_P82_segments_times_classes_each_asked_for_once():
    """The peer asks two or three times at start."""
    world = await two_zones()
    await world.classes("one", "two", parameters={"csi.storage.k8s.io/fstype": "xfs", "a": "b"})
    async with world.publishing():
        await world.has(*((name, zone) for name in ("one", "two") for zone in "ab"))
        await world.settle(100)
        assert {(name, zone): "100Gi" for name in ("one", "two") for zone in "ab"} == await world.table()
        gauges = ("desired_goal", "desired_current", "obsolete")
        assert [4, 4, 0] == [metric(world.metrics, f"csistoragecapacities_{name}") for name in gauges]
    assert [("a", "b"), ("a", "b"), ("b", "b"), ("b", "b")] == sorted(world.asked())
    assert [POST] * 4 == world.writes()
    request = world.driver.made(CAPACITY)[0].request
    assert {"csi.storage.k8s.io/fstype": "xfs", "a": "b"} == dict(request.parameters), "unstripped"
    assert [] == list(request.volume_capabilities)
    obj = (await world.objects())[0]
    assert obj["metadata"]["name"].startswith("csisc-")
    assert {DRIVER_LABEL: DRIVER, MANAGER_LABEL: "external-provisioner"} == obj["metadata"]["labels"]
    assert not {"ownerReferences"} & obj["metadata"].keys()
    assert "maximumVolumeSize" not in obj


async def test_P82_our_own_objects_are_no_news_though_the_watch_shows_them_first():
    class Slow(ServerFaults):
        async def after(self, verb: str, kind: Any, name: str) -> None:
            await asyncio.sleep(1 if verb in ("create", "replace") else 0)

    world = await two_zones(CapacityWorld(Slow()), "one")
    await world.stored("one", "b", "1")
    async with world.publishing():
        await world.settle(100)
    assert ["a", "b"] == world.zones()
    assert [PUT, POST] == sorted(world.writes(), reverse=True)


async def test_P82_a_second_run_finds_everything_as_it_should_be():
    world = await two_zones(None, "one")
    for zone in "ab":
        await world.stored("one", zone, value="107374182400")
    async with world.publishing():
        await world.settle(1000)
    assert [] == world.writes()
    assert ["a"] * 4 + ["b"] * 4 == world.zones(), "at the start, and with each poll"


async def test_P82_a_driver_without_keys_is_everywhere():
    world = CapacityWorld()
    await world.node("n1", None, keys=())
    await world.classes("one")
    async with world.publishing():
        await world.has(("one", ""))
    [obj] = await world.objects()
    assert {} == obj["nodeTopology"]
    request = world.driver.made(CAPACITY)[0].request
    assert request.HasField("accessible_topology")
    assert {} == dict(request.accessible_topology.segments)


async def test_P83_a_changed_value_is_one_put():
    world = await two_zones(None, "one")
    await world.stored("one", "b")
    await world.stored("one", "a")
    before = {obj["metadata"]["uid"]: obj for obj in await world.objects()}
    async with world.publishing():
        await world.settle(10)
        world.driver.capacity_bytes = lambda request: (
            50 * GiB if request.accessible_topology.segments[ZONE] == "a" else 100 * GiB
        )
        await world.settle(1000)
    assert [PUT] == world.writes()
    assert {("one", "a"): "50Gi", ("one", "b"): "100Gi"} == await world.table()
    after = {obj["metadata"]["uid"]: obj for obj in await world.objects()}
    assert before.keys() == after.keys()
    for kept in ("labels", "generateName"):
        assert all(before[uid]["metadata"][kept] == after[uid]["metadata"][kept] for uid in before)


async def test_P83_zero_and_the_largest_volume_are_published():
    world = await two_zones(None, "one")
    world.driver.capacity_bytes, world.driver.maximum_volume_size = 0, GiB
    async with world.publishing():
        await world.has(("one", "a"), ("one", "b"))
        [obj, _] = await world.objects()
        assert ("0", "1Gi") == (obj["capacity"], obj["maximumVolumeSize"])
        world.driver.maximum_volume_size = None
        await world.settle(400)
        assert all("maximumVolumeSize" not in obj for obj in await world.objects())


@each_row(
    ("obj", "room", "same"),
    [
        ({"capacity": "1Gi"}, Capacity("1073741824"), True),
        ({"capacity": "1Gi"}, Capacity("1G"), False),
        ({}, Capacity("0"), False),
        ({"capacity": "1", "maximumVolumeSize": "1"}, Capacity("1"), False),
        ({"capacity": "1", "maximumVolumeSize": "1"}, Capacity("1", "1"), True),
    ],
)
def test_P83_amounts_are_compared_as_amounts(obj: dict[str, str], room: Capacity, same: bool):
    assert same == matches(msgspec.convert({"metadata": {}, **obj}, CSIStorageCapacity), room)


def test_P83_less_than_nothing_is_nothing():
    assert Capacity("0") == capacity_of(csi.GetCapacityResponse(available_capacity=-5))


async def test_P83_an_error_keeps_the_object_and_is_tried_again(world: CapacityWorld):
    name = await world.stored("one", "a", "7Gi")
    world.driver.script(CAPACITY, Fail(Code.UNAVAILABLE), Fail(Code.INTERNAL))
    async with world.publishing():
        await world.settle(2)
        assert {("one", "a"): "7Gi"} == await world.table()
        await world.settle(10)
        assert {("one", "a"): "100Gi"} == await world.table()
    assert [name] == [obj["metadata"]["name"] for obj in await world.objects()]
    assert [PUT] == world.writes()


async def test_P83_retries_and_polls_never_pile_up():
    """At the peer each poll of a failing item begins one more endless chain of retries."""
    world = await CapacityWorld(poll_interval_s=5.0, threads=4, retry_s=10.0).base()
    world.driver.always(CAPACITY, Fail(Code.UNAVAILABLE))
    async with world.publishing():
        await world.settle(3600)
        world.driver.calls.clear()
        await world.settle(3600)
    assert len(world.driver.calls) <= 3600 / 5 + 1


async def test_P83_a_slow_driver_is_not_asked_twice_at_once():
    world = await CapacityWorld(poll_interval_s=1.0, threads=4).base()
    world.driver.always(CAPACITY, Wait(5))
    async with world.publishing():
        await world.settle(100)
    calls = world.driver.made(CAPACITY)
    assert all(before.ended_s <= after.started_s for before, after in itertools.pairwise(calls))


@each_row(("class_name", "zone"), [("one", "a"), ("one", "z"), ("gone", "a")], ids=["duplicate", "place", "class"])
async def test_P84_what_should_not_be_there_is_deleted(class_name: str, zone: str):
    world = await CapacityWorld().base()
    first = await world.stored("one", "a")
    await world.stored(class_name, zone)
    async with world.publishing():
        await world.settle(10)
        assert 0 == metric(world.metrics, "csistoragecapacities_obsolete")
    assert [DELETE] == world.writes()
    assert [("one", "a")] == list(await world.table())
    assert class_name != "one" or zone != "a" or first


async def test_P84_an_object_with_another_selector_means_no_item():
    selector = {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}
    for topology in (None, selector):
        obj = msgspec.convert({"metadata": {}, "storageClassName": "one", "nodeTopology": topology}, CSIStorageCapacity)
        assert item_of(obj).selects
        assert Item("one", ()) != item_of(obj)


async def test_P85_what_others_manage_is_left_alone(world: CapacityWorld):
    await world.stored("gone", "a", manager="somebody")
    await world.stored("one", "a", driver="other")
    async with world.publishing():
        await world.settle(1000)
    assert [POST] == world.writes()
    assert 3 == len(await world.objects())


@each_row(("for_immediate", "expected"), [(False, []), (True, [("one", "a")])])
async def test_P86_classes_with_immediate_binding(for_immediate: bool, expected: list[tuple[str, str]]):
    world = CapacityWorld(for_immediate_binding=for_immediate)
    await world.node("n1", "a")
    await world.classes("one", binding="Immediate")
    await world.classes("foreign", driver="other")
    async with world.publishing():
        await world.settle(10)
        assert expected == list(await world.table())


async def test_P86_a_class_comes_and_goes():
    world = CapacityWorld()
    await world.node("n1", "a")
    async with world.publishing():
        await world.settle(10)
        await world.classes("one")
        await world.has(("one", "a"))
        await world.patch(STORAGE_CLASSES, "one", {"metadata": {"annotations": {"a": "b"}}})
        await world.settle(10)
        await world.delete(STORAGE_CLASSES, "one")
        await world.has()
        await world.settle(10)
    assert [POST, DELETE] == world.writes()
    assert 1 == len(world.asked())


async def test_a_class_that_goes_while_the_driver_is_asked_is_not_published(world: CapacityWorld):
    world.driver.always(CAPACITY, Wait(5))
    async with world.publishing():
        await world.settle(1)
        assert 1 == len(world.asked())
        await world.delete(STORAGE_CLASSES, "one")
        await world.settle(10)
    assert [] == world.writes()


async def test_P87_a_place_lives_as_long_as_a_node_is_in_it():
    world = await two_zones(None, "one")
    async with world.publishing():
        await world.has(("one", "a"), ("one", "b"))
        await world.node("n4", "a")
        await world.settle(10)
        await world.delete(NODES, "n4")
        await world.patch(NODES, "n2", {"metadata": {"labels": {ZONE: None}}})
        await world.has(("one", "a"))
        await world.patch(NODES, "n2", {"metadata": {"labels": {ZONE: "c", "more": "labels"}}})
        await world.has(("one", "a"), ("one", "c"))
        await world.delete(CSI_NODES, "n1")
        await world.settle(10)
        await world.has(("one", "a"), ("one", "c"))
        await world.delete(NODES, "n3")
        await world.has(("one", "c"))
        await world.patch(CSI_NODES, "n2", {"spec": {"drivers": []}})
        await world.has()
        await world.settle(10)
    assert ["a", "b", "c"] == world.zones(), "what stays is not asked for again"


async def test_P84_what_somebody_deletes_or_changes_is_made_right(world: CapacityWorld):
    name = await world.stored("one", "a")
    async with world.publishing():
        await world.settle(10)
        await world.patch(CSI_STORAGE_CAPACITIES, name, {"capacity": "1"}, "ns")
        await world.settle(10)
        assert {("one", "a"): "100Gi"} == await world.table()
        await world.delete(CSI_STORAGE_CAPACITIES, name, "ns")
        await world.has(("one", "a"))
        [obj] = await world.objects()
        await world.patch(
            CSI_STORAGE_CAPACITIES, obj["metadata"]["name"], {"metadata": {"labels": {MANAGER_LABEL: "me"}}}, "ns"
        )
        await world.has(("one", "a"), ("one", "a"))
    assert [PUT, POST, POST] == world.writes()


@each_row("error", [ServerError("busy"), Conflict("newer", reason="Conflict"), Unreachable("cut")])
@each_row("verb", [POST, PUT, DELETE])
async def test_P83_a_write_that_fails_is_made_again(verb: str, error: ApiError):
    world = CapacityWorld()
    await world.node("n1", "a")
    if verb == PUT:
        await world.classes("one")
        await world.stored("one", "a", "1")
    if verb == DELETE:
        await world.stored("gone", "a", "1")
    if verb != POST:
        world.cluster.refuse(verb, times=3, error=error)
    async with world.publishing():
        await world.until(lambda: asked_for_the_version(world))
        if verb == POST:
            world.cluster.refuse(verb, times=3, error=error)
        if verb != PUT:
            await world.classes("one")
        await world.settle(30)
        left = {} if verb != DELETE or not isinstance(error, Conflict) else {("gone", "a"): "1"}
        assert {("one", "a"): "100Gi", **left} == await world.table()


async def asked_for_the_version(world: CapacityWorld) -> bool:
    return POST in world.story


async def test_P82_an_api_server_that_fails_at_the_start_is_asked_again(world: CapacityWorld):
    world.cluster.refuse(POST, times=3, error=ServerError("busy"))
    async with world.publishing():
        await world.until(lambda: asked_for_the_version(world))
        await world.settle(20)
        assert [("one", "a")] == await world.keys()


# -- refreshing


async def test_P83_what_provisioning_does_is_asked_for_at_once():
    world = await two_zones()
    await world.classes("one", "two")
    async with world.publishing():
        await world.settle(10)

        async def asked() -> list[str]:
            await world.settle(10)
            zones = world.zones()
            world.driver.calls.clear()
            return zones

        async def asked_after(kind: str, *about: Any) -> list[str]:
            world.bus.tell(kind, *about)
            return await asked()

        await asked()
        await world.create(a_volume_in(("In", ["a"]), name="pv-a"))
        assert ["a", "a"] == await asked()
        await world.create(a_volume_in(name="pv-anywhere"))
        assert ["a", "b"] == await asked()
        await world.create(
            a_pv("pv-of-another", source={"csi": {"driver": "other", "volumeHandle": "h"}}, storageClassName="one")
        )
        assert [] == await asked()
        assert ["a", "b"] == await asked_after(topics.ROOM_LACKING, "two")
        assert [] == await asked_after(topics.ROOM_LACKING, "unknown")
        assert ["b", "b"] == await asked_after(topics.ROOM_FREED, *places_of(volume_in(("In", ["b"]))))
        assert ["a", "a", "b", "b"] == await asked_after(
            topics.ROOM_FREED, *places_of(volume_in(("In", ["a"]), ("In", ["b"])))
        )
        assert [] == await asked_after(topics.ROOM_FREED, *places_of(volume_in(("In", ["z"]))))
        assert [] == await asked_after(topics.ROOM_FREED, *places_of(volume_in()))


def a_volume_in(*expressions: tuple[str, list[str]], name: str = "pv") -> dict[str, Any]:
    terms = [
        {"matchExpressions": [{"key": ZONE, "operator": operator, "values": values}]}
        for operator, values in expressions
    ]
    affinity = {"required": {"nodeSelectorTerms": terms}} if terms else None
    return a_pv(name, storageClassName="one", nodeAffinity=affinity)


def volume_in(*expressions: tuple[str, list[str]]) -> PersistentVolume:
    return typed(a_volume_in(*expressions))


def test_P83_only_plain_places_are_places():
    assert (((ZONE, "a"),), ((ZONE, "b"),)) == places_of(
        volume_in(("In", ["a"]), ("In", ["b"]), ("In", ["c", "d"]), ("Exists", []))
    )


async def test_P83_the_drivers_return_ends_the_back_off():
    world = await CapacityWorld(retry_s=200.0).base()
    world.driver.script(CAPACITY, Fail(Code.UNAVAILABLE, unsent=True))
    async with world.publishing() as capacity:
        await world.settle(1)
        capacity.driver_returned()
        await world.settle(1)
        assert [("one", "a")] == list(await world.table())


async def test_P83_a_limit_is_kept():
    world = await two_zones(CapacityWorld(qps=0.1, burst=1), "one")
    async with world.publishing():
        await world.settle(5)
        assert 1 == len(await world.objects())
        await world.settle(10)
        assert 2 == len(await world.objects())


async def test_P82_a_driver_that_tells_no_capacity_is_not_asked():
    world = await two_zones()
    world.driver.controller = (RPC.CREATE_DELETE_VOLUME,)
    await world.classes("one")
    async with world.publishing() as capacity:
        await world.settle(1000)
        assert [] == world.asked()
        assert await capacity.drain(1)


async def test_P91_a_drain_lets_the_call_end_and_its_answer_be_written(world: CapacityWorld):
    world.driver.always(CAPACITY, Wait(5))
    async with world.publishing() as capacity:
        await world.settle(1)
        assert not await capacity.drain(1)
        assert await capacity.drain(20)
    assert [("one", "a")] == list(await world.table())


# -- one node


async def test_P88_a_nodes_instance_publishes_its_own_place():
    world = CapacityWorld(node=NodeOptions(node_name="n1"))
    await world.classes("one")
    await world.stored("old", "b", manager="external-provisioner-n2")
    await world.stored("old", "b", manager="external-provisioner-n1")
    async with world.publishing({ZONE: "x"}):
        await world.has(("one", "x"), ("old", "b"))
    managers = {obj["metadata"]["labels"][MANAGER_LABEL] for obj in await world.objects()}
    assert {"external-provisioner-n1", "external-provisioner-n2"} == managers


@each_row(
    ("node", "manager"),
    [
        ("", "external-provisioner"),
        ("n", "external-provisioner-n"),
        ("n" * 42, "external-provisioner-" + "n" * 42),
        ("n" * 43, "external-p-53f40b57-" + "n" * 43),
        ("n" * 52, "e-53f40b57-" + "n" * 52),
    ],
)
def test_P88_the_managers_name_fits_a_label(node: str, manager: str):
    assert manager == manager_of(node)
    assert len(manager) <= 63


def test_P88_a_node_whose_name_leaves_no_room_is_a_hash():
    assert manager_of("n" * 53).startswith("external-provisioner-")
    assert len(manager_of("n" * 200)) <= 63
    assert manager_of("n" * 53) != manager_of("n" * 54)


# -- owner and API


async def test_P82_the_owner_is_the_pod_or_who_controls_it():
    world = CapacityWorld()
    rs = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "uid-rs", "controller": True}
    other = {**rs, "name": "other", "uid": "uid-other", "controller": False}
    made = await world.create(a_pod("pod", ownerReferences=[other, rs], namespace="ns"))
    assert None is await preflight.owner_of(world.cluster, "ns", "pod", -1)
    pod = await preflight.owner_of(world.cluster, "ns", "pod", 0)
    assert pod is not None
    assert ("v1", "Pod", "pod", made["metadata"]["uid"], True) == (
        pod.api_version,
        pod.kind,
        pod.name,
        pod.uid,
        pod.controller,
    )
    controller = await preflight.owner_of(world.cluster, "ns", "pod", 1)
    assert controller is not None
    assert rs == msgspec.to_builtins(controller)
    with pytest.raises(ConfigError, match="ReplicaSet ns/rs"):
        await preflight.owner_of(world.cluster, "ns", "pod", 2)
    assert "get replicasets" == world.story[-1]
    with pytest.raises(ConfigError, match="Pod ns/gone"):
        await preflight.owner_of(world.cluster, "ns", "gone", 0)
    await world.create(a_pod("bare", namespace="ns"))
    with pytest.raises(ConfigError, match="no controlling owner"):
        await preflight.owner_of(world.cluster, "ns", "bare", 1)


async def test_P84_adoption_adds_the_owner_and_keeps_the_others():
    world = CapacityWorld(owner_level=0, pod_name="pod")
    pod = await world.create(a_pod("pod", namespace="ns"))
    await world.node("n1", "a")
    await world.classes("one", "new")
    name = await world.stored("one", "a")
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "other"}
    await world.patch(
        CSI_STORAGE_CAPACITIES, name, {"metadata": {"ownerReferences": [other], "annotations": {"a": "b"}}}, "ns"
    )
    async with world.publishing():
        await world.has(("one", "a"), ("new", "a"))
        await world.settle(1000)
    adopted = await world.get(CSI_STORAGE_CAPACITIES, name, "ns")
    assert ["other", pod["metadata"]["uid"]] == [owner["uid"] for owner in adopted["metadata"]["ownerReferences"]]
    assert {"a": "b"} == adopted["metadata"]["annotations"]
    assert [POST, PUT] == sorted(world.writes())


async def test_P84_of_all_owners_only_ours_controls():
    """After a rollout the former ReplicaSet still lives; the API server refuses an object with two controllers."""
    world = CapacityWorld(owner_level=0, pod_name="pod")
    pod = await world.create(a_pod("pod", namespace="ns"))
    await world.node("n1", "a")
    await world.classes("one")
    name = await world.stored("one", "a", "1")
    former = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "former", "uid": "uid-former", "controller": True}
    known = {**former, "name": "pod", "uid": pod["metadata"]["uid"], "controller": False}
    await world.patch(CSI_STORAGE_CAPACITIES, name, {"metadata": {"ownerReferences": [known, former]}}, "ns")
    async with world.publishing():
        await world.settle(1000)
    adopted = await world.get(CSI_STORAGE_CAPACITIES, name, "ns")
    owners = [(owner["uid"], owner.get("controller")) for owner in adopted["metadata"]["ownerReferences"]]
    assert [("uid-former", None), (pod["metadata"]["uid"], True)] == owners
    assert ([PUT], {("one", "a"): "100Gi"}) == (world.writes(), await world.table())


class Answers(ServerFaults):
    def __init__(self, **errors: ApiError) -> None:
        self.errors = errors

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        error = self.errors.get(kind.version) if verb == "create" and "invalid" in name else None
        if error is not None:
            raise error


async def test_P82_the_api_is_asked_for_its_version():
    world = CapacityWorld()
    await world.create(a_pod("pod", namespace="ns"))
    assert "v1" == (await preflight.capacity_kind(world.cluster, "ns")).version
    missing = NotServed(NOT_SERVED, reason="NotFound")
    with pytest.raises(ConfigError, match="no CSIStorageCapacity"):
        await preflight.capacity_kind(CapacityWorld(Answers(v1=missing)).cluster, "ns")
    with pytest.raises(ConfigError, match='namespaces "ns" not found'):
        await preflight.capacity_kind(
            CapacityWorld(Answers(v1=NotFound('namespaces "ns" not found', reason="NotFound"))).cluster, "ns"
        )
    with pytest.raises(ConfigError, match="can't be used"):
        await preflight.capacity_kind(CapacityWorld(Answers(v1=Forbidden("no", reason="Forbidden"))).cluster, "ns")


async def test_P82_reasons_are_told_in_words():
    from mooring.sidecars.provisioner.capacity import reasons as why

    assert all(" " in str(reason) for reason in (why.Obsolete(), why.Asked(), why.UpToDate(), why.News("1Gi")))
    assert "one at all nodes" == str(Item("one", ()))
