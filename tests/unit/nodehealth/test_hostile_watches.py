"""Node health while its watches are late, or others write at the same moment."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.api.core import EVENTS, NODES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.apiserver.local import ServerFaults
from mooring.kube.cluster import Verb
from mooring.kube.errors import ServerError
from tests.support.cluster_world import HeldWatch, LateWatch, metric
from tests.support.health import OUT_OF_SERVICE, UNREACHABLE, HealthWorld
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
HOLD = ["kit.example.com/hold"]


async def test_PG1_a_node_that_was_gone_once_is_asked_for_again() -> None:
    """A pod comes to a node that is back, and the watch of nodes does not show it yet; an old pod is still there."""
    async with HealthWorld(LateWatch("nodes", seconds=60.0)).working() as world:
        await world.add_node()
        await world.add_pod(finalizers=HOLD)
        await asyncio.sleep(100)
        await world.silence()
        await world.delete(NODES, "n")
        await world.shown(PODS, "pod", lambda pod: pod["status"]["phase"] == "Failed")
        await world.add_node()
        await world.add_pod("young")
        await asyncio.sleep(500)
        assert "deletionTimestamp" not in (await world.get(PODS, "young"))["metadata"]


async def test_PG2_a_pod_on_a_node_that_is_in_service_again_is_left_to_its_kubelet() -> None:
    watch = HeldWatch("nodes")
    async with HealthWorld(watch).working() as world:
        await world.add_node()
        await world.add_pod(terminationGracePeriodSeconds=600, tolerations=[{"operator": "Exists"}])
        await world.silence()
        await world.until_ready_is("Unknown")
        await world.taint("n", {**OUT_OF_SERVICE, "effect": "NoSchedule"})
        await asyncio.sleep(5)
        watch.hold()
        await world.revive()
        await world.post_status()
        await world.untaint(OUT_OF_SERVICE["key"], "n")
        await world.users.delete(PODS, "pod", "default", grace_period_s=600)
        await asyncio.sleep(100)
        assert "Running" == (await world.get(PODS, "pod"))["status"]["phase"]


async def test_NL10_a_pod_that_its_kubelet_reports_meanwhile_stays_ready() -> None:
    class Meddling(ServerFaults):
        """The node comes back at the moment when its pod is to be marked."""

        done = False

        async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
            if (verb, kind.plural) == ("patch", "pods") and not self.done:
                self.done = True
                await world.revive()
                await world.post_status()
                ready = {"type": "Ready", "status": "True", "reason": "Back"}
                await world.patch(PODS, "pod", {"status": {"conditions": [ready]}}, subresource="status")

    faults = Meddling()
    world = HealthWorld(faults)
    async with world.working():
        await world.add_node("other")
        await world.add_node()
        await world.add_pod(tolerations=[{"operator": "Exists"}])
        await world.silence()
        await asyncio.sleep(300)
        condition = await world.pod_condition("Ready")
        assert (True, "True") == (faults.done, condition and condition["status"])


async def test_TE5_a_pod_that_gets_a_toleration_while_its_eviction_is_on_its_way_stays() -> None:
    """The DELETE arrives late: it is for the pod as it was judged."""
    async with HealthWorld().working() as world:
        await world.add_node()
        await world.add_pod()
        late = world.ours.cluster.hold("delete pods")
        await world.taint("n", {"key": "maintenance", "effect": "NoExecute"})
        await late.begun.wait()
        held = (await world.get(PODS, "pod"))["spec"].get("tolerations", [])
        await world.patch(PODS, "pod", {"spec": {"tolerations": [*held, {"operator": "Exists"}]}})
        late.go.set()
        await asyncio.sleep(100)
        assert "deletionTimestamp" not in (await world.get(PODS, "pod"))["metadata"]


async def test_a_zone_without_nodes_counts_none() -> None:
    async with HealthWorld().working() as world:
        await world.add_node("other")
        await world.add_node(alive=False, **{"topology.kubernetes.io/zone": "z"})
        await world.until_ready_is("Unknown")
        await asyncio.sleep(1)

        def shown() -> tuple[float | None, ...]:
            names = ("node_collector_zone_size", "node_collector_unhealthy_nodes_in_zone", "node_collector_zone_health")
            return tuple(metric(world.ours.metrics, name, zone="/z") for name in names)

        assert (1.0, 1.0, 0.0) == shown()
        await world.delete(NODES, "n")
        await asyncio.sleep(1)
        assert (0.0, 0.0, 100.0) == shown()


class Losing(ServerFaults):
    """The answer to the write of this number is lost; events do not count."""

    def __init__(self, number: int) -> None:
        self._left, self.writes = number, 0

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb in (Verb.CREATE, Verb.PATCH, Verb.DELETE) and kind.plural != "events":
            self.writes += 1
            if self.writes == self._left:
                raise ServerError("the answer is lost", reason="InternalError")


async def died_and_went(number: int) -> int:
    """How many writes there were."""
    faults = Losing(number)
    async with HealthWorld(faults).working() as world:
        await world.add_node("other")
        await world.add_node()
        await world.add_pod(tolerations=[{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}])
        await world.silence()
        await world.until_tainted(*((UNREACHABLE, effect) for effect in ("NoSchedule", "NoExecute")))
        await world.until_leaving()
        await asyncio.sleep(120)
        assert {UNREACHABLE} == {key for key, _ in await world.taints()}
        marked = [
            event for event in await world.list(EVENTS) if event["message"] == "Marking for deletion Pod default/pod"
        ]
        assert [1] == [event.get("count", 1) for event in marked]
        await world.taint("n", OUT_OF_SERVICE)
        await world.until_gone()
    return faults.writes


async def test_one_lost_answer_anywhere_changes_nothing() -> None:
    number, writes = 1, 1
    while number <= writes:
        writes = await died_and_went(number)
        number += 1
    assert number > 7, "conditions, two taints, the mark, the eviction and the removal"
