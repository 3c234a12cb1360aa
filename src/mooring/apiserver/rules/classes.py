"""storage.k8s.io/v1 StorageClass and VolumeAttributesClass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.api.binding import IS_DEFAULT, VAC_PROTECTION
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.metadata import META_MESSAGES, total_bytes
from mooring.apiserver.resource import Json, OtherObjects, Resource
from mooring.apiserver.rules import checks, selectors
from mooring.apiserver.rules.checks import protected_by

PARAMETERS_MAX: Final = 512
PARAMETER_BYTES_MAX: Final = 256 * 1024


def _validate_driver(name: str, field: str) -> list[FieldCause]:
    """Laxer than a driver's name elsewhere: a qualified name after lower-casing."""
    return field_errors.required_name(name.lower(), field, names.qualified_name)


def _validate_parameters(given: dict[str, str], *, allow_empty: bool) -> list[FieldCause]:
    """Problems at the field `parameters`."""
    if not given and not allow_empty:
        return [field_errors.required("parameters", "must contain at least one key/value pair")]
    if len(given) > PARAMETERS_MAX:
        return [field_errors.too_many("parameters", PARAMETERS_MAX)]
    found = [field_errors.invalid("parameters", key, "field can not be empty.") for key in given if not key]
    if total_bytes(given) > PARAMETER_BYTES_MAX:
        found.append(field_errors.too_long("parameters", PARAMETER_BYTES_MAX))
    return found


_MESSAGES: Final = META_MESSAGES.extended("""
StorageClass: 1 metadata ObjectMeta!, 2 provisioner s!, 3 parameters {s}, 4 reclaimPolicy s?, 5 mountOptions *s, 6 allowVolumeExpansion b?, 7 volumeBindingMode s?, 8 allowedTopologies *TopologySelectorTerm
TopologySelectorTerm=: 1 matchLabelExpressions *TopologySelectorLabelRequirement
TopologySelectorLabelRequirement: 1 key s!, 2 values *s!
VolumeAttributesClass: 1 metadata ObjectMeta!, 2 driverName s!, 3 parameters {s}
""")  # noqa: E501

_IMMUTABLE: Final = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


def _default_storage(new: Json) -> None:
    new.setdefault("reclaimPolicy", "Delete")
    new.setdefault("volumeBindingMode", "Immediate")


def _validate_storage(new: Json) -> Iterator[FieldCause]:
    yield from _validate_driver(new["provisioner"], "provisioner")
    yield from _validate_parameters(new.get("parameters") or {}, allow_empty=True)
    if new["reclaimPolicy"]:  # (so the real one: an empty one is stored as it is)
        yield from checks.one_of(new["reclaimPolicy"], "reclaimPolicy", ("Delete", "Retain"))
    yield from checks.one_of(new["volumeBindingMode"], "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"))
    yield from _validate_topologies(new.get("allowedTopologies") or [])


def _validate_topologies(terms: list[Json]) -> Iterator[FieldCause]:
    """No term twice. One that selects nothing is refused as a repetition, too."""
    seen: set[frozenset[tuple[str, frozenset[str]]]] = {frozenset()}
    for number, term in enumerate(terms):
        field = f"allowedTopologies[{number}].matchLabelExpressions"
        wanted: dict[str, frozenset[str]] = {}
        for index, requirement in enumerate(term.get("matchLabelExpressions") or []):
            yield from _validate_requirement(requirement, f"{field}[{index}]")
            if requirement["key"] in wanted:
                yield field_errors.duplicate(f"{field}[{index}].key", requirement["key"])
            wanted[requirement["key"]] = frozenset(requirement["values"] or [])
        meant = frozenset(wanted.items())
        if meant in seen:
            yield field_errors.duplicate(field, "")
        seen.add(meant)


def _validate_requirement(requirement: Json, field: str) -> list[FieldCause]:
    values = requirement["values"] or []
    found = [] if values else [field_errors.required(f"{field}.values")]
    found += [
        field_errors.duplicate(f"{field}.values[{index}]", values[index]) for index in sorted(checks.repeated(values))
    ]
    return found + field_errors.named(requirement["key"], f"{field}.key", names.qualified_name)


def _storage_warnings(new: Json, _old: Json | None) -> list[str]:
    terms = new.get("allowedTopologies") or []
    keys = {
        f"allowedTopologies[{number}].matchLabelExpressions[{index}].key": requirement["key"]
        for number, term in enumerate(terms)
        for index, requirement in enumerate(term.get("matchLabelExpressions") or [])
    }
    return [warning for field, key in keys.items() for warning in selectors.outdated(key, field, alone=True)]


STORAGE_CLASSES: Final = Resource(
    group="storage.k8s.io",
    kind="StorageClass",
    plural="storageclasses",
    namespaced=False,
    short_names=("sc",),
    beginnings=("",),
    message=_MESSAGES["StorageClass"],
    default=_default_storage,
    validate=_validate_storage,
    validate_update=lambda new, old: checks.all_unchanged(new, old, _IMMUTABLE),
    warnings=_storage_warnings,
)


def default_class(view: OtherObjects) -> str | None:
    """The class for claims that name none: of the annotated ones the newest, then the first by name."""
    newest, chosen = "", None
    for found in view.all(STORAGE_CLASSES.path, word=b"is-default-class"):  # (by name, so the first of a second stays)
        meta = found["metadata"]
        annotations = meta.get("annotations") or {}
        if any(annotations.get(name) == "true" for name in IS_DEFAULT) and meta["creationTimestamp"] > newest:
            newest, chosen = meta["creationTimestamp"], meta["name"]
    return chosen


def _validate_attributes(new: Json) -> list[FieldCause]:
    return _validate_driver(new["driverName"], "driverName") + _validate_parameters(
        new.get("parameters") or {}, allow_empty=False
    )


def _validate_attributes_update(new: Json, old: Json) -> list[FieldCause]:
    changed = [part for part in ("driverName", "parameters") if new.get(part) != old.get(part)]
    return [field_errors.forbidden(part, f"updates to {part} are forbidden.") for part in changed]


VOLUME_ATTRIBUTES_CLASSES: Final = Resource(
    group="storage.k8s.io",
    kind="VolumeAttributesClass",
    plural="volumeattributesclasses",
    namespaced=False,
    short_names=("vac",),
    beginnings=("",),
    message=_MESSAGES["VolumeAttributesClass"],
    admit=protected_by(VAC_PROTECTION),
    validate=_validate_attributes,
    validate_update=_validate_attributes_update,
)
