"""In-tree volumes as their CSI drivers see them: what Kubernetes' library csi-translation-lib does.

Translation happens on a copy in memory; nothing is written back. Only what attaching needs is translated: handle,
attributes, access modes, file system, read-only, the node-stage secret.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from mooring.api.core import CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec, SecretReference
from mooring.api.meta import ApiStruct, annotation
from mooring.base.errors import MooringError

UNSPECIFIED: Final = "UNSPECIFIED"
LEAVES_GAPS: Final = frozenset({"pd.csi.storage.gke.io"})
"""Drivers whose translated handles may have UNSPECIFIED parts."""
ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
AZURE_RESOURCE_GROUP: Final = "kubernetes.io/azure-file-resource-group"
_AZURE_SECRET_NAME: Final = re.compile("azure-storage-account-(.+)-secret")
PORTWORX_SECRET_NAME: Final = "openstorage.io/auth-secret-name"
PORTWORX_SECRET_NAMESPACE: Final = "openstorage.io/auth-secret-namespace"
MIGRATED_TO: Final = "pv.kubernetes.io/migrated-to"


_IN_TREE_NAMES: Final[Mapping[str, str]] = {
    "cinder.csi.openstack.org": "kubernetes.io/cinder",
    "csi.vsphere.vmware.com": "kubernetes.io/vsphere-volume",
    "disk.csi.azure.com": "kubernetes.io/azure-disk",
    "ebs.csi.aws.com": "kubernetes.io/aws-ebs",
    "file.csi.azure.com": "kubernetes.io/azure-file",
    "pd.csi.storage.gke.io": "kubernetes.io/gce-pd",
    "pxd.portworx.com": "kubernetes.io/portworx-volume",
}


def in_tree_name(driver_name: str) -> str:
    """The plugin inside Kubernetes that the driver took over from, "" for none."""
    return _IN_TREE_NAMES.get(driver_name, "")


def driver_in_place_of(provisioner: str) -> str:
    """The driver that took over from an in-tree plugin; any other provisioner as it is."""
    return next((driver for driver, in_tree in _IN_TREE_NAMES.items() if in_tree == provisioner), provisioner)


class TranslationError(MooringError):
    """An in-tree volume says something that its CSI driver has no word for."""


def _csi(
    handle: str, attributes: dict[str, str], *, fs_type: str = "", read_only: bool = False
) -> CSIPersistentVolumeSource:
    """A CSI source without a driver name; the caller adds it from the kind of source."""
    return CSIPersistentVolumeSource(
        volume_handle=handle, fs_type=fs_type, read_only=read_only, volume_attributes=attributes or None
    )


def _zones(pv: PersistentVolume) -> tuple[str, ...]:
    labels = pv.metadata.labels or {}
    text = next((labels[name] for name in ZONE_LABELS if labels.get(name)), "")
    return tuple(text.split("__")) if text else ()


def region_of_zones(zones: tuple[str, ...]) -> str:
    """The region of zones as in us-central1-a. Raises TranslationError when they are of none, or of several."""
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(f"zone {zone!r} does not have three parts, as in us-central1-a")
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        raise TranslationError(f"zones {', '.join(zones)} are not of one region")
    return regions.pop()


def _gce(pv: PersistentVolume) -> CSIPersistentVolumeSource:
    disk = pv.spec.gce_persistent_disk
    assert disk is not None
    zones = _zones(pv)
    place = f"regions/{region_of_zones(zones)}" if len(zones) > 1 else f"zones/{zones[0] if zones else UNSPECIFIED}"
    partition = str(disk.partition) if disk.partition else ""
    source = _csi(
        f"projects/{UNSPECIFIED}/{place}/disks/{disk.pd_name}", {}, fs_type=disk.fs_type, read_only=disk.read_only
    )
    return msgspec.structs.replace(source, volume_attributes={"partition": partition})


def _aws(pv: PersistentVolume) -> CSIPersistentVolumeSource:
    disk = pv.spec.aws_elastic_block_store
    assert disk is not None
    handle = disk.volume_id
    if handle.startswith("aws://"):
        handle = handle.removeprefix("aws://").partition("/")[2].strip("/")
        if not handle.startswith("vol-") or "/" in handle:
            raise TranslationError(f"Invalid format for AWS volume ({disk.volume_id})")
    return _csi(handle, {"partition": str(disk.partition)}, fs_type=disk.fs_type, read_only=disk.read_only)


def _cinder(pv: PersistentVolume) -> CSIPersistentVolumeSource:
    disk = pv.spec.cinder
    assert disk is not None
    return _csi(disk.volume_id, {}, fs_type=disk.fs_type, read_only=disk.read_only)


def _azure_disk(pv: PersistentVolume) -> CSIPersistentVolumeSource:
    disk = pv.spec.azure_disk
    assert disk is not None
    if disk.kind is not None and disk.kind.lower() != "managed":
        raise TranslationError(f"kind({disk.kind}) is not supported in csi migration")
    attributes = {"kind": "Managed"}
    if disk.caching_mode:
        attributes["cachingmode"] = disk.caching_mode
    if disk.fs_type:
        attributes["fstype"] = disk.fs_type
    return _csi(disk.disk_uri, attributes, fs_type=disk.fs_type or "", read_only=bool(disk.read_only))


def _azure_file(pv: PersistentVolume) -> CSIPersistentVolumeSource:
    share = pv.spec.azure_file
    assert share is not None
    claim_namespace = pv.spec.claim_ref.namespace if pv.spec.claim_ref else ""
    namespace = claim_namespace if share.secret_namespace is None else share.secret_namespace
    if not namespace:
        raise TranslationError("could not find a secret namespace in PersistentVolumeSource or ClaimRef")
    account = _AZURE_SECRET_NAME.search(share.secret_name)
    group = annotation(pv, AZURE_RESOURCE_GROUP)
    handle = "#".join(
        (group, account[1] if account else share.secret_name, share.share_name, pv.metadata.name, namespace)
    )
    source = _csi(handle, {"sharename": share.share_name})
    return msgspec.structs.replace(
        source,
        read_only=share.read_only,
        node_stage_secret_ref=SecretReference(name=share.secret_name, namespace=namespace),
    )


def _vsphere(pv: PersistentVolume) -> CSIPersistentVolumeSource:
    disk = pv.spec.vsphere_volume
    assert disk is not None
    attributes = {"storagepolicyname": disk.storage_policy_name} if disk.storage_policy_name else {}
    return _csi(disk.volume_path, attributes, fs_type=disk.fs_type)


def _portworx(pv: PersistentVolume) -> CSIPersistentVolumeSource:
    disk = pv.spec.portworx_volume
    assert disk is not None
    source = _csi(disk.volume_id, {}, fs_type=disk.fs_type)
    annotations = pv.metadata.annotations or {}
    if not {PORTWORX_SECRET_NAME, PORTWORX_SECRET_NAMESPACE} <= annotations.keys():
        return source
    secret = SecretReference(name=annotations[PORTWORX_SECRET_NAME], namespace=annotations[PORTWORX_SECRET_NAMESPACE])
    return msgspec.structs.replace(
        source,
        controller_publish_secret_ref=secret,
        node_stage_secret_ref=secret,
        node_publish_secret_ref=secret,
        controller_expand_secret_ref=secret,
        node_expand_secret_ref=secret,
    )


_Translation = Callable[[PersistentVolume], CSIPersistentVolumeSource]

_TRANSLATIONS: Final[Mapping[str, tuple[str, _Translation]]] = {
    "gce_persistent_disk": ("pd.csi.storage.gke.io", _gce),
    "aws_elastic_block_store": ("ebs.csi.aws.com", _aws),
    "cinder": ("cinder.csi.openstack.org", _cinder),
    "azure_disk": ("disk.csi.azure.com", _azure_disk),
    "azure_file": ("file.csi.azure.com", _azure_file),
    "vsphere_volume": ("csi.vsphere.vmware.com", _vsphere),
    "portworx_volume": ("pxd.portworx.com", _portworx),
}
"""The driver that took over, and how it sees the volume, by the field of the in-tree source."""

IN_TREE_SOURCES: Final = tuple(_TRANSLATIONS)
"""The fields of a PersistentVolume's spec, and of a pod's volume, one of which an in-tree volume has."""


_sources_of: Final = operator.attrgetter(*IN_TREE_SOURCES)
_NO_SOURCES: Final = (None,) * len(IN_TREE_SOURCES)


def in_tree_source(source: ApiStruct) -> str:
    """The field of the in-tree source, "" when there is none. source: a PersistentVolume's spec, or a pod's volume."""
    if _sources_of(source) == _NO_SOURCES:  # as almost always: a pod may have thousands of volumes
        return ""
    for field in IN_TREE_SOURCES:
        if getattr(source, field) is not None:
            return field
    raise AssertionError("one of them is there")


def csi_driver_of(source: ApiStruct) -> str:
    """The driver that took over the volume's in-tree source, "" when it has none."""
    field = in_tree_source(source)
    return _TRANSLATIONS[field][0] if field else ""


def is_migratable(source: ApiStruct) -> bool:
    """True when the volume has an in-tree source that a CSI driver took over."""
    return in_tree_source(source) != ""


def csi_source(pv: PersistentVolume, field: str) -> CSIPersistentVolumeSource:
    """The csi source in place of the in-tree one. field: of that. Raises TranslationError."""
    driver, translate = _TRANSLATIONS[field]
    return msgspec.structs.replace(translate(pv), driver=driver)


def source_as_csi(pv: PersistentVolume) -> CSIPersistentVolumeSource | None:
    """The volume as its CSI driver sees it; None where it has no CSI driver, and where it can't be translated."""
    field = in_tree_source(pv.spec)
    try:
        return csi_source(pv, field) if field else pv.spec.csi
    except TranslationError:
        return None


def driver_and_handle(pv: PersistentVolume) -> tuple[str, str]:
    """The CSI driver, and its name for the volume. Both are "" where `source_as_csi` finds none."""
    source = source_as_csi(pv)
    return (source.driver, source.volume_handle) if source is not None else ("", "")


def driver_of(pv: PersistentVolume) -> str:
    """The CSI driver of the volume, also where the volume can't be translated; "" for none."""
    return pv.spec.csi.driver if pv.spec.csi is not None else csi_driver_of(pv.spec)


def translated(pv: PersistentVolume) -> PersistentVolumeSpec:
    """The volume's spec with a csi source in place of the in-tree one. Raises TranslationError."""
    field = in_tree_source(pv.spec)
    csi = csi_source(pv, field)
    modes = _gce_access_modes(pv.spec.access_modes) if field == "gce_persistent_disk" else pv.spec.access_modes
    return msgspec.structs.replace(pv.spec, csi=csi, access_modes=modes, **{field: None})


def _gce_access_modes(modes: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """A persistent disk knows one writer or many readers: everything but read-only-many becomes ReadWriteOnce."""
    if modes is None or set(modes) == {"ReadOnlyMany"}:
        return modes
    return ("ReadWriteOnce",)


def repaired_handle(driver_name: str, handle: str, node_id: str) -> str:
    """A translated handle with what is UNSPECIFIED in it filled in from the node id, as the backend reports it.

    Only pd.csi.storage.gke.io leaves gaps: `projects/P/zones/Z/disks/D`, node `projects/P/zones/Z/instances/I`; and
    only a handle whose project is unspecified is one of ours. Raises TranslationError when either has fewer than six
    parts.
    """
    if driver_name != "pd.csi.storage.gke.io":
        return handle
    parts, node = handle.split("/"), node_id.split("/")
    if len(parts) < 6:
        raise TranslationError(f"volume handle {handle!r} has fewer than six parts")
    if parts[1] != UNSPECIFIED:
        return handle
    if len(node) < 6:
        raise TranslationError(f"node id {node_id!r} has fewer than six parts")
    place = parts[3]
    if place == UNSPECIFIED:
        place = node[3] if parts[2] == "zones" else region_of_zones((node[3],))
    return "/".join(("projects", node[1], parts[2], place, "disks", parts[5]))
