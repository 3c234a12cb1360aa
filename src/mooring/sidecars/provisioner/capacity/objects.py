"""CSIStorageCapacity objects as they are written, and the labels of ours."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.api.meta import Kind, OwnerReference
from mooring.api.storage import CSI_STORAGE_CAPACITIES, CSIStorageCapacity
from mooring.sidecars.provisioner.capacity.decide import is_owned
from mooring.sidecars.provisioner.capacity.view import Capacity, Item

DRIVER_LABEL: Final = "csi.storage.k8s.io/drivername"
MANAGER_LABEL: Final = "csi.storage.k8s.io/managed-by"
MANAGER: Final = "external-provisioner"

_LABEL_LENGTH_MAX: Final = 63
_CUT_MARK: Final = "-53f40b57-"
_FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619


def manager_of(node_name: str) -> str:
    """The manager of the objects: the one instance for all nodes ("" for no node), or the one of a node.

    A text that is too long for a label's value is cut as external-provisioner does it, so that objects are found again after a swap.
    """
    if not node_name:
        return MANAGER
    whole = f"{MANAGER}-{node_name}"
    if len(whole) <= _LABEL_LENGTH_MAX:
        return whole
    left = _LABEL_LENGTH_MAX - len(_CUT_MARK) - len(node_name)
    if left > 0:
        return f"{MANAGER[:left]}{_CUT_MARK}{node_name}"
    return f"{MANAGER}-{_fnv1a(whole):x}"


def _fnv1a(text: str) -> int:
    value = _FNV_OFFSET
    for byte in text.encode():
        value = (value ^ byte) * _FNV_PRIME % (1 << 32)
    return value


def new_object(
    kind: Kind[CSIStorageCapacity],
    namespace: str,
    item: Item,
    capacity: Capacity,
    driver_name: str,
    manager: str,
    owner: OwnerReference | None,
) -> dict[str, Any]:
    """An object with a generated name."""
    metadata: dict[str, Any] = {
        "generateName": "csisc-",
        "namespace": namespace,
        "labels": {DRIVER_LABEL: driver_name, MANAGER_LABEL: manager},
    }
    if owner is not None:
        metadata["ownerReferences"] = [msgspec.to_builtins(owner)]
    topology = {"matchLabels": dict(item.segment)} if item.segment else {}
    head = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    return {**head, "storageClassName": item.class_name, "nodeTopology": topology, **_amounts(capacity)}


def changed_object(
    kind: Kind[CSIStorageCapacity], obj: CSIStorageCapacity, capacity: Capacity, owner: OwnerReference | None
) -> dict[str, Any]:
    """The whole object with these amounts, for a PUT, as in external-provisioner's audit trails.

    The struct holds every field of this kind, and of its metadata all that the server does not manage itself: nothing is lost.
    Differs from external-provisioner: other owners control it no longer once ours does, since the API server takes one controller only.
    """
    body: dict[str, Any] = msgspec.to_builtins(obj)
    body |= {"apiVersion": kind.api_version, "kind": kind.name}
    body.pop("maximumVolumeSize", None)
    if owner is not None and not is_owned(obj, owner):
        others = (msgspec.structs.replace(one, controller=None) for one in obj.metadata.owner_references or () if one.uid != owner.uid)
        body["metadata"]["ownerReferences"] = msgspec.to_builtins([*others, owner])
    return {**body, **_amounts(capacity)}


def _amounts(capacity: Capacity) -> dict[str, str]:
    return {"capacity": capacity.capacity, **({} if capacity.maximum is None else {"maximumVolumeSize": capacity.maximum})}


def of_version(version: str) -> Kind[CSIStorageCapacity]:
    kind = CSI_STORAGE_CAPACITIES
    return Kind(kind.group, version, kind.name, kind.plural, kind.namespaced, kind.struct)
