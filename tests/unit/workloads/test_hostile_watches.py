"""Watches that come late or out of order, answers that are lost, programs that die, and two programs at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.workloads import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS
from mooring.apiserver.local import LocalCluster
from mooring.base.metrics import Metrics
from mooring.cluster.workloads.controller import Workloads
from mooring.control.runtime import Runtime
from tests.support.builders import Json, a_job, a_workload
from tests.support.cluster_world import LateWatch
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.support.workload_world import WorkloadWorld, condition

pytestmark = in_virtual_time


class FarServer(LateWatch):
    """Each request takes its time: two programs that contradict each other would else do so for ever in one moment."""

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        await asyncio.sleep(0.02)


async def all_ready(world: WorkloadWorld, count: int) -> list[str]:
    async def check() -> list[str]:
        found = [pod["metadata"]["name"] for pod in await world.pods() if pod["status"]["phase"] == "Running"]
        return found if len(found) == count else []

    found: list[str] = await world.until(check, what=f"{count} pods run")
    return found


@each_row(
    ("body", "kind", "name"),
    [
        (a_workload("ReplicaSet", replicas=2), REPLICA_SETS, "web"),
        (a_workload("StatefulSet", replicas=2), STATEFUL_SETS, "web"),
        (a_job(parallelism=2, completions=2), JOBS, "sum"),
    ],
    ids=lambda value: value.plural if isinstance(value, Kind) else "",
)
async def test_pods_that_are_let_go_are_not_taken_back(body: Json, kind: Kind[Any], name: str) -> None:
    """The watch of their owners is late: there, the owner is still alive when its pods have none any more."""
    world = WorkloadWorld(LateWatch(kind.plural, seconds=20.0))
    async with world.living():
        await world.create(body)
        names = await all_ready(world, 2)
        await asyncio.sleep(60.0)
        await world.users.delete(kind, name, "default", propagation="Orphan")
        await world.gone(kind, name)
        await asyncio.sleep(120.0)
        assert names == await world.names()
        assert [None, None] == [pod["metadata"].get("ownerReferences") for pod in await world.pods()]


async def test_pods_that_are_adopted_are_not_made_beside() -> None:
    world = WorkloadWorld(LateWatch("pods", seconds=20.0))
    async with world.living():
        await world.create(a_workload("StatefulSet", replicas=2))
        await all_ready(world, 2)
        await asyncio.sleep(60.0)
        await world.users.delete(STATEFUL_SETS, "web", "default", propagation="Orphan")
        await world.gone(STATEFUL_SETS, "web")
        await asyncio.sleep(60.0)
        world.story.clear()
        await world.create(a_workload("StatefulSet", replicas=2))
        await world.rolled_out(STATEFUL_SETS)
        await asyncio.sleep(60.0)
        assert (0, 2) == (world.story.count("create pods"), world.story.count("patch pods"))
        assert 2 == len(await world.list(PODS))


@pytest.mark.long
@each_row("late_s", [0.0, 1.0])
async def test_two_programs_at_once_count_each_pod_once(late_s: float) -> None:
    world = WorkloadWorld(FarServer())
    late = FarServer("pods", "jobs", "replicasets", seconds=late_s)
    cluster = LocalCluster(world.store, clock=world.clock, randomness=world.randomness, faults=late)
    world.node.ends = {"sum": "Succeeded"}
    other = Workloads(Runtime(cluster, world.clock, world.randomness, Metrics()))
    async with world.living(), world.running(other.run()):
        await world.create(a_workload("Deployment", replicas=3))
        await world.create(a_job(completions=6, parallelism=2))
        job = await world.shown(JOBS, "sum", lambda one: condition(one, "Complete")[0] == "True")
        succeeded = [pod for pod in await world.list(PODS) if pod["status"]["phase"] == "Succeeded"]
        assert (len(succeeded), 0) == (job["status"]["succeeded"], job["status"].get("failed", 0))
        await asyncio.sleep(120.0)
        await world.rolled_out(DEPLOYMENTS)
        assert 3 == len([name for name in await world.names() if name.startswith("web")])
        assert not [pod for pod in await world.list(PODS) if pod["metadata"].get("finalizers")]
