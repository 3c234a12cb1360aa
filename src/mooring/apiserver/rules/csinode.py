"""storage.k8s.io/v1 CSINode."""

from __future__ import annotations

from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors, objectmeta
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules import checks

MESSAGES: Final = objectmeta.MESSAGES.extended("""
CSINode: 1 metadata ObjectMeta!, 2 spec CSINodeSpec!
CSINodeSpec: 1 drivers *CSINodeDriver!@name
CSINodeDriver: 1 name s!, 2 nodeID s!, 3 topologyKeys *s!, 4 allocatable VolumeNodeResources?
VolumeNodeResources: 1 count i32?
""")

_NODE_ID_MAX: Final = 256


def _validate(new: Json) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for number, driver in enumerate(new["spec"]["drivers"] or []):
        field = f"spec.drivers[{number}]"
        found += _validate_driver(driver, field)
        if driver["name"] in seen:
            found.append(field_errors.duplicate(f"{field}.name", driver["name"]))
        seen.add(driver["name"])
    return found


def _validate_driver(driver: Json, field: str) -> list[Cause]:
    found = checks.driver_name(driver["name"], f"{field}.name")
    if not driver["nodeID"]:
        found.append(field_errors.required(f"{field}.nodeID"))
    elif len(driver["nodeID"]) > _NODE_ID_MAX:
        found.append(field_errors.invalid(f"{field}.nodeID", driver["nodeID"], f"must be {_NODE_ID_MAX} characters or less"))
    keys: set[str] = set()
    for key in driver["topologyKeys"] or []:
        if key in keys:
            found.append(field_errors.duplicate(field, key))
        keys.add(key)
        found += ([] if key else [field_errors.required(field)]) + checks.named(key, field, names.qualified_name)
    return found + checks.at_least((driver.get("allocatable") or {}).get("count"), f"{field}.allocatable.count", 0)


def _validate_update(new: Json, old: Json) -> list[Cause]:
    """An entry may come and go; while it is there only its allocatable may change."""
    before = {driver["name"]: driver for driver in old["spec"]["drivers"] or []}
    return [
        field_errors.immutable("spec.drivers", driver)
        for driver in new["spec"]["drivers"] or []
        if driver["name"] in before and _identity(driver) != _identity(before[driver["name"]])
    ]


def _identity(driver: Json) -> Json:
    return {part: value for part, value in driver.items() if part != "allocatable"}


CSI_NODES: Final = Resource(
    group="storage.k8s.io",
    kind="CSINode",
    plural="csinodes",
    namespaced=False,
    message=MESSAGES["CSINode"],
    put_without_version=False,
    validate=_validate,
    validate_update=_validate_update,
)
