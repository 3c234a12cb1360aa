"""Disks that a pod itself names, of plugins that CSI drivers took over, and kinds of volumes that nobody here can mount
(27 A1).
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.csi.proto import csi_pb2 as csi
from tests.support.builders import CONTAINER, Json
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH, UNSTAGE, NodeDriver
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node import volume_world
from tests.unit.node.volume_world import METADATA, NODE, Bound, VolumesWorld

GCE = "pd.csi.storage.gke.io"
NAME = f"{GCE}-disk"
DISK = Bound(NAME, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk", GCE)
Mode = csi.VolumeCapability.AccessMode


def own(*, read_only: bool = False) -> dict[str, Any]:
    return {
        "volumes": [
            {
                "name": "own",
                "gcePersistentDisk": {"pdName": "disk", "fsType": "ext4", "partition": 1, "readOnly": read_only},
            }
        ]
    }


@pytest.fixture
def world(world: VolumesWorld) -> VolumesWorld:
    world.driver = NodeDriver(world.mounts, GCE, story=world.story)
    return world


async def _attach(world: VolumesWorld, disk: Bound = DISK) -> None:
    """With the description of the volume in the attachment."""
    spec = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": disk.driver, "volumeHandle": disk.handle}}
    source = {"attacher": disk.driver, "nodeName": NODE, "source": {"inlineVolumeSpec": spec}}
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": disk.attachment},
        "spec": source,
    }
    await world.create({**body, "status": {"attached": True, "attachmentMetadata": METADATA}})
    await world.list_as_attached(disk)


@in_virtual_time
async def test_a_pods_own_disk_is_staged_published_and_taken_back(world: VolumesWorld) -> None:
    async with world.agent():
        await _attach(world)
        pod = await world.running_pod(**own())
        await world.until_calls(STAGE, PUBLISH)
        stage, publish = world.request(STAGE), world.request(PUBLISH)
        assert (DISK.handle, METADATA, {"partition": "1"}) == (
            stage.volume_id,
            dict(stage.publish_context),
            dict(stage.volume_context),
        )
        assert (Mode.SINGLE_NODE_WRITER, "ext4") == (
            stage.volume_capability.access_mode.mode,
            stage.volume_capability.mount.fs_type,
        )
        assert (str(world.staging(DISK)), str(world.target(pod, NAME))) == (
            publish.staging_target_path,
            publish.target_path,
        )
        record = world.record(world.target(pod, NAME).parent)
        assert record is not None
        assert (NAME, "Persistent", DISK.attachment) == (
            record["specVolID"],
            record["volumeLifecycleMode"],
            record["attachmentID"],
        )
        assert [DISK.unique] == await world.in_use()
        await world.delete_pod(pod)
        await world.until_calls(STAGE, PUBLISH, UNPUBLISH, UNSTAGE)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle(1)
        assert ([], []) == (await world.in_use(), world.mounts.points)
        assert not [path for path in world.left() if not path.endswith(GCE)]


@in_virtual_time
async def test_two_pods_of_a_node_share_what_is_staged(world: VolumesWorld) -> None:
    async with world.agent():
        await _attach(world)
        first, second = await world.running_pod(**own()), await world.running_pod(**own())
        await world.delete_pod(first)
        await world.gone(PODS, first["metadata"]["name"])
        assert [DISK.unique] == await world.in_use()
        await world.delete_pod(second)
        await world.until_calls(STAGE, PUBLISH, PUBLISH, UNPUBLISH, UNPUBLISH, UNSTAGE)


@in_virtual_time
async def test_it_waits_for_its_attachment(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.pod(**own())
        await world.settle(60)
        assert ("Pending", []) == (
            (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"],
            world.driver.calls_for_volumes(),
        )
        assert [DISK.unique] == await world.in_use()
        await _attach(world)
        await world.until_calls(STAGE, PUBLISH)


@in_virtual_time
async def test_a_pod_that_goes_while_no_agent_runs_leaves_nothing(world: VolumesWorld) -> None:
    """kill -9: the records on the disk are all that tells of the volume."""
    async with world.agent():
        await _attach(world)
        pod = await world.running_pod(**own())
    await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    async with world.agent():
        await world.until_calls(STAGE, PUBLISH, UNPUBLISH, UNSTAGE)
        await world.settle(1)
        assert ([], []) == (await world.in_use(), world.mounts.points)


@in_virtual_time
async def test_a_restart_leaves_a_pods_disk_alone(world: VolumesWorld) -> None:
    async with world.agent():
        await _attach(world)
        await world.running_pod(**own())
    async with world.agent():
        await world.settle(60)
    assert {STAGE, PUBLISH} == set(world.driver.calls_for_volumes())
    assert [DISK.unique] == await world.in_use()


@in_virtual_time
async def test_one_that_is_read_only_is_so_for_the_driver(world: VolumesWorld) -> None:
    async with world.agent():
        await _attach(world)
        await world.running_pod(**own(read_only=True))
        await world.until_calls(STAGE, PUBLISH)
    assert (True, Mode.MULTI_NODE_READER_ONLY) == (
        world.request(PUBLISH).readonly,
        world.request(STAGE).volume_capability.access_mode.mode,
    )


@in_virtual_time
async def test_a_disk_with_slashes_in_its_name_has_one_folder(world: VolumesWorld) -> None:
    world.driver = NodeDriver(world.mounts, "disk.csi.azure.com", story=world.story)
    uri = "/subscriptions/s/disks/d"
    disk = Bound(uri, uri, "disk.csi.azure.com")
    async with world.agent():
        await _attach(world, disk)
        volumes = [{"name": "own", "azureDisk": {"diskName": "d", "diskURI": uri, "kind": "Managed"}}]
        pod = await world.running_pod(volumes=volumes)
        await world.until_calls(STAGE, PUBLISH)
        assert "~subscriptions~s~disks~d" == world.target(pod, uri).parent.name
    async with world.agent():
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        assert [] == world.mounts.points


@each_row("disk", ["a" * 300, "a\0b", ".."], ids=["long", "nul", "dots"], fresh=[volume_world.world, world])
@in_virtual_time
async def test_a_disk_whose_name_is_no_folders_holds_up_nobody_else(world: VolumesWorld, disk: str) -> None:
    """Unlike the names of PersistentVolumes those of disks are free, and anybody may write them into a pod."""
    world.driver = NodeDriver(world.mounts, "disk.csi.azure.com", story=world.story)
    bad, good = Bound(disk, disk, "disk.csi.azure.com"), Bound("d", "d", "disk.csi.azure.com")

    def source(uri: str) -> dict[str, Any]:
        return {"volumes": [{"name": "own", "azureDisk": {"diskName": "d", "diskURI": uri, "kind": "Managed"}}]}

    async with world.agent():
        await _attach(world, bad)
        await _attach(world, good)
        hostile = await world.pod(**source(disk))
        await world.running_pod(**source("d"))
        await world.until_told(hostile, "can't be the name of a folder")
        assert "Pending" == (await world.get(PODS, hostile["metadata"]["name"]))["status"]["phase"]
    async with world.agent():
        await world.delete_pod(hostile)
        await world.gone(PODS, hostile["metadata"]["name"])
        await world.settle(5)
        assert [good.unique] == await world.in_use()


@in_virtual_time
async def test_what_has_no_word_in_csi_is_told(world: VolumesWorld) -> None:
    async with world.agent():
        disk = {"diskName": "d", "diskURI": "https://a/d.vhd", "kind": "Dedicated"}
        pod = await world.pod(volumes=[{"name": "own", "azureDisk": disk}])
        await world.until_told(pod, "kind(Dedicated) is not supported in csi migration")


@in_virtual_time
async def test_an_in_tree_volume_of_a_claim_is_mounted_by_the_driver_that_took_over(world: VolumesWorld) -> None:
    """Attached it was already: AD56."""
    async with world.agent():
        volume = await world.volume(attached=False)
        claim = await world.get(PERSISTENT_VOLUME_CLAIMS, "vol")
        await world.remove_now(PERSISTENT_VOLUMES, "vol")
        reference = {"namespace": "default", "name": "vol", "uid": claim["metadata"]["uid"]}
        spec = {
            "gcePersistentDisk": {"pdName": "disk"},
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
        }
        body = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "vol"},
            "spec": {**spec, "claimRef": reference},
        }
        await world.create(body)
        await _attach(world)
        pod = await world.running_pod(volume)
        await world.until_calls(STAGE, PUBLISH)
        assert str(world.target(pod, "vol")) == world.request(PUBLISH).target_path


FOREIGN: list[Json] = [
    {"nfs": {"server": "s", "path": "/"}},
    {"flexVolume": {"driver": "d"}},
    {"iscsi": {"targetPortal": "1.2.3.4:3260", "iqn": "iqn.2001-04.com.example:a", "lun": 0}},
    {"cephfs": {"monitors": ["m"]}},
]


@each_row("source", FOREIGN, ids=lambda source: next(iter(source)), fresh=[volume_world.world, world])
@in_virtual_time
async def test_a_pod_with_a_volume_that_nobody_mounts_says_so_and_waits(world: VolumesWorld, source: Json) -> None:
    async with world.agent():
        pod = await world.pod(volumes=[{"name": "share", **source}])
        kind = next(iter(source))
        text = await world.until_told(pod, f'volume "share" is of kind {kind}, ')
        lists = "unmounted volumes=[share], unattached volumes=[], failed to process volumes=[share]"
        assert text.startswith(f"Unable to attach or mount volumes: {lists}: volume ")
        await world.settle(300)
        found = await world.get(PODS, pod["metadata"]["name"])
        assert "Pending" == found["status"]["phase"]
        assert 1 == len(await world.events(pod["metadata"]["name"]))
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle(1)
        assert [] == world.left()


@in_virtual_time
async def test_one_that_no_container_uses_holds_up_nothing(world: VolumesWorld) -> None:
    """As with the kubelet."""
    async with world.agent():
        await world.running_pod(volumes=[{"name": "share", **FOREIGN[0]}], containers=[CONTAINER])


@in_virtual_time
async def test_what_brings_nothing_from_outside_holds_up_nothing(world: VolumesWorld) -> None:
    async with world.agent():
        local = [
            {"name": "a", "emptyDir": {}},
            {"name": "b", "hostPath": {"path": "/tmp"}},
            {"name": "c", "secret": {"secretName": "s"}},
        ]
        await world.running_pod(volumes=local)
