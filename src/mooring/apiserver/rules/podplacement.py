"""Where a pod may run: affinities, tolerations, spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, selectors

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_EMPTY: Final = "can not be empty"


def validate(spec: Json) -> list[Cause]:
    found = _validate_affinity(spec.get("affinity") or {}, "spec.affinity")
    found += validate_tolerations(spec.get("tolerations") or [])
    return found + _validate_spread(spec.get("topologySpreadConstraints") or [], "spec.topologySpreadConstraints")


def validate_tolerations(tolerations: Sequence[Json]) -> list[Cause]:
    found = []
    for number, toleration in enumerate(tolerations):
        field = f"spec.tolerations[{number}]"
        key, operator, value = (toleration.get(part, "") for part in ("key", "operator", "value"))
        if key:
            found += checks.named(key, f"{field}.key", names.qualified_name)
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.append(field_errors.invalid(f"{field}.operator", operator, text))
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.append(field_errors.invalid(f"{field}.effect", toleration.get("effect", ""), text))
        if operator == "Exists" and value:
            found.append(field_errors.invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'"))
        elif operator in ("", "Equal"):
            found += checks.named(value, f"{field}.operator", names.label_value)
        found += checks.one_of(operator or "Equal", f"{field}.operator", ("Equal", "Exists"))
        found += checks.one_of(toleration.get("effect") or _EFFECTS[0], f"{field}.effect", _EFFECTS)
    return found


def _validate_affinity(affinity: Json, field: str) -> list[Cause]:
    found: list[Cause] = []
    node = affinity.get("nodeAffinity") or {}
    if _REQUIRED in node:
        found += selectors.validate_nodes(node[_REQUIRED], f"{field}.nodeAffinity.{_REQUIRED}")
    for number, term in enumerate(node.get(_PREFERRED) or []):
        at = f"{field}.nodeAffinity.{_PREFERRED}[{number}]"
        found += _weight(term, at) + selectors.validate_term(term["preference"], f"{at}.preference")
    for part in ("podAffinity", "podAntiAffinity"):
        content = affinity.get(part) or {}
        for number, term in enumerate(content.get(_REQUIRED) or []):
            found += _validate_pod_term(term, f"{field}.{part}.{_REQUIRED}[{number}]")
        for number, weighted in enumerate(content.get(_PREFERRED) or []):
            at = f"{field}.{part}.{_PREFERRED}[{number}]"
            found += _weight(weighted, at) + _validate_pod_term(weighted["podAffinityTerm"], f"{at}.podAffinityTerm")
    return found


def _weight(term: Json, field: str) -> list[Cause]:
    weight = term["weight"]
    return [] if 1 <= weight <= 100 else [field_errors.invalid(f"{field}.weight", weight, "must be in the range 1-100")]


def _validate_pod_term(term: Json, field: str) -> list[Cause]:
    found = []
    for selector in ("labelSelector", "namespaceSelector"):
        found += selectors.validate_labels(term.get(selector) or {}, f"{field}.{selector}")
    for namespace in term.get("namespaces") or []:
        found += checks.named(namespace, f"{field}.namespace", names.dns_label)
    for part in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(part) or []
        if keys and "labelSelector" not in term:
            found.append(field_errors.forbidden(f"{field}.{part}", "must not be specified when labelSelector is not set"))
            continue
        for number, key in enumerate(keys):
            found += checks.named(key, f"{field}.{part}[{number}]", names.qualified_name)
    if not term["topologyKey"]:
        found.append(field_errors.required(f"{field}.topologyKey", _EMPTY))
    return found + checks.named(term["topologyKey"], f"{field}.topologyKey", names.qualified_name)


def _validate_spread(constraints: Sequence[Json], field: str) -> list[Cause]:
    found: list[Cause] = []
    pairs: list[tuple[Any, Any]] = [(one["topologyKey"], one["whenUnsatisfiable"]) for one in constraints]
    for number, constraint in enumerate(constraints):
        at, key, when = f"{field}[{number}]", *pairs[number]
        if constraint["maxSkew"] <= 0:
            found.append(field_errors.invalid(f"{at}.maxSkew", constraint["maxSkew"], "must be greater than zero"))
        found += [] if key else [field_errors.required(f"{at}.topologyKey", _EMPTY)]
        found += checks.one_of(when, f"{at}.whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"))
        if pairs[number] in pairs[number + 1 :]:
            found.append(field_errors.duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}"))
        least = constraint.get("minDomains")
        if least is not None and least <= 0:
            found.append(field_errors.invalid(f"{at}.minDomains", least, "must be greater than zero"))
        if least is not None and when != "DoNotSchedule":
            text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
            found.append(field_errors.invalid(f"{at}.minDomains", least, text))
        found += selectors.validate_labels(constraint.get("labelSelector") or {}, f"{at}.labelSelector")
    return found
