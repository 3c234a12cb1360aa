"""StatefulSets on an embedded store in virtual time: order, names, claims and what becomes of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.pods import PODS
from mooring.api.workloads import CONTROLLER_REVISIONS, STATEFUL_SETS
from tests.support.builders import APP, Json, a_claim, a_template, a_workload
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.support.workload_world import READY_S, WorkloadWorld

pytestmark = in_virtual_time
NEWER = {"spec": {"template": a_template(image="example.com/image:2")}}
CLAIM: Json = {"metadata": {"name": "data", "labels": {"kept": "yes"}}, "spec": {**a_claim()["spec"]}}


def a_set(**fields: Any) -> Json:
    return a_workload("StatefulSet", volumeClaimTemplates=[CLAIM], **fields)


def retention(deleted: str, scaled: str) -> Json:
    return {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled}}


@pytest.fixture
def world() -> WorkloadWorld:
    return WorkloadWorld()


async def claims(world: WorkloadWorld) -> list[str]:
    found = await world.list(PERSISTENT_VOLUME_CLAIMS)
    return sorted(one["metadata"]["name"] for one in found if not one["metadata"].get("deletionTimestamp"))


async def owners(world: WorkloadWorld, name: str) -> list[str]:
    found = await world.get(PERSISTENT_VOLUME_CLAIMS, name)
    return [one["kind"] for one in found["metadata"].get("ownerReferences") or ()]


async def image_of(world: WorkloadWorld, name: str) -> str:
    return str((await world.get(PODS, name))["spec"]["containers"][0]["image"])


async def test_pods_start_in_order_each_with_its_claim(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_set(replicas=3))
        await world.shown(PODS, "web-0", lambda pod: True)
        assert ["web-0"] == await world.names(), "the next one waits until this one is ready"
        made = await world.rolled_out(STATEFUL_SETS)
        assert ["web-0", "web-1", "web-2"] == await world.names()
        assert ["data-web-0", "data-web-1", "data-web-2"] == await claims(world)
        pod, claim = await world.get(PODS, "web-1"), await world.get(PERSISTENT_VOLUME_CLAIMS, "data-web-1")
        labels = {"statefulset.kubernetes.io/pod-name": "web-1", "apps.kubernetes.io/pod-index": "1"}
        assert {**APP, **labels, "controller-revision-hash": made["status"]["updateRevision"]} == pod["metadata"][
            "labels"
        ]
        assert ("web-1", "web") == (pod["spec"]["hostname"], pod["spec"]["subdomain"])
        assert [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}] == pod["spec"]["volumes"]
        assert ({**APP, "kept": "yes"}, None) == (claim["metadata"]["labels"], claim["metadata"].get("ownerReferences"))


async def test_the_hosts_name_is_the_controllers_whatever_the_template_says(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_set(serviceName="", template=a_template(hostname="example.com/x", subdomain="A_b")))
        await world.rolled_out(STATEFUL_SETS)
        spec = (await world.get(PODS, "web-0"))["spec"]
        assert ("web-0", None) == (spec["hostname"], spec.get("subdomain"))


async def test_one_that_is_not_ready_holds_up_the_next_unless_all_start_at_once(world: WorkloadWorld) -> None:
    world.node.sick = ("web-0",)
    async with world.living():
        await world.create(a_set(replicas=3))
        await asyncio.sleep(60.0)
        assert ["web-0"] == await world.names()
    async with (other := WorkloadWorld()).living():
        other.node.sick = ("web-0",)
        await other.create(a_set(replicas=3, podManagementPolicy="Parallel"))
        await asyncio.sleep(READY_S / 2)
        assert 3 == len(await other.names())


async def test_a_pod_comes_back_under_its_name_after_the_former_has_ended(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_set(replicas=2))
        await world.rolled_out(STATEFUL_SETS)
        before = await world.get(PODS, "web-0")
        await world.delete(PODS, "web-0")
        await asyncio.sleep(1.0)
        assert before["metadata"]["uid"] == (await world.get(PODS, "web-0"))["metadata"]["uid"], "it is still ending"
        await world.shown(PODS, "web-0", lambda pod: pod["metadata"]["uid"] != before["metadata"]["uid"])
        await world.rolled_out(STATEFUL_SETS)


async def test_scaling_down_takes_the_last_first_and_keeps_the_claims(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_set(replicas=3))
        await world.rolled_out(STATEFUL_SETS)
        await world.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 1}})
        await asyncio.sleep(1.0)
        assert ["web-0", "web-1"] == await world.names(), "one at a time"
        await world.rolled_out(STATEFUL_SETS)
        assert (["web-0"], 3) == (await world.names(), len(await claims(world)))


async def test_an_update_goes_from_the_last_to_the_partition(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(
            a_set(replicas=3, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
        )
        first = await world.rolled_out(STATEFUL_SETS)
        await world.patch(STATEFUL_SETS, "web", NEWER)
        await asyncio.sleep(60.0)
        assert ["1", "1", "2"] == [(await image_of(world, f"web-{number}"))[-1] for number in range(3)]
        halfway = await world.get(STATEFUL_SETS, "web")
        assert (first["status"]["currentRevision"], 2, 1) == tuple(
            halfway["status"][part] for part in ("currentRevision", "currentReplicas", "updatedReplicas")
        )
        await world.delete(PODS, "web-0")
        await asyncio.sleep(60.0)
        assert "example.com/image:1" == await image_of(world, "web-0"), "below the partition it stays what it was"
        await world.patch(STATEFUL_SETS, "web", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
        done = await world.rolled_out(STATEFUL_SETS)
        assert (
            done["status"]["currentRevision"] == done["status"]["updateRevision"] != first["status"]["currentRevision"]
        )
        assert [1, 2] == sorted(one["revision"] for one in await world.list(CONTROLLER_REVISIONS))


async def test_on_delete_leaves_pods_until_somebody_deletes_them(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_set(updateStrategy={"type": "OnDelete"}))
        await world.shown(STATEFUL_SETS, "web", lambda one: one["status"].get("readyReplicas") == 1)
        await world.patch(STATEFUL_SETS, "web", NEWER)
        await asyncio.sleep(60.0)
        assert "example.com/image:1" == await image_of(world, "web-0")
        await world.delete(PODS, "web-0")
        await asyncio.sleep(60.0)
        assert "example.com/image:2" == await image_of(world, "web-0")


async def test_a_former_template_is_a_former_revision(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_set())
        first = await world.rolled_out(STATEFUL_SETS)
        for image in ("example.com/image:2", "example.com/image:1"):
            await world.patch(STATEFUL_SETS, "web", {"spec": {"template": a_template(image=image)}})
            done = await world.rolled_out(STATEFUL_SETS)
        assert first["status"]["updateRevision"] == done["status"]["updateRevision"]
        assert [2, 3] == sorted(one["revision"] for one in await world.list(CONTROLLER_REVISIONS))


@each_row(
    ("deleted", "scaled", "owner", "after_scaling", "after_deletion"),
    [
        ("Retain", "Retain", [], 3, 3),
        ("Delete", "Retain", ["StatefulSet"], 3, 0),
        ("Retain", "Delete", [], 1, 1),
        ("Delete", "Delete", ["StatefulSet"], 1, 0),
    ],
)
async def test_claims_follow_the_retention_policy(
    deleted: str, scaled: str, owner: list[str], after_scaling: int, after_deletion: int
) -> None:
    world = WorkloadWorld()
    async with world.living():
        await world.create(a_set(replicas=3, **retention(deleted, scaled)))
        await world.rolled_out(STATEFUL_SETS)
        assert owner == await owners(world, "data-web-2")
        await world.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 1}})
        await world.rolled_out(STATEFUL_SETS)
        await release(world)
        assert after_scaling == len(await claims(world))
        await world.remove(STATEFUL_SETS, "web")
        await asyncio.sleep(30.0)
        await release(world)
        assert ([], after_deletion) == (await world.list(PODS), len(await claims(world)))


async def test_what_the_policy_came_to_retain_stays_also_without_a_pod(world: WorkloadWorld) -> None:
    """Of a set that was scaled down while its claims were to go with it."""
    async with world.living():
        await world.create(a_set(replicas=2, **retention("Delete", "Retain")))
        await world.rolled_out(STATEFUL_SETS)
        await world.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 0}})
        await world.rolled_out(STATEFUL_SETS)
        assert ["StatefulSet"] == await owners(world, "data-web-1")
        await world.patch(STATEFUL_SETS, "web", {"spec": retention("Retain", "Retain")})
        await asyncio.sleep(5.0)
        assert [] == await owners(world, "data-web-1")
        stateful_set = (await world.list(STATEFUL_SETS))[0]
        late = {
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": stateful_set["metadata"]["uid"]}
            ]
        }
        await world.patch(PERSISTENT_VOLUME_CLAIMS, "data-web-0", {"metadata": late})
        await asyncio.sleep(5.0)
        assert [] == await owners(world, "data-web-0"), "an earlier process's write that came late"
        await world.remove(STATEFUL_SETS, "web")
        await asyncio.sleep(30.0)
        await release(world)
        assert ["data-web-0", "data-web-1"] == await claims(world)


async def test_a_claim_that_goes_is_waited_for(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_set(replicas=2, **retention("Retain", "Delete")))
        await world.rolled_out(STATEFUL_SETS)
        await world.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 1}})
        await world.rolled_out(STATEFUL_SETS)
        await world.patch(STATEFUL_SETS, "web", {"spec": {"replicas": 2}})
        await asyncio.sleep(30.0)
        assert ["web-0"] == await world.names(), "its claim is protected, and about to go"
        await release(world)
        await world.rolled_out(STATEFUL_SETS)
        assert (["web-0", "web-1"], ["data-web-0", "data-web-1"]) == (await world.names(), await claims(world))


async def test_a_set_that_is_made_anew_adopts_what_the_former_has_left(world: WorkloadWorld) -> None:
    async with world.living():
        await world.create(a_set(replicas=2))
        first = await world.rolled_out(STATEFUL_SETS)
        before = {pod["metadata"]["uid"] for pod in await world.pods()}
        await world.users.delete(STATEFUL_SETS, "web", "default", propagation="Orphan")
        await world.gone(STATEFUL_SETS, "web")
        await world.create(a_set(replicas=2))
        again = await world.rolled_out(STATEFUL_SETS)
        pods = await world.pods()
        assert (before, first["status"]["updateRevision"]) == (
            {pod["metadata"]["uid"] for pod in pods},
            again["status"]["updateRevision"],
        )
        assert {again["metadata"]["uid"]} == {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods}


async def release(world: WorkloadWorld) -> None:
    """As the protection of claims does once no pod uses them."""
    for one in await world.list(PERSISTENT_VOLUME_CLAIMS):
        if one["metadata"].get("deletionTimestamp"):
            await world.patch(PERSISTENT_VOLUME_CLAIMS, one["metadata"]["name"], {"metadata": {"finalizers": None}})
