"""Item A6 of issue 27: no volume is placed by what a silent node has registered without a word to its claim."""

from __future__ import annotations

from typing import Any

from mooring.api.core import NODES
from tests.support.builders import DRIVER, Json, a_csi_node, a_node
from tests.support.provisioning import CREATE, PROVISIONING, SUCCEEDED, AnsweringDriver, ProvisioningWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

SILENT = "NodeNotReady"


async def a_world(selected: str | None, **ready: str | None) -> ProvisioningWorld:
    """ready: by node, the status of its Ready condition, None for a node that has none. Each is a zone of its own."""
    world = ProvisioningWorld(AnsweringDriver(topology={"zone": "n1"}))
    await world.make_class(binding="WaitForFirstConsumer" if selected else "Immediate")
    for name, status in ready.items():
        await world.create(a_node(name, labels={"zone": name}, conditions=conditions(status)))
        await world.create(a_csi_node(name, {DRIVER: name}, keys=("zone",)))
    await world.make_claim(node=selected)
    return world


def conditions(status: str | None) -> list[Json]:
    pressure = {"type": "DiskPressure", "status": "False"}
    return [pressure] if status is None else [pressure, {"type": "Ready", "status": status}]


async def warnings(world: ProvisioningWorld) -> list[str]:
    return [text for reason, text in await world.told_of() if reason == SILENT]


@each_row("status", ["False", "Unknown"])
@in_virtual_time
async def test_P94_a_claim_hears_that_its_selected_node_is_not_ready(status: str) -> None:
    world = await a_world("n1", n1=status, n2="True")
    async with world.provisioning():
        await world.provisioned()
    assert [
        f'A volume is provisioned although the selected node "n1" is not ready (Ready is {status}): what its '
        "CSINode tells of driver "
        f"{DRIVER} may be out of date, and the volume may be made where its pod can't reach it"
    ] == await warnings(world)
    assert 1 == world.told.count(CREATE)


@each_row("status", ["True", None])
@in_virtual_time
async def test_a_node_that_is_ready_or_never_said_so_is_believed(status: str | None) -> None:
    world = await a_world("n1", n1=status, n2="Unknown")
    async with world.provisioning():
        await world.provisioned()
    assert [PROVISIONING, SUCCEEDED] == [reason for reason, _ in await world.told_of()]


@each_row(("n1", "n2", "is_told"), [("False", "False", True), ("True", "True", False), (None, None, False)])
@in_virtual_time
async def test_P94_a_claim_without_a_node_hears_that_all_nodes_of_its_place_are_silent(
    n1: Any, n2: Any, is_told: bool
) -> None:
    world = await a_world(None, n1=n1, n2=n2)
    async with world.provisioning():
        await world.provisioned()
    assert is_told == any("which is preferred for the volume, is ready" in text for text in await warnings(world))


@in_virtual_time
async def test_a_place_without_any_node_is_silent_for_nobody() -> None:
    """The class allows it, and nobody has registered anything there."""
    world = await a_world(None, n1="False")
    await world.make_class(
        name="far", allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["n3"]}]}]
    )
    world.driver.topology = {"zone": "n3"}
    await world.make_claim("there", "far")
    async with world.provisioning():
        await world.provisioned("there")
    assert SILENT not in [reason for reason, _ in await world.told_of("there")]


@in_virtual_time
async def test_readiness_counts_as_it_is_at_the_attempt() -> None:
    world = await a_world(None, n1="Unknown")
    async with world.provisioning():
        await world.provisioned()
        await world.patch(NODES, "n1", {"status": {"conditions": conditions("True")}}, subresource="status")
        await world.settle()
        await world.make_claim("again")
        await world.provisioned("again")
        assert SILENT not in [reason for reason, _ in await world.told_of("again")]
        await world.patch(NODES, "n1", {"status": {"conditions": conditions("False")}}, subresource="status")
        await world.settle()
        await world.make_claim("once-more")
        assert "map[zone:n1]" in await world.event(SILENT, "once-more")
