"""Which pods of a Job count as failed, how long it waits after them, and who lets its pods go."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.pods import PODS
from mooring.api.workloads import JOBS
from tests.support.builders import Json, a_job
from tests.support.virtual_loop import in_virtual_time
from tests.support.workload_world import WorkloadWorld, condition

pytestmark = in_virtual_time
TRACKING = "batch.kubernetes.io/job-tracking"


@pytest.fixture
def world() -> WorkloadWorld:
    return WorkloadWorld()


async def running(world: WorkloadWorld, count: int) -> list[str]:
    async def check() -> list[str]:
        found = [pod["metadata"]["name"] for pod in await world.pods() if pod["status"]["phase"] == "Running"]
        return found if len(found) == count else []

    found: list[str] = await world.until(check, what=f"{count} pods run")
    return found


async def end(world: WorkloadWorld, name: str, phase: str) -> None:
    await world.patch(PODS, name, {"status": {"phase": phase, "conditions": None}}, subresource="status")


async def counts(world: WorkloadWorld) -> tuple[int, ...]:
    """Active, succeeded, failed."""
    status = (await world.get(JOBS, "sum"))["status"]
    return tuple(status.get(part, 0) for part in ("active", "succeeded", "failed"))


async def test_pods_that_a_suspension_ends_have_not_failed(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job(parallelism=4, completions=4, backoffLimit=2))
        await running(world, 4)
        await world.patch(JOBS, "sum", {"spec": {"suspend": True}})
        await asyncio.sleep(30.0)
        assert ([], (0, 0, 0)) == (await world.list(PODS), await counts(world))
        await world.patch(JOBS, "sum", {"spec": {"suspend": False}})
        for name in await running(world, 4):
            await end(world, name, "Succeeded")
        job = await world.shown(JOBS, "sum", lambda one: condition(one, "Complete")[0] == "True")
        assert (4, 0) == (job["status"]["succeeded"], job["status"].get("failed", 0))
        await world.settle()
        told = {(reason, message) for _, reason, message, _ in await world.events("sum")}
        assert {("Suspended", "Job suspended"), ("Resumed", "Job resumed"), ("Completed", "Job completed")} <= told


async def test_pods_that_are_too_many_have_not_failed(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job(parallelism=8, completions=20, backoffLimit=2))
        await running(world, 8)
        await world.patch(JOBS, "sum", {"spec": {"parallelism": 1}})
        await asyncio.sleep(30.0)
        assert (1, 0, 0) == await counts(world)


async def test_a_success_begins_the_back_off_anew(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job(completions=3, parallelism=1))
        for phase in ("Failed", "Failed", "Failed", "Succeeded", "Failed"):
            [name] = await running(world, 1)
            await end(world, name, phase)
        begun = world.clock.now()
        await running(world, 1)
        assert 10.0 <= world.clock.now() - begun < 20.0, "the first failure after a success: 10 s, not 80"


async def test_only_failed_pods_are_replaced_where_the_job_says_so(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job(podReplacementPolicy="Failed"))
        [name] = await running(world, 1)
        await world.patch(PODS, name, {"metadata": {"finalizers": [TRACKING, "example.com/hold"]}})
        await world.delete(PODS, name)
        await asyncio.sleep(40.0)
        assert ([name], (0, 0, 0)) == ([pod["metadata"]["name"] for pod in await world.list(PODS)], await counts(world))
        await end(world, name, "Failed")
        await running(world, 1)
        assert 1 == (await counts(world))[2]


REPLACES_FAILED: Json = {"podReplacementPolicy": "Failed", "parallelism": 2, "completions": 2}


async def test_a_job_that_fails_counts_its_pods_as_failed_however_they_end(world: WorkloadWorld) -> None:
    """Also where only failed pods are replaced: nobody waits for their phase any more."""
    async with world.living():
        await world.create(a_job(activeDeadlineSeconds=60, **REPLACES_FAILED))
        await running(world, 2)
        await world.shown(JOBS, "sum", lambda one: condition(one, "Failed") == ("True", "DeadlineExceeded"))
        assert ((0, 0, 2), []) == (await counts(world), await world.list(PODS))


async def test_a_job_that_is_deleted_lets_its_pods_go_however_they_end(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job(**REPLACES_FAILED))
        await running(world, 2)
        await world.users.delete(JOBS, "sum", "default", propagation="Foreground")
        await world.gone(JOBS, "sum")
        assert [] == await world.list(PODS)


async def test_after_a_success_a_smaller_parallelism_ends_no_pod(world: WorkloadWorld) -> None:
    """Without a number of completions: those that run may end by themselves."""
    async with world.living():
        await world.create(a_job(parallelism=3))
        first, *others = await running(world, 3)
        await end(world, first, "Succeeded")
        await world.patch(JOBS, "sum", {"spec": {"parallelism": 1}})
        await asyncio.sleep(30.0)
        assert others == await running(world, 2)


async def test_pods_that_a_job_leaves_behind_are_let_go(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_job(parallelism=2, completions=2))
        names = await running(world, 2)
        await world.users.delete(JOBS, "sum", "default", propagation="Orphan")
        await world.gone(JOBS, "sum")
        await asyncio.sleep(5.0)
        left = {pod["metadata"]["name"]: pod["metadata"].get("finalizers", []) for pod in await world.list(PODS)}
        assert {name: [] for name in names} == left
        await world.remove(PODS, names[0])


async def test_an_adopted_pod_is_counted(world: WorkloadWorld) -> None:
    async with world.living():
        labels = {"app": "by-hand"}
        pod: Json = {"metadata": {"name": "first", "labels": labels}, "spec": a_job()["spec"]["template"]["spec"]}
        await world.users.create(PODS.whole(), {"apiVersion": "v1", "kind": "Pod", **pod}, "default")
        template = a_job()["spec"]["template"]
        await world.create(
            a_job(
                manualSelector=True,
                selector={"matchLabels": labels},
                template={**template, "metadata": {"labels": labels}},
            )
        )
        assert ["first"] == await running(world, 1)
        assert [TRACKING] == (await world.get(PODS, "first"))["metadata"]["finalizers"]
        await end(world, "first", "Succeeded")
        await world.shown(JOBS, "sum", lambda one: condition(one, "Complete")[0] == "True")
        assert (0, 1, 0) == await counts(world)
