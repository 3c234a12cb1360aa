"""Requests of workloads that the API server refuses for a moment, and that have to be made again."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.workloads import DEPLOYMENTS, JOBS
from mooring.kube.errors import Conflict, Invalid
from tests.support.builders import a_job, a_workload
from tests.support.virtual_loop import in_virtual_time
from tests.support.workload_world import WorkloadWorld, condition

pytestmark = in_virtual_time


def a_world(refused: str) -> WorkloadWorld:
    """One request of this kind meets a conflict."""
    world = WorkloadWorld()
    world.cluster.refuse(refused, error=Conflict("the object has been modified", reason="Conflict"))
    return world


async def test_a_pod_whose_deletion_met_a_conflict_is_deleted_all_the_same() -> None:
    """It counted as going for ever: the Deployment kept a pod that nobody wished for, and said that it ended."""
    world = a_world("delete pods")
    async with world.living():
        await world.create(a_workload("Deployment", replicas=2))
        await world.rolled_out(DEPLOYMENTS)
        await world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
        await world.rolled_out(DEPLOYMENTS)
        await asyncio.sleep(60.0)
        assert 1 == len(await world.names())


async def test_a_job_whose_time_is_up_goes_although_its_deletion_met_a_conflict() -> None:
    world = a_world("delete jobs")
    world.node.ends = {"sum": "Succeeded"}
    async with world.living():
        await world.create(a_job(ttlSecondsAfterFinished=30))
        await world.shown(JOBS, "sum", lambda job: condition(job, "Complete")[0] == "True")
        await world.gone(JOBS, "sum", wait_s=300.0)


async def test_a_refusal_for_good_of_a_pods_release_is_told_and_is_no_staleness(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = WorkloadWorld()
    error = Invalid("spec.containers: the rule says no")
    rule = world.cluster.refuse("patch pods", times=None, error=error)
    world.node.ends = {"sum": "Succeeded"}
    async with world.living():
        await world.create(a_job())
        await asyncio.sleep(100.0)
    told = [line for line in capsys.readouterr().err.splitlines() if f"could not be saved: {error}" in line]
    assert 3 < rule.hits < 30
    assert rule.hits - 1 <= len(told)
    assert all("retry_in_s" in line for line in told)
