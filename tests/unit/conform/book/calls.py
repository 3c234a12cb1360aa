"""A driver's calls as a watcher is told of them: one word for each, with answers as a good driver's unless a test says
otherwise.
"""

from __future__ import annotations

from typing import Any

from mooring.conform.book.rule import Breach
from mooring.conform.book.watcher import Watcher
from mooring.csi.driver import Driver, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

GIB = 1 << 30
WRITER = csi.VolumeCapability(mount={}, access_mode={"mode": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER})
BLOCK = csi.VolumeCapability(block={}, access_mode={"mode": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER})
TAKEN = {"seconds": 1}
READY = {"ready_to_use": True}
PATH = "/pods/p/mount"
STAGING = "/staging"

Controller = csi.ControllerServiceCapability.RPC
Node = csi.NodeServiceCapability.RPC
Service = csi.PluginCapability.Service


def no(code: Code, text: str = "no") -> DriverError:
    return DriverError(code, text)


class Calls:
    """breaches: in the order in which they were told. at_s: the time by which they are judged, None for none."""

    def __init__(self) -> None:
        self.breaches: list[Breach] = []
        self.at_s: float | None = None
        self.watcher = Watcher(self.breaches.append, now=lambda: self.at_s)

    @property
    def numbers(self) -> list[str]:
        return [breach.rule.number for breach in self.breaches]

    def call(self, rpc: Rpc[Any, Any], request: Any, answer: Any = None, where: str = "", **seen: Any) -> None:
        """answer: a response, an error, or None for an empty response."""
        number = self.watcher.began(rpc, request, where)
        failed = isinstance(answer, DriverError)
        response = None if failed else rpc.response_type() if answer is None else answer
        self.watcher.ended(number, response, answer if failed else None, **seen)

    def create(self, answer: Any = None, name: str = "a", **fields: Any) -> None:
        """answer: as for `call`, or the fields of the volume."""
        if not isinstance(answer, DriverError):
            answer = csi.CreateVolumeResponse(
                volume={"volume_id": f"id-{name}", "capacity_bytes": GIB, **(answer or {})}
            )
        fields = {"capacity_range": {"required_bytes": GIB}, "volume_capabilities": [WRITER], **fields}
        self.call(Driver.create_volume, csi.CreateVolumeRequest(name=name, **fields), answer)

    def delete(self, answer: Any = None, volume: str = "id-a") -> None:
        self.call(Driver.delete_volume, csi.DeleteVolumeRequest(volume_id=volume), answer)

    def grow(self, size: int, **wanted: int) -> None:
        request = csi.ControllerExpandVolumeRequest(volume_id="id-a", capacity_range=wanted)
        self.call(Driver.controller_expand_volume, request, csi.ControllerExpandVolumeResponse(capacity_bytes=size))

    def attach(self, answer: Any = None, node: str = "n1") -> None:
        if not isinstance(answer, DriverError):
            answer = csi.ControllerPublishVolumeResponse(publish_context=answer or {})
        request = csi.ControllerPublishVolumeRequest(volume_id="id-a", node_id=node, volume_capability=WRITER)
        self.call(Driver.controller_publish_volume, request, answer)

    def detach(self, answer: Any = None, node: str = "n1") -> None:
        self.call(
            Driver.controller_unpublish_volume,
            csi.ControllerUnpublishVolumeRequest(volume_id="id-a", node_id=node),
            answer,
        )

    def snap(self, answer: Any = None, name: str = "s") -> None:
        if not isinstance(answer, DriverError):
            fields = {
                "snapshot_id": f"id-{name}",
                "source_volume_id": "id-a",
                "creation_time": TAKEN,
                "ready_to_use": True,
            }
            answer = csi.CreateSnapshotResponse(snapshot={**fields, **(answer or {})})
        self.call(Driver.create_snapshot, csi.CreateSnapshotRequest(name=name, source_volume_id="id-a"), answer)

    def group(self, *members: dict[str, Any]) -> None:
        whole = [
            {"snapshot_id": f"m{number}", "creation_time": TAKEN, "group_snapshot_id": "g", **READY, **one}
            for number, one in enumerate(members)
        ]
        answer = csi.CreateVolumeGroupSnapshotResponse(
            group_snapshot={"group_snapshot_id": "g", "snapshots": whole, "creation_time": TAKEN, "ready_to_use": True}
        )
        request = csi.CreateVolumeGroupSnapshotRequest(name="g", source_volume_ids=["id-a", "id-b"])
        self.call(Driver.create_volume_group_snapshot, request, answer)

    def info(self, name: str = "csi.example.com", version: str = "1", where: str = "") -> None:
        self.call(
            Driver.get_plugin_info,
            csi.GetPluginInfoRequest(),
            csi.GetPluginInfoResponse(name=name, vendor_version=version),
            where,
        )

    def services(self, *numbers: int) -> None:
        entries = [csi.PluginCapability(service={"type": number}) for number in numbers]
        answer = csi.GetPluginCapabilitiesResponse(capabilities=entries)
        self.call(Driver.get_plugin_capabilities, csi.GetPluginCapabilitiesRequest(), answer)

    def offers(self, *numbers: int) -> None:
        entries = [csi.ControllerServiceCapability(rpc={"type": number}) for number in numbers]
        answer = csi.ControllerGetCapabilitiesResponse(capabilities=entries)
        self.call(Driver.controller_get_capabilities, csi.ControllerGetCapabilitiesRequest(), answer)

    def node(self, node_id: str = "n1", where: str = "n1", **fields: Any) -> None:
        self.call(
            Driver.node_get_info, csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse(node_id=node_id, **fields), where
        )

    def stage(self, answer: Any = None, **seen: Any) -> None:
        request = csi.NodeStageVolumeRequest(volume_id="id-a", staging_target_path=STAGING, volume_capability=WRITER)
        self.call(Driver.node_stage_volume, request, answer, "n1", **seen)

    def unstage(self, answer: Any = None, **seen: Any) -> None:
        request = csi.NodeUnstageVolumeRequest(volume_id="id-a", staging_target_path=STAGING)
        self.call(Driver.node_unstage_volume, request, answer, "n1", **seen)

    def mount(self, answer: Any = None, *, readonly: bool = False, capability: Any = WRITER, **seen: Any) -> None:
        request = csi.NodePublishVolumeRequest(
            volume_id="id-a", target_path=PATH, volume_capability=capability, readonly=readonly
        )
        self.call(Driver.node_publish_volume, request, answer, "n1", **seen)

    def unmount(self, answer: Any = None, **seen: Any) -> None:
        request = csi.NodeUnpublishVolumeRequest(volume_id="id-a", target_path=PATH)
        self.call(Driver.node_unpublish_volume, request, answer, "n1", **seen)

    def page(self, *ids: str, token: str = "", next_token: str = "", max_entries: int = 0) -> None:
        answer = csi.ListVolumesResponse(entries=[{"volume": {"volume_id": one}} for one in ids], next_token=next_token)
        self.call(Driver.list_volumes, csi.ListVolumesRequest(starting_token=token, max_entries=max_entries), answer)
