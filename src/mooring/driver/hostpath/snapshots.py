"""The driver's snapshots: complete when CreateSnapshot answers, ready at once or after a delay. They use none of the capacity."""

from __future__ import annotations

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.core import Core, check_whole
from mooring.driver.hostpath.creating import IGNORE_FAILED_READ, check_snapshot_parameters, tell_ignored
from mooring.driver.hostpath.state import Snapshot, is_snapshot_id
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
            what = f"snapshot {request.name!r} exists, of volume {snapshot.source_id!r}{' in a group' if snapshot.group_id else ''}"
            raise DriverError(Code.ALREADY_EXISTS, f"{what}: take another name, or delete it first")
        await self._core.filling.filled(snapshot.id)
        await self._core.journal.flushed()
        return csi.CreateSnapshotResponse(snapshot=self._core.described_snapshot(self._core.state.snapshots[snapshot.id]))

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
            raise DriverError(Code.ABORTED, f"starting_token {request.starting_token!r} is none of this driver's: start from the beginning")
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
