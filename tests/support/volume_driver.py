"""A scripted driver that makes and deletes volumes, and says how much room there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mooring.csi.proto import csi_pb2 as csi
from tests.support.scripted_driver import RPC, ScriptedDriver

CREATE, DELETE, CAPACITY = "CreateVolume", "DeleteVolume", "GetCapacity"
SERVICE = csi.PluginCapability.Service
GiB = 1 << 30


class VolumeDriver(ScriptedDriver):
    """volumes: handle -> bytes, the truth of the backend. topology: segments of every new volume, None for none.

    capacity_bytes: the room, or a function of the request that gives it.
    """

    def __init__(
        self,
        name: str = "csi.test",
        controller: Iterable[int] = (),
        *,
        topology: Mapping[str, str] | None = None,
        story: list[str] | None = None,
    ) -> None:
        plugin = [SERVICE.CONTROLLER_SERVICE, *([] if topology is None else [SERVICE.VOLUME_ACCESSIBILITY_CONSTRAINTS])]
        super().__init__(name, (RPC.CREATE_DELETE_VOLUME, *controller), plugin, story)
        self.topology = topology
        self.volumes: dict[str, int] = {}
        self.names: dict[str, str] = {}
        self.capacity_bytes: int | Callable[[csi.GetCapacityRequest], int] = 100 * GiB
        self.maximum_volume_size: int | None = None
        self.node_topology: Mapping[str, str] = topology or {}

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        def create() -> csi.CreateVolumeResponse:
            handle = self.names.setdefault(request.name, f"vol-{request.name}")
            size = self.volumes.setdefault(handle, request.capacity_range.required_bytes)
            volume = csi.Volume(volume_id=handle, capacity_bytes=size)
            if request.HasField("volume_content_source"):
                volume.content_source.CopyFrom(request.volume_content_source)
            if self.topology:
                volume.accessible_topology.add(segments=self.topology)
            return csi.CreateVolumeResponse(volume=volume)

        return await self._call(CREATE, request, request.name, create)

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        def delete() -> csi.DeleteVolumeResponse:
            self.volumes.pop(request.volume_id, None)
            self.names = {name: handle for name, handle in self.names.items() if handle != request.volume_id}
            return csi.DeleteVolumeResponse()

        return await self._call(DELETE, request, request.volume_id, delete)

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        def room() -> csi.GetCapacityResponse:
            free = self.capacity_bytes(request) if callable(self.capacity_bytes) else self.capacity_bytes
            answer = csi.GetCapacityResponse(available_capacity=free)
            if self.maximum_volume_size is not None:
                answer.maximum_volume_size.value = self.maximum_volume_size
            return answer

        return await self._call(CAPACITY, request, "", room)

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(node_id="id", accessible_topology=csi.Topology(segments=self.node_topology))


class ZonalDriver(VolumeDriver):
    """Names are unique in a zone alone, as those of zonal disks: the zone that is asked for first has the volume."""

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        zone = request.accessibility_requirements.preferred[0].segments["zone"]

        def create() -> csi.CreateVolumeResponse:
            handle = f"{zone}/{request.name}"
            volume = csi.Volume(
                volume_id=handle, capacity_bytes=self.volumes.setdefault(handle, request.capacity_range.required_bytes)
            )
            volume.accessible_topology.add(segments={"zone": zone})
            return csi.CreateVolumeResponse(volume=volume)

        return await self._call(CREATE, request, request.name, create)
