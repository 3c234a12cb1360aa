"""Group snapshots: all of them or none, whoever gives up and whatever fails."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import Capability, Service
from mooring.driver.hostpath import statefile
from mooring.driver.hostpath.driver import HostPath
from mooring.driver.hostpath.statefile import read_state
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.driver.calls import a_deletion, a_driver, a_snapshot_of, created, refused, snapshotted


def a_group(*volume_ids: str, name: str = "group-1", **fields: Any) -> csi.CreateVolumeGroupSnapshotRequest:
    return csi.CreateVolumeGroupSnapshotRequest(name=name, source_volume_ids=volume_ids, **fields)


def a_group_deletion(group_id: str, *snapshot_ids: str) -> csi.DeleteVolumeGroupSnapshotRequest:
    return csi.DeleteVolumeGroupSnapshotRequest(group_snapshot_id=group_id, snapshot_ids=snapshot_ids)


def asked(group_id: str, *snapshot_ids: str) -> csi.GetVolumeGroupSnapshotRequest:
    return csi.GetVolumeGroupSnapshotRequest(group_snapshot_id=group_id, snapshot_ids=snapshot_ids)


async def two_volumes(driver: HostPath) -> tuple[str, str]:
    one, two = await created(driver, "one"), await created(driver, "two")
    for volume_id in (one, two):
        (driver._folder.data(volume_id) / "file").write_text(volume_id)
    return one, two


async def grouped(driver: HostPath, *volume_ids: str) -> csi.VolumeGroupSnapshot:
    answer = await driver.create_volume_group_snapshot(a_group(*volume_ids))
    return answer.group_snapshot


def nothing_left(folder: Path) -> None:
    state = read_state(folder)
    assert ({}, {}, ()) == (state.groups, state.snapshots, state.deleting)
    assert [] == list((folder / "snapshots").iterdir())


async def test_a_group_is_told_found_and_deleted_with_its_snapshots(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        one, two = await two_volumes(driver)
        group = await grouped(driver, one, two)
        ids = [member.snapshot_id for member in group.snapshots]
        assert {group.group_snapshot_id} == {member.group_snapshot_id for member in group.snapshots}
        listed = await driver.list_snapshots(csi.ListSnapshotsRequest())
        assert sorted(ids) == [entry.snapshot.snapshot_id for entry in listed.entries]
        for request in (asked(group.group_snapshot_id), asked(group.group_snapshot_id, *reversed(ids))):
            assert group == (await driver.get_volume_group_snapshot(request)).group_snapshot
        content = {"volume_content_source": {"snapshot": {"snapshot_id": ids[0]}}}
        restored = await created(driver, "restored", **content)
        assert group.snapshots[0].source_volume_id == (driver._folder.data(restored) / "file").read_text()
        for _ in range(2):
            await driver.delete_volume_group_snapshot(a_group_deletion(group.group_snapshot_id, *ids))
        nothing_left(tmp_path)


async def test_groups_that_can_not_be(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        one, two = await two_volumes(driver)
        unknown = a_group(one, "vol-9", parameters={})
        await refused(driver.create_volume_group_snapshot(unknown), Code.NOT_FOUND, "there is no volume 'vol-9'")
        nothing_left(tmp_path)
        unread = a_group(one, parameters={"ignoreFailedRead": "maybe"})
        await refused(driver.create_volume_group_snapshot(unread), Code.INVALID_ARGUMENT, "parameters")
        await refused(driver.create_volume_group_snapshot(a_group()), Code.INVALID_ARGUMENT)
        group = await grouped(driver, one, two)
        await refused(driver.create_volume_group_snapshot(a_group(one)), Code.ALREADY_EXISTS, "exists, of volumes")
        for call in (
            driver.get_volume_group_snapshot(asked(group.group_snapshot_id, "snap-1")),
            driver.delete_volume_group_snapshot(
                a_group_deletion(group.group_snapshot_id, group.snapshots[0].snapshot_id)
            ),
        ):
            await refused(call, Code.INVALID_ARGUMENT, "snapshot_ids")
        await refused(driver.get_volume_group_snapshot(asked("group-9")), Code.NOT_FOUND)
        await driver.delete_volume_group_snapshot(a_group_deletion("group-9"))
        await driver.create_snapshot(a_snapshot_of(one, parameters={"ignoreFailedRead": "true"}))


async def test_a_name_that_a_snapshot_has_is_not_given_to_a_member(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        one, two = await two_volumes(driver)
        await snapshotted(driver, one, f"group-1-{one}")
        await refused(
            driver.create_volume_group_snapshot(a_group(one, two)), Code.ALREADY_EXISTS, "belongs to no group"
        )
        assert {} == read_state(tmp_path).groups
        again = a_snapshot_of(one, f"other-{one}")
        await driver.create_volume_group_snapshot(a_group(one, name="other"))
        await refused(driver.create_snapshot(again), Code.ALREADY_EXISTS, "in a group")


async def test_a_caller_that_gives_up_finds_the_same_group(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        one, two = await two_volumes(driver)
        first = asyncio.ensure_future(driver.create_volume_group_snapshot(a_group(one, two)))
        await asyncio.sleep(0)  # its first steps: up to the disk
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        (known,) = driver._core.state.groups
        assert known == (await grouped(driver, one, two)).group_snapshot_id


async def test_a_copy_that_fails_takes_the_whole_group_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with a_driver(tmp_path) as driver:
        one, two = await two_volumes(driver)
        copy_folder = statefile.copy_folder

        def failing(source: str, target: str, check: Any) -> None:
            if two in source:
                raise OSError(errno.ENOSPC, "No space left on device")
            copy_folder(source, target, check)

        monkeypatch.setattr(statefile, "copy_folder", failing)
        await refused(driver.create_volume_group_snapshot(a_group(one, two)), Code.RESOURCE_EXHAUSTED, "No space left")
        nothing_left(tmp_path)
        monkeypatch.undo()
        assert 2 == len((await grouped(driver, one, two)).snapshots)


async def test_a_group_whose_deletion_is_not_saved_has_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_driver(tmp_path) as driver:
        one, two = await two_volumes(driver)
        group = await grouped(driver, one, two)
        ids = [member.snapshot_id for member in group.snapshots]

        def failing(_state: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(driver._journal, "_write", failing)
        deletion = a_group_deletion(group.group_snapshot_id, *ids)
        await refused(driver.delete_volume_group_snapshot(deletion), Code.INTERNAL, "could not save its state")
        monkeypatch.undo()
        assert sorted((one, two)) == sorted(
            (driver._folder.data(snapshot_id) / "file").read_text() for snapshot_id in ids
        )
        await driver.delete_volume_group_snapshot(deletion)
        nothing_left(tmp_path)


async def test_a_group_that_was_cut_off_is_removed_at_the_next_start(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        one, two = await two_volumes(driver)
        group = await grouped(driver, one, two)
        member = group.snapshots[1].snapshot_id
        state = driver._core.state
        unfinished = statefile.msgspec.structs.replace(state.snapshots[member], is_filling=True)
        driver._folder.write(state.with_snapshot(unfinished))
    with a_driver(tmp_path):
        nothing_left(tmp_path)


async def test_the_sources_of_a_group_may_go(tmp_path: Path) -> None:
    with a_driver(tmp_path) as driver:
        one, two = await two_volumes(driver)
        group = await grouped(driver, one, two)
        await driver.delete_volume(a_deletion(one))
        assert group == await grouped(driver, two, one)


@each_row("options", [{"group_snapshots": False}, {"without": [Capability.CREATE_DELETE_SNAPSHOT]}])
async def test_groups_can_be_left_out(tmp_path: Path, options: Any) -> None:
    with a_driver(tmp_path, **options) as driver:
        answer = await driver.get_plugin_capabilities(csi.GetPluginCapabilitiesRequest())
        assert Service.GROUP_CONTROLLER_SERVICE not in {
            one.service.type for one in answer.capabilities if one.HasField("service")
        }
        await refused(driver.create_volume_group_snapshot(a_group("vol-1")), Code.UNIMPLEMENTED)
