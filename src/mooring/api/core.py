"""core/v1, as far as storage needs it: volumes, claims, nodes, secrets, events. Pods have a file of their own."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from msgspec import field

from mooring.api.meta import ApiStruct, Condition, Kind, LabelSelector, Object, ObjectMeta


class GCEPersistentDiskVolumeSource(ApiStruct, frozen=True):
    pd_name: str = ""
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(ApiStruct, frozen=True):
    volume_id: str = field(name="volumeID", default="")
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class CinderVolumeSource(ApiStruct, frozen=True):
    volume_id: str = field(name="volumeID", default="")
    fs_type: str = ""
    read_only: bool = False


class AzureDiskVolumeSource(ApiStruct, frozen=True):
    disk_name: str = ""
    disk_uri: str = field(name="diskURI", default="")
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class AzureFileVolumeSource(ApiStruct, frozen=True):
    secret_name: str = ""
    secret_namespace: str | None = None
    share_name: str = ""
    read_only: bool = False


class VsphereVolumeSource(ApiStruct, frozen=True):
    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = field(name="storagePolicyID", default="")


class PortworxVolumeSource(ApiStruct, frozen=True):
    volume_id: str = field(name="volumeID", default="")
    fs_type: str = ""
    read_only: bool = False


class ForeignSource(ApiStruct, frozen=True):
    """A source that only a kubelet's own code can mount; no more is needed than that it is there."""


class ISCSIVolumeSource(ForeignSource, frozen=True):
    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool = False


class FCVolumeSource(ForeignSource, frozen=True):
    target_wwns: tuple[str, ...] | None = field(name="targetWWNs", default=None)
    lun: int | None = None
    wwids: tuple[str, ...] | None = None


class FlexVolumeSource(ForeignSource, frozen=True):
    driver: str = ""


class SecretReference(ApiStruct, frozen=True):
    name: str = ""
    namespace: str = ""


class ObjectReference(ApiStruct, frozen=True):
    is_unique: ClassVar[bool] = True

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


def reference_to(obj: Object, kind: Kind[Any] | str) -> ObjectReference:
    """The reference to an object, for events and claimRefs. kind: or the name of a kind of the core group."""
    meta = obj.metadata
    version, kind = ("v1", kind) if isinstance(kind, str) else (kind.api_version, kind.name)
    return ObjectReference(version, kind, meta.namespace, meta.name, meta.uid, meta.resource_version)


# -- places


class NodeSelectorRequirement(ApiStruct, frozen=True):
    """operator: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeSelectorTerm(ApiStruct, frozen=True):
    """A term all of whose requirements must hold; an empty one matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] | None = None
    match_fields: tuple[NodeSelectorRequirement, ...] | None = None


class NodeSelector(ApiStruct, frozen=True):
    """One of the terms must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class VolumeNodeAffinity(ApiStruct, frozen=True):
    required: NodeSelector | None = None


# -- PersistentVolumes


class CSIPersistentVolumeSource(ApiStruct, frozen=True):
    is_unique: ClassVar[bool] = True

    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] | None = None
    controller_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


class PersistentVolumeSpec(ApiStruct, frozen=True):
    """The spec of a PersistentVolume, and of a VolumeAttachment's inline volume. capacity: quantities as text."""

    is_unique: ClassVar[bool] = True

    capacity: dict[str, str] | None = None
    csi: CSIPersistentVolumeSource | None = None
    access_modes: tuple[str, ...] | None = None
    volume_mode: str | None = None
    mount_options: tuple[str, ...] | None = None
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    vsphere_volume: VsphereVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None


class PersistentVolumeStatus(ApiStruct, frozen=True):
    phase: str = ""
    message: str = ""
    reason: str = ""


class PersistentVolume(ApiStruct, frozen=True):
    referred_to_by: ClassVar[frozenset[str]] = frozenset({"name"})

    metadata: ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


# -- PersistentVolumeClaims


class TypedLocalObjectReference(ApiStruct, frozen=True):
    api_group: str | None = None
    kind: str = ""
    name: str = ""


class TypedObjectReference(ApiStruct, frozen=True):
    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class VolumeResourceRequirements(ApiStruct, frozen=True):
    """Quantities as text."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    """storage_class_name: None for the default class, "" for none."""

    is_unique: ClassVar[bool] = True

    access_modes: tuple[str, ...] | None = None
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None


class ModifyVolumeStatus(ApiStruct, frozen=True):
    target_volume_attributes_class_name: str = ""
    status: str = ""


class PersistentVolumeClaimStatus(ApiStruct, frozen=True):
    phase: str = ""
    access_modes: tuple[str, ...] | None = None
    capacity: dict[str, str] | None = None
    conditions: tuple[Condition, ...] | None = None
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None
    allocated_resources: dict[str, str] | None = None
    allocated_resource_statuses: dict[str, str] | None = None


class PersistentVolumeClaim(ApiStruct, frozen=True):
    referred_to_by: ClassVar[frozenset[str]] = frozenset({"name", "uid"})

    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


# -- and others


class Secret(ApiStruct, frozen=True):
    """data: base64 text per key, as on the wire."""

    metadata: ObjectMeta
    data: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, data hidden)"


class Taint(ApiStruct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(ApiStruct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class AttachedVolume(ApiStruct, frozen=True):
    is_unique: ClassVar[bool] = True

    name: str = ""
    device_path: str = ""


class NodeCondition(Condition, frozen=True):
    last_heartbeat_time: str | None = None


class NodeStatus(ApiStruct, frozen=True):
    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    conditions: tuple[NodeCondition, ...] | None = None
    volumes_attached: tuple[AttachedVolume, ...] | None = None
    volumes_in_use: tuple[str, ...] | None = None


class Node(ApiStruct, frozen=True):
    referred_to_by: ClassVar[frozenset[str]] = frozenset({"name"})

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(ApiStruct, frozen=True):
    metadata: ObjectMeta


class Event(ApiStruct, frozen=True):
    metadata: ObjectMeta
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0


PERSISTENT_VOLUMES: Final = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, PersistentVolume)
PERSISTENT_VOLUME_CLAIMS: Final = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, PersistentVolumeClaim
)


class TokenStatus(ApiStruct, frozen=True):
    """expiration_timestamp: RFC 3339."""

    token: str = ""
    expiration_timestamp: str = ""

    def __repr__(self) -> str:
        return f"TokenStatus(hidden, until {self.expiration_timestamp})"


class TokenRequestObject(ApiStruct, frozen=True):
    """authentication.k8s.io/v1 TokenRequest, which the sub-resource `token` of a ServiceAccount answers."""

    metadata: ObjectMeta
    status: TokenStatus = TokenStatus()


SERVICE_ACCOUNT_TOKENS: Final = Kind("", "v1", "TokenRequest", "serviceaccounts", True, TokenRequestObject)
SECRETS: Final = Kind("", "v1", "Secret", "secrets", True, Secret)
NODES: Final = Kind("", "v1", "Node", "nodes", False, Node)
NAMESPACES: Final = Kind("", "v1", "Namespace", "namespaces", False, Namespace)
EVENTS: Final = Kind("", "v1", "Event", "events", True, Event)
