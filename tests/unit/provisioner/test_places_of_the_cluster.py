"""Which places a claim's request names, in clusters whose nodes differ, and where it names none. Issue 27, A12: items
of the documents.
"""

from __future__ import annotations

from typing import Any

from mooring.sidecars.provisioner.options import Rules
from tests.support.provisioning import AnsweringDriver, ProvisioningWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


async def asked(world: ProvisioningWorld, node: str | None = None) -> Any:
    """The request for a volume, of a class that waits for a node if there is one."""
    await world.make_class(binding="WaitForFirstConsumer" if node else "Immediate")
    await world.make_claim(node=node)
    async with world.provisioning():
        await world.calls(1)
    return world.request


def zones(terms: Any) -> list[dict[str, str]]:
    return [dict(term.segments) for term in terms]


async def two_zones(**kwargs: Any) -> ProvisioningWorld:
    world = ProvisioningWorld(AnsweringDriver(topology={"zone": "a"}), **kwargs)
    for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "b")):
        await world.make_node(name, zone)
    return world


async def test_P67_a_claim_without_a_node_may_be_in_any_place_of_the_cluster():
    request = await asked(await two_zones())
    assert [{"zone": "a"}, {"zone": "b"}] == zones(request.accessibility_requirements.requisite)
    assert [{"zone": "a"}, {"zone": "b"}] == sorted(zones(request.accessibility_requirements.preferred), key=str)


async def test_P67_a_selected_node_gives_keys_and_values_and_comes_first():
    request = await asked(await two_zones(), "n2")
    assert [{"zone": "a"}, {"zone": "b"}] == zones(request.accessibility_requirements.requisite)
    assert [{"zone": "b"}, {"zone": "a"}] == zones(request.accessibility_requirements.preferred)


async def test_the_keys_are_those_that_most_nodes_have():
    """While a driver is upgraded; the Go program takes those of a random node."""
    world = await two_zones()
    await world.make_node("n0", "elsewhere", keys=("rack",))
    request = await asked(world)
    assert {"zone"} == {key for term in zones(request.accessibility_requirements.requisite) for key in term}


async def test_a_driver_whose_volumes_are_everywhere_is_told_of_no_place():
    world = ProvisioningWorld(AnsweringDriver(topology=None))
    await world.make_node("n1", "a")
    assert not (await asked(world, "n1")).HasField("accessibility_requirements")


@each_row(("node", "told"), [(None, False), ("n2", True)])
async def test_without_immediate_topology_only_a_selected_node_counts(node: str | None, told: bool):
    world = await two_zones(rules=Rules(immediate_topology=False))
    assert told == (await asked(world, node)).HasField("accessibility_requirements")
