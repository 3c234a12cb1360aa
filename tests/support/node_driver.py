"""A scripted driver with a node service that mounts in a fake mount table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.fake_mounts import FakeMounts
from tests.support.node_habits import LEAVINGS, NodeHabits
from tests.support.scripted_driver import ScriptedDriver

NODE_RPC = csi.NodeServiceCapability.RPC
STAGE, UNSTAGE = "NodeStageVolume", "NodeUnstageVolume"
PUBLISH, UNPUBLISH = "NodePublishVolume", "NodeUnpublishVolume"
EXPAND, STATS, CAPABILITIES = "NodeExpandVolume", "NodeGetVolumeStats", "NodeGetCapabilities"


class NodeDriver(ScriptedDriver):
    """able: node capabilities.

    leaves_target: the folder stays when it takes a volume from a pod. leaves: makes something else in its place. lies:
    it says that it has taken a volume back, and has not. habits: in which it differs from others: mounts_apart, leaves
    and knows_own. usage: its answer to questions for it.
    """

    def __init__(
        self,
        mounts: FakeMounts,
        name: str = "d1",
        able: Iterable[int] = (NODE_RPC.STAGE_UNSTAGE_VOLUME,),
        story: list[str] | None = None,
    ) -> None:
        super().__init__(name, story=story)
        self.mounts, self.able = mounts, tuple(able)
        self.leaves_target = self.lies = False
        self.habits = NodeHabits()
        self.leaves: Callable[[Path], object] | None = None
        self.usage = csi.NodeGetVolumeStatsResponse()

    def calls_for_volumes(self) -> list[str]:
        """The names of all calls that concern a volume, in order."""
        return [call.method for call in self.calls if call.method != CAPABILITIES]

    async def node_get_capabilities(self, request: csi.NodeGetCapabilitiesRequest) -> csi.NodeGetCapabilitiesResponse:
        def listed() -> csi.NodeGetCapabilitiesResponse:
            return csi.NodeGetCapabilitiesResponse(capabilities=[{"rpc": {"type": value}} for value in self.able])

        return await self._call(CAPABILITIES, request, "", listed)

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        def stage() -> csi.NodeStageVolumeResponse:
            if not request.volume_capability.HasField("block"):
                self.mounts.mount(request.staging_target_path, root=f"/{request.volume_id}")
            return csi.NodeStageVolumeResponse()

        return await self._call(STAGE, request, request.volume_id, stage)

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest) -> csi.NodeUnstageVolumeResponse:
        def unstage() -> csi.NodeUnstageVolumeResponse:
            if not self.lies:
                self.mounts.unmount(request.staging_target_path, keeps_folder=True)
            return csi.NodeUnstageVolumeResponse()

        return await self._call(UNSTAGE, request, request.volume_id, unstage)

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        def publish() -> csi.NodePublishVolumeResponse:
            if not Path(request.target_path).parent.is_dir():
                raise DriverError(Code.INTERNAL, "the target's parent is missing")
            if request.volume_capability.HasField("block"):
                Path(request.target_path).write_text("a device")
            else:
                apart = "-published" if self.habits.mounts_apart else ""
                self.mounts.mount(request.target_path, root=f"/{request.volume_id}{apart}")
            return csi.NodePublishVolumeResponse()

        return await self._call(PUBLISH, request, request.volume_id, publish)

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        def unpublish() -> csi.NodeUnpublishVolumeResponse:
            if self.habits.knows_own and not os.path.lexists(request.target_path):
                raise DriverError(Code.NOT_FOUND, f"no volume {request.volume_id}")
            if not self.lies:
                self.mounts.unmount(request.target_path, keeps_folder=self.leaves_target)
                if Path(request.target_path).is_file():  # a device
                    Path(request.target_path).unlink()
                if self.habits.leaves:
                    LEAVINGS[self.habits.leaves](Path(request.target_path))
                if self.leaves is not None:
                    self.leaves(Path(request.target_path))
            return csi.NodeUnpublishVolumeResponse()

        return await self._call(UNPUBLISH, request, request.volume_id, unpublish)

    async def node_expand_volume(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        return await self._call(EXPAND, request, request.volume_id, csi.NodeExpandVolumeResponse)

    async def node_get_volume_stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        return await self._call(STATS, request, request.volume_id, lambda: self.usage)
