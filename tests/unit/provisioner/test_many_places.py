"""Clusters with thousands of places, one for each node: what a claim costs there, and what is written down about it."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from mooring.api.core import Node
from mooring.api.storage import CSINode
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.store import Store
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims.prepare import prepared, prepared_again
from mooring.sidecars.provisioner.claims.view import Looked, View
from mooring.sidecars.provisioner.intents.journal import Journal
from mooring.sidecars.provisioner.intents.lease_codec import JournalLocation, encoded
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords
from mooring.sidecars.provisioner.model.cached import CLAIM_INDEXES
from mooring.sidecars.provisioner.model.orders import PLACES_STORED_MAX, Order
from mooring.sidecars.provisioner.model.topology import ClusterTopology
from mooring.sidecars.provisioner.options import Rules
from mooring.wire.grpc.codes import Code
from tests.support.builders import DRIVER, Json, a_claim, a_class, a_csi_node, a_node, typed
from tests.support.intents import an_entry
from tests.support.provisioning import ProvisioningWorld
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail, Lose
from tests.support.stores import store_of
from tests.support.virtual_loop import in_virtual_time
from tests.support.volume_driver import CREATE, VolumeDriver

CLASS: Json = {"parameters": {}, "reclaimPolicy": "Delete"}
ALLOWED = {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["n0002", "n0001"]}]}]}


def in_a_cluster_of(*names_of_nodes: str) -> View:
    """Each node is a zone of its own."""
    csi_nodes: Store[CSINode] = store_of()
    nodes: Store[Node] = store_of()
    for number, name in enumerate(names_of_nodes):
        version = {"uid": name, "resourceVersion": str(number + 1)}
        nodes.apply(typed(_with_meta(a_node(name), labels={"zone": name}, **version)))
        csi_nodes.apply(typed(_with_meta(a_csi_node(name, {DRIVER: name}, keys=("zone",)), **version)))
    return View(
        driver=DriverCapabilities(DRIVER, topology=True),
        rules=Rules(),
        claims=store_of(indexes=CLAIM_INDEXES),
        volumes=store_of(),
        classes=store_of(),
        csi_nodes=csi_nodes,
        nodes=nodes,
        grants=store_of(),
        places=ClusterTopology(csi_nodes, nodes),
        intents={},
        records=ClaimRecords(),
    )


def _with_meta(body: Json, **more: object) -> Json:
    return {**body, "metadata": {**body["metadata"], **more}}


def named(count: int) -> list[str]:
    return [f"n{number:04}" for number in range(count)]


def an_order(view: View, name: str = "c", **of_class: object) -> Order:
    claim = typed(a_claim(name, namespace="ns", uid=f"uid-of-{name}", resourceVersion="1"))
    return prepared(view, claim, typed(a_class(**CLASS, **of_class)), Looked())


def preferred(order: Order) -> list[str]:
    return [one.segments["zone"] for one in order.whole({}).accessibility_requirements.preferred]


@pytest.mark.slow
@each_row("count", [PLACES_STORED_MAX, PLACES_STORED_MAX + 1, 3000])
def test_an_intent_stays_small_and_is_repeated_as_it_was(count: int):
    view = in_a_cluster_of(*named(count))
    order = an_order(view)
    assert (count > PLACES_STORED_MAX) == order.intent.places_omitted
    assert len(encoded(an_entry(order.intent))) < 4096
    assert order.whole({}) == prepared_again(view, order.intent).whole({})
    assert named(count) == sorted(preferred(order))


def test_a_former_request_prefers_its_own_place_whichever_nodes_are_there_by_now():
    """At a driver whose names count in one place, it would make a second volume in another one."""
    order = an_order(in_a_cluster_of(*named(100)))
    first = preferred(order)[0]
    without = [name for name in named(100) if name != first]
    for nodes in (named(200), without, [], ["other"]):
        again = preferred(prepared_again(in_a_cluster_of(*nodes), order.intent))
        assert (first, {first, *nodes}) == (again[0], set(again))


def test_the_places_of_nodes_are_worked_out_once_for_all_claims_until_a_node_changes():
    view = in_a_cluster_of(*named(50))
    one, other = (an_order(view, name).where for name in ("a", "b"))
    assert one is not None
    assert other is not None
    assert one.places is other.places
    view.places.invalidate()
    anew = an_order(view).where
    assert anew is not None
    assert anew.places is not one.places


def test_the_places_that_a_class_allows_are_worked_out_once():
    view = in_a_cluster_of(*named(3))
    one, other = (an_order(view, name, **ALLOWED).where for name in ("a", "b"))
    assert one is not None
    assert other is not None
    assert one.places is other.places
    assert ({"zone": "n0001"}, {"zone": "n0002"}) == one.requisite


@pytest.mark.slow
@in_virtual_time
async def test_a_claim_of_a_large_cluster_is_rescheduled_while_an_earlier_request_is_open():
    """Both requests stand in the journal, which holds 256 KiB in one object."""
    world = ProvisioningWorld(VolumeDriver(topology={"zone": "n0007"}))
    world.intents = Journal(world.cluster, JournalLocation("default", DRIVER), "me", world.clock)
    for name in named(2000):
        await world.make_node(name, name)
    await world.make_class(binding="WaitForFirstConsumer")
    await world.make_claim(node="n0007")
    world.driver.script(CREATE, Lose(Code.DEADLINE_EXCEEDED), Fail(Code.RESOURCE_EXHAUSTED, "no room"))
    async with world.provisioning():
        await world.failed("no room")
        await world.settle(2)
        world.driver.topology = {"zone": "n1500"}
        await world.annotate({names.SELECTED_NODE: "n1500"})
        await world.provisioned()


@in_virtual_time
async def test_of_many_large_requests_one_takes_a_turn_of_the_loop():
    """One write of the journal lets a hundred claims call at once: a millisecond for each message, and the Lease has to
    be renewed.
    """
    turns, turn = [], itertools.count()
    now = next(turn)

    def called(_request: object) -> None:
        def tick() -> None:
            nonlocal now
            now = next(turn)

        turns.append(now)
        asyncio.get_running_loop().call_soon(tick)

    world = ProvisioningWorld(VolumeDriver(topology={"zone": "n0000"}))
    world.driver.always(CREATE, called)
    for name in named(PLACES_STORED_MAX + 1):
        await world.make_node(name, name)
    await world.make_class()
    for number in range(10):
        await world.make_claim(f"c{number}")
    async with world.provisioning():
        for number in range(10):
            await world.provisioned(f"c{number}")
    assert (10, 10) == (len(turns), len(set(turns)))
