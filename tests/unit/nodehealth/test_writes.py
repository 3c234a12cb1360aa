"""Writes from a cache that is behind: they touch the very object, and taint, that was decided about; a refusal for good
is told.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.api.core import NODES, Node
from mooring.api.meta import Key
from mooring.api.pods import PODS
from mooring.cluster.nodehealth.lifecycle.controller import taints_patch
from mooring.cluster.nodehealth.lifecycle.decide import TaintId
from mooring.control.caches import Caches
from mooring.control.decision import Failed
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Stale
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import ApiError, Forbidden, Invalid, ServerError, Unreachable
from mooring.kube.patch import merge_patch, strategic_patch
from tests.support.builders import a_node, a_pod
from tests.support.cluster_world import ClusterWorld
from tests.support.health import UNREACHABLE, HealthWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time

OURS = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
SAME_KEY = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
SAME_EFFECT = {"key": "a/other", "effect": "NoExecute"}
LAST = {"key": "b/stays", "effect": "NoSchedule"}


def named(taint: dict[str, str]) -> TaintId:
    return taint["key"], taint["effect"]


async def seen(world: ClusterWorld, taints: list[dict[str, str]] | None) -> tuple[Informer[Node], Node]:
    """A Node with these taints, as the cache shows it."""
    await world.create(a_node("n"))
    await world.patch(NODES, "n", {"spec": {"taints": taints}})
    nodes = Caches(world.runtime).of(NODES)
    async with world.running(nodes.run()):
        await nodes.synced()
    node = nodes.store.get(Key("", "n"))
    assert node is not None
    return nodes, node


async def edit_taints(
    world: ClusterWorld, nodes: Informer[Node], node: Node, added: tuple[TaintId, ...], removed: tuple[TaintId, ...]
) -> None:
    patch = taints_patch(node, added, removed, "2026-01-01T00:00:00Z")
    await ObjectWriter(world.cluster, NODES, nodes).patch(node, patch, strictly=True)


async def taints(world: ClusterWorld) -> list[Any]:
    return [
        {"key": one["key"], "effect": one["effect"]}
        for one in (await world.get(NODES, "n"))["spec"].get("taints") or []
    ]


MOVED = {
    "one-before-it-went": ([SAME_EFFECT, OURS, LAST], [OURS, LAST]),
    "one-of-its-effect-came-before": ([OURS, LAST], [SAME_EFFECT, OURS, LAST]),
    "one-of-its-key-came-before": ([OURS, LAST], [SAME_KEY, OURS, LAST]),
    "it-went-before-one-of-its-effect": ([OURS, SAME_EFFECT], [SAME_EFFECT]),
    "it-went-before-one-of-its-key": ([OURS, SAME_KEY], [SAME_KEY]),
    "all-went": ([OURS], []),
}


@each_row(("then", "now"), MOVED.values(), ids=MOVED)
async def test_a_taint_that_does_not_stand_where_it_stood_takes_no_other_with_it(
    then: list[Any], now: list[Any]
) -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, then)
    await world.patch(NODES, "n", {"spec": {"taints": now}})
    with pytest.raises(Stale):
        await edit_taints(world, nodes, node, (), (named(OURS),))
    assert now == await taints(world)


async def test_only_the_named_taints_are_removed() -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, [SAME_KEY, OURS, SAME_EFFECT, LAST])
    await edit_taints(world, nodes, node, (), (named(SAME_KEY), named(SAME_EFFECT)))
    assert [OURS, LAST] == await taints(world)


async def test_taints_that_are_set_late_do_not_come_back() -> None:
    """The node is well again by then, and its pods would have to leave."""
    async with HealthWorld().working() as world:
        await world.add_node("other")
        await world.add_node()
        await world.taint("n", LAST)
        rule = world.ours.cluster.refuse("patch nodes", error=Unreachable("lost"), late_s=120.0)
        await world.silence()
        await world.until_tainted(named(LAST), (UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute"))
        await world.revive()
        await world.post_status()
        await world.until_tainted(named(LAST))
        assert 1 == rule.hits
        before = len(world.ours.cluster.writes("patch nodes"))
        await asyncio.sleep(200)
        assert before == len(world.ours.cluster.writes("patch nodes")), "there was nothing to take away"


async def test_the_taints_of_another_node_of_that_name_stay() -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, [OURS, LAST])
    await world.remove(NODES, "n")
    await world.create(a_node("n"))
    await world.patch(NODES, "n", {"spec": {"taints": [OURS, LAST]}})
    with pytest.raises(Stale):
        await edit_taints(world, nodes, node, (named(SAME_EFFECT),), (named(OURS),))
    assert [OURS, LAST] == await taints(world)


async def test_a_first_taint_does_not_take_the_place_of_others_that_came_meanwhile() -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, [])
    await world.patch(NODES, "n", {"spec": {"taints": [LAST]}})
    with pytest.raises(Stale):
        await edit_taints(world, nodes, node, (named(OURS),), ())
    assert [LAST] == await taints(world)


async def test_another_node_of_that_name_gets_no_labels() -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, [])
    await world.remove(NODES, "n")
    await world.create(a_node("n"))
    patch = merge_patch({"metadata": {"labels": {"a": "b"}}}, of=node)
    with pytest.raises(Stale):
        await ObjectWriter(world.cluster, NODES, nodes).patch(node, patch)
    assert "a" not in ((await world.get(NODES, "n"))["metadata"].get("labels") or {})


async def test_another_pod_of_that_name_is_neither_written_to_nor_deleted() -> None:
    world = ClusterWorld()
    await world.create(a_pod("p", node="n", terminationGracePeriodSeconds=0))
    pod = await world.users.get(PODS, "p", "default")
    await world.users.delete(PODS, "p", "default", grace_period_s=0)
    await world.create(a_pod("p", node="n"))
    writer = ObjectWriter(world.cluster, PODS, Caches(world.runtime).of(PODS), keeps_answers=False)
    with pytest.raises(Stale):
        await writer.patch(pod, strategic_patch({"status": {"phase": "Failed"}}, of=pod), "status")
    await writer.delete(pod, grace_period_s=0)
    assert "Pending" == (await world.get(PODS, "p"))["status"]["phase"]


# -- refusals


NO = Invalid("spec.taints: the rule says no")


async def test_a_node_that_is_refused_for_good_is_told_and_its_refusal_is_no_staleness() -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, [OURS])
    world.cluster.refuse("patch nodes", error=NO)
    with pytest.raises(Failed, match="the rule says no"):
        await edit_taints(world, nodes, node, (), (named(OURS),))


async def test_a_refusal_of_a_node_that_has_moved_shows_the_cache_what_it_is_by_now() -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, [OURS])
    await world.patch(NODES, "n", {"spec": {"taints": [LAST]}})
    with pytest.raises(Stale):
        await edit_taints(world, nodes, node, (), (named(OURS),))
    now = nodes.store.get(Key("", "n"))
    assert now is not None
    assert [LAST["key"]] == [one.key for one in now.spec.taints or ()]


@each_row("error", [Forbidden("no"), ServerError("not now")])
async def test_a_refusal_is_told_where_nobody_can_say_whether_the_node_has_moved(error: ApiError) -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, [OURS])
    world.cluster.refuse("patch nodes", error=NO)
    world.cluster.refuse("get nodes", error=error)
    with pytest.raises(Failed, match=f"Node n could not be saved: {NO}; it could not be read anew: {error}"):
        await edit_taints(world, nodes, node, (), (named(OURS),))


@each_row("write", ["patch nodes/status", "patch nodes", "patch pods/status"])
async def test_who_is_refused_for_good_is_told_each_time_and_tried_ever_more_slowly(
    write: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with HealthWorld().working() as world:
        rule = world.ours.cluster.refuse(write, times=None, error=NO)
        await world.add_node("other")
        await world.add_node()
        await world.add_pod()
        await world.silence()
        await asyncio.sleep(1000)
        told = [line for line in capsys.readouterr().err.splitlines() if f"could not be saved: {NO}" in line]
        assert 0 <= rule.hits - len(told) <= 2, "those of objects that had moved are Stale"
        assert 10 < rule.hits < 60
        assert all("retry_in_s" in line for line in told)


@each_row("of", ["eviction", "podgc"])
async def test_a_deletion_that_is_refused_behind_a_write_of_our_own_is_told(
    of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pod has moved since it was decided about, by the write that says why it goes: that is no staleness."""
    async with HealthWorld().working() as world:
        rule = world.ours.cluster.refuse("delete pods", times=None, error=NO)
        await world.add_node()
        await world.add_pod(tolerations=[{"operator": "Exists"}] if of == "podgc" else None)
        if of == "podgc":
            await world.silence()
            await world.delete(NODES, "n")
        else:
            await world.taint("n", {"key": "maintenance", "effect": "NoExecute"})
        await asyncio.sleep(300)
        told = [line for line in capsys.readouterr().err.splitlines() if str(NO) in line]
        assert rule.hits == len(told) > 3


async def test_an_ended_pod_that_can_not_be_removed_holds_up_no_other() -> None:
    async with HealthWorld(terminated_pod_gc_threshold=2).working() as world:
        world.ours.cluster.refuse("delete pods", name="pod0", times=None)
        await world.add_node()
        for number in range(5):
            await world.create(a_pod(f"pod{number}", node="n", phase="Succeeded"))
            await asyncio.sleep(1)
        await asyncio.sleep(100)
        assert ["pod0", "pod3", "pod4"] == sorted(pod["metadata"]["name"] for pod in await world.list(PODS))


async def test_an_end_that_is_written_late_spares_a_pod_whose_kubelet_has_reported_again() -> None:
    """Its node was gone for a while: Failed would be for ever, and the pod runs."""
    async with HealthWorld().working() as world:
        slow = world.ours.cluster.hold("patch pods/status")
        await world.add_node()
        await world.add_pod(tolerations=[{"operator": "Exists"}])
        await world.silence()
        await world.delete(NODES, "n")
        await slow.begun.wait()
        await world.add_node()
        await world.patch(PODS, "pod", {"status": {"message": "runs"}}, subresource="status")
        slow.go.set()
        await asyncio.sleep(300)
        assert "Running" == (await world.get(PODS, "pod"))["status"]["phase"]


@each_row("empty", [[], None], ids=["empty", "none"])
async def test_a_node_whose_list_of_taints_is_written_as_empty_gets_its_first_one(empty: list[Any] | None) -> None:
    world = ClusterWorld()
    nodes, node = await seen(world, empty)
    await edit_taints(world, nodes, node, (named(OURS),), ())
    assert [OURS] == await taints(world)
