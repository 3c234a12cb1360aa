"""meta/v1 LabelSelector as a field of other kinds: what is valid in it."""

from __future__ import annotations

from mooring.api import names
from mooring.apiserver import field_errors, metadata
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks


def validate(selector: Json, field: str) -> list[Cause]:
    found = metadata.labels(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for number, requirement in enumerate(selector.get("matchExpressions") or []):
        found += _validate_requirement(requirement, f"{field}.matchExpressions[{number}]")
    return found


def _validate_requirement(requirement: Json, field: str) -> list[Cause]:
    values, found = requirement.get("values") or [], []
    match requirement["operator"]:
        case "In" | "NotIn":
            if not values:
                found.append(field_errors.required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        case "Exists" | "DoesNotExist":
            if values:
                found.append(
                    field_errors.forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
                )
        case operator:
            found.append(field_errors.invalid(f"{field}.operator", operator, "not a valid selector operator"))
    found += checks.named(requirement["key"], f"{field}.key", names.qualified_name)
    for index, value in enumerate(values):
        found += checks.named(value, f"{field}.values[{index}]", names.label_value)
    return found
