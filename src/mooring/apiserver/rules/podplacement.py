"""Where a pod may run: affinities, tolerations, spread, and the labels of its own that their selectors take up
(matchLabelKeys).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, selectors
from mooring.apiserver.rules.checks import TAINT_EFFECTS

_COMPARING: Final = ("Lt", "Gt")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_POLICIES: Final = ("Honor", "Ignore")
_EMPTY: Final = "can not be empty"


def validate(spec: Json) -> Iterator[FieldCause]:
    yield from _validate_affinity(spec.get("affinity") or {}, "spec.affinity")
    yield from validate_tolerations(spec.get("tolerations") or [])
    yield from _validate_spread(spec.get("topologySpreadConstraints") or [], "spec.topologySpreadConstraints")


def validate_tolerations(tolerations: Sequence[Json]) -> Iterator[FieldCause]:
    for field, toleration in checks.each(tolerations, "spec.tolerations"):
        key, operator, value = (toleration.get(part, "") for part in ("key", "operator", "value"))
        if key:
            yield from field_errors.named(key, f"{field}.key", names.qualified_name)
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield field_errors.invalid(f"{field}.operator", operator, text)
        if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield field_errors.invalid(f"{field}.effect", toleration.get("effect", ""), text)
        if operator == "Exists" and value:
            yield field_errors.invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'")
        elif operator in ("", "Equal"):
            yield from checks.named_once(value, f"{field}.operator", names.label_value)
        if operator in _COMPARING:  # (behind a gate that is shut; the text names them all the same)
            yield field_errors.not_supported(f"{field}.operator", operator, ("Equal", "Exists", *_COMPARING))
        else:
            yield from checks.one_of(operator or "Equal", f"{field}.operator", ("Equal", "Exists"))
        yield from checks.one_of(toleration.get("effect") or TAINT_EFFECTS[0], f"{field}.effect", TAINT_EFFECTS)


def _validate_affinity(affinity: Json, field: str) -> Iterator[FieldCause]:
    node = affinity.get("nodeAffinity") or {}
    if _REQUIRED in node:
        yield from selectors.validate_nodes(node[_REQUIRED], f"{field}.nodeAffinity.{_REQUIRED}")
    for at, term in checks.each(node.get(_PREFERRED), f"{field}.nodeAffinity.{_PREFERRED}"):
        yield from _weight(term, at)
        yield from selectors.validate_term(term["preference"], f"{at}.preference", any_value=True)
    for part in ("podAffinity", "podAntiAffinity"):
        content = affinity.get(part) or {}
        for number, term in enumerate(content.get(_REQUIRED) or []):
            yield from _validate_pod_term(term, f"{field}.{part}.{_REQUIRED}[{number}]")
        for at, weighted in checks.each(content.get(_PREFERRED), f"{field}.{part}.{_PREFERRED}"):
            yield from _weight(weighted, at)
            yield from _validate_pod_term(weighted["podAffinityTerm"], f"{at}.podAffinityTerm")


def _weight(term: Json, field: str) -> list[FieldCause]:
    weight = term["weight"]
    return [] if 1 <= weight <= 100 else [field_errors.invalid(f"{field}.weight", weight, "must be in the range 1-100")]


def _validate_pod_term(term: Json, field: str) -> Iterator[FieldCause]:
    for selector in ("labelSelector", "namespaceSelector"):
        yield from selectors.validate_labels(term.get(selector) or {}, f"{field}.{selector}")
    for namespace in term.get("namespaces") or []:
        yield from field_errors.named(namespace, f"{field}.namespace", names.dns_label)
    yield from _validate_match_keys(term, field)
    if not term["topologyKey"]:
        yield field_errors.required(f"{field}.topologyKey", _EMPTY)
    yield from field_errors.named(term["topologyKey"], f"{field}.topologyKey", names.qualified_name)


def _validate_spread(constraints: Sequence[Json], field: str) -> Iterator[FieldCause]:
    pairs: list[tuple[Any, Any]] = [(one["topologyKey"], one["whenUnsatisfiable"]) for one in constraints]
    for number, constraint in enumerate(constraints):
        at, key, when = f"{field}[{number}]", *pairs[number]
        if constraint["maxSkew"] <= 0:
            yield field_errors.invalid(f"{at}.maxSkew", constraint["maxSkew"], "must be greater than zero")
        if not key:
            yield field_errors.required(f"{at}.topologyKey", _EMPTY)
        yield from checks.one_of(when, f"{at}.whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway"))
        if pairs[number] in pairs[number + 1 :]:
            yield field_errors.duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}")
        least = constraint.get("minDomains")
        if least is not None and least <= 0:
            yield field_errors.invalid(f"{at}.minDomains", least, "must be greater than zero")
        if least is not None and when != "DoNotSchedule":
            text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
            yield field_errors.invalid(f"{at}.minDomains", least, text)
        for part in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            yield from checks.one_of(constraint.get(part, _POLICIES[0]), f"{at}.{part}", _POLICIES)
        yield from _validate_match_keys(constraint, at)
        yield from selectors.validate_labels(constraint.get("labelSelector") or {}, f"{at}.labelSelector")


_MATCH: Final = "matchLabelKeys"
_MISMATCH: Final = "mismatchLabelKeys"


def merge_match_keys(pod: Json) -> None:
    """Writes into the selectors of a new pod what its labels say by these keys."""
    labels, spec = pod["metadata"].get("labels") or {}, pod["spec"]
    for owner in (*_affinity_terms(spec.get("affinity") or {}), *(spec.get("topologySpreadConstraints") or ())):
        if "labelSelector" not in owner:
            continue
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for part, operator in ((_MATCH, "In"), (_MISMATCH, "NotIn"))
            for key in owner.get(part) or ()
            if key in labels
        ]
        if added:
            selector = owner["labelSelector"]
            selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *added]


def _affinity_terms(affinity: Json) -> Iterator[Json]:
    preferred, required = (_PREFERRED, _REQUIRED)
    for part in ("podAffinity", "podAntiAffinity"):
        content = affinity.get(part) or {}
        yield from (weighted["podAffinityTerm"] for weighted in content.get(preferred) or ())
        yield from content.get(required) or ()


def _validate_match_keys(owner: Json, field: str) -> Iterator[FieldCause]:
    """owner: a term of an affinity, or a constraint of the spread; it stands at field."""
    matched, other = owner.get(_MATCH) or [], owner.get(_MISMATCH) or []
    for part, keys in ((_MATCH, matched), (_MISMATCH, other)):
        if keys and "labelSelector" not in owner:
            yield field_errors.forbidden(f"{field}.{part}", "must not be specified when labelSelector is not set")
            continue
        for number, key in enumerate(keys):
            yield from field_errors.named(key, f"{field}.{part}[{number}]", names.qualified_name)
    yield from _validate_selected(matched, owner.get("labelSelector") or {}, field)
    unwanted = {*other}
    for number, key in enumerate(matched):
        if key in unwanted:
            yield field_errors.invalid(f"{field}.{_MATCH}[{number}]", key, f"exists in both {_MATCH} and {_MISMATCH}")


def _validate_selected(keys: Sequence[str], selector: Json, field: str) -> Iterator[FieldCause]:
    """Refuses a key that the selector also names. Requirements that a key has added stand there once."""
    places = {key: number for number, key in enumerate(keys)}
    seen = {*(selector.get("matchLabels") or ())}
    for expression in selector.get("matchExpressions") or ():
        key = expression["key"]
        if key in places and key in seen:
            yield field_errors.invalid(f"{field}[{places[key]}]", key, f"exists in both {_MATCH} and labelSelector")
        seen.add(key)
