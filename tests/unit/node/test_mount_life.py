"""A volume's way into a pod: which calls are made in which order, with what, and what is on the disk meanwhile."""

from __future__ import annotations

import pytest

from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.wire.grpc.codes import Code
from tests.support.builders import a_secret, an_attached_va
from tests.support.groups import a_group, is_given
from tests.support.node_driver import NODE_RPC, PUBLISH, STAGE, UNPUBLISH, UNSTAGE, NodeDriver
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import METADATA, NODE, VolumesWorld, world


@in_virtual_time
@pytest.mark.usefixtures("kubelets_umask")
async def test_MNT1_a_volume_is_staged_then_published(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume(volumeAttributes={"foo": "bar"})
        pod = await world.running_pod(volume)
        await world.until_calls(STAGE, PUBLISH)
    stage, publish = world.request(STAGE), world.request(PUBLISH)
    staging, target = world.staging(volume), world.target(pod, "vol")
    assert staging == world.layout.root / "plugins/kubernetes.io/csi/d1" / staging.parent.name / "globalmount"
    assert (str(staging),) * 2 == (stage.staging_target_path, publish.staging_target_path)
    assert (
        str(world.layout.root / "pods" / pod["metadata"]["uid"] / "volumes/kubernetes.io~csi/vol/mount")
        == publish.target_path
    )
    assert METADATA == dict(stage.publish_context) == dict(publish.publish_context)
    assert (volume.handle,) * 2 == (stage.volume_id, publish.volume_id)
    assert {"foo": "bar"} == dict(stage.volume_context) == dict(publish.volume_context)
    assert {"driverName": "d1", "volumeHandle": volume.handle} == world.record(staging.parent)
    assert {
        "attachmentID": volume.attachment,
        "driverName": "d1",
        "nodeName": NODE,
        "specVolID": "vol",
        "volumeHandle": volume.handle,
        "volumeLifecycleMode": "Persistent",
    } == world.record(target.parent)
    assert (0o750, 0o750) == (staging.stat().st_mode & 0o777, target.parent.stat().st_mode & 0o777)


@in_virtual_time
async def test_MNT1_each_record_is_there_before_its_call(world: VolumesWorld) -> None:
    """A crash during the call leaves nothing that nobody knows of."""
    stage, publish = world.driver.gate(STAGE), world.driver.gate(PUBLISH)
    async with world.agent():
        volume = await world.volume()
        pod = await world.pod(volume)
        await world.until_called(STAGE)
        assert world.record(world.staging(volume).parent) is not None
        assert world.record(world.target(pod, "vol").parent) is None
        stage.set()
        await world.until_called(PUBLISH)
        assert world.record(world.target(pod, "vol").parent) is not None
        assert not world.target(pod, "vol").exists(), "the driver makes it"
        publish.set()
        await world.shown(PODS, pod["metadata"]["name"], lambda shown: shown["status"]["phase"] == "Running")


@in_virtual_time
async def test_MNT2_a_driver_that_does_not_stage_is_not_asked_to(world: VolumesWorld) -> None:
    world.driver.able = ()
    async with world.agent():
        volume = await world.volume(nodeStageSecretRef={"name": "missing", "namespace": "default"})
        pod = await world.running_pod(volume)
        await world.until_calls(PUBLISH)
        assert "" == world.request(PUBLISH).staging_target_path
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_calls(PUBLISH, UNPUBLISH)
        await world.settle()
        assert [] == world.left()
        assert [] == await world.in_use()


@in_virtual_time
async def test_MNT2_a_driver_that_comes_to_stage_stages_what_other_pods_have(world: VolumesWorld) -> None:
    world.driver.able = ()
    async with world.agent():
        volume = await world.volume()
        first = await world.running_pod(volume)
        world.driver.able = (NODE_RPC.STAGE_UNSTAGE_VOLUME,)
        await world.register()
        second = await world.running_pod(volume)
        await world.until_calls(PUBLISH, STAGE, PUBLISH)
        assert (
            str(world.staging(volume))
            == world.request(STAGE).staging_target_path
            == world.request(PUBLISH).staging_target_path
        )
        for pod in (first, second):
            await world.delete_pod(pod)
            await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())


@in_virtual_time
async def test_MNT2_what_the_disk_tells_of_does_not_count_once_the_driver_has_come_to_stage_again(
    world: VolumesWorld,
) -> None:
    """Seed 9341 of the node: the node rebooted, and the volume was ready without staging beside the record of its
    former staging.
    """
    async with world.agent():
        volume = await world.volume()
        first = await world.running_pod(volume)
    for point in world.mounts.points:
        world.mounts.unmount(point, keeps_folder=True)
    world.driver.able = ()
    async with world.agent():
        await world.until_calls(STAGE, PUBLISH, PUBLISH)
        world.driver.able = (NODE_RPC.STAGE_UNSTAGE_VOLUME,)
        await world.register()
        second = await world.running_pod(volume)
        await world.until_calls(STAGE, PUBLISH, PUBLISH, STAGE, PUBLISH)
        for pod in (first, second):
            await world.delete_pod(pod)
            await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())


@in_virtual_time
async def test_MNT2_a_refused_stage_does_not_count_once_the_driver_has_come_to_stage_again(world: VolumesWorld) -> None:
    """Seed 336 of the node: the driver refused, was ready without staging for a while, and then staged again."""
    async with world.agent():
        volume = await world.volume()
        world.driver.script(STAGE, Fail(Code.OUT_OF_RANGE))
        first = await world.pod(volume)
        await world.until_called(STAGE)
        world.driver.able = ()
        await world.register()
        await world.shown(PODS, first["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running", "runs")
        world.driver.able = (NODE_RPC.STAGE_UNSTAGE_VOLUME,)
        await world.register()
        await world.running_pod(volume)
        await world.until_calls(STAGE, PUBLISH, STAGE, PUBLISH)


@in_virtual_time
async def test_MNT2_a_stage_that_failed_beside_a_pod_that_has_the_volume_unstaged_is_tried_again(
    world: VolumesWorld,
) -> None:
    """It may have been done: nothing is removed, neither the record nor what the first pod has, and it is taken back in
    the end.
    """
    world.driver.able = ()
    async with world.agent():
        volume = await world.volume()
        first = await world.running_pod(volume)
        world.driver.able = (NODE_RPC.STAGE_UNSTAGE_VOLUME,)
        await world.register()
        world.driver.script(STAGE, Fail(Code.UNAVAILABLE), Fail(Code.INTERNAL))
        second = await world.running_pod(volume)
        await world.until_calls(PUBLISH, STAGE, STAGE, STAGE, PUBLISH)
        for pod in (second, first):
            assert world.record(world.staging(volume).parent) is not None
            await world.delete_pod(pod)
            await world.gone(PODS, pod["metadata"]["name"])
        await world.until_calls(PUBLISH, STAGE, STAGE, STAGE, PUBLISH, UNPUBLISH, UNPUBLISH, UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())


@in_virtual_time
async def test_MNT3_without_attachments_none_is_read(world: VolumesWorld) -> None:
    await world.no_attach()
    async with world.agent():
        await world.running_pod(await world.volume(attached=False))
        await world.until_calls(STAGE, PUBLISH)
        assert {} == dict(world.request(PUBLISH).publish_context) == dict(world.request(STAGE).publish_context)
        assert [] == [step for step in world.story if "volumeattachments" in step]
        assert [] == await world.in_use()


@in_virtual_time
async def test_MNT4_a_missing_attachment_is_waited_for_and_nothing_is_removed(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume(attached=False)
        pod = await world.pod(volume)
        await world.list_as_attached(volume)
        await world.until_told(pod, "not found")
        assert [] == world.driver.calls_for_volumes()
        await world.create(an_attached_va(volume.attachment, "vol", NODE, attacher="d1", status={"attached": True}))
        await world.until_calls(STAGE, PUBLISH)


@each_row(
    ("status", "text"),
    [
        (
            {"attached": False, "attachError": {"message": "no slot left", "time": "2026-01-01T00:00:00Z"}},
            "no slot left",
        ),
        ({"attached": False}, "not attached"),
    ],
    fresh=[world],
)
@in_virtual_time
async def test_MNT5_an_attachment_that_failed_is_told(
    world: VolumesWorld, status: dict[str, object], text: str
) -> None:
    async with world.agent():
        volume = await world.volume(attached=False)
        await world.attach(volume, status)
        pod = await world.pod(volume)
        message = await world.until_told(pod, text)
        assert message.startswith('MountVolume.WaitForAttach failed for volume "vol" : ')
        assert [] == world.driver.calls_for_volumes()


@in_virtual_time
async def test_MNT5_an_attachment_that_is_being_deleted_is_told(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        await world.delete(VOLUME_ATTACHMENTS, volume.attachment)
        pod = await world.pod(volume)
        await world.until_told(pod, "volume attachment is being deleted")
        assert [] == world.driver.calls_for_volumes()


@each_row("has_come_back", [True, False], fresh=[world])
@in_virtual_time
async def test_MNT4_what_no_pod_has_any_more_may_have_been_detached(world: VolumesWorld, has_come_back: bool) -> None:
    """Where the driver does not stage, the next pod mounts it anew, although it has waited since before the last one
    went.
    """
    world.driver.able = ()
    async with world.agent():
        volume = await world.volume(modes=("ReadWriteOncePod",))
        first = await world.running_pod(volume)
        second = await world.pod(volume)
        await world.until_told(second, "already in use by another pod")
        await world.remove_now(VOLUME_ATTACHMENTS, volume.attachment)
        status = {"attached": True, "attachmentMetadata": {"device": "another"}}
        anew = an_attached_va(volume.attachment, "vol", NODE, attacher="d1", status=status)
        if has_come_back:
            await world.create(anew)
        await world.delete_pod(first)
        if not has_come_back:
            await world.until_told(second, f'"{volume.attachment}" not found')
            await world.until_calls(PUBLISH, UNPUBLISH)
            await world.create(anew)
        await world.until_calls(PUBLISH, UNPUBLISH, PUBLISH)
        assert {"device": "another"} == dict(world.request(PUBLISH).publish_context)


@in_virtual_time
async def test_MNT11_two_pods_share_what_is_staged(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume(modes=("ReadWriteMany",))
        first, second = await world.running_pod(volume), await world.running_pod(volume)
        await world.until_calls(STAGE, PUBLISH, PUBLISH)
        await world.delete_pod(first)
        await world.gone(PODS, first["metadata"]["name"])
        await world.settle(5.0)
        await world.until_calls(STAGE, PUBLISH, PUBLISH, UNPUBLISH)
        assert [volume.unique] == await world.in_use()
        await world.delete_pod(second)
        await world.until_calls(STAGE, PUBLISH, PUBLISH, UNPUBLISH, UNPUBLISH, UNSTAGE)
        await world.settle()
        assert ([], [], []) == (world.left(), world.mounts.points, await world.in_use())


@in_virtual_time
async def test_MNT12_a_driver_that_is_not_registered_is_waited_for(world: VolumesWorld) -> None:
    async with world.agent(is_registered=False):
        pod = await world.pod(await world.volume())
        await world.until_told(pod, "driver name d1 not found in the list of registered CSI drivers")
        await world.register()
        await world.until_calls(STAGE, PUBLISH)
        await world.drivers.remove("d1")
        await world.delete_pod(pod)
        await world.settle(30.0)
        await world.until_calls(STAGE, PUBLISH)
        assert await world.find(PODS, pod["metadata"]["name"]) is not None
        await world.register()
        await world.until_calls(STAGE, PUBLISH, UNPUBLISH, UNSTAGE)
        await world.gone(PODS, pod["metadata"]["name"])


@in_virtual_time
async def test_MNT12_unstaging_waits_for_the_driver(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        gate = world.driver.gate(UNPUBLISH)
        await world.delete_pod(pod)
        await world.until_called(UNPUBLISH)
        await world.drivers.remove("d1")
        gate.set()
        await world.settle(30.0)
        assert [STAGE, PUBLISH, UNPUBLISH] == world.driver.calls_for_volumes()
        await world.register()
        await world.until_calls(STAGE, PUBLISH, UNPUBLISH, UNSTAGE)


@each_row(("field", "before"), [("nodeStageSecretRef", []), ("nodePublishSecretRef", [STAGE])], fresh=[world])
@in_virtual_time
async def test_MNT13_a_missing_secret_is_named_and_waited_for(
    world: VolumesWorld, field: str, before: list[str]
) -> None:
    async with world.agent():
        volume = await world.volume(**{field: {"name": "key", "namespace": "secrets"}})
        pod = await world.pod(volume)
        await world.until_told(pod, "secrets/key")
        assert before == world.driver.calls_for_volumes()
        await world.create(a_secret("key", {"k": "dg=="}, namespace="secrets"))
        await world.until_calls(STAGE, PUBLISH)
        method = STAGE if "Stage" in field else PUBLISH
        assert {"k": "v"} == dict(world.request(method).secrets)
        assert {} == dict(world.request(PUBLISH if method == STAGE else STAGE).secrets)


@in_virtual_time
async def test_MNT14_mount_options_go_to_both_calls(world: VolumesWorld) -> None:
    async with world.agent():
        await world.running_pod(await world.volume(pv={"mountOptions": ["a", "b"]}, fsType="xfs"))
    for method in (STAGE, PUBLISH):
        mount = world.request(method).volume_capability.mount
        assert (["a", "b"], "xfs") == (list(mount.mount_flags), mount.fs_type)


@each_row("multi_writer", [False, True], fresh=[world])
@each_row(
    ("mode", "plain", "telling"),
    [("ReadWriteOnce", 1, 7), ("ReadWriteOncePod", 1, 6), ("ReadOnlyMany", 3, 3), ("ReadWriteMany", 5, 5)],
)
@in_virtual_time
async def test_MNT15_the_access_mode_is_that_of_the_volume(
    world: VolumesWorld, mode: str, plain: int, telling: int, multi_writer: bool
) -> None:
    if multi_writer:
        world.driver.able = (*world.driver.able, NODE_RPC.SINGLE_NODE_MULTI_WRITER)
    async with world.agent():
        await world.running_pod(await world.volume(modes=(mode,)))
    found = {world.request(method).volume_capability.access_mode.mode for method in (STAGE, PUBLISH)}
    assert {telling if multi_writer else plain} == found


@in_virtual_time
async def test_MNT16_pod_information_is_added_to_the_attributes(world: VolumesWorld) -> None:
    await world.no_attach(podInfoOnMount=True)
    async with world.agent():
        pod = await world.running_pod(await world.volume(volumeAttributes={"foo": "bar"}, attached=False))
    prefix = "csi.storage.k8s.io/"
    assert {
        "foo": "bar",
        f"{prefix}pod.name": pod["metadata"]["name"],
        f"{prefix}pod.namespace": "default",
        f"{prefix}pod.uid": pod["metadata"]["uid"],
        f"{prefix}serviceAccount.name": pod["spec"].get("serviceAccountName", ""),
        f"{prefix}ephemeral": "false",
    } == dict(world.request(PUBLISH).volume_context)
    assert {"foo": "bar"} == dict(world.request(STAGE).volume_context)


@each_row("able", [(), (NODE_RPC.VOLUME_MOUNT_GROUP,)], fresh=[world])
@in_virtual_time
async def test_MNT23_the_group_goes_to_the_driver_that_sets_it(world: VolumesWorld, able: tuple[int, ...]) -> None:
    world.driver.able = (*world.driver.able, *able)
    async with world.agent():
        pod = await world.running_pod(await world.volume(fsType="ext4"), securityContext={"fsGroup": a_group()})
    groups = [world.request(method).volume_capability.mount.volume_mount_group for method in (STAGE, PUBLISH)]
    is_changed = is_given(world.target(pod, "vol"))
    assert (([str(a_group())] * 2, False) if able else ([""] * 2, True)) == (groups, is_changed)


@in_virtual_time
async def test_MNT24_a_pod_that_only_reads_says_so_and_changes_no_group(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume(fsType="ext4", readOnly=True, modes=("ReadWriteMany", "ReadWriteOnce"))
        reader = await world.running_pod(volume, read_only=True, securityContext={"fsGroup": 3000})
        assert world.request(PUBLISH).readonly
        assert 3000 != world.target(reader, "vol").stat().st_gid
        await world.running_pod(volume)
        assert not world.request(PUBLISH).readonly, "the PersistentVolume's own field is the attacher's business"


@in_virtual_time
async def test_MNT21_a_volume_for_one_pod_is_not_given_to_two(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume(modes=("ReadWriteOncePod",))
        first = await world.running_pod(volume)
        second = await world.pod(volume)
        await world.until_told(
            second, "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
        )
        await world.settle(60.0)
        await world.until_calls(STAGE, PUBLISH)
        await world.delete_pod(first)
        await world.until_calls(STAGE, PUBLISH, UNPUBLISH, PUBLISH)
        await world.shown(PODS, second["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")


@in_virtual_time
async def test_capabilities_are_asked_once_for_each_registration(world: VolumesWorld) -> None:
    async with world.agent():
        volumes = [await world.volume(f"vol{number}") for number in range(3)]
        await world.running_pod(*volumes)
        assert 1 == len(world.driver.made("NodeGetCapabilities"))
        other = NodeDriver(world.mounts, able=())
        await world.register(other)
        await world.running_pod(await world.volume("more"))
        assert ["NodeGetCapabilities", PUBLISH] == [call.method for call in other.calls]
