"""storage.k8s.io/v1 StorageClass."""

from __future__ import annotations

from typing import Final

from mooring.api import names
from mooring.apiserver import causes
from mooring.apiserver.causes import Cause
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules import checks, meta, parameters
from mooring.apiserver.schema import Messages

MESSAGES: Final = Messages(
    """
StorageClass: 1 metadata ObjectMeta!, 2 provisioner s!, 3 parameters {s}, 4 reclaimPolicy s?, 5 mountOptions *s, 6 allowVolumeExpansion b?, 7 volumeBindingMode s?, 8 allowedTopologies *TopologySelectorTerm
TopologySelectorTerm: 1 matchLabelExpressions *TopologySelectorLabelRequirement
TopologySelectorLabelRequirement: 1 key s!, 2 values *s!
""",  # noqa: E501
    meta.MESSAGES,
)

_IMMUTABLE: Final = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


def _default(new: Json) -> None:
    new.setdefault("reclaimPolicy", "Delete")
    new.setdefault("volumeBindingMode", "Immediate")


def _validate(new: Json) -> list[Cause]:
    name = new["provisioner"]
    found = checks.named(name.lower(), "provisioner", names.qualified_name) if name else [causes.required("provisioner")]
    found += parameters.validate(new.get("parameters") or {}, allow_empty=True)
    found += checks.one_of(new["reclaimPolicy"], "reclaimPolicy", ("Delete", "Retain"))
    found += checks.one_of(new["volumeBindingMode"], "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"))
    return found + _validate_topologies(new.get("allowedTopologies") or [])


def _validate_topologies(terms: list[Json]) -> list[Cause]:
    found: list[Cause] = []
    seen: list[dict[str, frozenset[str]]] = []
    for number, term in enumerate(terms):
        field = f"allowedTopologies[{number}].matchLabelExpressions"
        wanted: dict[str, frozenset[str]] = {}
        for index, requirement in enumerate(term.get("matchLabelExpressions") or []):
            found += _validate_requirement(requirement, f"{field}[{index}]")
            if requirement["key"] in wanted:
                found.append(causes.duplicate(f"{field}[{index}].key", requirement["key"]))
            wanted[requirement["key"]] = frozenset(requirement["values"] or [])
        if wanted in seen:
            found.append(causes.duplicate(field, ""))
        seen.append(wanted)
    return found


def _validate_requirement(requirement: Json, field: str) -> list[Cause]:
    values = requirement["values"] or []
    found = [] if values else [causes.required(f"{field}.values")]
    found += [causes.duplicate(f"{field}.values[{index}]", value) for index, value in enumerate(values) if value in values[:index]]
    return found + checks.named(requirement["key"], f"{field}.key", names.qualified_name)


def _validate_update(new: Json, old: Json) -> list[Cause]:
    return [cause for part in _IMMUTABLE for cause in checks.unchanged(new, old, part, part)]


STORAGE_CLASSES: Final = Resource(
    group="storage.k8s.io",
    version="v1",
    kind="StorageClass",
    plural="storageclasses",
    namespaced=False,
    short_names=("sc",),
    message=MESSAGES["StorageClass"],
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
)
