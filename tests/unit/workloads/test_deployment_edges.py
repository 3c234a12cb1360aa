"""Deployments that change in other ways than by their template: the minimum of readiness, pauses in the midst of a
rollout, failures.
"""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.pods import PODS
from mooring.api.workloads import DEPLOYMENTS, REPLICA_SETS
from tests.support.builders import Json, a_template, a_workload
from tests.support.virtual_loop import in_virtual_time
from tests.support.workload_world import WorkloadWorld, condition

pytestmark = in_virtual_time


@pytest.fixture
def world() -> WorkloadWorld:
    return WorkloadWorld()


def image(number: int) -> Json:
    return {"spec": {"template": a_template(image=f"example.com/image:{number}")}}


async def sizes(world: WorkloadWorld) -> list[int]:
    """Of the ReplicaSets, the oldest revision first."""
    sets = await world.list(REPLICA_SETS)
    key = "deployment.kubernetes.io/revision"
    return [one["spec"]["replicas"] for one in sorted(sets, key=lambda one: int(one["metadata"]["annotations"][key]))]


async def test_another_minimum_of_readiness_reaches_the_replica_set(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("Deployment", replicas=2))
        await world.rolled_out(DEPLOYMENTS)
        await world.patch(DEPLOYMENTS, "web", {"spec": {"minReadySeconds": 7}})
        await asyncio.sleep(5.0)
        [only] = await world.list(REPLICA_SETS)
        assert 7 == only["spec"]["minReadySeconds"]


async def test_the_revision_is_no_change_of_the_spec(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("Deployment"))
        done = await world.rolled_out(DEPLOYMENTS)
        assert ("1", 1) == (
            done["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
            done["metadata"]["generation"],
        )


async def test_a_pause_in_the_midst_fills_up_to_the_surge_and_keeps_the_proportions(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(
            a_workload("Deployment", replicas=10, strategy={"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}})
        )
        await world.rolled_out(DEPLOYMENTS)
        world.node.sick = ("web-",)
        await world.patch(DEPLOYMENTS, "web", image(2))
        await asyncio.sleep(20.0)
        assert [8, 5] == await sizes(world)
        await world.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}})
        [old, _] = sorted(await world.list(REPLICA_SETS), key=lambda one: -one["spec"]["replicas"])
        await world.patch(REPLICA_SETS, old["metadata"]["name"], {"spec": {"replicas": 6}})
        await asyncio.sleep(20.0)
        assert 13 == sum(await sizes(world)), "also what somebody's hand has taken away"
        await world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 20}})
        await asyncio.sleep(20.0)
        assert 23 == sum(await sizes(world))


async def test_a_paused_deployment_still_cleans_up(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("Deployment"))
        for number in (2, 3, 4):
            await world.rolled_out(DEPLOYMENTS)
            await world.patch(DEPLOYMENTS, "web", image(number))
        await world.rolled_out(DEPLOYMENTS)
        await world.patch(DEPLOYMENTS, "web", {"spec": {"paused": True, "revisionHistoryLimit": 1}})
        await asyncio.sleep(20.0)
        assert [0, 1] == await sizes(world)


async def test_a_replica_set_that_is_refused_is_said(world: WorkloadWorld) -> None:
    async with world.living():
        rule = world.cluster.refuse("create replicasets", times=None)
        await world.create(a_workload("Deployment"))
        await asyncio.sleep(2.0)
        found = await world.get(DEPLOYMENTS, "web")
        assert ("False", "ReplicaSetCreateError") == condition(found, "Progressing")
        rule.times = 0
        await world.rolled_out(DEPLOYMENTS)


async def bind(world: WorkloadWorld, name: str, node: str) -> None:
    body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    await world.users.post(PODS, name, "binding", body, "default")


async def test_the_pod_beside_one_of_another_revision_goes_first(world: WorkloadWorld) -> None:
    """Whatever its ReplicaSet, a pod of the Deployment makes its node crowded."""
    async with world.living():
        await world.create(
            a_workload("Deployment", replicas=2, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})
        )
        await asyncio.sleep(0.2)
        first, second = await world.names()
        await bind(world, first, "n1")
        await bind(world, second, "n2")
        await world.rolled_out(DEPLOYMENTS)
        world.node.sick = ("web-",)
        await world.patch(DEPLOYMENTS, "web", image(2))
        await asyncio.sleep(0.2)
        [new] = set(await world.names()) - {first, second}
        await bind(world, new, "n2")
        await asyncio.sleep(10.0)
        await world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
        await asyncio.sleep(10.0)
        assert {first, new} == set(await world.names())


async def test_a_deadline_that_is_none(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("Deployment", progressDeadlineSeconds=2**31 - 1))
        assert ("", "") == condition(await world.rolled_out(DEPLOYMENTS), "Progressing")
