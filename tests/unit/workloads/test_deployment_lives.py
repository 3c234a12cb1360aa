"""Deployments on an embedded store in virtual time: rollouts, scaling, failures."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.core import EVENTS
from mooring.api.pods import PODS
from mooring.api.workloads import DEPLOYMENTS, REPLICA_SETS
from tests.support.builders import APP, Json, a_pod, a_template, a_workload
from tests.support.virtual_loop import in_virtual_time
from tests.support.workload_world import WorkloadWorld, condition

pytestmark = in_virtual_time
NEWER = {"spec": {"template": a_template(image="example.com/image:2")}}


@pytest.fixture
def world() -> WorkloadWorld:
    return WorkloadWorld()


def images(pods: list[Json]) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


def revision(obj: Json) -> str:
    return str(obj["metadata"]["annotations"]["deployment.kubernetes.io/revision"])


async def test_pods_are_made_and_counted(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("Deployment", replicas=3))
        made = await world.rolled_out(DEPLOYMENTS)
        assert ("True", "NewReplicaSetAvailable") == condition(made, "Progressing")
        assert ("True", "MinimumReplicasAvailable") == condition(made, "Available")
        [replica_set] = await world.list(REPLICA_SETS)
        digest = replica_set["metadata"]["labels"]["pod-template-hash"]
        assert f"web-{digest}" == replica_set["metadata"]["name"]
        assert {**APP, "pod-template-hash": digest} == replica_set["spec"]["selector"]["matchLabels"]
        assert "1" == revision(made)
        for pod in await world.pods():
            meta = pod["metadata"]
            assert meta["name"].startswith(f"web-{digest}-")
            assert digest == meta["labels"]["pod-template-hash"]
            [owner] = meta["ownerReferences"]
            assert (True, True, replica_set["metadata"]["uid"]) == (
                owner["controller"],
                owner["blockOwnerDeletion"],
                owner["uid"],
            )


async def test_a_deleted_pod_is_replaced(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("Deployment", replicas=2))
        await world.rolled_out(DEPLOYMENTS)
        first, second = await world.names()
        await world.delete(PODS, first)
        await asyncio.sleep(20.0)
        names = await world.names()
        assert 2 == len(names)
        assert (first not in names, second in names) == (True, True)


async def test_a_rolling_update_keeps_within_its_bounds(world: WorkloadWorld) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    async with world.living():
        await world.create(a_workload("Deployment", replicas=4, strategy=strategy))
        await world.rolled_out(DEPLOYMENTS)
        world.watch_from_here()
        await world.patch(DEPLOYMENTS, "web", NEWER)
        await world.rolled_out(DEPLOYMENTS)
        assert {"example.com/image:2"} == images(await world.pods())
        assert 3 <= world.least
        old, new = sorted(
            await world.list(REPLICA_SETS),
            key=lambda one: one["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        )
        assert (0, 4) == (old["spec"]["replicas"], new["spec"]["replicas"])


async def test_an_old_template_comes_back_as_a_new_revision(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("Deployment"))
        await world.rolled_out(DEPLOYMENTS)
        for image, number in (("example.com/image:2", "2"), ("example.com/image:1", "3")):
            await world.patch(DEPLOYMENTS, "web", {"spec": {"template": a_template(image=image)}})
            done = await world.rolled_out(DEPLOYMENTS)
            assert number == revision(done)
        histories = {
            one["metadata"]["annotations"].get("deployment.kubernetes.io/revision-history")
            for one in await world.list(REPLICA_SETS)
        }
        assert {None, "1"} == histories


async def test_recreate_waits_until_the_old_pods_have_ended(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("Deployment", replicas=2, strategy={"type": "Recreate"}))
        await world.rolled_out(DEPLOYMENTS)
        world.watch_from_here()
        await world.patch(DEPLOYMENTS, "web", NEWER)
        await asyncio.sleep(1.0)
        assert {"example.com/image:1"} == images(await world.list(PODS)), "no new pod beside an old one that ends"
        await world.rolled_out(DEPLOYMENTS)
        assert (2, {"example.com/image:2"}) == (world.most, images(await world.pods()))


async def test_scaling_and_a_scaling_in_the_midst_of_a_rollout(world: WorkloadWorld) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
    async with world.living():
        await world.create(a_workload("Deployment", replicas=6, strategy=strategy))
        await world.rolled_out(DEPLOYMENTS)
        await world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 2}})
        await world.rolled_out(DEPLOYMENTS)
        assert 2 == len(await world.names())
        world.node.sick = ("web",)
        await world.patch(DEPLOYMENTS, "web", NEWER)
        await asyncio.sleep(10.0)
        await world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 6}})
        await asyncio.sleep(10.0)
        sizes = sorted(one["spec"]["replicas"] for one in await world.list(REPLICA_SETS))
        assert [4, 4] == sizes, "each has its share of 6 and 2 more"
        world.node.sick = ()
        await world.rolled_out(DEPLOYMENTS)
        assert {"example.com/image:2"} == images(await world.pods())


async def test_a_rollout_that_stands_still_says_so_and_goes_on_later(world: WorkloadWorld) -> None:
    async with world.living():
        world.node.sick = ("web",)
        await world.create(a_workload("Deployment", progressDeadlineSeconds=30))
        late = await world.shown(
            DEPLOYMENTS, "web", lambda one: condition(one, "Progressing")[0] == "False", wait_s=60.0
        )
        assert ("False", "ProgressDeadlineExceeded") == condition(late, "Progressing")
        assert ("False", "MinimumReplicasUnavailable") == condition(late, "Available")
        world.node.sick = ()
        done = await world.rolled_out(DEPLOYMENTS)
        assert ("True", "NewReplicaSetAvailable") == condition(done, "Progressing")


async def test_a_paused_one_scales_and_does_not_roll(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("Deployment", paused=False))
        await world.rolled_out(DEPLOYMENTS)
        await world.patch(DEPLOYMENTS, "web", {"spec": {**NEWER["spec"], "paused": True, "replicas": 3}})
        await asyncio.sleep(20.0)
        assert (3, {"example.com/image:1"}) == (len(await world.names()), images(await world.pods()))
        assert ("Unknown", "DeploymentPaused") == condition(await world.get(DEPLOYMENTS, "web"), "Progressing")
        await world.patch(DEPLOYMENTS, "web", {"spec": {"paused": False}})
        await world.rolled_out(DEPLOYMENTS)
        assert {"example.com/image:2"} == images(await world.pods())


async def test_history_beyond_the_limit_goes(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("Deployment", revisionHistoryLimit=1))
        for number in range(1, 5):
            await world.patch(
                DEPLOYMENTS, "web", {"spec": {"template": a_template(image=f"example.com/image:{number}")}}
            )
            await world.rolled_out(DEPLOYMENTS)
        await asyncio.sleep(20.0)
        assert {"3", "4"} == {revision(one) for one in await world.list(REPLICA_SETS)}


async def test_a_deleted_deployment_takes_everything_with_it(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("Deployment", replicas=2))
        await world.rolled_out(DEPLOYMENTS)
        await world.remove(DEPLOYMENTS, "web")
        await asyncio.sleep(30.0)
        assert ([], []) == (await world.list(REPLICA_SETS), await world.list(PODS))


async def test_an_orphan_is_adopted_and_a_stranger_is_let_go(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_pod("lone", labels=APP))
        await world.create(a_workload("ReplicaSet", replicas=2))
        await asyncio.sleep(20.0)
        names = await world.names()
        assert ("lone", 2) == (names[0], len(names))
        await world.patch(PODS, "lone", {"metadata": {"labels": {"app": "other"}}})
        await asyncio.sleep(20.0)
        lone = await world.get(PODS, "lone")
        assert (None, 3) == (lone["metadata"].get("ownerReferences"), len(await world.names()))


async def test_a_pod_that_has_ended_is_nobodys_to_adopt(world: WorkloadWorld) -> None:
    """It would go with the ReplicaSet, and its log with it."""
    async with world.living():
        await world.create(a_pod("done", labels=APP))
        await world.patch(PODS, "done", {"status": {"phase": "Succeeded"}}, subresource="status")
        await world.create(a_workload("ReplicaSet", replicas=2))
        await asyncio.sleep(20.0)
        done = await world.get(PODS, "done")
        assert (None, 3) == (done["metadata"].get("ownerReferences"), len(await world.names()))


async def test_a_refused_pod_is_told(world: WorkloadWorld) -> None:
    template = a_template(priorityClassName="no-such-class")
    async with world.living():
        await world.create(a_workload("Deployment", template=template))
        told = await world.shown(DEPLOYMENTS, "web", lambda one: condition(one, "ReplicaFailure")[0] == "True")
        assert ("True", "FailedCreate") == condition(told, "ReplicaFailure")
        await asyncio.sleep(1.0)
        assert "FailedCreate" in {event["reason"] for event in await world.list(EVENTS)}
