"""The driver's snapshots: complete when CreateSnapshot answers, ready at once or after a delay. They use none of the
capacity.

A group is several snapshots under one record, all or none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from google.protobuf.timestamp_pb2 import Timestamp

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.core import Core, check_whole
from mooring.driver.hostpath.creating import IGNORE_FAILED_READ, check_snapshot_parameters, tell_ignored
from mooring.driver.hostpath.state import Group, Snapshot, is_snapshot_id
from mooring.driver.hostpath.volumes import remove_data
from mooring.driver.sdk import Plugin
from mooring.wire.grpc.codes import Code


class Snapshots(Plugin):
    _core: Core

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        check_snapshot_parameters(request.parameters)
        snapshot = self._core.state.snapshot_named(request.name)
        if snapshot is None:
            snapshot = self._added(request)
        elif snapshot.source_id != request.source_volume_id or snapshot.group_id:
            what = (
                f"snapshot {request.name!r} exists, of volume "
                f"{snapshot.source_id!r}{' in a group' if snapshot.group_id else ''}"
            )
            raise DriverError(Code.ALREADY_EXISTS, f"{what}: take another name, or delete it first")
        await self._core.filling.filled(snapshot.id)
        await self._core.journal.flushed()
        return csi.CreateSnapshotResponse(
            snapshot=self._core.described_snapshot(self._core.state.snapshots[snapshot.id])
        )

    def _added(self, request: csi.CreateSnapshotRequest) -> Snapshot:
        volume = self._core.whole(request.source_volume_id)
        tell_ignored(request.parameters, IGNORE_FAILED_READ, request.name)
        snapshot = self._core.new_snapshot(request.name, volume, self._core.now_ns())
        self._core.journal.put(self._core.state.with_snapshot(snapshot))
        return snapshot

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        snapshot = self._core.state.snapshots.get(request.snapshot_id)
        if snapshot is not None:
            if snapshot.group_id:
                what = f"Snapshot with ID {snapshot.id} is part of groupsnapshot {snapshot.group_id}"
                raise DriverError(Code.INVALID_ARGUMENT, f"{what}: delete that, and all of its snapshots with it")
            check_whole(snapshot)
            self._core.check_unread(snapshot.id)
            self._core.journal.put(self._core.state.without(snapshot.id))
        await self._core.journal.flushed()
        await remove_data(self._core, request.snapshot_id)
        return csi.DeleteSnapshotResponse()

    async def get_snapshot(self, request: csi.GetSnapshotRequest) -> csi.GetSnapshotResponse:
        snapshot = self._core.state.snapshots.get(request.snapshot_id)
        if snapshot is None:
            raise DriverError(Code.NOT_FOUND, f"there is no snapshot {request.snapshot_id!r}")
        await self._core.journal.flushed()
        return csi.GetSnapshotResponse(snapshot=self._core.described_snapshot(snapshot))

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        """Sorted by id; a page's token is the last id on it, as with volumes."""
        if request.starting_token and not is_snapshot_id(request.starting_token):
            raise DriverError(
                Code.ABORTED,
                f"starting_token {request.starting_token!r} is none of this driver's: start from the beginning",
            )
        found = [one for one in self._core.state.snapshots.values() if _is_asked_for(one, request)]
        await self._core.journal.flushed()
        found.sort(key=lambda one: one.id)
        page = found[: request.max_entries or None]
        entries = [csi.ListSnapshotsResponse.Entry(snapshot=self._core.described_snapshot(one)) for one in page]
        return csi.ListSnapshotsResponse(entries=entries, next_token=page[-1].id if len(page) < len(found) else "")


def _is_asked_for(snapshot: Snapshot, request: csi.ListSnapshotsRequest) -> bool:
    return (
        snapshot.id > request.starting_token
        and request.snapshot_id in ("", snapshot.id)
        and request.source_volume_id in ("", snapshot.source_id)
    )


class GroupSnapshots(Plugin):
    _core: Core

    async def create_volume_group_snapshot(
        self, request: csi.CreateVolumeGroupSnapshotRequest
    ) -> csi.CreateVolumeGroupSnapshotResponse:
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
        """Returns once every snapshot has its data. Raises DriverError when a copy failed: nothing of the group is left
        then.
        """
        copies = (self._core.filling.filled(snapshot_id) for snapshot_id in group.snapshot_ids)
        failures = [
            one for one in await asyncio.gather(*copies, return_exceptions=True) if isinstance(one, BaseException)
        ]
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

    async def delete_volume_group_snapshot(
        self, request: csi.DeleteVolumeGroupSnapshotRequest
    ) -> csi.DeleteVolumeGroupSnapshotResponse:
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

    async def get_volume_group_snapshot(
        self, request: csi.GetVolumeGroupSnapshotRequest
    ) -> csi.GetVolumeGroupSnapshotResponse:
        group = self._core.state.groups.get(request.group_snapshot_id)
        if group is None:
            raise DriverError(Code.NOT_FOUND, f"there is no group snapshot {request.group_snapshot_id!r}")
        _check_members(group, request.snapshot_ids, given=bool(request.snapshot_ids))
        await self._core.journal.flushed()
        return csi.GetVolumeGroupSnapshotResponse(group_snapshot=self._described_group(group))

    def _described_group(self, group: Group) -> csi.VolumeGroupSnapshot:
        core, taken = self._core, Timestamp()
        taken.FromNanoseconds(group.taken_ns)
        snapshots = [
            core.described_snapshot(core.state.snapshots[one])
            for one in group.snapshot_ids
            if one in core.state.snapshots
        ]
        is_ready = len(snapshots) == len(group.snapshot_ids) and all(one.ready_to_use for one in snapshots)
        return csi.VolumeGroupSnapshot(
            group_snapshot_id=group.id, snapshots=snapshots, creation_time=taken, ready_to_use=is_ready
        )


def _check_members(group: Group, snapshot_ids: Iterable[str], *, given: bool) -> None:
    """Raises InvalidArgument for other snapshots than the group's, in whatever order. given: False when the caller
    named none.
    """
    if given and set(snapshot_ids) != set(group.snapshot_ids):
        raise DriverError(
            Code.INVALID_ARGUMENT, f"snapshot_ids: group snapshot {group.id!r} has {', '.join(group.snapshot_ids)}"
        )
