"""Issue 27, A.4: that a driver's controller runs before its nodes are upgraded is told at the start, where it can be
seen.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from mooring.api.storage import CSINode
from mooring.base import log as base_log
from mooring.sidecars.provisioner.model.topology import unlike_nodes
from mooring.sidecars.provisioner.options import Rules
from tests.support.builders import a_csi_node, typed
from tests.support.provisioning import DRIVER, AnsweringDriver, ProvisioningWorld
from tests.support.rows import each_row

TOLD = "upgrade a driver on the nodes first, then its controller"


def a_node(name: str, *keys: str, driver: str = DRIVER) -> CSINode:
    node: CSINode = typed(a_csi_node(name, {driver: f"id-{name}"}, keys=list(keys)))
    return node


@each_row(
    ("nodes", "told"),
    [
        ((), ""),
        ((a_node("a", "zone"), a_node("b", "zone")), ""),
        ((a_node("a", "zone", "rack"), a_node("b", "rack", "zone")), ""),
        ((a_node("a", "zone"), a_node("b", "zone", "rack"), a_node("c", "zone")), "[rack zone] by b; [zone] by a, c"),
        ((a_node("a"), a_node("b", "zone")), "[] by a; [zone] by b"),
        ((a_node("a"),), "[] by a"),
        ((a_node("a", driver="other.test"), a_node("b", "zone")), ""),
        (
            (a_node("x", "z"), *(a_node(f"n{number}") for number in range(7))),
            "[] by n0, n1, n2, n3, n4 and 2 more; [z] by x",
        ),
    ],
)
def test_who_reports_which_keys(nodes: tuple[CSINode, ...], told: str) -> None:
    assert told == unlike_nodes(DRIVER, nodes)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    base_log.configure(stream=stream)
    yield stream
    base_log.configure()


@pytest.mark.virtual_time
@each_row(
    ("topology", "rules", "is_told"),
    [({"zone": "a"}, Rules(), True), (None, Rules(), False), ({"zone": "a"}, Rules(topology=False), False)],
    fresh=[logged],
)
async def test_the_start_tells_of_it_where_volumes_have_places(
    logged: io.StringIO, topology: dict[str, str] | None, rules: Rules, is_told: bool
) -> None:
    """And goes on: the claim gets its volume."""
    world = ProvisioningWorld(AnsweringDriver(topology=topology), rules=rules)
    await world.make_node("new", "a")
    await world.make_csi_node("old", ())
    await world.base()
    async with world.provisioning():
        await world.provisioned()
    assert is_told == (TOLD in logged.getvalue())
    assert is_told == ('reported="[] by old; [zone] by new"' in logged.getvalue())
