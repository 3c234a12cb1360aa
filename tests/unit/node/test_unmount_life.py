"""A volume's way out of a pod and off the node, and its name in the Node's list of volumes in use."""

from __future__ import annotations

import itertools
import os

import pytest

from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.apiserver.local import LocalCluster
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import ServerError
from mooring.node.volumes.state import folders
from mooring.wire.grpc.codes import Code
from tests.support.cluster_world import HeldWatch
from tests.support.fake_mounts import FakeTools
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from tests.support.node_habits import LEAVINGS, NodeHabits
from tests.support.recording import RecordingCluster
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.test_block_life import tools
from tests.unit.node.volume_world import NODE, VolumesWorld, world

REPORT = "patch nodes/status"
OTHERS = '{"driverName":"d1","specVolID":"other","volumeHandle":"handle-other"}'


@each_row("leaves_target", [False, True], fresh=[world])
@in_virtual_time
async def test_UNM1_folders_and_records_go_with_the_volume(world: VolumesWorld, leaves_target: bool) -> None:
    world.driver.leaves_target = leaves_target
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        await world.delete_pod(pod)
        await world.until_calls(STAGE, PUBLISH, UNPUBLISH, UNSTAGE)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert [] == world.left()


@each_row("is_block", [False, True], ids=["file-system", "device"], fresh=[world, tools])
@each_row("leaves", [*LEAVINGS, "link-to-something"])
@in_virtual_time
async def test_UNM1_what_a_driver_leaves_at_the_target_goes(
    world: VolumesWorld, tools: FakeTools, leaves: str, is_block: bool
) -> None:
    """What a link leads to stays."""
    outside = world.layout.root.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    if leaves == "link-to-something":
        world.driver.leaves = lambda target: target.symlink_to(outside)
    else:
        world.driver.habits = NodeHabits(leaves=leaves)
    async with world.agent():
        pod = await world.running_pod(await world.volume(mode="Block" if is_block else "Filesystem"), devices=is_block)
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], "precious") == (world.left(), (outside / "file").read_text())


@each_row("is_block", [False, True], ids=["file-system", "device"], fresh=[world, tools])
@in_virtual_time
async def test_a_file_with_content_at_the_target_is_kept_and_told(
    world: VolumesWorld, tools: FakeTools, is_block: bool
) -> None:
    world.driver.leaves = lambda target: target.write_text("precious")
    async with world.agent():
        volume = await world.volume(mode="Block" if is_block else "Filesystem")
        pod = await world.running_pod(volume, devices=is_block)
        uid = pod["metadata"]["uid"]
        target = world.layout.block_publish("vol", uid) if is_block else world.target(pod, "vol")
        await world.delete_pod(pod)
        reason = "FailedMapVolume" if is_block else "FailedMount"
        text = await world.until_told(pod, f"{target} is no empty file", reason)
        assert "the driver says that it has taken the volume back, but" in text
        assert ("precious", [volume.unique]) == (target.read_text(), await world.in_use())


@each_row("is_block", [False, True], ids=["file-system", "device"], fresh=[world, tools])
@in_virtual_time
async def test_a_volume_that_its_driver_does_not_know_any_more_is_let_go(
    world: VolumesWorld, tools: FakeTools, is_block: bool
) -> None:
    """It was detached by force and deleted while the node was off. The pod went, too."""
    async with world.agent():
        pod = await world.running_pod(await world.volume(mode="Block" if is_block else "Filesystem"), devices=is_block)
    await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    uid, layout = pod["metadata"]["uid"], world.layout
    if is_block:  # the machine was off: the device's file was on a memory file system
        world.mounts.unbind_file(str(layout.block_map("vol") / uid))
        layout.block_publish("vol", uid).unlink()
    for point in world.mounts.points:
        world.mounts.unmount(point, keeps_folder=True)
    world.driver.calls.clear()
    for method in (UNPUBLISH, UNSTAGE):
        world.driver.always(method, Fail(Code.NOT_FOUND, "there is no volume"))
    async with world.agent():
        await world.until_calls(UNPUBLISH, UNSTAGE)
        await world.settle(5.0)
        assert ([], []) == (await world.in_use(), world.left())


@each_row("method", [UNPUBLISH, UNSTAGE], fresh=[world])
@in_virtual_time
async def test_a_volume_that_its_driver_does_not_know_is_kept_while_it_is_mounted(
    world: VolumesWorld, method: str
) -> None:
    world.driver.always(method, Fail(Code.NOT_FOUND, "there is no volume"))
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        await world.delete_pod(pod)
        await world.until_called(method, 5)
        point = world.staging(volume) if method == UNSTAGE else world.target(pod, "vol")
        assert (True, [volume.unique]) == (str(point) in world.mounts.points, await world.in_use())
        assert world.record(point.parent) is not None
        if method == UNPUBLISH:
            await world.until_told(pod, f"there is no volume; it has left something behind: {point} is still mounted")


@in_virtual_time
async def test_UNM1_a_target_that_is_still_mounted_is_left_alone(
    world: VolumesWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver says that it took the volume back, and did not: nothing of it is touched, and the pod stays."""
    world.driver.lies = True
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        target = world.target(pod, "vol")
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH, 3)
        assert f"the driver says that it has taken the volume back, but {target} is still mounted" in caplog.text
        assert (target / "content").is_file()
        assert world.record(target.parent) is not None
        assert await world.find(PODS, pod["metadata"]["name"]) is not None
        world.driver.lies = False
        await world.gone(PODS, pod["metadata"]["name"])


@each_row("code", [Code.INTERNAL, Code.NOT_FOUND, Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED], fresh=[world])
@in_virtual_time
async def test_UNM3_an_unpublish_that_fails_is_tried_again(world: VolumesWorld, code: Code) -> None:
    async with world.agent():
        volume = await world.volume(modes=("ReadWriteMany",))
        pod = await world.running_pod(volume)
        world.driver.always(UNPUBLISH, Fail(code))
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH, 4)
        starts = [call.started_s for call in world.driver.made(UNPUBLISH)]
        gaps = [after - before for before, after in itertools.pairwise(starts)]
        assert pytest.approx([0.5, 1.0, 2.0], rel=0.15) == gaps
        assert world.record(world.target(pod, "vol").parent) is not None
        assert (True, [volume.unique]) == (
            await world.find(PODS, pod["metadata"]["name"]) is not None,
            await world.in_use(),
        )
        other = await world.running_pod(volume)
        assert str(world.target(other, "vol")) == world.request(PUBLISH).target_path
        world.driver.forget_scripts()
        await world.gone(PODS, pod["metadata"]["name"])
        assert UNSTAGE not in world.driver.calls_for_volumes()


@in_virtual_time
async def test_pods_whose_driver_takes_one_call_for_a_volume_at_a_time_give_it_back_one_after_the_other(
    world: VolumesWorld,
) -> None:
    """All came again at the same moments, ever more seldom: of twelve pods, the last one after ten minutes."""
    at_work = False

    async def unpublish(request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        nonlocal at_work
        if at_work:
            raise DriverError(Code.ABORTED, "an operation is pending")
        at_work = True
        await world.clock.sleep(1.0)
        at_work = False
        return await given_back(request)

    given_back, world.driver.node_unpublish_volume = world.driver.node_unpublish_volume, unpublish  # type: ignore[method-assign]
    async with world.agent():
        volume = await world.volume(modes=("ReadWriteMany",))
        pods = [await world.running_pod(volume) for _ in range(12)]
        began_s = world.clock.now()
        for pod in pods:
            await world.delete_pod(pod)
        for pod in pods:
            await world.gone(PODS, pod["metadata"]["name"])
        assert world.clock.now() - began_s < 30.0


@in_virtual_time
async def test_UNM4_without_a_record_nothing_is_unstaged(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        folders.remove_record(world.staging(volume).parent)
        world.mounts.unmount(world.staging(volume))
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert [] == await world.in_use()
    assert UNSTAGE not in world.driver.calls_for_volumes()


@in_virtual_time
async def test_UNM4_a_volume_that_was_never_staged_does_not_wait_for_its_driver(world: VolumesWorld) -> None:
    """The driver, which does not stage, has gone before the pod; it would be in use for ever."""
    world.driver.able = ()
    world.driver.always(PUBLISH, Fail(Code.INTERNAL, "no"))
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.until_called(PUBLISH)
        assert await world.in_use()
        await world.drivers.remove("d1")
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())


@in_virtual_time
async def test_what_may_be_staged_waits_for_its_driver(world: VolumesWorld) -> None:
    world.driver.always(STAGE, Fail(Code.UNAVAILABLE, "no"))
    async with world.agent():
        volume = await world.volume()
        pod = await world.pod(volume)
        await world.until_called(STAGE)
        await world.drivers.remove("d1")
        await world.delete_pod(pod)
        await world.settle(60.0)
        assert [volume.unique] == await world.in_use()
        await world.register()
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())


@each_row("text", ["", "{", "[]", '{"driverName":"d1"}', "\0", '{"driverName":1,"volumeHandle":"x"}'], fresh=[world])
@in_virtual_time
async def test_UNM5_a_broken_record_is_an_error_that_is_tried_again(world: VolumesWorld, text: str) -> None:
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        folder = world.staging(volume).parent
        (folder / folders.RECORD).write_text(text)
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH)
        await world.settle(10.0)
        assert (text, [volume.unique]) == ((folder / folders.RECORD).read_text(), await world.in_use())
        assert UNSTAGE not in world.driver.calls_for_volumes()
        folders.write_record(folder, folders.staging_record("d1", volume.handle))
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())


@in_virtual_time
async def test_UNM6_a_foreign_mount_of_what_is_staged_keeps_it(
    world: VolumesWorld, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = world.layout.root.parent / "foreign"
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        world.mounts.mount(foreign, root=f"/{volume.handle}")
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH)
        await world.settle(10.0)
        assert UNSTAGE not in world.driver.calls_for_volumes()
        assert f"is still mounted by other references ['{foreign}']" in caplog.text
        assert [volume.unique] == await world.in_use()
        world.mounts.unmount(foreign)
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())


@in_virtual_time
@each_row("record", ['{"volumeHandle":', None, OTHERS], ids=["torn", "gone", "of-another-folder"], fresh=[world])
async def test_UNM6_what_is_mounted_in_a_folder_without_its_record_keeps_it(
    world: VolumesWorld, caplog: pytest.LogCaptureFixture, record: str | None
) -> None:
    """A publish took effect late, of a driver that does not mount what it has staged: the folder's name alone tells
    whose it is.
    """
    async with world.agent():
        volume = await world.volume()
        target = world.layout.target("a-pod-that-is-gone", volume.name)
        target.mkdir(parents=True)
        if record is not None:
            (target.parent / folders.RECORD).write_text(record)
        pod = await world.running_pod(volume)
        world.mounts.mount(target, root="/of-the-driver")
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH)
        await world.settle(10.0)
        assert UNSTAGE not in world.driver.calls_for_volumes()
        assert f"is still mounted by other references ['{target}']" in caplog.text
        assert [volume.unique] == await world.in_use()
        world.mounts.unmount(target)
        await world.until_called(UNSTAGE)


@in_virtual_time
async def test_UNM6_what_another_volume_has_in_a_folder_of_the_same_name_does_not(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        target = world.layout.target("another-pod", volume.name)
        target.mkdir(parents=True)
        pod = await world.running_pod(volume)
        others = {"attachment": "", "mode": folders.EPHEMERAL, "spec_name": volume.name, "node": "n1"}
        folders.write_record(target.parent, folders.publish_record("d1", "inline-1", **others))
        world.mounts.mount(target, root="/of-the-driver")
        await world.delete_pod(pod)
        await world.until_called(UNSTAGE)


@in_virtual_time
async def test_VM1_the_node_says_that_it_uses_a_volume_before_any_call(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume(attached=False)
        world.cluster.refuse(REPORT, times=3, error=ServerError("busy"))
        await world.pod(volume)
        await world.attach(volume)
        await world.until_called(STAGE)
    last = max(number for number, step in enumerate(world.story) if step == REPORT)
    assert last < world.story.index(STAGE)
    assert 4 == world.story.count(REPORT)


@in_virtual_time
async def test_VM1_a_report_whose_answer_was_lost_is_sent_again(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        world.cluster.refuse(REPORT, error=ServerError("lost"), after=True)
        await world.running_pod(volume)
        assert [volume.unique] == await world.in_use()


@in_virtual_time
async def test_VM1_a_report_over_a_node_that_is_old_here_is_written_once_more_and_not_again_and_again(
    world: VolumesWorld,
) -> None:
    """The watch of the Node tells nothing for a minute, and somebody has written the Node."""
    held = HeldWatch("nodes")
    world.cluster = RecordingCluster(
        LocalCluster(world.store, clock=world.clock, randomness=world.randomness, faults=held), world.story
    )
    async with world.agent():
        volume = await world.volume()
        await world.settle()
        held.hold()
        await world.patch(NODES, NODE, {"metadata": {"annotations": {"users.example.com/note": "x"}}})
        await world.pod(volume)
        await world.settle(60.0)
        assert [volume.unique] == await world.in_use()
        assert world.story.count(REPORT) <= 2
        held.let_go()


@in_virtual_time
async def test_VM2_a_volume_that_is_not_attached_is_waited_for_without_back_off(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume(attached=False)
        pod = await world.pod(volume)
        await world.settle(100.0)
        assert ([], [volume.unique]) == (world.driver.calls_for_volumes(), await world.in_use())
        assert [] == await world.events(pod["metadata"]["name"])
        began = world.clock.now()
        await world.attach(volume)
        await world.until_calls(STAGE, PUBLISH)
        assert world.clock.now() - began < 1.0


@in_virtual_time
async def test_VM3_a_volume_is_in_use_until_it_is_unstaged(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
        world.driver.script(UNSTAGE, *[Fail(Code.INTERNAL)] * 5)
        gate = world.driver.gate(UNSTAGE)
        await world.delete_pod(pod)
        await world.until_called(UNSTAGE)
        await world.settle(60.0)
        assert [volume.unique] == await world.in_use()
        gate.set()
        await world.until_called(UNSTAGE, 6)
        await world.settle()
        assert [] == await world.in_use()


@in_virtual_time
async def test_VM3_a_failed_unstage_is_tried_ever_more_slowly(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        world.driver.always(UNSTAGE, Fail(Code.INTERNAL))
        await world.delete_pod(pod)
        await world.until_called(UNSTAGE, 10)
    starts = [call.started_s for call in world.driver.made(UNSTAGE)]
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    assert pytest.approx([0.5, 1, 2, 4, 8, 16, 32, 64, 122], rel=0.15) == gaps


@in_virtual_time
async def test_VM4_a_volume_that_no_container_uses_is_passed_over(world: VolumesWorld) -> None:
    async with world.agent():
        used, unused = await world.volume("used"), await world.volume("unused", attached=False)
        claims = [{"name": one.name, "persistentVolumeClaim": {"claimName": one.name}} for one in (used, unused)]
        body = {"name": "c", "image": "example.com/image:1", "volumeMounts": [{"name": "used", "mountPath": "/used"}]}
        await world.running_pod(volumes=claims, containers=[body])
        await world.until_calls(STAGE, PUBLISH)
        assert [used.unique] == await world.in_use()
    assert [] == [request for request in world.cluster.requests if request.name == "unused"]


@each_row("where", ["initContainers", "containers"], fresh=[world])
@in_virtual_time
async def test_VM4_a_volume_that_any_container_uses_is_mounted(world: VolumesWorld, where: str) -> None:
    plain = {"name": "c", "image": "example.com/image:1"}
    using = {"name": "user", "image": "example.com/image:1", "volumeMounts": [{"name": "vol", "mountPath": "/v"}]}
    containers = (
        {"containers": [plain], "initContainers": [using]}
        if where == "initContainers"
        else {"containers": [plain, using]}
    )
    async with world.agent():
        volume = await world.volume()
        await world.running_pod(volume, **containers)
        await world.until_calls(STAGE, PUBLISH)


@in_virtual_time
async def test_the_report_names_every_volume_in_order_and_once(world: VolumesWorld) -> None:
    async with world.agent():
        volumes = [await world.volume(f"vol{number}") for number in (3, 1, 2)]
        await world.running_pod(*volumes)
        assert sorted(volume.unique for volume in volumes) == await world.in_use()
    assert 1 == world.story.count(REPORT), "one report for all that came within a moment"


@in_virtual_time
async def test_a_volume_in_use_that_somebody_took_off_the_list_is_reported_again(world: VolumesWorld) -> None:
    """The list keeps the controller from detaching; it must not stay short because somebody else wrote it."""
    async with world.agent():
        volume = await world.volume()
        await world.running_pod(volume)
        await world.patch(NODES, "n", {"status": {"volumesInUse": None}}, subresource="status")
        await world.settle(400.0)
        assert [volume.unique] == await world.in_use()


@in_virtual_time
async def test_a_pod_that_finished_gives_its_volumes_back_and_stays(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        await world.patch(PODS, pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, subresource="status")
        await world.until_calls(STAGE, PUBLISH, UNPUBLISH, UNSTAGE)
        await world.settle()
        assert [] == world.left()
        assert "Succeeded" == (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"]


@in_virtual_time
async def test_a_pod_that_vanishes_without_a_word_gives_its_volumes_back(world: VolumesWorld) -> None:
    """Somebody removed the object with a grace period of 0."""
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
        await world.until_calls(STAGE, PUBLISH, UNPUBLISH, UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), os.listdir(world.layout.pods))


@in_virtual_time
async def test_a_pod_of_the_same_name_with_another_uid_is_another_pod(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        first = await world.running_pod(volume, name="same")
        await world.users.delete(PODS, "same", "default", grace_period_s=0)
        second = await world.running_pod(volume, name="same")
        await world.settle(5.0)
        assert not world.target(first, "vol").parent.exists()
        assert str(world.target(second, "vol")) in world.mounts.points
        targets = [call.request.target_path for call in world.driver.made(UNPUBLISH)]
        assert [str(world.target(first, "vol"))] == targets


@in_virtual_time
async def test_a_link_in_the_place_of_a_volume_s_parts_is_told_and_not_followed(
    world: VolumesWorld, caplog: pytest.LogCaptureFixture
) -> None:
    outside = world.layout.root.parent / "outside"
    (outside / "empty").mkdir(parents=True)
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        parts = world.layout.sub_paths(pod["metadata"]["uid"], "vol")
        parts.parent.mkdir()
        parts.symlink_to(outside)
        await world.delete_pod(pod)
        await world.settle(5.0)
        assert UNPUBLISH not in world.driver.calls_for_volumes()
        assert f"{parts} is a link in the place of a folder" in caplog.text
        assert (outside / "empty").is_dir()
        parts.unlink()
        await world.until_called(UNSTAGE)
        assert (outside / "empty").is_dir()


@in_virtual_time
async def test_a_file_with_content_among_a_volume_s_parts_is_kept(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        part = world.layout.sub_paths(pod["metadata"]["uid"], "vol") / "c" / "0"
        part.parent.mkdir(parents=True)
        part.write_text("precious")
        await world.delete_pod(pod)
        await world.settle(5.0)
        assert "precious" == part.read_text()
        assert await world.find(PODS, pod["metadata"]["name"]) is not None
