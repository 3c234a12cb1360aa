"""core/v1, as far as storage needs it."""

from __future__ import annotations

from typing import Final

from msgspec import field

from mooring.api.meta import ApiStruct, Kind, ObjectMeta


class SecretReference(ApiStruct, frozen=True):
    name: str = ""
    namespace: str = ""


class ObjectReference(ApiStruct, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class CSIPersistentVolumeSource(ApiStruct, frozen=True):
    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] | None = None
    controller_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None


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


class PersistentVolumeSpec(ApiStruct, frozen=True):
    """The parts of a PersistentVolume that attaching needs; also the shape of a VolumeAttachment's inline volume."""

    csi: CSIPersistentVolumeSource | None = None
    access_modes: tuple[str, ...] | None = None
    volume_mode: str | None = None
    mount_options: tuple[str, ...] | None = None
    claim_ref: ObjectReference | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    vsphere_volume: VsphereVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None


class PersistentVolume(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class Secret(ApiStruct, frozen=True):
    """data: base64 text per key, as on the wire."""

    metadata: ObjectMeta
    data: dict[str, str] | None = None

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, data hidden)"


class Node(ApiStruct, frozen=True):
    metadata: ObjectMeta


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
SECRETS: Final = Kind("", "v1", "Secret", "secrets", True, Secret)
NODES: Final = Kind("", "v1", "Node", "nodes", False, Node)
NAMESPACES: Final = Kind("", "v1", "Namespace", "namespaces", False, Namespace)
EVENTS: Final = Kind("", "v1", "Event", "events", True, Event)
