"""StatefulSets whose pods are unwell, or lack what is theirs."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.pods import PODS
from mooring.api.workloads import STATEFUL_SETS
from tests.support.builders import Json, a_claim, a_template, a_workload
from tests.support.virtual_loop import in_virtual_time
from tests.support.workload_world import WorkloadWorld

pytestmark = in_virtual_time
CLAIM: Json = {"metadata": {"name": "data"}, "spec": a_claim()["spec"]}


@pytest.fixture
def world() -> WorkloadWorld:
    return WorkloadWorld()


async def unwell(world: WorkloadWorld, *names: str) -> None:
    for name in names:
        conditions = {"conditions": [{"type": "Ready", "status": "False"}]}
        await world.patch(PODS, name, {"status": conditions}, subresource="status")


async def test_a_claim_that_a_pending_pod_lacks_is_made_again(world: WorkloadWorld) -> None:
    world.node.sick = ("web-0",)
    async with world.living():
        await world.create(a_workload("StatefulSet", volumeClaimTemplates=[CLAIM]))
        await world.shown(PODS, "web-0", lambda pod: True)
        await world.patch(PERSISTENT_VOLUME_CLAIMS, "data-web-0", {"metadata": {"finalizers": None}})
        first = await world.get(PERSISTENT_VOLUME_CLAIMS, "data-web-0")
        await world.delete(PERSISTENT_VOLUME_CLAIMS, "data-web-0")
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS, "data-web-0", lambda one: one["metadata"]["uid"] != first["metadata"]["uid"]
        )


async def test_of_unwell_pods_beyond_the_number_the_first_goes_last(world: WorkloadWorld) -> None:
    """Before a pod ends, those before it have to be well: the real one waits as long."""
    async with world.living():
        await world.create(a_workload("StatefulSet", replicas=4))
        await world.rolled_out(STATEFUL_SETS)
        await unwell(world, "web-2", "web-3")
        await world.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 1}})
        await asyncio.sleep(60.0)
        assert ["web-0", "web-1", "web-2", "web-3"] == await world.names()
        await world.patch(
            PODS,
            "web-3",
            {
                "status": {
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
                }
            },
            subresource="status",
        )
        await world.until(lambda: gone_but(world, "web-0"), what="one after the other goes")


async def gone_but(world: WorkloadWorld, *names: str) -> bool:
    return list(names) == [pod["metadata"]["name"] for pod in await world.list(PODS)]


async def test_an_update_that_never_gets_ready_needs_a_hand(world: WorkloadWorld) -> None:
    """As upstream: in order, the unwell pod is not replaced by a newer template, until somebody deletes it."""
    async with world.living():
        await world.create(a_workload("StatefulSet", replicas=2))
        await world.rolled_out(STATEFUL_SETS)
        world.node.sick = ("web-1",)
        await world.patch(STATEFUL_SETS, "web", {"spec": {"template": a_template(image="example.com/image:bad")}})
        await asyncio.sleep(60.0)
        before = (await world.get(PODS, "web-1"))["metadata"]["uid"]
        await world.patch(STATEFUL_SETS, "web", {"spec": {"template": a_template(image="example.com/image:good")}})
        await asyncio.sleep(60.0)
        assert before == (await world.get(PODS, "web-1"))["metadata"]["uid"]
        world.node.sick = ()
        await world.delete(PODS, "web-1")
        await world.rolled_out(STATEFUL_SETS)
        assert {"example.com/image:good"} == {pod["spec"]["containers"][0]["image"] for pod in await world.pods()}


async def told(world: WorkloadWorld) -> set[tuple[str, str]]:
    """Reasons and messages of the set's events."""
    await world.settle()
    return {(reason, message) for _, reason, message, _ in await world.events("web")}


async def test_a_pod_that_waits_for_the_end_of_its_claim_is_told(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_claim("data-web-0", finalizers=["example.com/hold"]))
        await world.delete(PERSISTENT_VOLUME_CLAIMS, "data-web-0")
        await world.create(a_workload("StatefulSet", volumeClaimTemplates=[CLAIM]))
        await asyncio.sleep(20.0)
        wanted = ("FailedCreate", "Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted")
        assert ([], True) == (await world.names(), wanted in await told(world))
        await world.patch(PERSISTENT_VOLUME_CLAIMS, "data-web-0", {"metadata": {"finalizers": None}})
        await world.rolled_out(STATEFUL_SETS)


async def test_a_claim_of_another_controller_is_let_be_and_told(world: WorkloadWorld) -> None:
    async with world.living():
        other = await world.create(a_workload("ReplicaSet", "other", replicas=0))
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "other",
            "uid": other["metadata"]["uid"],
            "controller": True,
        }
        claim = a_claim("data-web-0", ownerReferences=[owner])
        await world.create(claim)
        policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
        await world.create(
            a_workload("StatefulSet", volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy)
        )
        await world.rolled_out(STATEFUL_SETS)
        found = await world.get(PERSISTENT_VOLUME_CLAIMS, "data-web-0")
        assert ["other"] == [one["name"] for one in found["metadata"]["ownerReferences"]]
        text = (
            "has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored "
            "for this claim"
        )
        assert ("ConflictingController", f"PersistentVolumeClaim data-web-0 {text}") in await told(world)


async def test_a_pod_of_the_name_that_is_not_the_sets_is_told(world: WorkloadWorld) -> None:
    """Somebody has taken a pod out of the set, to look at it."""
    async with world.living():
        await world.create(a_workload("StatefulSet"))
        await world.rolled_out(STATEFUL_SETS)
        await world.patch(PODS, "web-0", {"metadata": {"labels": {"app": "looked-at"}}})
        await asyncio.sleep(5.0)
        text = 'pods "web-0" already exists'
        failed = [message for reason, message in await told(world) if reason == "FailedCreate"]
        assert [f"Create Pod web-0 in StatefulSet web failed error: {text}"] == [
            message.split(",")[0] for message in failed
        ]


async def test_another_retention_policy_is_told_of_each_pod_that_runs(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(
            a_workload("StatefulSet", replicas=2, volumeClaimTemplates=[CLAIM, {**CLAIM, "metadata": {"name": "log"}}])
        )
        await world.rolled_out(STATEFUL_SETS)
        text = "Update Pod {} in StatefulSet web successful"
        wanted = {("SuccessfulUpdate", text.format(f"web-{number}")) for number in range(2)}
        assert not wanted & await told(world)
        policy = {"whenDeleted": "Delete", "whenScaled": "Retain"}
        await world.patch(STATEFUL_SETS, "web", {"spec": {"persistentVolumeClaimRetentionPolicy": policy}})
        await asyncio.sleep(5.0)
        assert wanted <= await told(world)
        assert {1} == {count for _, reason, _, count in await world.events("web") if reason == "SuccessfulUpdate"}


async def test_an_adopted_pod_gets_the_labels_of_its_number(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("StatefulSet", replicas=2))
        await world.rolled_out(STATEFUL_SETS)
        gone = {"statefulset.kubernetes.io/pod-name": None, "apps.kubernetes.io/pod-index": None}
        await world.patch(PODS, "web-1", {"metadata": {"labels": gone}})
        labels = (await world.shown(PODS, "web-1", lambda pod: gone.keys() <= pod["metadata"]["labels"].keys()))[
            "metadata"
        ]["labels"]
        assert ("web-1", "1") == (labels["statefulset.kubernetes.io/pod-name"], labels["apps.kubernetes.io/pod-index"])
        assert ("SuccessfulUpdate", "Update Pod web-1 in StatefulSet web successful") in await told(world)


async def test_a_set_that_is_being_deleted_still_counts(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_workload("StatefulSet", replicas=2))
        await world.rolled_out(STATEFUL_SETS)
        await world.patch(PODS, "web-1", {"metadata": {"finalizers": ["example.com/hold"]}})
        await world.users.delete(STATEFUL_SETS, "web", "default", propagation="Foreground")
        await world.shown(STATEFUL_SETS, "web", lambda one: one["status"]["replicas"] == 1)
        await world.patch(PODS, "web-1", {"metadata": {"finalizers": None}})
        await world.gone(STATEFUL_SETS, "web")


async def test_a_refused_claim_is_told_as_upstream_tells_it(world: WorkloadWorld) -> None:
    async with world.living():
        world.cluster.refuse("create persistentvolumeclaims", times=2)
        await world.create(a_workload("StatefulSet", volumeClaimTemplates=[CLAIM]))
        await world.rolled_out(STATEFUL_SETS)
        said = await told(world)
        assert (
            "FailedCreate",
            "Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: not now",
        ) in said
        failed = "Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: not now"
        assert ("FailedCreate", failed) in said
        assert ("SuccessfulCreate", "Create Claim data-web-0 Pod web-0 in StatefulSet web success") in said
