"""Everything that is wrong with a custom object: its schema first, then lists, then rules, as far as the value can bear
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from mooring.api import names
from mooring.apiserver import field_errors, metadata
from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.custom.columns_and_scale import value_at
from mooring.apiserver.custom.list_types import duplicates
from mooring.apiserver.custom.structural_schema import NOTHING, Structure
from mooring.apiserver.custom.value_validation import check
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Json, ScalePaths

if TYPE_CHECKING:
    from mooring.apiserver.custom.cel_rules import CelRules

_META: Final = META_MESSAGES["ObjectMeta"]


def decode_embedded(value: Any, structure: Structure, unknown: list[str], path: str = "") -> None:
    """Brings their metadata into its form. Writes to value. Raises ValueError for what is no metadata."""
    for place, obj in _embedded(value, structure, path):
        if obj.get("metadata") is None:
            obj.pop("metadata", None)
            continue
        gone: list[str] = []
        try:
            obj["metadata"] = decode(_META, obj["metadata"], gone)
        except ValueError as error:
            raise ValueError(
                f"{place}.metadata: Invalid value: {field_errors.shown(obj['metadata'])}: {error}"
            ) from error
        unknown += [f"{place}.metadata.{name}" for name in gone]


def wrong_embedded(value: Any, structure: Structure, path: str = "") -> Iterator[FieldCause]:
    """Problems of their names and labels. (The schema requires apiVersion and kind.)"""
    for place, obj in _embedded(value, structure, path):
        version, kind = obj.get("apiVersion"), obj.get("kind")
        if isinstance(version, str) and version.count("/") > 1:
            yield field_errors.invalid(f"{place}.apiVersion", version, f"unexpected GroupVersion string: {version}")
        if isinstance(kind, str) and kind:
            for reason in names.dns_1035_label(kind.lower()):
                yield field_errors.invalid(
                    f"{place}.kind", kind, f"may have mixed case, but should otherwise match: {reason}"
                )
        yield from metadata.labels((obj.get("metadata") or {}).get("labels") or {}, f"{place}.metadata.labels")


def _embedded(value: Any, structure: Structure, path: str) -> Iterator[tuple[str, Json]]:
    if isinstance(value, list) and structure.items is not None:
        for number, item in enumerate(value):
            yield from _embedded(item, structure.items, f"{path}[{number}]")
    elif isinstance(value, dict):
        if structure.embedded:
            yield path, value
        for name, member in value.items():
            inner = structure.of_key(name)
            if isinstance(inner, Structure) and inner.has_embedded:
                yield from _embedded(member, inner, f"{path}.{name}" if path else name)


_BLOCKING: Final = {f"FieldValue{why}" for why in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")}
_UNCHECKED: Final = FieldCause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
_REPLICAS_MAX: Final = 2**31 - 1


class Validator:
    """Validates objects of one version of a custom kind."""

    def __init__(self, kind: str, structure: Structure, rules: CelRules | None, scale: ScalePaths | None) -> None:
        self._kind, self._structure, self._rules, self._scale = kind, structure, rules, scale

    def created(self, new: Json) -> list[FieldCause]:
        return self._judge(new, NOTHING)

    def updated(self, new: Json, old: Json) -> list[FieldCause]:
        return self._judge(new, old)

    def _judge(self, new: Json, old: Any) -> list[FieldCause]:
        if new["kind"] == self._kind:
            found = [*check(new, self._structure.raw, "", old), *self._replicas(new)]
        else:  # (it is not held against the schema, nor are its metadata: `write_pipeline.wrong_metadata`)
            found = [field_errors.invalid("kind", new["kind"], f"must be {self._kind}")]
        if self._structure.has_embedded:
            found += wrong_embedded(new, self._structure)
        if old is NOTHING or not any(duplicates(old, self._structure)):
            found += duplicates(new, self._structure)
        if self._rules is None:
            return found
        if any(cause.reason in _BLOCKING for cause in found) or not new["metadata"].get("name"):
            return [*found, _UNCHECKED]
        return [*found, *self._rules.broken(new, old)]

    def _replicas(self, new: Json) -> list[FieldCause]:
        """The value behind the scale sub-resource must be a count."""
        found = []
        for steps in (self._scale.spec_replicas, self._scale.status_replicas) if self._scale is not None else ():
            value = value_at(new, steps)
            if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value <= _REPLICAS_MAX:
                text = "should be a non-negative integer" if value < 0 else "should be less than or equal to 2147483647"
                found.append(FieldCause("FieldValueInvalid", f".{'.'.join(steps)}", f"Invalid value: {value}: {text}"))
        return found
