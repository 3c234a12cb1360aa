"""What wakes a pod that has no node yet: whatever it waits for is told when it comes, or when somebody lets go of
it.
"""

from __future__ import annotations

from mooring.api.binding import NO_PROVISIONER
from mooring.kube.errors import ServerError
from tests.support.binding import NODE, POD, HeldWrites, binding
from tests.support.builders import a_claim, a_volume
from tests.support.cluster_world import metric
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time, run_virtual

pytestmark = in_virtual_time


async def test_B41_a_class_that_comes_after_its_pod() -> None:
    async with binding() as (_, world):
        node = await world.make_node()
        await world.make_claim()
        await world.make_pod(world("claim"))
        await world.rejected(world("pod"), "unbound immediate PersistentVolumeClaims")
        await world.make_class(wffc=True)
        await world.selected(world("claim"), node)


@each_row("seed", range(6))
def test_B43_a_pod_made_again_under_its_name_gets_a_node(seed: int) -> None:
    """Its namesake's end and its own beginning are one look for the scheduler."""

    async def main() -> None:
        async with binding() as (_, world):
            node = await world.make_node()
            await world.make_waiting_pod()
            await world.selected(world("claim"), node)
            await world.delete(POD, world("pod"))
            await world.make_pod(world("claim"))
            await world.provision(await world.asked(world("claim")))
            await world.scheduled(world("pod"), node)

    run_virtual(main(), seed)


async def test_B56_a_claim_for_one_pod_is_free_when_its_pod_goes_before_it_had_a_node() -> None:
    async with binding() as (_, world):
        node = await world.make_node()
        await world.make_class(wffc=True)
        await world.create(a_volume(world("pv"), sc="static", modes=("ReadWriteOncePod",)))
        await world.create(a_claim(world("alone"), sc="static", modes=("ReadWriteOncePod",)))
        await world.bound(world("alone"), world("pv"))
        await world.make_claim("later")
        await world.make_pod(world("alone"), world("later"), base="one")
        await world.selected(world("later"), node)
        await world.make_pod(world("alone"), base="two")
        await world.rejected(world("two"), "ReadWriteOncePod")
        await world.delete(POD, world("one"))
        await world.scheduled(world("two"), node)


async def test_B42_a_volume_is_free_when_its_pod_goes_before_it_was_written() -> None:
    held = HeldWrites()
    async with binding(held) as (_, world):
        node = await world.make_node()
        await world.make_class(wffc=True, provisioner=NO_PROVISIONER)
        await world.available()
        for base in ("one", "two"):
            await world.make_claim(base)
        held.name = world("pv")
        await world.make_pod(world("one"), base="one")
        await held.begun.wait()
        await world.make_pod(world("two"), base="two")
        await world.rejected(world("two"), "didn't find available persistent volumes to bind")
        await world.delete(POD, world("one"))
        held.let_go(ServerError("etcd: leader changed", code=500))
        await world.scheduled(world("two"), node)


async def test_of_a_nodes_labels_only_those_wake_a_pod_that_its_decision_looked_up() -> None:
    """Node-feature-discovery and operators write labels all the time, and a rejection costs writes."""
    async with binding() as (ours, world):
        node = await world.make_node()
        await world.make_class(
            wffc=True, allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]
        )
        for number in range(50):
            await world.make_claim(f"claim{number}")
            await world.make_pod(world(f"claim{number}"), base=f"pod{number}")
        for number in range(50):
            await world.rejected(world(f"pod{number}"), "didn't find available persistent volumes to bind")

        def attempts() -> float:
            found = {"result": "unschedulable", "profile": "default-scheduler"}
            return metric(ours.metrics, "scheduler_schedule_attempts_total", **found) or 0

        before = attempts()
        for number in range(60):
            await world.patch(NODE, node, {"metadata": {"labels": {"feature.node.kubernetes.io/x": str(number)}}})
            await ours.clock.sleep(1)
        assert before == attempts()
        await world.patch(NODE, node, {"metadata": {"labels": {"zone": "a"}}})
        for number in range(50):
            await world.selected(world(f"claim{number}"), node)
