"""What a run has made and not deleted yet, from the calls that it made: told of each, it knows what is left to undo,
and in which order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mooring.csi.driver import Driver, Rpc
from mooring.csi.proto import csi_pb2 as csi

Undo = tuple[Rpc[Any, Any], Any]
_ORDER: Final = (
    "mounted on",
    "staged on",
    "published to",
    "group",
    "snapshot",
    "volume",
    "volume named",
    "snapshot named",
)
Key = tuple[str, str, str]  # one of the kinds above, the volume or snapshot, and where


class Made:
    """tried: what could not be undone once, with the error."""

    def __init__(self) -> None:
        self._there: dict[Key, Undo] = {}
        self.tried: dict[Key, str] = {}

    def began(self, rpc: Rpc[Any, Any], request: Any) -> Key | None:
        """A call goes out that may take effect, whatever comes back. Gives what it may make, where that is not there
        already.
        """
        if (opened := _opened(rpc, request)) is None or opened[0] in self._there:
            return None
        self._there[opened[0]] = opened[1]
        return opened[0]

    def ended(self, rpc: Rpc[Any, Any], request: Any, response: Any, key: Key | None, *, is_final: bool) -> None:
        """response: None for an error. key: of `began`. is_final: an error after which the call has had no effect, for
        sure.
        """
        if response is not None:
            self._done(rpc, request, response)
        elif (
            is_final
            and (opened := _opened(rpc, request)) is not None
            and (key is not None or opened[0][0].endswith("named"))
        ):
            self._there.pop(opened[0], None)

    def never_was(self, rpc: Rpc[Any, Any], request: Any) -> None:
        """A call that a driver must refuse has ended without an answer that tells an id: it is not made again to learn
        one.
        """
        if (opened := _opened(rpc, request)) is not None and opened[0][0].endswith("named"):
            self._there.pop(opened[0], None)

    def is_gone(self, key: Key) -> None:
        """The driver says that it does not know it."""
        self._there.pop(key, None)

    def volumes(self) -> set[str]:
        """The ids of the volumes that exist by the driver's own word."""
        return {key[1] for key in self._there if key[0] == "volume" and key not in self.tried}

    def _done(self, rpc: Rpc[Any, Any], request: Any, response: Any) -> None:
        match rpc.attribute:
            case "create_volume":
                self._there.pop(("volume named", request.name, ""), None)
                if identity := response.volume.volume_id:
                    self._there["volume", identity, ""] = (
                        Driver.delete_volume,
                        csi.DeleteVolumeRequest(volume_id=identity),
                    )
            case "create_snapshot":
                self._there.pop(("snapshot named", request.name, ""), None)
                if identity := response.snapshot.snapshot_id:
                    self._there["snapshot", identity, ""] = (
                        Driver.delete_snapshot,
                        csi.DeleteSnapshotRequest(snapshot_id=identity),
                    )
            case "create_volume_group_snapshot":
                group = response.group_snapshot
                members = [member.snapshot_id for member in group.snapshots]
                delete = csi.DeleteVolumeGroupSnapshotRequest(
                    group_snapshot_id=group.group_snapshot_id, snapshot_ids=members
                )
                self._there["group", group.group_snapshot_id, ""] = Driver.delete_volume_group_snapshot, delete
            case name if name in _CLOSED:
                self._there.pop(_CLOSED[name](request), None)

    def undone_by(self) -> Iterator[tuple[Key, Undo]]:
        """What is left, in the order in which it can be undone."""
        yield from sorted(self._there.items(), key=lambda entry: _ORDER.index(entry[0][0]))


def _opened(rpc: Rpc[Any, Any], request: Any) -> tuple[Key, Undo] | None:
    """What a call may make, and the call that undoes it; of a volume or snapshot whose id nobody knows yet, the call
    itself.
    """
    match rpc.attribute:
        case "create_volume" if request.name:
            return ("volume named", request.name, ""), (rpc, request)
        case "create_snapshot" if request.name and request.source_volume_id:
            return ("snapshot named", request.name, ""), (rpc, request)
        case "controller_publish_volume" if request.volume_id and request.node_id:
            unpublish = csi.ControllerUnpublishVolumeRequest(volume_id=request.volume_id, node_id=request.node_id)
            return ("published to", request.volume_id, request.node_id), (Driver.controller_unpublish_volume, unpublish)
        case "node_stage_volume" if request.volume_id and request.staging_target_path:
            unstage = csi.NodeUnstageVolumeRequest(
                volume_id=request.volume_id, staging_target_path=request.staging_target_path
            )
            return ("staged on", request.volume_id, request.staging_target_path), (Driver.node_unstage_volume, unstage)
        case "node_publish_volume" if request.volume_id and request.target_path:
            unmount = csi.NodeUnpublishVolumeRequest(volume_id=request.volume_id, target_path=request.target_path)
            return ("mounted on", request.volume_id, request.target_path), (Driver.node_unpublish_volume, unmount)
    return None


_CLOSED: Final[Mapping[str, Any]] = {
    "delete_volume": lambda request: ("volume", request.volume_id, ""),
    "delete_snapshot": lambda request: ("snapshot", request.snapshot_id, ""),
    "delete_volume_group_snapshot": lambda request: ("group", request.group_snapshot_id, ""),
    "controller_unpublish_volume": lambda request: ("published to", request.volume_id, request.node_id),
    "node_unstage_volume": lambda request: ("staged on", request.volume_id, request.staging_target_path),
    "node_unpublish_volume": lambda request: ("mounted on", request.volume_id, request.target_path),
}
