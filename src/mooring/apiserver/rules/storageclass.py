"""storage.k8s.io/v1 StorageClass."""

from __future__ import annotations

from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors, objectmeta
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json, Resource, View
from mooring.apiserver.rules import checks, nodeselector, parameters

MESSAGES: Final = objectmeta.MESSAGES.extended("""
StorageClass: 1 metadata ObjectMeta!, 2 provisioner s!, 3 parameters {s}, 4 reclaimPolicy s?, 5 mountOptions *s, 6 allowVolumeExpansion b?, 7 volumeBindingMode s?, 8 allowedTopologies *TopologySelectorTerm
TopologySelectorTerm: 1 matchLabelExpressions *TopologySelectorLabelRequirement
TopologySelectorLabelRequirement: 1 key s!, 2 values *s!
""")  # noqa: E501

_DEFAULT_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_IMMUTABLE: Final = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


def _default(new: Json) -> None:
    new.setdefault("reclaimPolicy", "Delete")
    new.setdefault("volumeBindingMode", "Immediate")


def _validate(new: Json) -> list[Cause]:
    found = parameters.driver(new["provisioner"], "provisioner")
    found += parameters.validate(new.get("parameters") or {}, allow_empty=True)
    if new["reclaimPolicy"]:  # (so the real one: an empty one is stored as it is)
        found += checks.one_of(new["reclaimPolicy"], "reclaimPolicy", ("Delete", "Retain"))
    found += checks.one_of(new["volumeBindingMode"], "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"))
    return found + _validate_topologies(new.get("allowedTopologies") or [])


def _validate_topologies(terms: list[Json]) -> list[Cause]:
    """No term twice. One that selects nothing is refused as a repetition, too."""
    found: list[Cause] = []
    seen: set[frozenset[tuple[str, frozenset[str]]]] = {frozenset()}
    for number, term in enumerate(terms):
        field = f"allowedTopologies[{number}].matchLabelExpressions"
        wanted: dict[str, frozenset[str]] = {}
        for index, requirement in enumerate(term.get("matchLabelExpressions") or []):
            found += _validate_requirement(requirement, f"{field}[{index}]")
            if requirement["key"] in wanted:
                found.append(field_errors.duplicate(f"{field}[{index}].key", requirement["key"]))
            wanted[requirement["key"]] = frozenset(requirement["values"] or [])
        meant = frozenset(wanted.items())
        if meant in seen:
            found.append(field_errors.duplicate(field, ""))
        seen.add(meant)
    return found


def _validate_requirement(requirement: Json, field: str) -> list[Cause]:
    values = requirement["values"] or []
    found = [] if values else [field_errors.required(f"{field}.values")]
    first = {value: index for index, value in reversed(tuple(enumerate(values)))}
    found += [field_errors.duplicate(f"{field}.values[{index}]", value) for index, value in enumerate(values) if first[value] != index]
    return found + checks.named(requirement["key"], f"{field}.key", names.qualified_name)


def _warnings(new: Json, _old: Json | None) -> list[str]:
    terms = new.get("allowedTopologies") or []
    keys = {
        f"allowedTopologies[{number}].matchLabelExpressions[{index}].key": requirement["key"]
        for number, term in enumerate(terms)
        for index, requirement in enumerate(term.get("matchLabelExpressions") or [])
    }
    return [told for field, key in keys.items() for told in nodeselector.renamed(key, field)]


def _validate_update(new: Json, old: Json) -> list[Cause]:
    return [cause for part in _IMMUTABLE for cause in checks.unchanged(new, old, part, part)]


STORAGE_CLASSES: Final = Resource(
    group="storage.k8s.io",
    kind="StorageClass",
    plural="storageclasses",
    namespaced=False,
    short_names=("sc",),
    message=MESSAGES["StorageClass"],
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
    warnings=_warnings,
)


def default_class(view: View) -> str | None:
    """The class for claims that name none: of the annotated ones the newest, then the first by name."""
    newest, chosen = "", None
    for found in view.all(STORAGE_CLASSES.path):  # (by name, so the first of a second stays)
        meta = found["metadata"]
        annotations = meta.get("annotations") or {}
        if any(annotations.get(name) == "true" for name in _DEFAULT_ANNOTATIONS) and meta["creationTimestamp"] > newest:
            newest, chosen = meta["creationTimestamp"], meta["name"]
    return chosen
