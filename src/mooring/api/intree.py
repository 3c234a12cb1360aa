"""Volume sources of core/v1 that were drivers inside Kubernetes once; CSI drivers serve them now (`api/migration.py`)."""

from __future__ import annotations

from msgspec import field

from mooring.api.meta import ApiStruct


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
