"""storage.k8s.io/v1 CSIStorageCapacity."""

from __future__ import annotations

from typing import Final

from mooring.api import names
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors, objectmeta
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules import checks, labelselector

MESSAGES: Final = objectmeta.MESSAGES.extended("""
CSIStorageCapacity: 1 metadata ObjectMeta!, 2 nodeTopology LabelSelector?, 3 storageClassName s!, 4 capacity q?, 5 maximumVolumeSize q?
""")


def _validate(new: Json) -> list[Cause]:
    found = labelselector.validate(new.get("nodeTopology") or {}, "nodeTopology")
    found += checks.named(new["storageClassName"], "storageClassName", names.dns_subdomain)
    if "capacity" in new and parse_quantity(new["capacity"]).value < 0:  # (nobody looks at maximumVolumeSize)
        found.append(field_errors.invalid("capacity", new["capacity"], "must be greater than or equal to 0"))
    return found


def _validate_update(new: Json, old: Json) -> list[Cause]:
    return [cause for part in ("nodeTopology", "storageClassName") for cause in checks.unchanged(new, old, part, part)]


CSI_STORAGE_CAPACITIES: Final = Resource(
    group="storage.k8s.io",
    kind="CSIStorageCapacity",
    plural="csistoragecapacities",
    namespaced=True,
    message=MESSAGES["CSIStorageCapacity"],
    put_without_version=False,
    delete_answers_object=False,
    validate=_validate,
    validate_update=_validate_update,
)
