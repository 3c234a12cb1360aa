"""Writes to Nodes whose cache is behind: a taint is removed by its place in the list, and only where it still stands there."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import NODES, Node, Taint
from mooring.api.meta import Key
from mooring.control.caches import Caches
from mooring.control.result import Stale
from mooring.controllers.nodehealth.writes import Writes
from mooring.kube.cache.informer import Informer
from tests.support.builders import a_node
from tests.support.cluster_world import ClusterWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

OURS = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
SAME_KEY = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
SAME_EFFECT = {"key": "a/other", "effect": "NoExecute"}
LAST = {"key": "b/stays", "effect": "NoSchedule"}


async def seen(world: ClusterWorld, taints: list[dict[str, str]]) -> tuple[Informer[Node], Node]:
    """A Node with these taints, as the cache shows it."""
    await world.create(a_node("n"))
    await world.patch(NODES, "n", {"spec": {"taints": taints}})
    nodes = Caches(world.runtime).of(NODES)
    async with world.running(nodes.run()):
        await nodes.synced()
    node = nodes.store.get(Key("", "n"))
    assert node is not None
    return nodes, node


async def taints(world: ClusterWorld) -> list[Any]:
    return [{"key": one["key"], "effect": one["effect"]} for one in (await world.get(NODES, "n"))["spec"].get("taints") or []]


MOVED = {
    "one-before-it-went": ([SAME_EFFECT, OURS, LAST], [OURS, LAST]),
    "one-of-its-effect-came-before": ([OURS, LAST], [SAME_EFFECT, OURS, LAST]),
    "one-of-its-key-came-before": ([OURS, LAST], [SAME_KEY, OURS, LAST]),
    "it-went-before-one-of-its-effect": ([OURS, SAME_EFFECT], [SAME_EFFECT]),
    "it-went-before-one-of-its-key": ([OURS, SAME_KEY], [SAME_KEY]),
    "all-went": ([OURS], []),
}


@pytest.mark.parametrize(("then", "now"), MOVED.values(), ids=MOVED)
async def test_a_taint_that_does_not_stand_where_it_stood_takes_no_other_with_it(then: list[Any], now: list[Any]) -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, then)
    await world.patch(NODES, "n", {"spec": {"taints": now}})
    with pytest.raises(Stale):
        await Writes(world.cluster, nodes, world.clock).edit_taints(node, (), (Taint(**OURS),))
    assert now == await taints(world)


async def test_taints_that_stand_where_they_stood_are_removed_whatever_came_behind_them() -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, [SAME_KEY, OURS, SAME_EFFECT])
    await world.patch(NODES, "n", {"spec": {"taints": [SAME_KEY, OURS, SAME_EFFECT, LAST]}})
    await Writes(world.cluster, nodes, world.clock).edit_taints(node, (), (Taint(**SAME_KEY), Taint(**SAME_EFFECT)))
    assert [OURS, LAST] == await taints(world)


async def test_the_taints_of_another_node_of_that_name_stay() -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, [OURS, LAST])
    await world.remove(NODES, "n")
    await world.create(a_node("n"))
    await world.patch(NODES, "n", {"spec": {"taints": [OURS, LAST]}})
    with pytest.raises(Stale):
        await Writes(world.cluster, nodes, world.clock).edit_taints(node, (Taint(**SAME_EFFECT),), (Taint(**OURS),))
    assert [OURS, LAST] == await taints(world)
