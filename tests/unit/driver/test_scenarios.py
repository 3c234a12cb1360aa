"""What users of csi-driver-host-path expect of a driver, beyond csi-sanity: the rows of docs/behaviours/hostpath.md."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.layout import StorageLimits
from mooring.driver.hostpath.options import HostpathOptions
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.driver.calls import (
    GIB,
    a_creation,
    a_deletion,
    a_driver,
    a_publication,
    an_expansion,
    an_unpublication,
    created,
    private_mounts,
    refused,
    snapshotted,
)
from tests.unit.driver.node_calls import MIB, OnNode, linking, mounting


def of(size: int, **parameters: str) -> dict[str, Any]:
    return {"capacity_range": {"required_bytes": size}, "parameters": parameters}


async def capacity(driver: Any, **parameters: str) -> int:
    answer = await driver.get_capacity(csi.GetCapacityRequest(parameters=parameters))
    return int(answer.available_capacity)


def restored_from(snapshot_id: str) -> dict[str, Any]:
    return {"volume_content_source": {"snapshot": {"snapshot_id": snapshot_id}}}


# Data


@each_row("images", [False, True], ids=["folders", "images"], fresh=[private_mounts])
async def test_HP1_a_file_outlives_its_mounts_and_the_driver(private_mounts: Path, images: bool) -> None:
    size = {"capacity_range": {"required_bytes": 32 * MIB}}
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node = OnNode(driver, private_mounts)
        target = await on_node.up(**size)
        (target / "file").write_text("kept")
        await on_node.unpublish()
        await on_node.unstage()
        assert not target.exists()
        assert [] == list(on_node.staging.iterdir())
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node.driver = on_node.node = driver
        await on_node.stage()
        await on_node.publish()
        assert "kept" == (target / "file").read_text()
        await on_node.down()


async def test_HP2_a_snapshot_has_the_data_of_its_moment_and_the_source_stays_as_it_is(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        target = await on_node.up()
        (target / "file").write_text("old")
        snapshot_id = await snapshotted(driver, on_node.volume_id)
        (target / "file").write_text("new")
        restored = OnNode(driver, tmp_path, node_id="node-2", node=driver.node("node-2"))
        shown = await restored.up("restored", **restored_from(snapshot_id))
        assert ("old", "new") == ((shown / "file").read_text(), (target / "file").read_text())


async def test_HP3_a_clone_has_contents_modes_owners_and_links(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        source = await on_node.up()
        (source / "secret").write_text("text")
        (source / "secret").chmod(0o600)
        (source / "link").symlink_to("secret")
        os.link(source / "secret", source / "twin")
        if os.geteuid() == 0:
            os.chown(source / "secret", 1234, 4321)
        clone = OnNode(driver, tmp_path, node_id="node-2", node=driver.node("node-2"))
        target = await clone.up("clone", volume_content_source={"volume": {"volume_id": on_node.volume_id}})
        assert "text" == (target / "secret").read_text()
        assert Path("secret") == (target / "link").readlink()
        assert (target / "secret").stat().st_ino == (target / "twin").stat().st_ino
        status, origin = (target / "secret").stat(), (source / "secret").stat()
        assert (0o600, origin.st_uid, origin.st_gid) == (status.st_mode & 0o7777, status.st_uid, status.st_gid)


@each_row("first", ["device", "restored"], fresh=[private_mounts])
async def test_HP14_a_block_volume_is_snapshotted_with_what_was_written_to_its_device(
    private_mounts: Path, first: str
) -> None:
    with mounting(private_mounts) as driver:
        on_node = OnNode(driver, private_mounts, block=True)
        device = await on_node.up(capacity_range={"required_bytes": 8 * MIB})
        assert device.is_block_device()
        written = os.urandom(MIB)
        writer = os.open(device, os.O_RDWR)  # kept open: the last close would sync it, and that is the driver's part
        os.pwrite(writer, written, 3 * MIB)
        snapshot_id = await snapshotted(driver, on_node.volume_id)
        os.close(writer)
        restored = OnNode(driver, private_mounts, node_id="node-2", node=driver.node("node-2"), block=True)
        copy = await restored.up("restored", capacity_range={"required_bytes": 8 * MIB}, **restored_from(snapshot_id))
        for path in (device, copy) if first == "device" else (copy, device):
            assert bytes(3 * MIB) + written + bytes(4 * MIB) == path.read_bytes()
        await restored.down()
        await driver.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=snapshot_id))
        await on_node.down()


@each_row("images", [False, True], ids=["folders", "images"], fresh=[private_mounts])
async def test_HP15_nobody_writes_to_a_volume_that_is_published_read_only(private_mounts: Path, images: bool) -> None:
    with mounting(private_mounts, options=HostpathOptions(images=images)) as driver:
        on_node = OnNode(driver, private_mounts)
        await on_node.create(capacity_range={"required_bytes": 32 * MIB})
        await on_node.attach()
        await on_node.stage()
        await on_node.publish(readonly=True)
        with pytest.raises(OSError) as caught:
            (on_node.target / "file").write_text("no")
        assert errno.EROFS == caught.value.errno
        other = await on_node.publish(private_mounts / "other")
        (other / "file").write_text("yes")
        assert "yes" == (on_node.target / "file").read_text()
        await on_node.unpublish(other)
        await on_node.down()


# Capacity and sizes


async def test_HP4_a_kind_of_storage_has_so_much_room_and_no_more(tmp_path: Path) -> None:
    with a_driver(tmp_path, limits=StorageLimits(kinds={"fast": GIB})) as driver:
        await created(driver, "one", **of(600 * MIB, kind="fast"))
        await refused(driver.create_volume(a_creation("two", **of(600 * MIB, kind="fast"))), Code.RESOURCE_EXHAUSTED)
        assert 424 * MIB == await capacity(driver, kind="fast")


async def test_HP5_without_a_kind_a_volume_goes_where_there_is_room_and_no_capacity_is_its_own(tmp_path: Path) -> None:
    with a_driver(tmp_path, limits=StorageLimits(kinds={"fast": GIB, "slow": 4 * GIB})) as driver:
        volume_id = await created(driver, **of(2 * GIB))
        assert "slow" == driver._core.state.volumes[volume_id].kind
        assert 0 == await capacity(driver)
        assert (GIB, 2 * GIB) == (await capacity(driver, kind="fast"), await capacity(driver, kind="slow"))


async def test_HP6_a_kind_is_refused_where_there_is_one_storage(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        await refused(driver.create_volume(a_creation(**of(GIB, kind="fast"))), Code.INVALID_ARGUMENT)


async def test_HP20_no_volume_is_larger_than_the_largest(tmp_path: Path) -> None:
    with a_driver(tmp_path, limits=StorageLimits(volume_bytes_max=GIB)) as driver:
        await refused(driver.create_volume(a_creation(**of(2 * GIB))), Code.OUT_OF_RANGE)
        volume_id = await created(driver, **of(GIB))
        await refused(driver.controller_expand_volume(an_expansion(volume_id, 2 * GIB)), Code.OUT_OF_RANGE)


# Attachment and the order of calls


async def test_HP7_what_is_not_attached_is_not_staged(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.create()
        await refused(on_node.stage(), Code.INTERNAL, "is not attached to node 'node-1'")
    with linking(tmp_path, attach=False) as driver:
        on_node.driver = on_node.node = driver
        await on_node.stage()


async def test_HP8_a_full_node_takes_no_more_until_something_leaves(tmp_path: Path) -> None:
    with a_driver(tmp_path, limits=StorageLimits(attach_max=2)) as driver:
        ids = [await created(driver, f"pvc-{number}") for number in range(3)]
        for volume_id in ids[:2]:
            await driver.controller_publish_volume(a_publication(volume_id))
        await refused(driver.controller_publish_volume(a_publication(ids[2])), Code.RESOURCE_EXHAUSTED)
        await driver.controller_unpublish_volume(an_unpublication(ids[0]))
        await driver.controller_publish_volume(a_publication(ids[2]))


async def test_HP9_a_limit_of_minus_one_tells_another_number_each_time(tmp_path: Path) -> None:
    with a_driver(tmp_path, options=HostpathOptions(volumes_per_node=-1)) as driver:
        told = [(await driver.node_get_info(csi.NodeGetInfoRequest())).max_volumes_per_node for _ in range(100)]
        assert set(range(1, 11)) == set(told)


async def test_HP10_with_the_life_cycle_checked_a_volume_in_use_is_neither_deleted_nor_detached(tmp_path: Path) -> None:
    with linking(tmp_path, options=HostpathOptions(check_lifecycle=True)) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.up()
        await refused(driver.delete_volume(a_deletion(on_node.volume_id)), Code.INTERNAL, "is still used")
        await refused(on_node.detach(), Code.INTERNAL, "is still used")
        await on_node.unpublish()
        await refused(on_node.detach(), Code.INTERNAL, "staged or published on 'node-1'")
        await on_node.unstage()
        await refused(
            driver.delete_volume(a_deletion(on_node.volume_id)), Code.INTERNAL, "published or staged on 'node-1'"
        )
        await on_node.detach()
        await driver.delete_volume(a_deletion(on_node.volume_id))


async def test_HP11_what_is_staged_at_one_path_is_not_staged_at_another(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.up()
        on_node.staging = tmp_path / "elsewhere"
        await refused(on_node.stage(), Code.FAILED_PRECONDITION, "is staged at")


async def test_HP12_what_was_never_staged_is_not_published(tmp_path: Path) -> None:
    with linking(tmp_path) as driver:
        on_node = OnNode(driver, tmp_path)
        await on_node.create()
        await on_node.attach()
        await refused(on_node.publish(), Code.FAILED_PRECONDITION, "is not staged on this node")


# Groups, health, mutable parameters


async def test_HP16_a_group_is_the_same_whatever_the_order_and_its_members_go_with_it(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        one, two = await created(driver, "one"), await created(driver, "two")
        (driver._folder.data(one) / "file").write_text("first")
        first = await driver.create_volume_group_snapshot(
            csi.CreateVolumeGroupSnapshotRequest(name="group", source_volume_ids=[one, two])
        )
        again = await driver.create_volume_group_snapshot(
            csi.CreateVolumeGroupSnapshotRequest(name="group", source_volume_ids=[two, one])
        )
        assert first == again
        group = first.group_snapshot
        assert ({one, two}, 1, True) == (
            {member.source_volume_id for member in group.snapshots},
            len({member.creation_time.ToNanoseconds() for member in group.snapshots}),
            group.ready_to_use,
        )
        member = group.snapshots[0].snapshot_id
        text = f"Snapshot with ID {member} is part of groupsnapshot {group.group_snapshot_id}"
        await refused(
            driver.delete_snapshot(csi.DeleteSnapshotRequest(snapshot_id=member)), Code.INVALID_ARGUMENT, text
        )


async def test_HP18_a_volume_whose_data_is_gone_is_told_as_abnormal(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        gone, there = await created(driver, "gone"), await created(driver, "there")
        shutil.rmtree(driver._folder.data(gone))
        listed = await driver.list_volumes(csi.ListVolumesRequest())
        told = {entry.volume.volume_id: entry.status.volume_condition for entry in listed.entries}
        alone = await driver.controller_get_volume(csi.ControllerGetVolumeRequest(volume_id=gone))
        for condition in (told[gone], alone.status.volume_condition):
            assert (True, "The source path of the volume doesn't exist") == (condition.abnormal, condition.message)
        assert not told[there].abnormal


async def test_HP22_a_mutable_parameter_that_is_not_accepted_is_named(tmp_path: Path) -> None:
    with a_driver(tmp_path, mutable_names=["a"]) as driver:
        volume_id = await created(driver)
        request = csi.ControllerModifyVolumeRequest(volume_id=volume_id, mutable_parameters={"b": "1"})
        await refused(driver.controller_modify_volume(request), Code.INVALID_ARGUMENT, "invalid parameters: [b]")
