"""Item A10 of issue 27: without an attach/detach controller the node makes and deletes its VolumeAttachments itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.control.result import Because
from mooring.kube.errors import ServerError
from mooring.node.agent import CONTROLLED_ATTACH, AgentSockets, NodeAgent
from mooring.node.options import AgentOptions
from mooring.node.volumes import reasons as why
from mooring.node.volumes.decide import Await, Do, Facts, decide_volume
from mooring.node.volumes.state.actual import Device, Failure, Stand, Step, VolumeState
from mooring.node.volumes.state.desired import Volume
from tests.support.builders import Json, a_node
from tests.support.cluster_world import ClusterWorld
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.plugin_world import NoSockets
from tests.unit.node.volume_world import NODE, Bound, VolumesWorld, world

CREATE, DELETE, REPORT = "create volumeattachments", "delete volumeattachments", "patch nodes/status"
FINALIZER = "external-attacher/d1"


@pytest.fixture
def alone(world: VolumesWorld) -> VolumesWorld:
    """A node that attaches by itself. The tests are the attacher."""
    world.attaches = True
    return world


async def until_asked(world: VolumesWorld, volume: Bound) -> Json:
    return await world.shown(VOLUME_ATTACHMENTS, volume.attachment, bool, "is asked for")


async def attaches(world: VolumesWorld, volume: Bound) -> None:
    """As the attacher does."""
    await until_asked(world, volume)
    await world.patch(VOLUME_ATTACHMENTS, volume.attachment, {"metadata": {"finalizers": [FINALIZER]}})
    status = {"attached": True, "attachmentMetadata": {"path": "/dev/x"}, "attachError": None}
    await world.patch(VOLUME_ATTACHMENTS, volume.attachment, {"status": status}, subresource="status")


async def detaches(world: VolumesWorld, volume: Bound) -> None:
    await world.shown(
        VOLUME_ATTACHMENTS, volume.attachment, lambda one: one["metadata"].get("deletionTimestamp"), "is given back"
    )
    await world.patch(VOLUME_ATTACHMENTS, volume.attachment, {"metadata": {"finalizers": None}})


async def until_unused(world: VolumesWorld) -> None:
    async def is_unused() -> bool:
        return not await world.in_use()

    await world.until(is_unused, what="nothing is in use")


async def running(world: VolumesWorld, volume: Bound) -> Json:
    pod = await world.pod(volume)
    await attaches(world, volume)
    return await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running", "runs")


def steps(world: VolumesWorld) -> list[str]:
    """Of attachments and of the driver, in order."""
    return [step for step in world.story if step in (CREATE, DELETE, STAGE, PUBLISH, UNPUBLISH, UNSTAGE)]


@in_virtual_time
async def test_a_volume_is_attached_before_its_first_step_and_detached_after_its_last(alone: VolumesWorld) -> None:
    """It stands in volumesInUse all the while: an agent that starts finds there what an earlier one has attached."""
    async with alone.agent():
        volume = await alone.volume(attached=False)
        pod = await alone.pod(volume)
        made = await until_asked(alone, volume)
        assert {"attacher": "d1", "nodeName": NODE, "source": {"persistentVolumeName": volume.name}} == made["spec"]
        assert alone.story.index(REPORT) < alone.story.index(CREATE)
        await alone.settle(5.0)
        assert [CREATE] == steps(alone)
        await attaches(alone, volume)
        await alone.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running", "runs")
        assert {"path": "/dev/x"} == dict(alone.request(STAGE).publish_context)
        await alone.delete_pod(pod)
        await alone.gone(PODS, pod["metadata"]["name"])
        await alone.shown(
            VOLUME_ATTACHMENTS, volume.attachment, lambda one: one["metadata"].get("deletionTimestamp"), "is given back"
        )
        await alone.settle(5.0)
        assert [volume.unique] == await alone.in_use()
        await detaches(alone, volume)
        await until_unused(alone)
        assert [CREATE, STAGE, PUBLISH, UNPUBLISH, UNSTAGE, DELETE] == steps(alone)
        assert {} == alone.node._actual.states


@in_virtual_time
async def test_where_a_controller_attaches_the_node_does_not(world: VolumesWorld) -> None:
    async with world.agent():
        await world.pod(await world.volume(attached=False))
        await world.settle(300.0)
        assert [] == steps(world)


@in_virtual_time
async def test_a_volume_that_needs_no_attachment_has_none(alone: VolumesWorld) -> None:
    await alone.no_attach()
    async with alone.agent():
        await alone.running_pod(await alone.volume(attached=False))
        assert [STAGE, PUBLISH] == steps(alone)


@in_virtual_time
async def test_what_the_attacher_says_is_told_and_a_later_success_counts(alone: VolumesWorld) -> None:
    async with alone.agent():
        volume = await alone.volume(attached=False)
        pod = await alone.pod(volume)
        await until_asked(alone, volume)
        failed = {"attached": False, "attachError": {"message": "no such disk"}}
        await alone.patch(VOLUME_ATTACHMENTS, volume.attachment, {"status": failed}, subresource="status")
        told = await alone.until_told(pod, "no such disk", "FailedAttachVolume")
        assert f'AttachVolume.Attach failed for volume "{volume.name}" : no such disk' == told
        await attaches(alone, volume)
        await alone.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running", "runs")


@in_virtual_time
async def test_a_silent_attacher_is_told(alone: VolumesWorld) -> None:
    async with alone.agent():
        pod = await alone.pod(await alone.volume(attached=False))
        await alone.until_told(pod, "the attacher has not attached it yet")


@in_virtual_time
async def test_a_pod_that_goes_before_its_volume_is_attached_leaves_none(alone: VolumesWorld) -> None:
    async with alone.agent():
        volume = await alone.volume(attached=False)
        pod = await alone.pod(volume)
        await until_asked(alone, volume)
        await alone.patch(VOLUME_ATTACHMENTS, volume.attachment, {"metadata": {"finalizers": [FINALIZER]}})
        await alone.delete_pod(pod)
        await alone.gone(PODS, pod["metadata"]["name"])
        await detaches(alone, volume)
        await until_unused(alone)
        assert [CREATE, DELETE] == steps(alone)


@in_virtual_time
async def test_a_pod_that_comes_during_the_detach_gets_a_new_attachment(alone: VolumesWorld) -> None:
    async with alone.agent():
        volume = await alone.volume(attached=False)
        await alone.delete_pod(await running(alone, volume))
        first = await alone.shown(
            VOLUME_ATTACHMENTS, volume.attachment, lambda one: one["metadata"].get("deletionTimestamp"), "goes"
        )
        again = await alone.pod(volume)
        await alone.settle(30.0)
        assert [CREATE] == [step for step in steps(alone) if step == CREATE]
        await detaches(alone, volume)
        uid = first["metadata"]["uid"]
        await alone.shown(
            VOLUME_ATTACHMENTS, volume.attachment, lambda one: one["metadata"]["uid"] != uid, "is another one"
        )
        await attaches(alone, volume)
        await alone.shown(PODS, again["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running", "runs")


@each_row("short", [CREATE, DELETE], fresh=[world, alone])
@in_virtual_time
async def test_a_lost_answer_costs_no_second_attachment_and_leaves_none(alone: VolumesWorld, short: str) -> None:
    async with alone.agent():
        alone.cluster.refuse(short, error=ServerError("lost"), after=True)
        volume = await alone.volume(attached=False)
        await alone.delete_pod(await running(alone, volume))
        await detaches(alone, volume)
        await until_unused(alone)
        assert await alone.find(VOLUME_ATTACHMENTS, volume.attachment) is None
        assert 1 == alone.driver.calls_for_volumes().count(STAGE)


@in_virtual_time
async def test_a_disk_without_a_persistent_volume_is_told_and_not_asked_for(alone: VolumesWorld) -> None:
    async with alone.agent():
        volume = await alone.volume(attached=False)
        alone.cluster.refuse("get persistentvolumes", times=None, name=volume.name, error=ServerError("gone just now"))
        await alone.pod(volume)
        await alone.settle(20.0)
        assert [] == steps(alone)


SURE: dict[str, Any] = {
    "unsure": frozenset(),
    "may_take_away": True,
    "reported": True,
    "attached": False,
    "has_driver": True,
    "now": 100.0,
}
WAITS = Failure("not yet", 1, 105.0)


def a_state(attachment: Stand, wait: Failure | None = None, **changes: Any) -> VolumeState:
    volume = Volume("kubernetes.io/csi/d^h", "d", "h", "pv")
    return VolumeState(volume, **{"attachable": True, "attachment": attachment, "attach_wait": wait, **changes})


@each_row(
    ("state", "wanted", "changes", "action", "because"),
    [
        pytest.param(a_state(Stand.ABSENT), True, {"reported": False}, None, why.ToBeReported, id="reported-first"),
        pytest.param(a_state(Stand.ABSENT), True, {}, Step.ATTACH, why.Attaching, id="attached"),
        pytest.param(
            a_state(Stand.ABSENT),
            True,
            {"has_driver": False},
            Step.ATTACH,
            why.Attaching,
            id="also-while-the-driver-is-away",
        ),
        pytest.param(
            a_state(Stand.UNCERTAIN, WAITS), True, {}, Await.ATTACHMENT, why.AwaitsAttacher, id="looked-at-again-later"
        ),
        pytest.param(
            a_state(Stand.UNCERTAIN, WAITS), True, {"now": 105.0}, Step.ATTACH, why.Attaching, id="looked-at-again"
        ),
        pytest.param(a_state(Stand.DONE), True, {}, Step.STAGE, why.Staging, id="then-staged"),
        pytest.param(
            a_state(Stand.DONE, device=Device.STAGED),
            False,
            {},
            Step.UNSTAGE,
            why.Unstaging,
            id="unstaged-before-the-detach",
        ),
        pytest.param(a_state(Stand.DONE), False, {}, Step.DETACH, why.Detaching, id="detached"),
        pytest.param(
            a_state(Stand.UNCERTAIN),
            False,
            {"has_driver": False},
            Step.DETACH,
            why.Detaching,
            id="detached-without-the-driver",
        ),
        pytest.param(
            a_state(Stand.UNCERTAIN, WAITS), False, {}, Await.ATTACHMENT, why.AwaitsAttacher, id="until-it-is-gone"
        ),
        pytest.param(
            a_state(Stand.DONE), False, {"may_take_away": False}, None, why.PodsUnknown, id="not-before-pods-are-known"
        ),
        pytest.param(
            a_state(Stand.DONE),
            False,
            {"unsure": frozenset("a")},
            None,
            why.PodsUnknown,
            id="not-while-a-pod-may-want-it",
        ),
        pytest.param(
            a_state(Stand.DONE), False, {"may_be_unread": True}, None, why.Unread, id="not-while-a-record-is-unread"
        ),
        pytest.param(a_state(Stand.ABSENT), False, {}, Step.FORGET, why.Forgotten, id="forgotten-at-last"),
    ],
)
def test_the_next_step_of_a_node_that_attaches(
    state: VolumeState, wanted: bool, changes: dict[str, Any], action: Step | Await | None, because: type[Because]
) -> None:
    decision = decide_volume(state, Facts(wanted={"a": "pod"} if wanted else {}, attaches=True, **{**SURE, **changes}))
    found = [one.step if isinstance(one, Do) else one for one in decision.actions]
    assert ([] if action is None else [action], because) == (found, type(decision.because))


# -- kill -9, and the next agent


@in_virtual_time
async def test_a_restart_keeps_what_a_pod_has(alone: VolumesWorld) -> None:
    async with alone.agent():
        volume = await alone.volume(attached=False)
        pod = await running(alone, volume)
    async with alone.agent():
        await alone.until_calls(STAGE, PUBLISH, STAGE, PUBLISH)
        await alone.settle(60.0)
        assert ([volume.unique], 1, 0) == (await alone.in_use(), steps(alone).count(CREATE), steps(alone).count(DELETE))
        await alone.delete_pod(pod)
        await detaches(alone, volume)
        await until_unused(alone)


@each_row("moment", ["asked for", "mounted", "unstaged", "being detached"], fresh=[world, alone])
@in_virtual_time
async def test_what_an_agent_had_attached_when_it_was_killed_is_given_back(alone: VolumesWorld, moment: str) -> None:
    """Its pod is gone by then. Also where nothing is on the disk any more."""
    async with alone.agent():
        volume = await alone.volume(attached=False)
        if moment == "asked for":
            pod = await alone.pod(volume)
            await until_asked(alone, volume)
        else:
            pod = await running(alone, volume)
        if moment == "unstaged":
            hold = alone.cluster.hold(DELETE)
            await alone.delete_pod(pod)
            await hold.begun.wait()
        if moment == "being detached":
            await alone.delete_pod(pod)
            await alone.shown(
                VOLUME_ATTACHMENTS, volume.attachment, lambda one: one["metadata"].get("deletionTimestamp"), "goes"
            )
    alone.cluster._holds.clear()
    if moment in ("asked for", "mounted"):
        await alone.users.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"], grace_period_s=0)
    if moment == "asked for":
        await alone.patch(VOLUME_ATTACHMENTS, volume.attachment, {"metadata": {"finalizers": [FINALIZER]}})
    async with alone.agent():
        await detaches(alone, volume)
        await until_unused(alone)
        assert ([], 1) == (alone.left(), steps(alone).count(CREATE))
        assert {} == alone.node._actual.states


@in_virtual_time
async def test_an_attachment_that_somebody_else_deletes_is_asked_for_anew(alone: VolumesWorld) -> None:
    """Seen at the next step: here at that of a second pod."""
    async with alone.agent():
        volume = await alone.volume(attached=False)
        await running(alone, volume)
        await alone.remove_now(VOLUME_ATTACHMENTS, volume.attachment)
    async with alone.agent():
        await attaches(alone, volume)
        await alone.until_calls(STAGE, PUBLISH, STAGE, PUBLISH)
        assert 2 == steps(alone).count(CREATE)


# -- the Node's annotation


@each_row("attaches", [False, True])
@each_row("is_there", [False, True])
@in_virtual_time
async def test_the_nodes_annotation_says_who_attaches(tmp_path: Path, attaches: bool, is_there: bool) -> None:
    """As a kubelet makes it follow its setting, also at a Node that is there."""
    world = ClusterWorld()
    if is_there:
        before = {} if not attaches else {CONTROLLED_ATTACH: "true"}
        await world.create(a_node("n", annotations=before))
    options = AgentOptions("n", tmp_path / "root", controller_attaches=not attaches)
    agent = NodeAgent(world.runtime, options, sockets=AgentSockets(watch=cast(Any, NoSockets)))

    def says(node: Json) -> bool:
        return (None if attaches else "true") == node["metadata"].get("annotations", {}).get(CONTROLLED_ATTACH)

    async with world.running(agent.run()):
        await world.shown(NODES, "n", says, wait_s=60.0)
