"""A CSI driver whose volumes are folders of the node that it runs on.

    mooring dev --driver driver:Skeleton --option "folder=$PWD/volumes"

Every call may come twice, and must then answer the same. The SDK has checked the request by then, and lets one changing
call at a time in for each volume; work that blocks belongs into `blocking`, which finishes it even where the caller
gives up.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.blocking import blocking
from mooring.driver.capabilities import Service
from mooring.driver.idempotency import check_same, check_size, id_of, is_id, page, size_for
from mooring.driver.records import Records
from mooring.driver.sdk import Code, DriverError, Plugin
from mooring.mounts import filesystems, targets
from mooring.mounts.trees import remove_tree

MIB: Final = 1 << 20
GIB: Final = 1 << 30


class Skeleton(Plugin):
    """folder: where the volumes are. node_id: what the driver calls this node; the node's name where no option says
    otherwise.
    """

    name = "skeleton.example.com"
    vendor_version = "0.1.0"
    plugin_flags = (Service.VOLUME_ACCESSIBILITY_CONSTRAINTS,)  # a folder is on one node, and pods must go there

    def __init__(self, folder: Path, node_id: str) -> None:
        self.node_id = node_id
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._data, self._records = folder / "data", Records(folder / "records")
        self._data.mkdir(
            mode=0o700, exist_ok=True
        )  # volumes are for whoever they are mounted for, and no other user of the node

    @property
    def node_segments(self) -> Mapping[str, str]:
        """Where this node is: alone."""
        return {f"{self.name}/node": self.node_id}

    # The controller: volumes come and go

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        self._check_access(list(request.volume_capabilities))
        self._check_place(request.accessibility_requirements)
        volume_id, parameters = id_of(request.name), dict(request.parameters)
        record = await blocking(self._records.get, volume_id)
        if record is None:
            size = size_for(request.capacity_range, default=GIB, least=MIB)
            record = {"name": request.name, "size": size, "parameters": parameters}
            await blocking(self._make, volume_id, record)
        else:
            check_size(request.name, record["size"], request.capacity_range)
            check_same(request.name, parameters=(record["parameters"], parameters))
        return csi.CreateVolumeResponse(volume=self._described(volume_id, record))

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        if is_id(request.volume_id):  # any other id is none of ours, and absent
            await blocking(self._remove, request.volume_id)
        return csi.DeleteVolumeResponse()

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        await self._known(request.volume_id)
        try:
            self._check_access(list(request.volume_capabilities))
        except DriverError as error:
            return csi.ValidateVolumeCapabilitiesResponse(message=error.message)
        return csi.ValidateVolumeCapabilitiesResponse(confirmed={"volume_capabilities": request.volume_capabilities})

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        ids, token = page(await blocking(self._records.ids), request)
        records = {one: await blocking(self._records.get, one) for one in ids}
        volumes = [self._described(one, record) for one, record in records.items() if record is not None]
        return csi.ListVolumesResponse(entries=[{"volume": volume} for volume in volumes], next_token=token)

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        in_bytes, _ = await blocking(filesystems.usage, self._data)
        return csi.GetCapacityResponse(available_capacity=in_bytes.available)

    # The node: volumes are shown to pods

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        self._check_access([request.volume_capability])
        data, target = await self._known(request.volume_id), targets.plain(request.target_path)
        await blocking(
            targets.bind, data, target, request.volume_capability.mount.mount_flags, readonly=request.readonly
        )
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        """Also of a volume that is not known any more: its mount must go all the same."""
        await blocking(targets.withdraw, targets.plain(request.target_path))
        return csi.NodeUnpublishVolumeResponse()

    async def node_get_volume_stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        data, path = await self._known(request.volume_id), targets.plain(request.volume_path)
        if not await blocking(targets.holds, data, path):
            raise DriverError(Code.NOT_FOUND, f"volume {request.volume_id!r} is not at {request.volume_path!r}")
        in_bytes, inodes = await blocking(filesystems.usage, path)
        shown = [
            csi.VolumeUsage(unit=unit, total=one.total, available=one.available, used=one.used)
            for unit, one in ((csi.VolumeUsage.BYTES, in_bytes), (csi.VolumeUsage.INODES, inodes))
        ]
        return csi.NodeGetVolumeStatsResponse(usage=shown)

    # What the calls have in common

    async def _known(self, volume_id: str) -> Path:
        """The volume's data. Raises NotFound."""
        if not is_id(volume_id) or await blocking(self._records.get, volume_id) is None:
            raise DriverError(Code.NOT_FOUND, f"there is no volume {volume_id!r}")
        return self._data / volume_id

    def _described(self, volume_id: str, record: dict[str, Any]) -> csi.Volume:
        here = csi.Topology(segments=self.node_segments)
        return csi.Volume(
            volume_id=volume_id,
            capacity_bytes=record["size"],
            volume_context=record["parameters"],
            accessible_topology=[here],
        )

    def _check_access(self, capabilities: list[csi.VolumeCapability]) -> None:
        """Raises InvalidArgument for what a folder can't be."""
        if any(one.HasField("block") for one in capabilities):
            raise DriverError(
                Code.INVALID_ARGUMENT, "volume_capability: a volume of this driver is a folder, and no block device"
            )

    def _check_place(self, wanted: csi.TopologyRequirement) -> None:
        """Raises ResourceExhausted where the volume shall be elsewhere."""
        if wanted.requisite and all(dict(one.segments) != self.node_segments for one in wanted.requisite):
            raise DriverError(
                Code.RESOURCE_EXHAUSTED, f"accessibility_requirements: this driver has room on {self.node_id!r} alone"
            )

    def _make(self, volume_id: str, record: dict[str, Any]) -> None:
        """The data first: what is recorded is there, whenever the driver is killed."""
        (self._data / volume_id).mkdir(exist_ok=True)
        os.chmod(self._data / volume_id, 0o777)
        self._records.put(volume_id, record)

    def _remove(self, volume_id: str) -> None:
        """The data first: nothing is left that no record names."""
        data = self._data / volume_id
        if data.exists():
            if points := targets.mount_table().references(str(targets.plain(data))):
                raise DriverError(Code.FAILED_PRECONDITION, f"volume {volume_id!r} is published at {', '.join(points)}")
            remove_tree(data)
        self._records.remove(volume_id)
