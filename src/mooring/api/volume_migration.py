"""A CSI volume as the in-tree volume it stands for: the way back, for volumes made for a class of an in-tree plugin.

Works on the JSON of a PersistentVolume that is about to be created, as csi-translation-lib does on its structs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from mooring.api.class_migration import AWS_ZONE, CINDER_ZONE, GCE_ZONE, VSPHERE_ZONE
from mooring.api.migration import AZURE_RESOURCE_GROUP, TranslationError, region_of_zones

Json: TypeAlias = dict[str, Any]

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
_VSPHERE_REGION: Final = "topology.csi.vmware.com/region"
_MANAGED_DISK: Final = re.compile(
    r".*/subscriptions/(?:.*)/resourceGroups/(?:.*)/providers/Microsoft.Compute/disks/(.+)"
)
_BLOB_DISK: Final = re.compile(r"http(?:.*)://(?:.*)/vhds/(.+)")
_URI_LENGTH_MAX: Final = 1024
"""The patterns' time grows with the fourth power of this length. CSI advises 128 bytes."""


def as_in_tree(volume: Json) -> Json:
    """The PersistentVolume with an in-tree source in place of its csi one. Raises TranslationError."""
    driver = volume["spec"]["csi"]["driver"]
    found = _TRANSLATIONS.get(driver)
    if found is None:
        raise TranslationError(f'could not find CSI driver name "{driver}"')
    spec = {key: value for key, value in volume["spec"].items() if key != "csi"}
    changed: Json = {**volume, "metadata": dict(volume["metadata"]), "spec": spec}
    field, source = found(changed, volume["spec"]["csi"])
    spec[field] = {key: value for key, value in source.items() if value is not None}
    return changed


def _gce(volume: Json, csi: Json) -> tuple[str, Json]:
    parts = csi["volumeHandle"].split("/")
    if len(parts) < 6:
        raise TranslationError(f"failed to get id components. Got: {len(parts)}, wanted 6 components or more")
    source = _disk(csi, "pdName", parts[5])
    partition = (csi.get("volumeAttributes") or {}).get("partition", "")
    if partition:
        source["partition"] = _number(partition)
    _place(volume, GCE_ZONE, region_of_zones)
    return "gcePersistentDisk", source


def _aws(volume: Json, csi: Json) -> tuple[str, Json]:
    source = _disk(csi, "volumeID", csi["volumeHandle"])
    partition = (csi.get("volumeAttributes") or {}).get("partition")
    if partition is not None:
        source["partition"] = _number(partition)
    _place(volume, AWS_ZONE, _aws_region)
    return "awsElasticBlockStore", source


def _cinder(volume: Json, csi: Json) -> tuple[str, Json]:
    _place(volume, CINDER_ZONE, None)
    return "cinder", _disk(csi, "volumeID", csi["volumeHandle"])


def _azure_disk(volume: Json, csi: Json) -> tuple[str, Json]:
    uri = csi["volumeHandle"]
    if len(uri) > _URI_LENGTH_MAX:
        raise TranslationError(
            f"a disk's URI has at most {_URI_LENGTH_MAX} letters, this one has {len(uri)}: {uri[:100]}…"
        )
    found = (_BLOB_DISK if uri.lower().startswith("http") else _MANAGED_DISK).search(uri)
    if found is None:
        raise TranslationError(f"could not get disk name from {uri}")
    attributes = {key.lower(): value for key, value in (csi.get("volumeAttributes") or {}).items()}
    return "azureDisk", {
        "diskName": found[1],
        "diskURI": uri,
        "fsType": attributes.get("fstype") or csi.get("fsType", ""),
        "readOnly": csi.get("readOnly", False),
        "cachingMode": attributes.get("cachingmode"),
        "kind": "Managed",
    }


def _azure_file(volume: Json, csi: Json) -> tuple[str, Json]:
    attributes = {key.lower(): value for key, value in (csi.get("volumeAttributes") or {}).items()}
    staged = csi.get("nodeStageSecretRef") or {}
    share, secret, namespace = (
        attributes.get("sharename", ""),
        attributes.get("secretname", ""),
        attributes.get("secretnamespace"),
    )
    if staged.get("name"):
        secret, namespace = staged["name"], staged.get("namespace", "")
    if not share or not secret:
        parts = csi["volumeHandle"].split("#")
        if len(parts) < 3:
            raise TranslationError(f"error parsing volume id: {csi['volumeHandle']!r}, should at least contain two #")
        share, secret = share or parts[2], secret or f"azure-storage-account-{parts[1]}-secret"
        if parts[0]:
            volume["metadata"]["annotations"] = {
                **(volume["metadata"].get("annotations") or {}),
                AZURE_RESOURCE_GROUP: parts[0],
            }
    namespace = "default" if namespace is None else namespace
    return "azureFile", {
        "shareName": share,
        "secretName": secret,
        "secretNamespace": namespace,
        "readOnly": csi.get("readOnly", False),
    }


def _vsphere(volume: Json, csi: Json) -> tuple[str, Json]:
    path = (csi.get("volumeAttributes") or {}).get("initialvolumefilepath", "")
    for key, label in ((VSPHERE_ZONE, ZONE), (_VSPHERE_REGION, REGION)):
        _rename(volume, key, label)
    for label in (ZONE, REGION):
        _label(volume, label, _values(volume, label)[:1])
    return "vsphereVolume", {"volumePath": path, "fsType": csi.get("fsType", "")}


def _portworx(volume: Json, csi: Json) -> tuple[str, Json]:
    return "portworxVolume", _disk(csi, "volumeID", csi["volumeHandle"])


def _disk(csi: Json, field: str, name: str) -> Json:
    return {field: name, "fsType": csi.get("fsType", ""), "readOnly": csi.get("readOnly", False)}


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise TranslationError(f"failed to convert partition {text} to integer") from None


# -- places


def _place(volume: Json, key: str, region_of: Callable[[tuple[str, ...]], str] | None) -> None:
    """The driver's zones as Kubernetes', with their region where it can be told; and both as labels."""
    _rename(volume, key, ZONE)
    if region_of is not None:
        for term in _terms(volume):
            expressions = term.setdefault("matchExpressions", [])
            if not any(one["key"] == REGION for one in expressions):
                zones = tuple(value for one in expressions if one["key"] == ZONE for value in one["values"])
                expressions.append({"key": REGION, "operator": "In", "values": [region_of(zones)]})
        regions = _values(volume, REGION)
        _label(volume, REGION, regions if len(regions) == 1 else [])
    _label(volume, ZONE, _values(volume, ZONE))


def _terms(volume: Json) -> list[Json]:
    terms: list[Json] = (volume["spec"].get("nodeAffinity") or {}).get("required", {}).get("nodeSelectorTerms") or []
    return terms


def _rename(volume: Json, old: str, new: str) -> None:
    for term in _terms(volume):
        for one in term.get("matchExpressions") or ():
            if one["key"] == old:
                one["key"] = new


def _values(volume: Json, key: str) -> list[str]:
    return sorted(
        {
            value
            for term in _terms(volume)
            for one in term.get("matchExpressions") or ()
            if one["key"] == key
            for value in one["values"]
        }
    )


def _label(volume: Json, label: str, values: list[str]) -> None:
    if values:
        volume["metadata"]["labels"] = {label: "__".join(values), **(volume["metadata"].get("labels") or {})}


def _aws_region(zones: tuple[str, ...]) -> str:
    """Zones are us-west-2a, us-gov-east-1a, us-west-2-lax-1a (local) and us-east-1-wl1-bos-wlz-1 (wavelength)."""
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) in (3, 4) and len(parts[-1]) == 2:
            regions.add("-".join((*parts[:-1], parts[-1][:1])))
        elif len(parts) in (5, 7):
            regions.add("-".join(parts[:3]))
        else:
            raise TranslationError(f"Unexpected zone format: {zone} is not a valid AWS zone")
    if len(regions) != 1:
        raise TranslationError(f"multiple or no regions gotten from zones, got: {', '.join(sorted(regions))}")
    return regions.pop()


_TRANSLATIONS: Final[Mapping[str, Callable[[Json, Json], tuple[str, Json]]]] = {
    "pd.csi.storage.gke.io": _gce,
    "ebs.csi.aws.com": _aws,
    "cinder.csi.openstack.org": _cinder,
    "disk.csi.azure.com": _azure_disk,
    "file.csi.azure.com": _azure_file,
    "csi.vsphere.vmware.com": _vsphere,
    "pxd.portworx.com": _portworx,
}
