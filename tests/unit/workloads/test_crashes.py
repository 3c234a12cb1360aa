"""The program of the workloads dies at each of its writes, which take effect, and another one goes on from what there
is.
"""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.workloads import CONTROLLER_REVISIONS, DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.base.metrics import Metrics
from mooring.cluster.workloads.controller import Workloads
from mooring.control.runtime import Runtime
from mooring.kube.cluster import Verb
from tests.support.builders import Json, a_claim, a_job, a_template, a_workload
from tests.support.virtual_loop import run_virtual
from tests.support.workload_world import WorkloadWorld, condition

WRITES = (Verb.CREATE, Verb.PATCH, Verb.DELETE)
OTHER: Json = {"app": "db"}
CLAIM: Json = {"metadata": {"name": "data"}, "spec": a_claim()["spec"]}


class Dying(ServerFaults):
    """The program hears nothing any more once so many of its writes have taken effect; events do not count."""

    def __init__(self, last: int) -> None:
        self._last, self.count, self.dead = last, 0, asyncio.Event()

    async def before(self, verb: str, kind: Kind[object], name: str) -> None:
        if self.dead.is_set():
            await asyncio.get_running_loop().create_future()

    async def after(self, verb: str, kind: Kind[object], name: str) -> None:
        self.count += verb in WRITES and kind.plural != "events"
        if self.count >= self._last:
            self.dead.set()
            await asyncio.get_running_loop().create_future()


async def lived(last: int) -> bool:
    """False where the program did not come to its last write: then there are no more."""
    world = WorkloadWorld(seed=last)
    world.look_s = 0.25
    world.node.ends = {"sum": "Succeeded"}
    faults = Dying(last)
    cluster = LocalCluster(world.store, clock=world.clock, randomness=world.randomness, faults=faults)
    async with world.surroundings():
        async with world.running(Workloads(Runtime(cluster, world.clock, world.randomness, Metrics())).run()):
            await populate(world)
            user = asyncio.create_task(change(world))
            dying = asyncio.create_task(faults.dead.wait())
            await asyncio.wait((user, dying), return_when=asyncio.FIRST_COMPLETED)
            dying.cancel()
        async with world.running(Workloads(world.runtime).run()):
            await user
            await asyncio.sleep(30.0)
            await check(world)
    return faults.dead.is_set()


async def populate(world: WorkloadWorld) -> None:
    await world.create(a_workload("Deployment", replicas=3))
    more = {"volumeClaimTemplates": [CLAIM], "selector": {"matchLabels": OTHER}}
    await world.create(a_workload("StatefulSet", "db", replicas=2, template=a_template(labels=OTHER), **more))
    await world.create(a_job(completions=3, parallelism=2))


async def change(world: WorkloadWorld) -> None:
    await asyncio.sleep(10.0)
    await world.patch(DEPLOYMENTS, "web", {"spec": {"template": a_template(image="example.com/image:2")}})
    await world.rolled_out(DEPLOYMENTS)
    await world.rolled_out(STATEFUL_SETS, "db")
    await world.shown(JOBS, "sum", lambda job: condition(job, "Complete")[0] == "True")


async def check(world: WorkloadWorld) -> None:
    names = await world.names()
    assert [3, 2, 3] == [len([name for name in names if name.startswith(base)]) for base in ("web-", "db-", "sum-")]
    assert [0, 3] == sorted(one["spec"]["replicas"] for one in await world.list(REPLICA_SETS))
    assert ["data-db-0", "data-db-1"] == sorted(
        one["metadata"]["name"] for one in await world.list(PERSISTENT_VOLUME_CLAIMS)
    )
    assert 1 == len(await world.list(CONTROLLER_REVISIONS))
    job = await world.get(JOBS, "sum")
    assert (3, 0, {}) == (
        job["status"]["succeeded"],
        job["status"].get("failed", 0),
        job["status"]["uncountedTerminatedPods"],
    )
    assert not [pod for pod in await world.list(PODS) if pod["metadata"].get("finalizers")]


@pytest.mark.long
def test_wherever_it_dies_the_next_one_comes_to_the_same() -> None:
    last = 1
    while run_virtual(lived(last)):
        last += 1
    assert last > 40, "there are so many writes at least"
