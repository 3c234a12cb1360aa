"""The status of a PersistentVolumeClaim: sizes, and how far a change of size has come."""

from __future__ import annotations

from typing import Final

from mooring.api import names
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

RESIZE_STATES: Final = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_OWN_SUFFIX: Final = "kubernetes.io"


def validate(new: Json, _old: Json) -> list[Cause]:
    status = new["status"]
    found = _validate_amounts(status.get("capacity") or {}, "status.capacity")
    states, field = status.get("allocatedResourceStatuses") or {}, "status.allocatedResourceStatuses"
    for resource, state in states.items():
        found += _validate_resource(resource, field)
        if state not in RESIZE_STATES:
            found.append(field_errors.not_supported(field, resource, RESIZE_STATES))  # (so the real one: it shows the resource)
    allocated, field = status.get("allocatedResources") or {}, "status.allocatedResources"
    for resource in allocated:
        found += _validate_resource(resource, field)
    return found + _validate_amounts(allocated, field)


def _validate_resource(resource: str, field: str) -> list[Cause]:
    """Names of Kubernetes' own: storage alone. Others have a prefix."""
    found = checks.named(resource, field, names.qualified_name)
    if found:
        return found
    prefix = resource.rpartition("/")[0]
    if resource == "storage" or (prefix and not prefix.endswith(_OWN_SUFFIX)):
        return []
    return [field_errors.not_supported(field, resource, ["storage"])]


def _validate_amounts(amounts: dict[str, str], field: str) -> list[Cause]:
    return [
        field_errors.invalid(f"{field}[{name}]", amount, "must be a valid resource quantity")
        for name, amount in amounts.items()
        if parse_quantity(amount).value < 0
    ]
