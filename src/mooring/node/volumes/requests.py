"""CSI requests of the node service, field by field as kubelet 1.36 fills them.

Differs: what is injected for one pod goes into a copy of the volume's attributes, so that no other call can carry it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from mooring.csi.proto import csi_pb2 as csi
from mooring.node.volumes.state import Volume

_Mode = csi.VolumeCapability.AccessMode
_Rpc = csi.NodeServiceCapability.RPC

STAGES: Final = _Rpc.STAGE_UNSTAGE_VOLUME
MOUNT_GROUP: Final = _Rpc.VOLUME_MOUNT_GROUP
MULTI_WRITER: Final = _Rpc.SINGLE_NODE_MULTI_WRITER
EXPANDS: Final = _Rpc.EXPAND_VOLUME
STATS: Final = _Rpc.GET_VOLUME_STATS

_PLAIN: Final = {
    "ReadWriteOnce": _Mode.SINGLE_NODE_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": _Mode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": _Mode.MULTI_NODE_MULTI_WRITER,
}
_TELLING_WRITERS_APART: Final = {
    **_PLAIN,
    "ReadWriteOnce": _Mode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _Mode.SINGLE_NODE_SINGLE_WRITER,
}

POD_NAME: Final = "csi.storage.k8s.io/pod.name"
POD_NAMESPACE: Final = "csi.storage.k8s.io/pod.namespace"
POD_UID: Final = "csi.storage.k8s.io/pod.uid"
SERVICE_ACCOUNT: Final = "csi.storage.k8s.io/serviceAccount.name"
EPHEMERAL: Final = "csi.storage.k8s.io/ephemeral"
TOKENS: Final = "csi.storage.k8s.io/serviceAccount.tokens"


@dataclasses.dataclass(frozen=True, slots=True)
class PodUse:
    """One pod's wish for one volume.

    volume_name: the volume's name in the pod. spec_name: of the Volume that it wants. claim: its claim's name, "" for an inline volume.
    read_only: as the pod says, which is not what the PersistentVolume says. fs_group, fs_group_policy: of the pod's security context.
    label: the SELinux label that it wants the volume under, "" for any.
    """

    uid: str
    namespace: str
    name: str
    volume_name: str
    claim: str = ""
    service_account: str = ""
    read_only: bool = False
    fs_group: int | None = None
    fs_group_policy: str = ""
    label: str = ""
    spec_name: str = ""

    @property
    def info(self) -> dict[str, str]:
        """The information about the pod for drivers that ask for it; `ephemeral` aside."""
        return {POD_NAME: self.name, POD_NAMESPACE: self.namespace, POD_UID: self.uid, SERVICE_ACCOUNT: self.service_account}


def capability(volume: Volume, able: Collection[int], fs_group: int | None) -> csi.VolumeCapability:
    """How the volume is used. able: the driver's node capabilities. fs_group: for drivers that set the group themselves."""
    modes = _TELLING_WRITERS_APART if MULTI_WRITER in able else _PLAIN
    mode = _Mode(mode=modes.get(volume.access_mode, _Mode.UNKNOWN))
    if volume.is_block:
        return csi.VolumeCapability(access_mode=mode, block=csi.VolumeCapability.BlockVolume())
    group = str(fs_group) if fs_group is not None and MOUNT_GROUP in able else ""
    mount = csi.VolumeCapability.MountVolume(fs_type=volume.fs_type, mount_flags=volume.mount_options, volume_mount_group=group)
    return csi.VolumeCapability(access_mode=mode, mount=mount)


def stage(
    volume: Volume, staging: Path, able: Collection[int], fs_group: int | None, context: Mapping[str, str], secrets: Mapping[str, str]
) -> csi.NodeStageVolumeRequest:
    """context: the attachment's metadata."""
    return csi.NodeStageVolumeRequest(
        volume_id=volume.handle,
        publish_context=context,
        staging_target_path=str(staging),
        volume_capability=capability(volume, able, fs_group),
        secrets=secrets,
        volume_context=volume.attributes,
    )


def expand(
    volume: Volume, path: Path, staging: Path, able: Collection[int], size_bytes: int, secrets: Mapping[str, str]
) -> csi.NodeExpandVolumeRequest:
    """path: where the volume is published."""
    return csi.NodeExpandVolumeRequest(
        volume_id=volume.handle,
        volume_path=str(path),
        staging_target_path=str(staging),
        capacity_range=csi.CapacityRange(required_bytes=size_bytes),
        volume_capability=capability(volume, able, None),
        secrets=secrets,
    )


def publish(
    volume: Volume,
    use: PodUse,
    target: Path,
    staging: Path | None,
    able: Collection[int],
    context: Mapping[str, str],
    secrets: Mapping[str, str],
    injected: Mapping[str, str],
) -> csi.NodePublishVolumeRequest:
    """staging: None for what is not staged. injected: pod information and tokens, which win over the volume's attributes."""
    return csi.NodePublishVolumeRequest(
        volume_id=volume.handle,
        publish_context=context,
        staging_target_path=str(staging) if staging is not None else "",
        target_path=str(target),
        volume_capability=capability(volume, able, use.fs_group),
        readonly=use.read_only,
        secrets=secrets,
        volume_context={**volume.attributes, **injected},
    )
