"""Drivers with one fault each that only a process of its own shows, on a good driver that mounts: each class says which
rule it breaks.

python -m tests.support.ill_drivers CLASS --endpoint unix://SOCKET
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support import mount_driver
from tests.support.mount_driver import FOLDER, MountDriver

_KNOWN_NODES = ("worker-1", "worker-2")


class EndsInPublish(MountDriver):
    breaks = "CSI707"

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        print(f"out of luck with {dict(request.secrets)}", flush=True)
        os._exit(3)


class LeavesTargetWhenItRefuses(MountDriver):
    """Keeps every rule: NodeUnpublishVolume takes the folder away."""

    breaks = ""

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        if request.target_path and request.volume_id:
            os.makedirs(request.target_path, exist_ok=True)
        return await super().node_publish_volume(request)


class KeepsItsSocket(MountDriver):
    breaks = "CSI710"

    def __init__(self) -> None:
        super().__init__()
        path = Path(sys.argv[sys.argv.index("--endpoint") + 1].removeprefix("unix://"))
        if path.exists():
            sys.exit("address already in use")


class KeepsVolumesInMemory(MountDriver):
    breaks = "CSI209"

    def __init__(self) -> None:
        shutil.rmtree(Path(os.environ[FOLDER]) / "volumes", ignore_errors=True)
        super().__init__()

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        if not self.data(request.volume_id).exists():
            raise DriverError(Code.NOT_FOUND, "no such volume")
        return csi.ValidateVolumeCapabilitiesResponse(confirmed={"volume_capabilities": request.volume_capabilities})


class StagesNothing(MountDriver):
    breaks = "CSI524"

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        return csi.NodeStageVolumeResponse()


class CopiesNothing(MountDriver):
    breaks = "CSI217"

    def _source(self, source: csi.VolumeContentSource) -> Path | None:
        if (found := super()._source(source)) is not None:
            shutil.rmtree(found)
            found.mkdir()
        return found


class WantsItsTarget(MountDriver):
    breaks = "CSI522"

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        if request.volume_id and not _is_there(request.target_path):
            raise DriverError(Code.INTERNAL, f"mount: {request.target_path}: mount point does not exist.")
        return await super().node_publish_volume(request)


class IsNeverReady(MountDriver):
    breaks = "CSI711"

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        return csi.ProbeResponse(ready={"value": False})


class SameIdOnEachNode(MountDriver):
    breaks = "CSI502"

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(node_id="localhost")


class PublishesAnywhere(MountDriver):
    """A volume of one node on any number of them: MountDriver itself asks nobody."""

    breaks = "CSI303"


class LooksItsNodesUp(MountDriver):
    """On nodes that it has no record of it does not start, and it takes its volume from a node that it does know,
    whatever node has it.
    """

    breaks = "CSI310"
    controller_flags = (*MountDriver.controller_flags, csi.ControllerServiceCapability.RPC.PUBLISH_READONLY)

    def __init__(self) -> None:
        super().__init__()
        if (node := sys.argv[sys.argv.index("--node") + 1]) not in _KNOWN_NODES:
            sys.exit(f"node {node} not found")
        self._published: dict[str, tuple[str, bool]] = {}

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        if request.node_id not in _KNOWN_NODES:
            raise DriverError(Code.NOT_FOUND, f"node {request.node_id} not found")
        wanted = request.node_id, request.readonly
        if (has := self._published.setdefault(request.volume_id, wanted)) != wanted:
            code = Code.ALREADY_EXISTS if has[0] == request.node_id else Code.FAILED_PRECONDITION
            raise DriverError(code, f"it is published to {has}")
        return await super().controller_publish_volume(request)

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        if request.node_id in ("", *_KNOWN_NODES):
            self._published.pop(request.volume_id, None)
        return csi.ControllerUnpublishVolumeResponse()


class LeavesItsMounts(MountDriver):
    """And then deletes no volume, since its data is mounted."""

    breaks = "CSI525"

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        answer = await super().node_publish_volume(request)
        (Path(request.target_path) / "page").write_text("hello")
        return answer

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        return csi.NodeUnpublishVolumeResponse()

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        if (self.data(request.volume_id) / "page").exists():
            raise DriverError(Code.FAILED_PRECONDITION, "it is mounted")
        return await super().delete_volume(request)


def _is_there(path: str) -> bool:
    return os.path.exists(path)


if __name__ == "__main__":
    mount_driver.main(getattr(sys.modules[__name__], sys.argv.pop(1)))
