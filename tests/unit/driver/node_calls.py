"""CSI requests to a node, with defaults, and the life of a volume on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.node.mount_mode import LINK, MOUNT, MountMode
from tests.unit.driver.calls import Mode, a_capability, a_driver, a_publication, created

MIB = 1 << 20
BLOCK = {"volume_capabilities": [a_capability(block=True)]}
EPHEMERAL = {"csi.storage.k8s.io/ephemeral": "true"}


def linking(folder: Path, **options: Any) -> Any:
    """A driver that shows volumes by links: for any user."""
    return a_driver(folder / "state", **{"mount_mode": MountMode(folder / "state", LINK), **options})


def mounting(folder: Path, **options: Any) -> Any:
    """A driver that mounts: for tests with `private_mounts`."""
    return a_driver(folder / "state", **{"mount_mode": MountMode(folder / "state", MOUNT), **options})


def a_staging(volume_id: str, path: Path, **fields: Any) -> csi.NodeStageVolumeRequest:
    fields = {"volume_capability": a_capability(), **fields}
    return csi.NodeStageVolumeRequest(volume_id=volume_id, staging_target_path=str(path), **fields)


def an_unstaging(volume_id: str, path: Path) -> csi.NodeUnstageVolumeRequest:
    return csi.NodeUnstageVolumeRequest(volume_id=volume_id, staging_target_path=str(path))


def a_target(volume_id: str, staging: Path | str, path: Path, **fields: Any) -> csi.NodePublishVolumeRequest:
    fields = {"volume_capability": a_capability(), **fields}
    return csi.NodePublishVolumeRequest(
        volume_id=volume_id, staging_target_path=str(staging), target_path=str(path), **fields
    )


def a_withdrawal(volume_id: str, path: Path) -> csi.NodeUnpublishVolumeRequest:
    return csi.NodeUnpublishVolumeRequest(volume_id=volume_id, target_path=str(path))


def an_inline(volume_id: str, path: Path, **fields: Any) -> csi.NodePublishVolumeRequest:
    return a_target(volume_id, "", path, **{"volume_context": EPHEMERAL, **fields})


class OnNode:
    """A volume's way to a path of one node and back. node: the plugin that answers for it; folder: for its paths."""

    def __init__(
        self, driver: Any, folder: Path, *, node: Any = None, node_id: str = "node-1", block: bool = False
    ) -> None:
        self.driver, self.node, self.node_id = driver, node or driver, node_id
        self.staging, self.target = folder / f"staging-{node_id}", folder / f"target-{node_id}"
        self.staging.mkdir(exist_ok=True)
        self.capability = a_capability(block=block)
        self.volume_id = ""

    async def create(self, name: str = "pvc-1", **fields: Any) -> str:
        self.volume_id = await created(self.driver, name, volume_capabilities=[self.capability], **fields)
        return self.volume_id

    async def attach(self, **fields: Any) -> None:
        request = a_publication(self.volume_id, self.node_id, volume_capability=self.capability, **fields)
        await self.driver.controller_publish_volume(request)

    async def stage(self, **fields: Any) -> None:
        await self.node.node_stage_volume(
            a_staging(self.volume_id, self.staging, **{"volume_capability": self.capability, **fields})
        )

    async def publish(self, target: Path | None = None, **fields: Any) -> Path:
        path = target or self.target
        fields = {"volume_capability": self.capability, **fields}
        await self.node.node_publish_volume(a_target(self.volume_id, self.staging, path, **fields))
        return path

    async def up(self, name: str = "pvc-1", **fields: Any) -> Path:
        """Created, attached, staged and published; gives the target."""
        await self.create(name, **fields)
        await self.attach()
        await self.stage()
        return await self.publish()

    async def unpublish(self, target: Path | None = None) -> None:
        await self.node.node_unpublish_volume(a_withdrawal(self.volume_id, target or self.target))

    async def unstage(self) -> None:
        await self.node.node_unstage_volume(an_unstaging(self.volume_id, self.staging))

    async def detach(self) -> None:
        await self.driver.controller_unpublish_volume(
            csi.ControllerUnpublishVolumeRequest(volume_id=self.volume_id, node_id=self.node_id)
        )

    async def down(self) -> None:
        """All of it undone, and the volume deleted."""
        await self.unpublish()
        await self.unstage()
        await self.detach()
        await self.driver.delete_volume(csi.DeleteVolumeRequest(volume_id=self.volume_id))


SINGLE_WRITER = a_capability(Mode.SINGLE_NODE_SINGLE_WRITER)
MANY_NODES = a_capability(Mode.MULTI_NODE_MULTI_WRITER)
