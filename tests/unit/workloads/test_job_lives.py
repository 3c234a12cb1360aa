"""Jobs on an embedded store in virtual time: completions, failures, deadlines, suspension."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.pods import PODS
from mooring.api.workloads import JOBS
from tests.support.builders import Json, a_job
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.support.workload_world import WorkloadWorld, condition

pytestmark = in_virtual_time


@pytest.fixture
def world() -> WorkloadWorld:
    return WorkloadWorld()


async def over(world: WorkloadWorld, kind: str = "Complete", wait_s: float = 600.0) -> Json:
    return await world.shown(JOBS, "sum", lambda job: condition(job, kind)[0] == "True", f"is {kind}", wait_s)


async def end(world: WorkloadWorld, phase: str, count: int = 1) -> None:
    """As a container that ends."""
    names = await world.until(lambda: some_running(world, count))
    for name in names:
        await world.patch(PODS, name, {"status": {"phase": phase, "conditions": None}}, subresource="status")


async def some_running(world: WorkloadWorld, count: int) -> list[str]:
    found = [pod["metadata"]["name"] for pod in await world.pods() if pod["status"]["phase"] == "Running"]
    return found[:count] if len(found) >= count else []


async def test_a_job_runs_its_completions_a_few_at_a_time(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job(completions=5, parallelism=2))
        [first, second] = await world.until(lambda: some_running(world, 2))
        pod = await world.get(PODS, first)
        uid = (await world.get(JOBS, "sum"))["metadata"]["uid"]
        labels = {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": "sum",
            "controller-uid": uid,
            "job-name": "sum",
        }
        assert (labels, ["batch.kubernetes.io/job-tracking"]) == (
            pod["metadata"]["labels"],
            pod["metadata"]["finalizers"],
        )
        assert (True, "sum-", 2) == (
            second.startswith("sum-"),
            pod["metadata"]["generateName"],
            len(await world.names()),
        )
        for count in (2, 2, 1):
            await end(world, "Succeeded", count)
        job = await over(world)
        assert (5, 0, 0) == tuple(job["status"].get(part, 0) for part in ("succeeded", "active", "failed"))
        assert (("True", "CompletionsReached"), {}) == (
            condition(job, "SuccessCriteriaMet"),
            job["status"].get("uncountedTerminatedPods"),
        )
        assert job["status"]["completionTime"]
        assert 5 == len([pod for pod in await world.pods() if not pod["metadata"].get("finalizers")])


async def test_without_a_number_of_completions_one_success_ends_it(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job(parallelism=2))
        await end(world, "Succeeded", 1)
        await asyncio.sleep(20.0)
        assert ("", "") == condition(await world.get(JOBS, "sum"), "Complete"), "the other one still runs"
        await end(world, "Succeeded", 1)
        assert 2 == (await over(world))["status"]["succeeded"]


async def test_failures_are_tried_again_later_and_later_up_to_the_limit(world: WorkloadWorld) -> None:
    world.node.ends = {"sum": "Failed"}
    async with world.living():
        await world.create(a_job(backoffLimit=2))
        begun = world.clock.now()
        job = await over(world, "Failed")
        assert (("True", "BackoffLimitExceeded"), 3) == (condition(job, "Failed"), job["status"]["failed"])
        assert 30.0 <= world.clock.now() - begun, "10 s and 20 s between them"


async def test_a_deleted_pod_counts_as_failed_and_is_replaced(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job())
        [name] = await world.until(lambda: some_running(world, 1))
        await world.delete(PODS, name)
        await end(world, "Succeeded")
        job = await over(world)
        assert (1, 1) == (job["status"]["failed"], job["status"]["succeeded"])


async def test_a_deadline_ends_it(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job(activeDeadlineSeconds=60))
        job = await over(world, "Failed")
        assert ("True", "DeadlineExceeded") == condition(job, "Failed")
        await asyncio.sleep(20.0)
        assert [] == await world.names()


async def test_a_suspended_job_runs_nothing_until_it_is_resumed(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job(suspend=True))
        await asyncio.sleep(10.0)
        assert ([], ("True", "JobSuspended")) == (
            await world.names(),
            condition(await world.get(JOBS, "sum"), "Suspended"),
        )
        await world.patch(JOBS, "sum", {"spec": {"suspend": False}})
        await end(world, "Succeeded")
        assert ("False", "JobResumed") == condition(await over(world), "Suspended")


@each_row("policy", ["Background", ""])
async def test_a_deleted_job_takes_its_pods_with_it_where_the_deletion_says_so(policy: str) -> None:
    world = WorkloadWorld()
    async with world.living():
        await world.create(a_job(parallelism=2, completions=4))
        await world.until(lambda: some_running(world, 2))
        await world.remove(JOBS, "sum", propagation=policy)
        await asyncio.sleep(30.0)
        assert bool(policy) == (await world.list(PODS) == [])


async def test_a_job_that_is_over_goes_by_itself_when_it_says_so(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job(ttlSecondsAfterFinished=100))
        await end(world, "Succeeded")
        await over(world)
        await asyncio.sleep(90.0)
        assert await world.find(JOBS, "sum")
        await asyncio.sleep(30.0)
        assert (None, []) == (await world.find(JOBS, "sum"), await world.list(PODS))
