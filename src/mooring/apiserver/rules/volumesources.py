"""The sources of a PersistentVolume: their shapes, and which of them may stand together."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any, Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

MESSAGES: Final = META_MESSAGES.extended("""
PersistentVolumeSource: 1 gcePersistentDisk GCEPersistentDiskVolumeSource?, 2 awsElasticBlockStore AWSElasticBlockStoreVolumeSource?, 3 hostPath HostPathVolumeSource?, 4 glusterfs GlusterfsPersistentVolumeSource?, 5 nfs NFSVolumeSource?, 6 rbd RBDPersistentVolumeSource?, 7 iscsi ISCSIPersistentVolumeSource?, 8 cinder CinderPersistentVolumeSource?, 9 cephfs CephFSPersistentVolumeSource?, 10 fc FCVolumeSource?, 11 flocker FlockerVolumeSource?, 12 flexVolume FlexPersistentVolumeSource?, 13 azureFile AzureFilePersistentVolumeSource?, 14 vsphereVolume VsphereVirtualDiskVolumeSource?, 15 quobyte QuobyteVolumeSource?, 16 azureDisk AzureDiskVolumeSource?, 17 photonPersistentDisk PhotonPersistentDiskVolumeSource?, 18 portworxVolume PortworxVolumeSource?, 19 scaleIO ScaleIOPersistentVolumeSource?, 20 local LocalVolumeSource?, 21 storageos StorageOSPersistentVolumeSource?, 22 csi CSIPersistentVolumeSource?
SecretReference=: 1 name s, 2 namespace s
ObjectReference=: 1 kind s, 2 namespace s, 3 name s, 4 uid s, 5 apiVersion s, 6 resourceVersion s, 7 fieldPath s
GCEPersistentDiskVolumeSource: 1 pdName s!, 2 fsType s, 3 partition i32, 4 readOnly b
AWSElasticBlockStoreVolumeSource: 1 volumeID s!, 2 fsType s, 3 partition i32, 4 readOnly b
HostPathVolumeSource: 1 path s!, 2 type s?
GlusterfsPersistentVolumeSource: 1 endpoints s!, 2 path s!, 3 readOnly b, 4 endpointsNamespace s?
NFSVolumeSource: 1 server s!, 2 path s!, 3 readOnly b
RBDPersistentVolumeSource: 1 monitors *s!, 2 image s!, 3 fsType s, 4 pool s, 5 user s, 6 keyring s, 7 secretRef SecretReference?, 8 readOnly b
ISCSIPersistentVolumeSource: 1 targetPortal s!, 2 iqn s!, 3 lun i32!, 4 iscsiInterface s, 5 fsType s, 6 readOnly b, 7 portals *s, 8 chapAuthDiscovery b, 11 chapAuthSession b, 10 secretRef SecretReference?, 12 initiatorName s?
CinderPersistentVolumeSource: 1 volumeID s!, 2 fsType s, 3 readOnly b, 4 secretRef SecretReference?
CephFSPersistentVolumeSource: 1 monitors *s!, 2 path s, 3 user s, 4 secretFile s, 5 secretRef SecretReference?, 6 readOnly b
FCVolumeSource: 1 targetWWNs *s, 2 lun i32?, 3 fsType s, 4 readOnly b, 5 wwids *s
FlockerVolumeSource: 1 datasetName s, 2 datasetUUID s
FlexPersistentVolumeSource: 1 driver s!, 2 fsType s, 3 secretRef SecretReference?, 4 readOnly b, 5 options {s}
AzureFilePersistentVolumeSource: 1 secretName s!, 2 shareName s!, 3 readOnly b, 4 secretNamespace s!?
VsphereVirtualDiskVolumeSource: 1 volumePath s!, 2 fsType s, 3 storagePolicyName s, 4 storagePolicyID s
QuobyteVolumeSource: 1 registry s!, 2 volume s!, 3 readOnly b, 4 user s, 5 group s, 6 tenant s
AzureDiskVolumeSource: 1 diskName s!, 2 diskURI s!, 3 cachingMode s?, 4 fsType s?, 5 readOnly b?, 6 kind s?
PhotonPersistentDiskVolumeSource: 1 pdID s!, 2 fsType s
PortworxVolumeSource: 1 volumeID s!, 2 fsType s, 3 readOnly b
ScaleIOPersistentVolumeSource: 1 gateway s!, 2 system s!, 3 secretRef SecretReference!?+, 4 sslEnabled b, 5 protectionDomain s, 6 storagePool s, 7 storageMode s, 8 volumeName s, 9 fsType s, 10 readOnly b
LocalVolumeSource: 1 path s!, 2 fsType s?
StorageOSPersistentVolumeSource: 1 volumeName s, 2 volumeNamespace s, 3 fsType s, 4 readOnly b, 5 secretRef ObjectReference?
CSIPersistentVolumeSource: 1 driver s!, 2 volumeHandle s!, 3 readOnly b, 4 fsType s, 5 volumeAttributes {s}, 6 controllerPublishSecretRef SecretReference?, 7 nodeStageSecretRef SecretReference?, 8 nodePublishSecretRef SecretReference?, 9 controllerExpandSecretRef SecretReference?, 10 nodeExpandSecretRef SecretReference?
""")  # noqa: E501

SOURCES: Final = tuple(MESSAGES["PersistentVolumeSource"].fields)
"""The members of a PersistentVolume's spec of which it has exactly one; csi is the last."""

_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_DEPRECATED: Final = {
    "photonPersistentDisk": ("photonPersistentDisk", "v1.11, non-functional in v1.16+"),
    "scaleIO": ("scaleIO", "v1.16, non-functional in v1.22+"),
    "storageos": ("storageOS", "v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "v1.25, non-functional in v1.26+"),
    "cephfs": ("cephfs", "v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "v1.28, non-functional in v1.31+"),
}
_CHECKED_SECRETS: Final = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
ALSO_CALLED: Final = {"cephfs": "cephFS"}
_ORDER: Final = (
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
)
"""The order of the real one's rules: if there are two sources, the later one is the wrong one."""
assert sorted(_ORDER) == sorted(SOURCES)
_ONE_ONLY: Final = "may not specify more than 1 volume type"


def default(spec: Json) -> None:
    """Fills in what a source leaves out."""
    for source, defaults in _DEFAULTS.items():
        if source in spec:
            spec[source] = {**defaults, **spec[source]}


def warnings(spec: Json, field: str) -> list[str]:
    """Warnings about sources that no longer work."""
    return [f"{field}.{name}: deprecated in {since}" for source, (name, since) in _DEPRECATED.items() if source in spec]


def chosen(spec: Json) -> Json:
    """The sources that are set, with their contents."""
    return {source: spec[source] for source in SOURCES if source in spec}


def validate(spec: Json, field: str) -> Iterator[FieldCause]:
    """Exactly one source, and a valid one. It checks only the required names of sources that drivers have replaced."""
    given = [source for source in _ORDER if source in spec]
    if not given:
        yield field_errors.required(field, "must specify a volume type")
        return
    yield from (field_errors.forbidden(f"{field}.{ALSO_CALLED.get(source, source)}", _ONE_ONLY) for source in given[1:])
    if given == ["csi"]:
        yield from _validate_csi(spec["csi"], f"{field}.csi")
    else:
        yield from _validate_old(given[0], spec[given[0]], f"{field}.{given[0]}")


def validate_paths(spec: Json, field: str) -> Iterator[FieldCause]:
    """Checks a PersistentVolume's spec: a local volume names its node, and the root of a machine is not recycled."""
    if "local" in spec and "nodeAffinity" not in spec and next(iter(chosen(spec))) == "local":
        yield field_errors.required(f"{field}.nodeAffinity", "Local volume requires node affinity")
    if (
        _clean(spec.get("hostPath", {}).get("path", "")) == "/"
        and spec.get("persistentVolumeReclaimPolicy") == "Recycle"
    ):
        yield field_errors.forbidden(
            f"{field}.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'"
        )


def _clean(path: str) -> str:
    """The shortest spelling of an absolute path."""
    return posixpath.normpath(f"/{path.lstrip('/')}") if path.startswith("/") else path


def _validate_csi(csi: Json, field: str) -> Iterator[FieldCause]:
    yield from checks.driver_name(csi["driver"], f"{field}.driver")
    if not csi["volumeHandle"]:
        yield field_errors.required(f"{field}.volumeHandle")
    for secret in _CHECKED_SECRETS:
        if secret in csi:
            yield from _validate_secret(csi[secret], f"{field}.{secret}")


def _validate_secret(reference: Json, field: str) -> Iterator[FieldCause]:
    for part, rule in (("name", names.dns_subdomain), ("namespace", names.dns_label)):
        yield from field_errors.required_name(reference.get(part, ""), f"{field}.{part}", rule)


def _validate_old(source: str, content: Json, field: str) -> Iterator[FieldCause]:
    shape = MESSAGES[MESSAGES["PersistentVolumeSource"].fields[source].type]
    required = [f for f in shape.fields.values() if f.always and not f.pointer and f.type == "s"]
    yield from (field_errors.required(f"{field}.{f.name}") for f in required if not content[f.name])
    if source in ("hostPath", "local") and ".." in content["path"].split("/"):
        yield field_errors.invalid(f"{field}.path", content["path"], "must not contain '..'")
    if source == "hostPath" and content["path"]:
        yield from checks.one_of(content["type"], f"{field}.type", HOST_PATH_TYPES)
    if source == "nfs" and not content["path"].startswith("/"):
        yield field_errors.invalid(f"{field}.path", content["path"], "must be an absolute path")
