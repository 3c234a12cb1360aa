"""CSI requests about group snapshots."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mooring.api.group_snapshot import VolumeGroupSnapshotContent
from mooring.controllers.snapshotting.class_parameters import PREFIX
from mooring.csi.proto import csi_pb2 as csi


def extra_group_metadata(content: VolumeGroupSnapshotContent) -> Mapping[str, str]:
    """For drivers that want to know which objects the group is of."""
    ref = content.spec.volume_group_snapshot_ref
    return {
        f"{PREFIX}volumegroupsnapshot/name": ref.name,
        f"{PREFIX}volumegroupsnapshot/namespace": ref.namespace,
        f"{PREFIX}volumegroupsnapshotcontent/name": content.metadata.name,
    }


@dataclasses.dataclass(frozen=True, slots=True)
class CreateGroupOrder:
    """A group to make, complete but for the values of its secret."""

    name: str
    volume_handles: tuple[str, ...]
    parameters: Mapping[str, str]

    def request(self, secrets: Mapping[str, str]) -> csi.CreateVolumeGroupSnapshotRequest:
        return csi.CreateVolumeGroupSnapshotRequest(
            name=self.name, source_volume_ids=self.volume_handles, parameters=self.parameters, secrets=secrets
        )


@dataclasses.dataclass(frozen=True, slots=True)
class GroupHandles:
    """A group that is made, and its snapshots: the driver may need both to find them."""

    group: str
    snapshots: tuple[str, ...]

    def get_request(self, secrets: Mapping[str, str]) -> csi.GetVolumeGroupSnapshotRequest:
        return csi.GetVolumeGroupSnapshotRequest(group_snapshot_id=self.group, snapshot_ids=self.snapshots, secrets=secrets)

    def delete_request(self, secrets: Mapping[str, str]) -> csi.DeleteVolumeGroupSnapshotRequest:
        return csi.DeleteVolumeGroupSnapshotRequest(group_snapshot_id=self.group, snapshot_ids=self.snapshots, secrets=secrets)
