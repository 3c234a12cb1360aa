"""Calls that fail on the way into a pod: what is known for sure is undone, what may have happened is taken back by the
driver.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from mooring.api.core import PERSISTENT_VOLUMES, SECRETS
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.control.secrets import FRESH_S
from mooring.mounts import fs_group
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_secret, an_attached_va
from tests.support.fake_mounts import FakeTools
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail, Lose, Wait
from tests.support.staying_visible import stays_visible
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.test_block_life import tools
from tests.unit.node.volume_world import NODE, VolumesWorld, world

UNCERTAIN = [Code.CANCELED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED]
FINAL = [Code.INTERNAL, Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.FAILED_PRECONDITION, Code.UNKNOWN]


@each_row("code", UNCERTAIN, fresh=[world])
@in_virtual_time
async def test_MNT6_a_stage_that_may_have_happened_is_taken_back(world: VolumesWorld, code: Code) -> None:
    world.driver.script(STAGE, Lose(code))
    world.driver.always(STAGE, Fail(code))
    async with world.agent():
        volume = await world.volume()
        pod = await world.pod(volume)
        await world.until_called(STAGE, 2)
        assert world.record(world.staging(volume).parent) is not None
        await world.delete_pod(pod)
        await world.until_called(UNSTAGE)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert ([], [], []) == (world.left(), world.mounts.points, await world.in_use())
    assert set(world.driver.calls_for_volumes()) == {STAGE, UNSTAGE}


@in_virtual_time
async def test_MNT6_a_stage_without_an_answer_ends_after_two_minutes(world: VolumesWorld) -> None:
    world.driver.script(STAGE, Wait(1000.0))
    async with world.agent():
        pod = await world.pod(await world.volume())
        message = await world.until_told(pod, "DeadlineExceeded")
        assert message.startswith("MountVolume.MountDevice failed for volume")
        await world.until_calls(STAGE, STAGE, PUBLISH)
    first, second, _ = (call for call in world.driver.calls if call.method in (STAGE, PUBLISH))
    assert 120.0 <= second.started_s - first.started_s < 125.0


@each_row("code", FINAL, fresh=[world])
@in_virtual_time
async def test_a_stage_that_did_not_happen_leaves_nothing(world: VolumesWorld, code: Code) -> None:
    world.driver.always(STAGE, Fail(code))
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.until_told(pod, "MountVolume.MountDevice failed")
        await world.settle()
        assert [] == world.left()
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert [] == await world.in_use()
    assert {STAGE} == set(world.driver.calls_for_volumes())


@each_row("code", UNCERTAIN, fresh=[world])
@in_virtual_time
async def test_MNT8_a_publish_that_may_have_happened_is_taken_back(world: VolumesWorld, code: Code) -> None:
    world.driver.script(PUBLISH, Lose(code))
    world.driver.always(PUBLISH, Fail(code))
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.until_called(PUBLISH, 2)
        assert world.record(world.target(pod, "vol").parent) is not None
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), world.mounts.points)
    assert [UNPUBLISH, UNSTAGE] == world.driver.calls_for_volumes()[-2:]


@each_row("code", FINAL, fresh=[world])
@in_virtual_time
async def test_MNT9_a_publish_that_did_not_happen_leaves_nothing_to_take_back(world: VolumesWorld, code: Code) -> None:
    world.driver.always(PUBLISH, Fail(code))
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.until_told(pod, "MountVolume.SetUp failed")
        await world.settle()
        assert not world.target(pod, "vol").parent.exists()
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
    assert UNPUBLISH not in world.driver.calls_for_volumes()


@in_virtual_time
async def test_a_publish_that_failed_for_good_after_one_that_may_have_happened_is_still_taken_back(
    world: VolumesWorld,
) -> None:
    """The kubelet drops the volume here: the last error says nothing about the call before it."""
    world.driver.script(PUBLISH, Lose(Code.UNAVAILABLE))
    world.driver.always(PUBLISH, Fail(Code.INTERNAL))
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.until_called(PUBLISH, 2)
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNPUBLISH)
        await world.until_called(UNSTAGE)
        assert ([], []) == (world.left(), world.mounts.points)


@each_row("method", [STAGE, PUBLISH], fresh=[world])
@in_virtual_time
async def test_tries_are_farther_and_farther_apart(world: VolumesWorld, method: str) -> None:
    world.driver.always(method, Fail(Code.INTERNAL))
    async with world.agent():
        await world.pod(await world.volume())
        await world.until_called(method, 10)
    starts = [call.started_s for call in world.driver.made(method)]
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    assert pytest.approx([0.5, 1, 2, 4, 8, 16, 32, 64, 122], rel=0.15) == gaps


@in_virtual_time
async def test_MNT10_a_group_that_could_not_be_set_keeps_the_pod_from_running(
    world: VolumesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(walk: fs_group.Walk) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(fs_group.Walk, "run", fails)
        async with world.agent():
            volume = await world.volume(fsType="ext4")
            pod = await world.pod(volume, securityContext={"fsGroup": 3000})
            await world.until_told(pod, f"applyFSGroup failed for vol {volume.handle}")
            await world.settle(60.0)
            assert "Pending" == (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"]
            assert world.record(world.target(pod, "vol").parent) is not None
            await world.delete_pod(pod)
            await world.until_called(UNPUBLISH)
            await world.until_called(UNSTAGE)
            await world.gone(PODS, pod["metadata"]["name"])
            assert [] == world.left()


@in_virtual_time
async def test_a_republish_that_fails_leaves_the_pod_its_mount(world: VolumesWorld) -> None:
    await world.no_attach(requiresRepublish=True)
    async with world.agent():
        pod = await world.running_pod(await world.volume(attached=False))
        world.driver.always(PUBLISH, Fail(Code.INTERNAL))
        await world.until_told(pod, "MountVolume.SetUp failed")
        assert world.record(world.target(pod, "vol").parent) is not None
        assert str(world.target(pod, "vol")) in world.mounts.points
        assert "Running" == (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"]
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH)
        await world.gone(PODS, pod["metadata"]["name"])


@each_row("method", [STAGE, PUBLISH], fresh=[world])
@in_virtual_time
async def test_a_volume_that_was_attached_anew_between_tries_comes_with_the_new_context(
    world: VolumesWorld, method: str
) -> None:
    world.driver.script(method, *[Fail(Code.INTERNAL)] * 3)
    async with world.agent():
        volume = await world.volume()
        await world.pod(volume)
        await world.until_called(method)
        await world.remove_now(VOLUME_ATTACHMENTS, volume.attachment)
        again = {"attached": True, "attachmentMetadata": {"devicePath": "/dev/another"}}
        await world.create(an_attached_va(volume.attachment, "vol", NODE, attacher="d1", status=again))
        await world.until_called(PUBLISH, 4 if method == PUBLISH else 1)
        assert {"devicePath": "/dev/another"} == dict(world.request(method).publish_context)


@each_row("method", [STAGE, PUBLISH], fresh=[world])
@in_virtual_time
async def test_a_call_that_failed_and_left_a_mount_is_told_as_that(world: VolumesWorld, method: str) -> None:
    """Not as a driver that had been asked to take the volume back. What is mounted is taken back when the pod goes."""
    world.driver.always(method, Lose(Code.INTERNAL, "the file system could not be checked"))
    async with world.agent():
        volume = await world.volume()
        pod = await world.pod(volume)
        point = world.staging(volume) if method == STAGE else world.target(pod, "vol")
        text = await world.until_told(pod, "the file system could not be checked")
        assert f"; it has left something behind: {point} is still mounted" in text
        assert "taken" not in text
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        await world.settle(5.0)
        assert ([], []) == (world.left(), world.mounts.points)


@each_row("method", [STAGE, PUBLISH], fresh=[world, tools])
@each_row("mode", ["Filesystem", "Block"])
@in_virtual_time
async def test_a_secret_that_is_put_right_is_used_by_the_next_try(
    world: VolumesWorld, tools: FakeTools, mode: str, method: str
) -> None:
    """Not once it is old: the driver has refused what it was given."""
    await world.create(a_secret("key", {"k": "b25l"}))
    world.driver.script(method, Fail(Code.UNAUTHENTICATED))
    reference = {"name": "key", "namespace": "default"}
    async with world.agent():
        volume = await world.volume(mode=mode, nodeStageSecretRef=reference, nodePublishSecretRef=reference)
        await world.pod(volume, devices=mode == "Block")
        await world.until_called(method)
        await world.patch(SECRETS, "key", {"data": {"k": "dHdv"}})
        await world.until_called(method, 2)
    first, second = world.driver.made(method)
    assert ({"k": "one"}, {"k": "two"}) == (dict(first.request.secrets), dict(second.request.secrets))
    assert second.started_s - first.started_s < FRESH_S


@each_row("method", [STAGE, PUBLISH], fresh=[world])
@in_virtual_time
async def test_a_mount_option_that_is_put_right_is_used_by_a_later_try(world: VolumesWorld, method: str) -> None:
    """The pod does not change, and no event tells a node of a PersistentVolume: it was tried as it was, for ever."""
    world.driver.always(method, lambda request: _refused_for(request.volume_capability.mount.mount_flags))
    async with world.agent():
        volume = await world.volume(pv={"mountOptions": ["noatme"]})
        pod = await world.pod(volume)
        await world.until_told(pod, "no such option: noatme")
        await world.patch(PERSISTENT_VOLUMES, "vol", {"spec": {"mountOptions": ["noatime"]}})
        await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running", "runs")


def _refused_for(options: Iterable[str]) -> Fail | None:
    wrong = [option for option in options if option != "noatime"]
    return Fail(Code.INVALID_ARGUMENT, f"no such option: {wrong[0]}") if wrong else None


@in_virtual_time
async def test_27c2_a_mount_that_fails_stays_visible(world: VolumesWorld) -> None:
    world.driver.always(STAGE, Fail(Code.INTERNAL))
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.until_told(pod, "MountVolume.MountDevice failed")
        await stays_visible(world, pod["metadata"]["name"], "MountVolume.MountDevice failed")


@in_virtual_time
async def test_27c2_a_mount_that_hangs_stays_visible(world: VolumesWorld) -> None:
    world.driver.always(STAGE, Wait(100_000.0))
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.until_told(pod, "DeadlineExceeded")
        await stays_visible(world, pod["metadata"]["name"], "MountDevice")


@in_virtual_time
async def test_27c2_a_pod_that_another_one_keeps_from_the_volume_stays_visible(world: VolumesWorld) -> None:
    """Nothing is tried, and nothing fails: only time passes."""
    async with world.agent():
        volume = await world.volume(modes=("ReadWriteOncePod",))
        await world.running_pod(volume)
        second = await world.pod(volume)
        text = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
        await world.until_told(second, text)
        await stays_visible(world, second["metadata"]["name"], text)


@in_virtual_time
async def test_27c2_a_volume_that_is_not_attached_stays_visible(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.pod(await world.volume(attached=False))
        await world.until_told(pod, "Unable to attach or mount volumes")
        await stays_visible(world, pod["metadata"]["name"], "Unable to attach or mount volumes")
