"""The driver's group snapshots: snapshots of several volumes under one record, all or none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from google.protobuf.timestamp_pb2 import Timestamp

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.core import Core, check_whole
from mooring.driver.hostpath.creating import IGNORE_FAILED_READ, check_snapshot_parameters, tell_ignored
from mooring.driver.hostpath.state import Group
from mooring.driver.hostpath.volumes import remove_data
from mooring.driver.sdk import Plugin
from mooring.wire.grpc.codes import Code


class GroupSnapshots(Plugin):
    _core: Core

    async def create_volume_group_snapshot(self, request: csi.CreateVolumeGroupSnapshotRequest) -> csi.CreateVolumeGroupSnapshotResponse:
        """A caller that gives up finds the group again by its name, and waits for the same copies."""
        check_snapshot_parameters(request.parameters)
        group = self._core.state.group_named(request.name) or self._added_group(request)
        if set(group.source_ids) != set(request.source_volume_ids):
            what = f"group snapshot {request.name!r} exists, of volumes {', '.join(group.source_ids)}"
            raise DriverError(Code.ALREADY_EXISTS, f"{what}: take another name, or delete it first")
        await self._filled_group(group)
        await self._core.journal.flushed()
        return csi.CreateVolumeGroupSnapshotResponse(group_snapshot=self._described_group(group))

    def _added_group(self, request: csi.CreateVolumeGroupSnapshotRequest) -> Group:
        """The group and its snapshots, in one change: no part of it is ever there alone."""
        core = self._core
        volumes = [core.whole(volume_id) for volume_id in sorted(set(request.source_volume_ids))]
        tell_ignored(request.parameters, IGNORE_FAILED_READ, request.name)
        group_id, now_ns, state = f"group-{core.randomness.uid()}", core.now_ns(), core.state
        snapshots = [core.new_snapshot(f"{request.name}-{volume.id}", volume, now_ns, group_id) for volume in volumes]
        for snapshot in snapshots:
            if state.snapshot_named(snapshot.name) is not None:
                what = f"snapshot {snapshot.name!r} exists, and belongs to no group"
                raise DriverError(Code.ALREADY_EXISTS, f"{what}: take another name, or delete it first")
            state = state.with_snapshot(snapshot)
        source_ids, snapshot_ids = tuple(one.id for one in volumes), tuple(one.id for one in snapshots)
        group = Group(group_id, request.name, source_ids, snapshot_ids, now_ns)
        core.journal.put(state.with_group(group))
        return group

    async def _filled_group(self, group: Group) -> None:
        """Returns once every snapshot has its data. Raises DriverError when a copy failed: nothing of the group is left then."""
        copies = (self._core.filling.filled(snapshot_id) for snapshot_id in group.snapshot_ids)
        failures = [one for one in await asyncio.gather(*copies, return_exceptions=True) if isinstance(one, BaseException)]
        missing = [one for one in group.snapshot_ids if one not in self._core.state.snapshots]
        if missing and group.id in self._core.state.groups:
            await self._remove_group(group)
        for failure in failures:
            raise failure
        if missing:
            raise DriverError(Code.INTERNAL, f"a snapshot of group {group.name!r} failed: try again")

    async def _remove_group(self, group: Group) -> None:
        """The records in one change, then the data."""
        core = self._core
        core.journal.put(core.state.dissolved(group.id))
        await core.journal.flushed()
        for snapshot_id in group.snapshot_ids:
            await remove_data(core, snapshot_id)

    async def delete_volume_group_snapshot(self, request: csi.DeleteVolumeGroupSnapshotRequest) -> csi.DeleteVolumeGroupSnapshotResponse:
        core = self._core
        group = core.state.groups.get(request.group_snapshot_id)
        if group is not None:
            _check_members(group, request.snapshot_ids, given=bool(request.snapshot_ids))
            for snapshot_id in group.snapshot_ids:
                if snapshot_id in core.state.snapshots:
                    check_whole(core.state.snapshots[snapshot_id])
                core.check_unread(snapshot_id)
            await self._remove_group(group)
        await core.journal.flushed()
        for snapshot_id in request.snapshot_ids:  # left over by a deletion that failed half-way
            await remove_data(core, snapshot_id)
        return csi.DeleteVolumeGroupSnapshotResponse()

    async def get_volume_group_snapshot(self, request: csi.GetVolumeGroupSnapshotRequest) -> csi.GetVolumeGroupSnapshotResponse:
        group = self._core.state.groups.get(request.group_snapshot_id)
        if group is None:
            raise DriverError(Code.NOT_FOUND, f"there is no group snapshot {request.group_snapshot_id!r}")
        _check_members(group, request.snapshot_ids, given=bool(request.snapshot_ids))
        await self._core.journal.flushed()
        return csi.GetVolumeGroupSnapshotResponse(group_snapshot=self._described_group(group))

    def _described_group(self, group: Group) -> csi.VolumeGroupSnapshot:
        core, taken = self._core, Timestamp()
        taken.FromNanoseconds(group.taken_ns)
        snapshots = [core.described_snapshot(core.state.snapshots[one]) for one in group.snapshot_ids if one in core.state.snapshots]
        is_ready = len(snapshots) == len(group.snapshot_ids) and all(one.ready_to_use for one in snapshots)
        return csi.VolumeGroupSnapshot(group_snapshot_id=group.id, snapshots=snapshots, creation_time=taken, ready_to_use=is_ready)


def _check_members(group: Group, snapshot_ids: Iterable[str], *, given: bool) -> None:
    """Raises InvalidArgument for other snapshots than the group's, in whatever order. given: False when the caller named none."""
    if given and set(snapshot_ids) != set(group.snapshot_ids):
        raise DriverError(Code.INVALID_ARGUMENT, f"snapshot_ids: group snapshot {group.id!r} has {', '.join(group.snapshot_ids)}")
