"""Checks a schema's CEL rules: they compile against it, and their messages and paths make sense."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mooring.apiserver import field_errors
from mooring.apiserver.custom.cel_rules import is_of_change, wrong_message, wrong_rule
from mooring.apiserver.custom.structural_schema import RULES, Structure, structure_of
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json

_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\['([^']*)'\]")
_MESSAGE_MAX: Final = 2048


def wrong_rules(schema: Json, path: str) -> Iterator[FieldCause]:
    """schema: one that is structural."""
    return _wrong_at(structure_of(schema), path, "", root=True)


def _wrong_at(structure: Structure, path: str, loose: str, *, root: bool = False) -> Iterator[FieldCause]:
    """loose: the place above whose items have no identity, so that an old value can't be found; "" where there is
    none.
    """
    for number, spec in enumerate(structure.rules):
        yield from _wrong_rule(spec, structure, f"{path}.{RULES}[{number}]", loose, root=root)
    for name, inner in structure.properties.items():
        yield from _wrong_at(inner, f"{path}.properties[{name}]", loose)
    if isinstance(structure.additional, Structure):
        yield from _wrong_at(structure.additional, f"{path}.additionalProperties", loose)
    if structure.items is not None:
        yield from _wrong_at(structure.items, f"{path}.items", loose or ("" if structure.list_type == "map" else path))


def _wrong_rule(spec: Json, structure: Structure, path: str, loose: str, *, root: bool) -> Iterator[FieldCause]:
    rule, message, expression = (spec.get(part) or "" for part in ("rule", "message", "messageExpression"))
    if message and not message.strip():
        yield field_errors.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message or "\r" in message:
        yield field_errors.invalid(f"{path}.message", message, "must not contain line breaks")
    elif len(message.encode()) > _MESSAGE_MAX:
        yield field_errors.invalid(
            f"{path}.message", message[:10], f"must have a maximum length of {_MESSAGE_MAX} characters"
        )
    if "\n" in rule.strip() and not message:
        yield field_errors.required(f"{path}.message", "message must be specified if rule contains line breaks")
    if spec.get("reason") is not None and spec["reason"] not in _REASONS:
        yield field_errors.not_supported(f"{path}.reason", spec["reason"], _REASONS)
    if spec.get("fieldPath") and not _leads_somewhere(spec["fieldPath"], structure):
        yield field_errors.invalid(f"{path}.fieldPath", spec["fieldPath"], "must be a valid path")
    if not rule.strip():
        yield field_errors.required(f"{path}.rule", "rule is not specified")
        return
    why = wrong_rule(spec, structure, root=root)
    if why:
        yield field_errors.invalid(f"{path}.rule", rule, why)
        return
    yield from _wrong_change(spec, structure, path, loose, root=root)
    why = wrong_message(spec, structure, root=root) if expression else ""
    if why:
        yield field_errors.invalid(f"{path}.messageExpression", expression, why)


def _wrong_change(spec: Json, structure: Structure, path: str, loose: str, *, root: bool) -> Iterator[FieldCause]:
    of_change = is_of_change(spec, structure, root=root)
    if of_change and loose:
        text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {loose}"
        yield field_errors.invalid(f"{path}.rule", spec["rule"], text)
    if spec.get("optionalOldSelf") is not None and not of_change:
        yield field_errors.invalid(
            f"{path}.optionalOldSelf", spec["optionalOldSelf"], "may not be set if oldSelf is not used in rule"
        )


def _leads_somewhere(text: str, structure: Structure) -> bool:
    here: Structure | bool | None = structure
    place = 0
    while place < len(text):
        step = _STEP.match(text, place)
        if step is None or not isinstance(here, Structure):
            return False
        here, place = here.of_key(step[1] or step[2]), step.end()
    return isinstance(here, Structure)
