"""storage.k8s.io/v1, as far as attaching needs it."""

from __future__ import annotations

from typing import Final

from msgspec import field

from mooring.api.core import PersistentVolumeSpec
from mooring.api.meta import ApiStruct, Kind, ObjectMeta


class VolumeAttachmentSource(ApiStruct, frozen=True):
    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeError(ApiStruct, frozen=True):
    """time: RFC 3339; error_code: a gRPC code."""

    time: str | None = None
    message: str = ""
    error_code: int | None = None


class VolumeAttachmentStatus(ApiStruct, frozen=True):
    attached: bool = False
    attachment_metadata: dict[str, str] | None = None
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


class CSINodeDriver(ApiStruct, frozen=True):
    name: str = ""
    node_id: str = field(name="nodeID", default="")
    topology_keys: tuple[str, ...] | None = None


class CSINodeSpec(ApiStruct, frozen=True):
    drivers: tuple[CSINodeDriver, ...] | None = None


class CSINode(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(ApiStruct, frozen=True):
    attach_required: bool | None = None


class CSIDriver(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: CSIDriverSpec = CSIDriverSpec()


VOLUME_ATTACHMENTS: Final = Kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, VolumeAttachment)
CSI_NODES: Final = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False, CSINode)
CSI_DRIVERS: Final = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False, CSIDriver)
