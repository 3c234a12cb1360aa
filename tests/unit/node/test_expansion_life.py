"""The node's part in growing a volume that pods use."""

from __future__ import annotations

from typing import Any

from mooring.api.core import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.kube.errors import Conflict
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_secret
from tests.support.node_driver import EXPAND, NODE_RPC, PUBLISH, STAGE, UNSTAGE
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail, Wait
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import Bound, VolumesWorld, world

GiB = 1 << 30
ABLE = (NODE_RPC.STAGE_UNSTAGE_VOLUME, NODE_RPC.EXPAND_VOLUME)
PENDING = {"allocatedResources": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}}
WAITS = {"type": "FileSystemResizePending", "status": "True"}


async def grown(world: VolumesWorld, volume: Bound, status: dict[str, Any] | None = None) -> None:
    """As the resizer leaves the claim: the PersistentVolume has the size, the rest is the node's."""
    await world.patch(PERSISTENT_VOLUMES, volume.name, {"spec": {"capacity": {"storage": "2Gi"}}})
    await world.patch_claim(volume.name, PENDING | {"conditions": [WAITS]} if status is None else status)


async def touch(world: VolumesWorld, pod: dict[str, Any]) -> None:
    """The pod is looked at again, as the kubelet does now and then."""
    await world.patch(PODS, pod["metadata"]["name"], {"metadata": {"labels": {"touched": "yes"}}})


async def status_of(world: VolumesWorld, volume: Bound) -> dict[str, Any]:
    return dict((await world.get(PERSISTENT_VOLUME_CLAIMS, volume.name))["status"])


@in_virtual_time
async def test_EXP1_a_volume_grows_under_its_pod(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    await world.create(a_secret("key", {"k": "dg=="}))
    async with world.agent():
        volume = await world.volume(
            nodeExpandSecretRef={"name": "key", "namespace": "default"}, pv={"mountOptions": ["a"]}
        )
        pod = await world.running_pod(volume)
        gate = world.driver.gate(EXPAND)
        await grown(world, volume)
        await touch(world, pod)
        await world.until_called(EXPAND)
        assert {"storage": "NodeResizeInProgress"} == (await status_of(world, volume))["allocatedResourceStatuses"]
        gate.set()
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS, "vol", lambda claim: claim["status"]["capacity"]["storage"] == "2Gi"
        )
        status = await status_of(world, volume)
        assert ({}, []) == (status.get("allocatedResourceStatuses") or {}, status.get("conditions") or [])
        request = world.request(EXPAND)
        assert (str(world.target(pod, "vol")), str(world.staging(volume)), 2 * GiB, 0) == (
            request.volume_path,
            request.staging_target_path,
            request.capacity_range.required_bytes,
            request.capacity_range.limit_bytes,
        )
        assert ({"k": "v"}, ["a"]) == (dict(request.secrets), list(request.volume_capability.mount.mount_flags))
        await world.settle(200.0)
        await world.until_calls(STAGE, PUBLISH, EXPAND)
        await world.until_told(
            pod, 'MountVolume.NodeExpandVolume succeeded for volume "vol" n', "FileSystemResizeSuccessful"
        )


@in_virtual_time
async def test_EXP1_both_the_pod_and_its_claim_are_told(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        await grown(world, volume)
        await touch(world, pod)
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS, "vol", lambda claim: claim["status"]["capacity"]["storage"] == "2Gi"
        )
        await world.recorder.drain(10.0)
        told = {
            event["involvedObject"]["kind"]
            for event in await world.list(EVENTS)
            if event["reason"] == "FileSystemResizeSuccessful"
        }
        assert {"Pod", "PersistentVolumeClaim"} == told


@in_virtual_time
async def test_EXP1_a_volume_that_grew_while_nobody_used_it_grows_when_it_is_mounted(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume)
        await world.running_pod(volume)
        await world.until_calls(STAGE, PUBLISH, EXPAND)
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS, "vol", lambda claim: claim["status"]["capacity"]["storage"] == "2Gi"
        )


@in_virtual_time
async def test_EXP1_a_write_that_met_another_is_made_again(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume)
        world.cluster.refuse("patch persistentvolumeclaims/status", error=Conflict("moved"))
        await world.running_pod(volume)
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS, "vol", lambda claim: claim["status"]["capacity"]["storage"] == "2Gi"
        )
        await world.until_calls(STAGE, PUBLISH, EXPAND)
        await world.recorder.drain(10.0)
        assert [] == [event["message"] for event in await world.list(EVENTS) if event["type"] == "Warning"]


@each_row("change", ["label", "wish"], fresh=[world])
@in_virtual_time
async def test_EXP1_a_claim_that_changes_during_the_call_has_its_size_after_one_call(
    world: VolumesWorld, change: str
) -> None:
    """The kubelet tells a failure, and calls the driver once more."""
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume(claim={"resources": {"requests": {"storage": "3Gi"}}})
        pod = await world.running_pod(volume)
        gate = world.driver.gate(EXPAND)
        await grown(world, volume)
        await touch(world, pod)
        await world.until_called(EXPAND)
        less = {"spec": {"resources": {"requests": {"storage": "2500Mi"}}}}
        await world.patch(
            PERSISTENT_VOLUME_CLAIMS, "vol", {"metadata": {"labels": {"a": "b"}}} if change == "label" else less
        )
        gate.set()
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS, "vol", lambda claim: claim["status"]["capacity"]["storage"] == "2Gi"
        )
        await world.settle(200.0)
        assert 1 == len(world.driver.made(EXPAND))
        await world.recorder.drain(10.0)
        assert [] == [event["message"] for event in await world.list(EVENTS) if event["type"] == "Warning"]


@in_virtual_time
async def test_a_claim_made_anew_during_the_call_is_not_given_the_size(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume(claim=ASKED)
        pod = await world.running_pod(volume)
        gate = world.driver.gate(EXPAND)
        await grown(world, volume)
        await touch(world, pod)
        await world.until_called(EXPAND)
        made = await world.get(PERSISTENT_VOLUME_CLAIMS, "vol")
        await world.patch(PERSISTENT_VOLUME_CLAIMS, "vol", {"metadata": {"finalizers": None}})
        await world.remove(PERSISTENT_VOLUME_CLAIMS, "vol")
        meta = {name: made["metadata"][name] for name in ("name", "namespace")}
        await world.create(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": made["spec"]}
        )
        gate.set()
        await world.settle(10.0)
        assert "2Gi" != ((await status_of(world, volume)).get("capacity") or {}).get("storage")


@in_virtual_time
async def test_a_growth_that_was_under_way_at_a_crash_is_finished(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    gate = world.driver.gate(EXPAND)
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume)
        await world.pod(volume)
        await world.until_called(EXPAND)
    gate.set()
    async with world.agent():
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS, "vol", lambda claim: claim["status"]["capacity"]["storage"] == "2Gi"
        )


@each_row("code", [Code.OUT_OF_RANGE, Code.INVALID_ARGUMENT, Code.NOT_FOUND], fresh=[world])
@in_virtual_time
async def test_EXP2_what_can_t_be_done_is_handed_back_to_the_controller(world: VolumesWorld, code: Code) -> None:
    world.driver.able = ABLE
    world.driver.always(EXPAND, Fail(code, "too big"))
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        await grown(world, volume)
        await touch(world, pod)
        await world.until_called(EXPAND)
        await world.settle(300.0)
        status = await status_of(world, volume)
        assert {"storage": "NodeResizeInfeasible"} == status["allocatedResourceStatuses"]
        (condition,) = [one for one in status["conditions"] if one["type"] == "NodeResizeError"]
        assert ("True", True) == (condition["status"], "too big" in condition["message"])
        assert 1 == len(world.driver.made(EXPAND)), "it waits for the controller"
        assert "1Gi" == status["capacity"]["storage"]
        text = 'NodeExpandVolume.NodeExpandVolume failed for volume "vol" : rpc error: code = '
        assert (await world.until_told(pod, "too big", "VolumeResizeFailed")).startswith(text)


@in_virtual_time
async def test_what_others_have_noted_of_a_claim_stays(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume)
        speed = {"example.com/speed": "NodeResizePending"}
        await world.patch_claim(
            "vol", {"allocatedResourceStatuses": speed, "conditions": [{"type": "Own", "status": "True"}]}
        )
        await world.running_pod(volume)
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS, "vol", lambda claim: claim["status"]["capacity"]["storage"] == "2Gi"
        )
        status = await status_of(world, volume)
        assert (speed, ["Own"]) == (status["allocatedResourceStatuses"], [one["type"] for one in status["conditions"]])


@in_virtual_time
async def test_EXP4_a_volume_in_use_is_not_asked_for_again_until_it_has_left(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    world.driver.always(EXPAND, Fail(Code.FAILED_PRECONDITION, "in use"))
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume)
        pod = await world.running_pod(volume)
        await world.until_called(EXPAND)
        await world.settle(500.0)
        assert 1 == len(world.driver.made(EXPAND))
        assert "Running" == (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"]
        assert "in use" in str((await status_of(world, volume))["conditions"])
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle(5.0)
        world.driver.forget_scripts()
        await world.running_pod(volume)
        await world.until_called(EXPAND, 2)


@in_virtual_time
async def test_EXP4_a_volume_that_has_left_is_asked_for_again_also_where_the_next_pod_waits_already(
    world: VolumesWorld,
) -> None:
    """As where a pod is made anew on its node, which is what users do for a volume that can't grow in use."""
    world.driver.able = ABLE
    world.driver.always(EXPAND, Fail(Code.FAILED_PRECONDITION, "in use"))
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume)
        pod = await world.running_pod(volume)
        await world.until_called(EXPAND)
        unstage = world.driver.gate(UNSTAGE)
        await world.delete_pod(pod)
        await world.until_called(UNSTAGE)
        await world.pod(volume)
        await world.settle(5.0)
        world.driver.forget_scripts()
        unstage.set()
        await world.until_called(EXPAND, 2)


@each_row("code", [Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.ABORTED], fresh=[world])
@in_virtual_time
async def test_a_growth_that_may_be_under_way_is_tried_again_and_not_blamed(world: VolumesWorld, code: Code) -> None:
    """The kubelet writes a condition here, and with another size wanted gives up."""
    world.driver.able = ABLE
    world.driver.script(EXPAND, *[Fail(code)] * 3)
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume)
        await world.pod(volume)
        await world.until_called(EXPAND, 3)
        assert [] == [
            one for one in (await status_of(world, volume)).get("conditions", []) if one["type"] == "NodeResizeError"
        ]
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS, "vol", lambda claim: claim["status"]["capacity"]["storage"] == "2Gi"
        )


@in_virtual_time
async def test_a_driver_that_can_t_expand_is_not_asked(world: VolumesWorld) -> None:
    """Its pod runs, and pod and claim are told, once: the controller's part of the driver has promised what the node's
    can't do.
    """
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume)
        pod = await world.running_pod(volume)
        await world.settle(300.0)
        assert [STAGE, PUBLISH] == world.driver.calls_for_volumes()
        text = "NodeExpand is not supported by the CSI driver d1"
        await world.until_told(pod, HELD + text, "FailedMount")
        (condition,) = [
            one for one in (await status_of(world, volume))["conditions"] if one["type"] == "NodeResizeError"
        ]
        assert f"failed to expand pvc with {text}" == condition["message"]
        assert 1 == len([step for step in world.story if "patch persistentvolumeclaims" in step])


@in_virtual_time
async def test_a_driver_that_can_t_expand_leaves_an_old_resizer_s_claim_alone(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume, {"conditions": [WAITS]})
        await world.running_pod(volume)
        await world.settle(60.0)
        assert [STAGE, PUBLISH] == world.driver.calls_for_volumes()
        assert [] == [step for step in world.story if "patch persistentvolumeclaims" in step]


@in_virtual_time
async def test_a_secret_that_is_missing_is_told_on_the_claim_and_waited_for(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume(nodeExpandSecretRef={"name": "key", "namespace": "default"})
        await grown(world, volume)
        pod = await world.pod(volume)
        await world.until_told(pod, HELD + "fetching secret default/key failed", "FailedMount")
        (condition,) = [
            one for one in (await status_of(world, volume))["conditions"] if one["type"] == "NodeResizeError"
        ]
        assert condition["message"].startswith("failed to expand pvc with fetching secret default/key failed")
        assert {"storage": "NodeResizePending"} == (await status_of(world, volume))["allocatedResourceStatuses"]
        await world.create(a_secret("key", {"k": "dg=="}))
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS, "vol", lambda claim: claim["status"]["capacity"]["storage"] == "2Gi"
        )
        assert [] == ((await status_of(world, volume)).get("conditions") or [])


@in_virtual_time
async def test_pods_that_only_read_grow_nothing(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume)
        pod = await world.running_pod(volume, read_only=True)
        await world.settle(60.0)
        assert [STAGE, PUBLISH] == world.driver.calls_for_volumes()
        text = 'MountVolume.NodeExpandVolume failed for volume "vol" requested read-only file system'
        await world.until_told(pod, text, "FileSystemResizeFailed")


@in_virtual_time
async def test_a_growth_under_pods_that_only_read_is_told_to_each_of_them_once(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume()
        pods = [await world.running_pod(volume, read_only=True) for _ in range(2)]
        await grown(world, volume)
        for pod in pods:
            await touch(world, pod)
        await world.settle(300.0)
        assert EXPAND not in world.driver.calls_for_volumes()
        text = 'MountVolume.NodeExpandVolume failed for volume "vol" requested read-only file system'
        for pod in pods:
            await world.until_told(pod, text, "FileSystemResizeFailed")
        told = [event for event in await world.list(EVENTS) if event["reason"] == "FileSystemResizeFailed"]
        kinds = [event["involvedObject"]["kind"] for event in told for _ in range(event.get("count", 1))]
        assert (2, 2) == (kinds.count("Pod"), kinds.count("PersistentVolumeClaim"))
        await world.running_pod(volume)
        await world.until_called(EXPAND)


@in_virtual_time
async def test_an_old_resizer_s_claim_is_compared_by_size(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume, {"conditions": [WAITS]})
        await world.running_pod(volume)
        await world.until_calls(STAGE, PUBLISH, EXPAND)
        status = await status_of(world, volume)
        assert ("2Gi", []) == (status["capacity"]["storage"], status.get("conditions") or [])


@each_row("code", [Code.FAILED_PRECONDITION, Code.OUT_OF_RANGE], fresh=[world])
@in_virtual_time
async def test_a_refusal_is_not_written_on_an_old_resizer_s_claim(world: VolumesWorld, code: Code) -> None:
    """As by the kubelet: such a claim has no status by which it could be handed back."""
    world.driver.able = ABLE
    world.driver.always(EXPAND, Fail(code, "no"))
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume, {"conditions": [WAITS]})
        await world.running_pod(volume)
        await world.settle(300.0)
        assert 1 == len(world.driver.made(EXPAND))
        assert [WAITS["type"]] == [one["type"] for one in (await status_of(world, volume))["conditions"]]
        assert [] == [step for step in world.story if "patch persistentvolumeclaims" in step]


@in_virtual_time
async def test_a_growth_is_seen_without_any_change_of_the_pod(world: VolumesWorld) -> None:
    """Within the time in which the kubelet looks at its pods again."""
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume()
        await world.running_pod(volume)
        await grown(world, volume)
        await world.until_called(EXPAND)


@each_row("away_s", [0.0, 100.0], ids=["registered-anew", "away-for-a-while"], fresh=[world])
@in_virtual_time
async def test_a_growth_is_seen_also_after_the_driver_was_away(world: VolumesWorld, away_s: float) -> None:
    """Its pods are looked at on: nobody knows meanwhile whether it can expand."""
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume()
        await world.running_pod(volume)
        await world.drivers.remove("d1")
        await world.settle(away_s)
        await world.register()
        await world.settle(200.0)
        await grown(world, volume)
        await world.until_called(EXPAND)


def about(world: VolumesWorld, name: str) -> list[str]:
    """The requests for single objects of this name."""
    return [one.short for one in world.cluster.requests if one.name == name]


@each_row("mode", ["ReadWriteOnce", "ReadWriteMany"], fresh=[world])
@in_virtual_time
async def test_where_claims_are_watched_a_growth_is_seen_at_once(world: VolumesWorld, mode: str) -> None:
    """Also one that another node has written; and only by pods of that claim."""
    world.driver.able = ABLE
    async with world.agent(watches_claims=True):
        volume, other = await world.volume(modes=(mode,)), await world.volume("other")
        for one in (volume, other):
            await world.running_pod(one)
        asked = about(world, "other")
        if mode == "ReadWriteOnce":
            await grown(world, volume)
        else:
            await grown_elsewhere(world, volume)
        await world.settle(1.0)
        assert [2 * GiB] == [one.request.capacity_range.required_bytes for one in world.driver.made(EXPAND)]
        assert "2Gi" == (await status_of(world, volume))["capacity"]["storage"]
        assert asked == about(world, "other")


def phase(pod: dict[str, Any]) -> str:
    return str(pod["status"]["phase"])


ASKED = {"resources": {"requests": {"storage": "2Gi"}}}
HELD = 'MountVolume.Setup failed while expanding volume for volume "vol" : '


@each_row("code", [Code.INTERNAL, Code.UNAVAILABLE], fresh=[world])
@in_virtual_time
async def test_a_pod_does_not_start_before_its_volume_has_its_size(world: VolumesWorld, code: Code) -> None:
    """Nor do others that the same volume is published to meanwhile."""
    world.driver.able = ABLE
    world.driver.always(EXPAND, Fail(code, "not yet"))
    async with world.agent():
        volume = await world.volume(claim=ASKED)
        await grown(world, volume)
        pods = [await world.pod(volume), await world.pod(volume)]
        await world.until_called(EXPAND, 3)
        for pod in pods:
            await world.until_told(pod, HELD, "FailedMount")
        assert ["Pending"] * 2 == [phase(await world.get(PODS, pod["metadata"]["name"])) for pod in pods]
        world.driver.forget_scripts()
        for pod in pods:
            await world.shown(PODS, pod["metadata"]["name"], lambda pod: phase(pod) == "Running")
        assert "2Gi" == (await status_of(world, volume))["capacity"]["storage"]


@in_virtual_time
async def test_a_pod_starts_with_the_old_size_where_the_new_one_can_t_be_had(world: VolumesWorld) -> None:
    """The controller has it from there; the pod was told."""
    world.driver.able = ABLE
    world.driver.always(EXPAND, Fail(Code.OUT_OF_RANGE, "too big"))
    async with world.agent():
        volume = await world.volume()
        await grown(world, volume)
        pod = await world.running_pod(volume)
        await world.until_told(pod, HELD, "FailedMount")
        assert 1 == len(world.driver.made(EXPAND))


@in_virtual_time
async def test_a_pod_that_only_reads_is_not_held(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    world.driver.always(EXPAND, Fail(Code.INTERNAL, "not yet"))
    async with world.agent():
        volume = await world.volume(claim=ASKED)
        await grown(world, volume)
        writer = await world.pod(volume)
        await world.until_called(EXPAND, 2)
        await world.running_pod(volume, read_only=True)
        assert "Pending" == phase(await world.get(PODS, writer["metadata"]["name"]))


@in_virtual_time
async def test_a_pod_that_runs_is_not_held_by_a_growth_that_fails(world: VolumesWorld) -> None:
    """And one that goes while it is held leaves nothing."""
    world.driver.able = ABLE
    world.driver.always(EXPAND, Fail(Code.INTERNAL, "not yet"))
    async with world.agent():
        volume = await world.volume(claim=ASKED)
        runs = await world.running_pod(volume)
        await grown(world, volume)
        await touch(world, runs)
        await world.until_told(runs, "not yet", "VolumeResizeFailed")
        held = await world.pod(volume)
        await world.until_told(held, HELD, "FailedMount")
        for pod in (held, runs):
            await world.delete_pod(pod)
            await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())


SEVERAL = ("ReadWriteMany",)


async def grown_elsewhere(world: VolumesWorld, volume: Bound) -> None:
    """As another node leaves the claim: it has its size, and nothing says that a node still has to do something."""
    await world.patch(PERSISTENT_VOLUMES, volume.name, {"spec": {"capacity": {"storage": "2Gi"}}})
    await world.patch_claim(volume.name, {"capacity": {"storage": "2Gi"}, "allocatedResources": {"storage": "2Gi"}})


@in_virtual_time
async def test_each_node_that_mounts_a_volume_grows_it_for_itself(world: VolumesWorld) -> None:
    """Once; the claim, which has its size, is not written."""
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume(modes=SEVERAL)
        pod = await world.running_pod(volume)
        await grown_elsewhere(world, volume)
        await touch(world, pod)
        await world.until_calls(STAGE, PUBLISH, EXPAND)
        assert 2 * GiB == world.request(EXPAND).capacity_range.required_bytes
        await world.patch(PERSISTENT_VOLUME_CLAIMS, "vol", {"metadata": {"labels": {"another": "version"}}})
        await world.settle(200.0)
        await world.until_calls(STAGE, PUBLISH, EXPAND)
        assert [] == [step for step in world.story if "patch persistentvolumeclaims" in step]


@each_row("case", ["one node", "not required", "mounted later"], fresh=[world])
@in_virtual_time
async def test_a_size_that_asks_nothing_of_a_further_node(world: VolumesWorld, case: str) -> None:
    world.driver.able = ABLE
    async with world.agent():
        volume = await world.volume(modes=("ReadWriteOnce",) if case == "one node" else SEVERAL)
        if case == "not required":
            annotations = {"volume.kubernetes.io/node-expansion-not-required": "true"}
            await world.patch(PERSISTENT_VOLUME_CLAIMS, "vol", {"metadata": {"annotations": annotations}})
        if case == "mounted later":
            await grown_elsewhere(world, volume)
        pod = await world.running_pod(volume)
        await grown_elsewhere(world, volume)
        await touch(world, pod)
        await world.settle(200.0)
        assert [STAGE, PUBLISH] == world.driver.calls_for_volumes()


@in_virtual_time
async def test_a_further_node_that_can_t_follow_tells_its_pods_and_leaves_the_claim(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    world.driver.script(EXPAND, Fail(Code.INTERNAL, "not yet"))
    async with world.agent():
        volume = await world.volume(modes=SEVERAL)
        pod = await world.running_pod(volume)
        await grown_elsewhere(world, volume)
        await touch(world, pod)
        await world.until_told(pod, "not yet", "VolumeResizeFailed")
        await world.until_called(EXPAND, 2)
        await world.until_told(pod, "succeeded", "FileSystemResizeSuccessful")
        assert [] == [step for step in world.story if "patch persistentvolumeclaims" in step]


@in_virtual_time
async def test_one_refusal_does_not_give_up_where_another_size_is_wanted(world: VolumesWorld) -> None:
    """Two do. A call whose end is unknown is no refusal."""
    world.driver.able = ABLE
    world.driver.script(
        EXPAND, Fail(Code.UNAVAILABLE), Fail(Code.INTERNAL, "no"), Wait(20.0, Fail(Code.INTERNAL, "no"))
    )
    async with world.agent():
        volume = await world.volume(claim={"resources": {"requests": {"storage": "3Gi"}}})
        await grown(world, volume)
        await world.pod(volume)
        await world.until_called(EXPAND, 3)
        assert "NodeResizeInfeasible" != (await status_of(world, volume))["allocatedResourceStatuses"]["storage"]
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS,
            "vol",
            lambda claim: (claim["status"]["allocatedResourceStatuses"] or {}).get("storage") == "NodeResizeInfeasible",
        )
