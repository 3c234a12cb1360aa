"""StorageClasses of in-tree plugins as the CSI drivers that took over understand them: what csi-translation-lib makes
of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from mooring.api.migration import PORTWORX_SECRET_NAME, PORTWORX_SECRET_NAMESPACE, ZONE_LABELS, TranslationError
from mooring.api.storage import StorageClass, TopologySelectorLabelRequirement, TopologySelectorTerm

CSI: Final = "csi.storage.k8s.io/"
GCE_ZONE: Final = "topology.gke.io/zone"
AWS_ZONE: Final = "topology.ebs.csi.aws.com/zone"
AZURE_ZONE: Final = "topology.disk.csi.azure.com/zone"
CINDER_ZONE: Final = "topology.cinder.csi.openstack.org/zone"
VSPHERE_ZONE: Final = "topology.csi.vmware.com/zone"

_UNZONED: Final = re.compile(r"[0-9]+")
_VSPHERE_KEYS: Final = {
    name: f"{name}-migrationparam"
    for name in (
        "datastore",
        "diskformat",
        "hostfailurestotolerate",
        "forceprovisioning",
        "cachereservation",
        "diskstripes",
        "objectspacereservation",
        "iopslimit",
    )
}
_PORTWORX_KINDS: Final = (
    "provisioner",
    "controller-publish",
    "node-publish",
    "node-stage",
    "controller-expand",
    "node-expand",
)

Parameters: TypeAlias = dict[str, str]


def class_as_csi(storage_class: StorageClass) -> StorageClass:
    """The class with its CSI driver's parameters and topology; its provisioner stays as it is. Raises
    TranslationError.
    """
    found = _TRANSLATIONS.get(storage_class.provisioner)
    if found is None:
        raise TranslationError(f'could not find in-tree plugin name "{storage_class.provisioner}"')
    return found(storage_class)


def _zoned(zone_key: str, change: Callable[[str, str, Parameters], None]) -> Callable[[StorageClass], StorageClass]:
    """The translation for plugins whose classes name zones as parameters. change: puts another one among the new."""

    def translate(storage_class: StorageClass) -> StorageClass:
        kept: Parameters = {}
        zones: list[str] = []
        for key, value in (storage_class.parameters or {}).items():
            match key.lower():
                case "zone":
                    zones = [value]
                case "zones":
                    zones = value.split(",")
                case _:
                    change(key, value, kept)
        if zones and storage_class.allowed_topologies:
            raise TranslationError("cannot simultaneously set allowed topologies and zone/zones parameters")
        topologies = _zones(zone_key, zones) if zones else _renamed(storage_class, zone_key)
        return msgspec.structs.replace(storage_class, parameters=kept, allowed_topologies=topologies)

    return translate


def _zones(key: str, zones: list[str]) -> tuple[TopologySelectorTerm, ...]:
    return (TopologySelectorTerm((TopologySelectorLabelRequirement(key, tuple(zones)),)),)


def _renamed(storage_class: StorageClass, key: str) -> tuple[TopologySelectorTerm, ...] | None:
    """The class's topologies with Kubernetes' keys of zones replaced by the driver's."""
    if not storage_class.allowed_topologies:
        return storage_class.allowed_topologies
    return tuple(
        TopologySelectorTerm(
            tuple(
                msgspec.structs.replace(one, key=key) if one.key in ZONE_LABELS else one
                for one in term.match_label_expressions or ()
            )
        )
        for term in storage_class.allowed_topologies
    )


def _gce(key: str, value: str, kept: Parameters) -> None:
    kept[f"{CSI}fstype" if key.lower() == "fstype" else key] = value


def _aws(key: str, value: str, kept: Parameters) -> None:
    _gce(key, value, kept)
    if key.lower() == "iopspergb":
        kept["allowautoiopspergbincrease"] = "true"


def _azure(key: str, value: str, kept: Parameters) -> None:
    kept[key] = value


def _azure_disk(storage_class: StorageClass) -> StorageClass:
    """In regions without zones the in-tree plugin's zones are numbers; the driver's are empty."""
    translated = _zoned(AZURE_ZONE, _azure)(storage_class)

    def unzoned(one: TopologySelectorLabelRequirement) -> TopologySelectorLabelRequirement:
        if one.key != AZURE_ZONE:
            return one
        return msgspec.structs.replace(
            one, values=tuple("" if _UNZONED.fullmatch(value) else value for value in one.values or ())
        )

    if translated.allowed_topologies is None:
        return translated
    terms = tuple(
        TopologySelectorTerm(tuple(map(unzoned, term.match_label_expressions or ())))
        for term in translated.allowed_topologies
    )
    return msgspec.structs.replace(translated, allowed_topologies=terms)


def _cinder(storage_class: StorageClass) -> StorageClass:
    kept: Parameters = {}
    for key, value in (storage_class.parameters or {}).items():
        _gce(key, value, kept)
    return msgspec.structs.replace(
        storage_class, parameters=kept, allowed_topologies=_renamed(storage_class, CINDER_ZONE)
    )


def _vsphere(storage_class: StorageClass) -> StorageClass:
    """Parameters that the driver does not know are left out."""
    kept: Parameters = {}
    for key, value in (storage_class.parameters or {}).items():
        name = key.lower()
        if name == "fstype":
            kept[f"{CSI}fstype"] = value
        elif name == "storagepolicyname":
            kept[name] = value
        elif name in _VSPHERE_KEYS:
            kept[_VSPHERE_KEYS[name]] = value
    kept["csimigration"] = "true"
    return msgspec.structs.replace(
        storage_class, parameters=kept, allowed_topologies=_renamed(storage_class, VSPHERE_ZONE)
    )


def _portworx(storage_class: StorageClass) -> StorageClass:
    """The one whose class is the CSI driver's from then on."""
    kept: Parameters = {}
    for key, value in (storage_class.parameters or {}).items():
        match key.lower():
            case str(name) if name == PORTWORX_SECRET_NAME:
                kept |= {f"{CSI}{kind}-secret-name": value for kind in _PORTWORX_KINDS}
            case str(name) if name == PORTWORX_SECRET_NAMESPACE:
                kept |= {f"{CSI}{kind}-secret-namespace": value for kind in _PORTWORX_KINDS}
            case _:
                kept[key] = value
    return msgspec.structs.replace(
        storage_class, parameters=kept or storage_class.parameters, provisioner="pxd.portworx.com"
    )


_TRANSLATIONS: Final[Mapping[str, Callable[[StorageClass], StorageClass]]] = {
    "kubernetes.io/gce-pd": _zoned(GCE_ZONE, _gce),
    "kubernetes.io/aws-ebs": _zoned(AWS_ZONE, _aws),
    "kubernetes.io/azure-disk": _azure_disk,
    "kubernetes.io/azure-file": lambda storage_class: storage_class,
    "kubernetes.io/cinder": _cinder,
    "kubernetes.io/vsphere-volume": _vsphere,
    "kubernetes.io/portworx-volume": _portworx,
}
