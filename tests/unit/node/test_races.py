"""What happens while a request of the agent's is on its way: another pod takes the name, the volume is wanted again,
the pod goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import Unreachable
from mooring.node.volumes.steps.run import StepTasks
from tests.support.builders import Json, an_attached_va
from tests.support.node_driver import PUBLISH, STAGE, UNSTAGE
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.test_expansion_life import ABLE, grown, touch
from tests.unit.node.volume_world import NODE, Bound, VolumesWorld, world

REPORT = "patch nodes/status"
SHARED = ("ReadWriteMany",)


async def soon(what: Awaitable[object]) -> None:
    await asyncio.wait_for(what, 60.0)


# Another pod of the name


async def deleted_at_once(world: VolumesWorld, name: str) -> None:
    await world.users.delete(PODS, name, "default", grace_period_s=0)


@in_virtual_time
async def test_a_pod_that_has_taken_the_name_is_not_said_to_run(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume(modes=SHARED)
        running = world.cluster.hold("patch pods/status")
        await world.pod(volume, name="same")
        await soon(running.begun.wait())
        publish = world.driver.gate(PUBLISH)
        await deleted_at_once(world, "same")
        await world.pod(volume, name="same")
        running.go.set()
        await world.settle(5.0)
        assert "Running" != (await world.get(PODS, "same"))["status"]["phase"]
        publish.set()
        await world.shown(PODS, "same", lambda pod: pod["status"]["phase"] == "Running")


@in_virtual_time
async def test_a_pod_that_has_ended_is_not_said_to_run(world: VolumesWorld) -> None:
    """Somebody else has said so, and the agent does not know it yet."""
    async with world.agent():
        running = world.cluster.hold("patch pods/status")
        pod = await world.pod(await world.volume())
        await soon(running.begun.wait())
        ended = Patch(PatchType.MERGE, {"status": {"phase": "Failed", "reason": "Evicted"}})
        await world.users.patch(PODS, pod["metadata"]["name"], ended, "default", subresource="status")
        running.go.set()
        await world.until_called(UNSTAGE)
        await world.settle(5.0)
        assert "Failed" == (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"]


@in_virtual_time
async def test_a_pod_that_has_taken_the_name_stays(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume(modes=SHARED)
        pod = await world.running_pod(volume, name="same")
        removal = world.cluster.hold("delete pods")
        await world.delete_pod(pod)
        await soon(removal.begun.wait())
        await deleted_at_once(world, "same")
        new = await world.pod(volume, name="same")
        removal.go.set()
        await world.settle(5.0)
        assert new["metadata"]["uid"] == (await world.get(PODS, "same"))["metadata"]["uid"]


@in_virtual_time
async def test_a_pod_that_goes_while_its_claims_are_read_wants_nothing(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        reading = world.cluster.hold("get persistentvolumeclaims")
        await world.pod(volume, name="short")
        await soon(reading.begun.wait())
        await deleted_at_once(world, "short")
        await world.settle(1.0)
        reading.go.set()
        await world.settle(60.0)
        assert ([], []) == (await world.in_use(), world.driver.calls_for_volumes())


@in_virtual_time
async def test_a_pod_that_goes_as_its_volume_s_growth_begins_is_no_failure(
    world: VolumesWorld, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the turn of the loop between the decision and its step."""
    world.driver.able = ABLE
    begin = StepTasks.begin

    def pod_has_gone(self: StepTasks, unique: str, name: str, step: Callable[[], Awaitable[None]]) -> None:
        if name == "expand":
            world.node.pods._desired.gone(uid)
        begin(self, unique, name, step)

    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        uid = pod["metadata"]["uid"]
        monkeypatch.setattr(StepTasks, "begin", pod_has_gone)
        await grown(world, volume)
        await touch(world, pod)
        await world.settle(10.0)
        assert "failed unexpectedly" not in caplog.text


# What belongs to another pod, or another attachment


@in_virtual_time
async def test_two_pods_of_one_account_have_a_token_each(world: VolumesWorld) -> None:
    """Bound to their own pod: the other one's would end with that."""
    await world.no_attach(tokenRequests=[{"audience": "a", "expirationSeconds": 3600}])
    async with world.agent():
        pods = [
            await world.running_pod(await world.volume(name, attached=False), serviceAccountName="someone")
            for name in ("one", "two")
        ]
    assert [pod["metadata"]["uid"] for pod in pods] == [asked["boundObjectRef"]["uid"] for asked in world.tokens.asked]
    given = [
        dict(call.request.volume_context)["csi.storage.k8s.io/serviceAccount.tokens"]
        for call in world.driver.made(PUBLISH)
    ]
    assert ("token1" in given[0], "token2" in given[1]) == (True, True)


@in_virtual_time
async def test_a_volume_that_was_attached_anew_is_published_with_the_new_context(world: VolumesWorld) -> None:
    """It was detached by force while a pod had it."""
    async with world.agent():
        volume = await world.volume(modes=SHARED)
        await world.running_pod(volume)
        await world.remove_now(VOLUME_ATTACHMENTS, volume.attachment)
        await world.patch(NODES, NODE, {"status": {"volumesAttached": None}}, subresource="status")
        await world.pod(volume)
        await world.settle(5.0)
        again = {"attached": True, "attachmentMetadata": {"devicePath": "/dev/another"}}
        await world.create(an_attached_va(volume.attachment, "vol", NODE, attacher="d1", status=again))
        await world.list_as_attached(volume)
        await world.until_called(PUBLISH, 2)
        assert {"devicePath": "/dev/another"} == dict(world.request(PUBLISH).publish_context)


# The report of what is in use


async def leaving(world: VolumesWorld) -> tuple[Bound, asyncio.Event]:
    """A volume whose NodeUnstage runs, until the event is set."""
    volume = await world.volume()
    pod = await world.running_pod(volume)
    unstage = world.driver.gate(UNSTAGE)
    await world.delete_pod(pod)
    await world.until_called(UNSTAGE)
    return volume, unstage


async def is_not_staged(world: VolumesWorld, volume: Bound) -> Json:
    """A pod wants it again, and waits for the report."""
    before = len(world.driver.made(STAGE))
    pod = await world.pod(volume)
    await world.settle(5.0)
    assert before == len(world.driver.made(STAGE)), await world.in_use()
    return pod


@each_row("after", [False, True], fresh=[world])
@in_virtual_time
async def test_a_volume_whose_end_is_being_reported_is_not_staged_before_it_is_reported_again(
    world: VolumesWorld, after: bool
) -> None:
    """after: the report is stored, and its answer on the way."""
    async with world.agent():
        volume, unstage = await leaving(world)
        report = world.cluster.hold(REPORT, after=after)
        unstage.set()
        await soon(report.begun.wait())
        await is_not_staged(world, volume)
        report.go.set()
        await world.until_called(STAGE, 2)


@in_virtual_time
async def test_an_older_node_says_nothing_about_what_a_lost_report_takes_away(world: VolumesWorld) -> None:
    """The report may be carried out late: then nobody would know of a volume that was staged by the word of the older
    one.
    """
    async with world.agent():
        volume, unstage = await leaving(world)
        report = world.cluster.hold(REPORT)
        world.cluster.refuse(REPORT, error=Unreachable("lost"))
        unstage.set()
        await soon(report.begun.wait())
        await world.patch(
            NODES, NODE, {"metadata": {"labels": {"a": "b"}}}
        )  # the Node changes, and lists the volume still
        await world.settle(1.0)
        next_report = world.cluster.hold(REPORT)
        report.go.set()
        await world.settle(0.2)
        await is_not_staged(world, volume)
        next_report.go.set()
        await world.until_called(STAGE, 2)


@in_virtual_time
async def test_a_lost_report_that_is_carried_out_late_takes_nothing_away_that_was_reported_since(
    world: VolumesWorld,
) -> None:
    """The volume is mounted by then: if only for a moment, the controller would be free to detach it."""
    async with world.agent():
        await world.running_pod(await world.volume("first"))
        world.cluster.refuse(REPORT, error=Unreachable("lost"), late_s=10.0)
        await world.running_pod(await world.volume("second"))
        third = await world.volume("third")
        await world.running_pod(third)
        for _ in range(1500):
            assert third.unique in await world.in_use()
            await asyncio.sleep(0.01)


@in_virtual_time
async def test_a_lost_report_that_is_carried_out_late_does_not_take_away_what_is_wanted_again(
    world: VolumesWorld,
) -> None:
    """The next report names what the Node says still: it has to change the Node's version all the same."""
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        world.cluster.refuse(REPORT, error=Unreachable("lost"), late_s=10.0)
        await world.delete_pod(pod)
        await world.until_called(UNSTAGE)
        await world.settle(0.5)
        await world.running_pod(volume)
        for _ in range(1500):
            assert [volume.unique] == await world.in_use()
            await asyncio.sleep(0.01)


@in_virtual_time
async def test_a_report_that_meets_another_s_write_of_the_node_is_made_again_at_once(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        report = world.cluster.hold(REPORT)
        await world.pod(volume)
        await soon(report.begun.wait())
        await world.patch(NODES, NODE, {"metadata": {"labels": {"a": "b"}}})
        report.go.set()
        await world.settle(0.5)
        assert [volume.unique] == await world.in_use()
