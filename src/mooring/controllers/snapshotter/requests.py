"""CSI requests about snapshots, from contents and their classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from mooring.api.snapshot import VolumeSnapshotContent
from mooring.controllers.snapshotting.class_parameters import PREFIX
from mooring.csi.proto import csi_pb2 as csi

UUID_LENGTH_MAX: Final = 32


def snapshot_name(prefix: str, uuid_length: int, uid: str) -> str:
    """The name under which the driver makes it, the same at each try. uuid_length: -1 takes the uid as it is."""
    return f"{prefix}-{uid if uuid_length == -1 else uid.replace('-', '')[:uuid_length]}"


def extra_metadata(content: VolumeSnapshotContent) -> Mapping[str, str]:
    """For drivers that want to know which objects the snapshot is of."""
    ref = content.spec.volume_snapshot_ref
    return {
        f"{PREFIX}volumesnapshot/name": ref.name,
        f"{PREFIX}volumesnapshot/namespace": ref.namespace,
        f"{PREFIX}volumesnapshotcontent/name": content.metadata.name,
    }


@dataclasses.dataclass(frozen=True, slots=True)
class CreateOrder:
    """A snapshot to make, complete but for the values of its secret."""

    name: str
    volume_handle: str
    parameters: Mapping[str, str]

    def request(self, secrets: Mapping[str, str]) -> csi.CreateSnapshotRequest:
        return csi.CreateSnapshotRequest(name=self.name, source_volume_id=self.volume_handle, parameters=self.parameters, secrets=secrets)


def delete_request(handle: str, secrets: Mapping[str, str]) -> csi.DeleteSnapshotRequest:
    return csi.DeleteSnapshotRequest(snapshot_id=handle, secrets=secrets)


def list_request(handle: str, secrets: Mapping[str, str]) -> csi.ListSnapshotsRequest:
    """For this snapshot alone."""
    return csi.ListSnapshotsRequest(snapshot_id=handle, secrets=secrets)


def list_of_volume_request(volume_handle: str, token: str, secrets: Mapping[str, str]) -> csi.ListSnapshotsRequest:
    """For all snapshots of this volume. token: of the page, "" for the first."""
    return csi.ListSnapshotsRequest(source_volume_id=volume_handle, starting_token=token, secrets=secrets)


def get_request(handle: str, secrets: Mapping[str, str]) -> csi.GetSnapshotRequest:
    return csi.GetSnapshotRequest(snapshot_id=handle, secrets=secrets)
