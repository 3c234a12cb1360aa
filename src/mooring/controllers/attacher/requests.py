"""CSI requests from API objects, field by field as external-attacher 4.12 fills them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from mooring.api.core import PersistentVolumeSpec, SecretReference
from mooring.base.errors import MooringError
from mooring.csi.proto import csi_pb2 as csi

_Mode = csi.VolumeCapability.AccessMode

RWO, ROX, RWX, RWOP = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"
_RWOP_MIXED: Final = "Kubernetes does not support use of ReadWriteOncePod with other access modes on the same PersistentVolume"
_ROX_AND_RWO: Final = "CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume"


class RequestError(MooringError):
    """The objects can't be expressed as a CSI request. The text is shown to users as it is."""


def access_mode(modes: Iterable[str] | None, single_node_multi_writer: bool) -> int:
    """The CSI access mode of a set of Kubernetes' ones; first match wins. Raises RequestError.

    single_node_multi_writer: the driver has that capability and so tells one writer from several on one node.
    """
    listed = list(modes or ())
    wanted = set(listed)
    if RWOP in wanted:
        if len(wanted) > 1:
            raise RequestError(_RWOP_MIXED)
        return _Mode.SINGLE_NODE_SINGLE_WRITER if single_node_multi_writer else _Mode.SINGLE_NODE_WRITER
    if RWX in wanted:
        return _Mode.MULTI_NODE_MULTI_WRITER
    if {ROX, RWO} <= wanted:
        raise RequestError(_ROX_AND_RWO)
    if ROX in wanted:
        return _Mode.MULTI_NODE_READER_ONLY
    if RWO in wanted:
        return _Mode.SINGLE_NODE_MULTI_WRITER if single_node_multi_writer else _Mode.SINGLE_NODE_WRITER
    raise RequestError(f"unsupported AccessMode combination: [{' '.join(listed)}]")


def is_single_node(modes: Iterable[str] | None) -> bool:
    """True when the volume may be published on one node only."""
    return not {RWX, ROX} & set(modes or ())


def capability(spec: PersistentVolumeSpec, single_node_multi_writer: bool, default_fs_type: str) -> csi.VolumeCapability:
    """The use of the volume: mode, and block or mount. Raises RequestError."""
    assert spec.csi is not None
    mode = _Mode(mode=access_mode(spec.access_modes, single_node_multi_writer))  # type: ignore[arg-type]
    if spec.volume_mode == "Block":
        return csi.VolumeCapability(access_mode=mode, block=csi.VolumeCapability.BlockVolume())
    mount = csi.VolumeCapability.MountVolume(fs_type=spec.csi.fs_type or default_fs_type, mount_flags=spec.mount_options or ())
    return csi.VolumeCapability(access_mode=mode, mount=mount)


@dataclasses.dataclass(frozen=True, slots=True)
class PublishOrder:
    """A publish, complete but for the values of its secret. migrated: the volume is an in-tree one."""

    handle: str
    node_id: str
    capability: csi.VolumeCapability
    read_only: bool
    context: Mapping[str, str]
    secret: SecretReference | None = None
    migrated: bool = False

    @property
    def undone(self) -> UnpublishOrder:
        """The order that undoes it."""
        return UnpublishOrder(self.handle, self.node_id, self.secret, self.migrated)

    def request(self, secrets: Mapping[str, str]) -> csi.ControllerPublishVolumeRequest:
        return csi.ControllerPublishVolumeRequest(
            volume_id=self.handle,
            node_id=self.node_id,
            volume_capability=self.capability,
            readonly=self.read_only,
            volume_context=self.context,
            secrets=secrets,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class UnpublishOrder:
    """An unpublish, complete but for the values of its secret."""

    handle: str
    node_id: str
    secret: SecretReference | None = None
    migrated: bool = False

    def __post_init__(self) -> None:
        assert self.node_id, "an empty node id would unpublish the volume everywhere"

    def request(self, secrets: Mapping[str, str]) -> csi.ControllerUnpublishVolumeRequest:
        return csi.ControllerUnpublishVolumeRequest(volume_id=self.handle, node_id=self.node_id, secrets=secrets)
