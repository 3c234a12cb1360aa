"""Watches that come late: what was made or deleted once is not made or deleted again."""

from __future__ import annotations

import asyncio

from mooring.api.pods import PODS
from mooring.api.workloads import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS
from tests.support.builders import a_job, a_template, a_workload
from tests.support.cluster_world import LateWatch
from tests.support.virtual_loop import in_virtual_time
from tests.support.workload_world import WorkloadWorld, condition

pytestmark = in_virtual_time
LATE_S = 3.0


def a_late_world() -> WorkloadWorld:
    return WorkloadWorld(
        LateWatch("pods", "replicasets", "deployments", "statefulsets", "controllerrevisions", "jobs", seconds=LATE_S)
    )


def steps_after(step: str, world: WorkloadWorld) -> list[str]:
    return world.story[world.story.index(step) + 1 :]


def made(world: WorkloadWorld, plural: str, verb: str = "create") -> int:
    return world.story.count(f"{verb} {plural}")


async def test_no_pod_is_made_or_deleted_twice() -> None:
    async with (world := a_late_world()).living():
        await world.create(a_workload("Deployment", replicas=5))
        await world.rolled_out(DEPLOYMENTS)
        assert (1, 5, 0) == (made(world, "replicasets"), made(world, "pods"), made(world, "pods", "delete"))
        await world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 2}})
        await world.rolled_out(DEPLOYMENTS)
        await asyncio.sleep(5 * LATE_S)
        assert (2, 5, 3) == (len(await world.names()), made(world, "pods"), made(world, "pods", "delete"))
        await world.patch(DEPLOYMENTS, "web", {"spec": {"template": a_template(image="example.com/image:2")}})
        await world.rolled_out(DEPLOYMENTS)
        assert (2, 2) == (len(await world.names()), len(await world.list(REPLICA_SETS)))


async def test_a_set_and_a_job_come_out_right() -> None:
    async with (world := a_late_world()).living():
        await world.create(a_workload("StatefulSet", replicas=3))
        await world.rolled_out(STATEFUL_SETS)
        assert (3, 1) == (made(world, "pods"), made(world, "controllerrevisions"))
        world.node.ends = {"sum": "Succeeded"}
        await world.create(a_job(completions=4, parallelism=2))
        job = await world.shown(JOBS, "sum", lambda one: condition(one, "Complete")[0] == "True")
        assert (4, 0) == (job["status"]["succeeded"], job["status"].get("failed", 0))
        assert 4 == len([pod for pod in await world.list(PODS) if pod["metadata"]["name"].startswith("sum")])


async def test_what_a_set_was_refused_for_is_read_and_not_tried_again() -> None:
    """The set is deleted and made anew, and its watch is late: its pods and its revision would be collected as fast as
    they are made.
    """
    async with (world := WorkloadWorld(LateWatch("statefulsets", seconds=LATE_S))).living():
        await world.create(a_workload("StatefulSet", replicas=1))
        await world.rolled_out(STATEFUL_SETS)
        await world.cluster.delete(STATEFUL_SETS, "web", "default", propagation="Background")
        await world.create(a_workload("StatefulSet", replicas=1))
        await asyncio.sleep(3 * LATE_S)
        await world.rolled_out(STATEFUL_SETS)
        assert 2 == made(world, "controllerrevisions"), "the first one's, the second one's, and none for what is gone"
        assert ["get statefulsets", "create controllerrevisions"] == steps_after("delete statefulsets", world)[1:3]


async def test_a_pod_that_ends_while_its_job_is_suspended_is_counted() -> None:
    """Its end is not shown yet when the Job lets its pods go."""
    async with (world := WorkloadWorld(LateWatch("pods", seconds=LATE_S))).living():
        await world.create(a_job(completions=2, parallelism=2))
        await asyncio.sleep(4 * LATE_S)
        await world.patch(
            PODS, (await world.names())[0], {"status": {"phase": "Succeeded", "conditions": None}}, subresource="status"
        )
        await world.patch(JOBS, "sum", {"spec": {"suspend": True}})
        await asyncio.sleep(4 * LATE_S)
        assert 1 == (await world.get(JOBS, "sum"))["status"]["succeeded"]


async def test_a_pod_that_was_found_gone_is_gone_whatever_its_watch_shows() -> None:
    """It has lost its labels, and then itself; the first is shown while the second is not yet."""
    async with (world := WorkloadWorld(LateWatch("pods", seconds=LATE_S))).living():
        await world.create(a_workload("ReplicaSet", replicas=1))
        await world.shown(REPLICA_SETS, "web", lambda one: one["status"].get("readyReplicas") == 1)
        name = (await world.names())[0]
        await asyncio.sleep(LATE_S)
        await world.patch(PODS, name, {"metadata": {"labels": None}})
        await asyncio.sleep(LATE_S / 2)
        await world.users.delete(PODS, name, "default", grace_period_s=0)
        await asyncio.sleep(3 * LATE_S)
        assert 1 == made(world, "pods", "patch"), "to let it go"
