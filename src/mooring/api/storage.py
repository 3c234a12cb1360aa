"""storage.k8s.io/v1, as far as provisioning, binding and attaching need it."""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import field

from mooring.api.core import PersistentVolumeSpec
from mooring.api.meta import ApiStruct, Kind, LabelSelector, ObjectMeta


class VolumeAttachmentSource(ApiStruct, frozen=True):
    is_unique: ClassVar[bool] = True

    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True):
    is_unique: ClassVar[bool] = True

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


class VolumeNodeResources(ApiStruct, frozen=True):
    """count: volumes that the node can hold at once, None for no limit."""

    count: int | None = None


class CSINodeDriver(ApiStruct, frozen=True):
    name: str = ""
    node_id: str = field(name="nodeID", default="")
    topology_keys: tuple[str, ...] | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(ApiStruct, frozen=True):
    drivers: tuple[CSINodeDriver, ...] | None = None


class CSINode(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: CSINodeSpec = CSINodeSpec()


class TokenRequest(ApiStruct, frozen=True):
    """expiration_seconds: None is the API server's default, an hour."""

    audience: str = ""
    expiration_seconds: int | None = None


class CSIDriverSpec(ApiStruct, frozen=True):
    """The spec of a CSIDriver. None stands for the API server's default."""

    attach_required: bool | None = None
    pod_info_on_mount: bool | None = None
    storage_capacity: bool | None = None
    fs_group_policy: str | None = None
    volume_lifecycle_modes: tuple[str, ...] | None = None
    token_requests: tuple[TokenRequest, ...] | None = None
    service_account_token_in_secrets: bool | None = None
    requires_republish: bool | None = None
    se_linux_mount: bool | None = field(name="seLinuxMount", default=None)
    node_allocatable_update_period_seconds: int | None = None


class CSIDriver(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: CSIDriverSpec = CSIDriverSpec()


LOG_PLACE: Final = "mooring.dev/log-place"
"""Annotation of a CSIDriver whose driver and controllers are no pods, as in `mooring dev`: where people find their
log.
"""


class TopologySelectorLabelRequirement(ApiStruct, frozen=True):
    key: str = ""
    values: tuple[str, ...] | None = None


class TopologySelectorTerm(ApiStruct, frozen=True):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] | None = None


class StorageClass(ApiStruct, frozen=True):
    metadata: ObjectMeta
    provisioner: str = ""
    parameters: dict[str, str] | None = None
    reclaim_policy: str | None = None
    mount_options: tuple[str, ...] | None = None
    allow_volume_expansion: bool | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] | None = None


class VolumeAttributesClass(ApiStruct, frozen=True):
    metadata: ObjectMeta
    driver_name: str = ""
    parameters: dict[str, str] | None = None


class CSIStorageCapacity(ApiStruct, frozen=True):
    """node_topology: None for no node, empty for all. capacity, maximum_volume_size: quantities as text."""

    metadata: ObjectMeta
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | None = None
    maximum_volume_size: str | None = None


VOLUME_ATTACHMENTS: Final = Kind(
    "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, VolumeAttachment
)
CSI_NODES: Final = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False, CSINode)
CSI_DRIVERS: Final = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False, CSIDriver)
STORAGE_CLASSES: Final = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, StorageClass)
VOLUME_ATTRIBUTES_CLASSES: Final = Kind(
    "storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", False, VolumeAttributesClass
)
CSI_STORAGE_CAPACITIES: Final = Kind(
    "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True, CSIStorageCapacity
)
