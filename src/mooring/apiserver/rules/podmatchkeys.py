"""matchLabelKeys and mismatchLabelKeys: labels of the pod itself that a selector of other pods takes up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

_MATCH: Final = "matchLabelKeys"
_MISMATCH: Final = "mismatchLabelKeys"
_TERMS: Final = ("preferredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution")


def merge(pod: Json) -> None:
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
    preferred, required = _TERMS
    for part in ("podAffinity", "podAntiAffinity"):
        content = affinity.get(part) or {}
        yield from (weighted["podAffinityTerm"] for weighted in content.get(preferred) or ())
        yield from content.get(required) or ()


def validate(owner: Json, field: str) -> Iterator[Cause]:
    """owner: a term of an affinity, or a constraint of the spread; it stands at field."""
    matched, other = owner.get(_MATCH) or [], owner.get(_MISMATCH) or []
    for part, keys in ((_MATCH, matched), (_MISMATCH, other)):
        if keys and "labelSelector" not in owner:
            yield field_errors.forbidden(f"{field}.{part}", "must not be specified when labelSelector is not set")
            continue
        for number, key in enumerate(keys):
            yield from checks.named(key, f"{field}.{part}[{number}]", names.qualified_name)
    yield from _validate_selected(matched, owner.get("labelSelector") or {}, field)
    unwanted = {*other}
    for number, key in enumerate(matched):
        if key in unwanted:
            yield field_errors.invalid(f"{field}.{_MATCH}[{number}]", key, f"exists in both {_MATCH} and {_MISMATCH}")


def _validate_selected(keys: Sequence[str], selector: Json, field: str) -> Iterator[Cause]:
    """No key is one that the selector names besides. What a key has put into it stands there once."""
    places = {key: number for number, key in enumerate(keys)}
    seen = {*(selector.get("matchLabels") or ())}
    for expression in selector.get("matchExpressions") or ():
        key = expression["key"]
        if key in places and key in seen:
            yield field_errors.invalid(f"{field}[{places[key]}]", key, f"exists in both {_MATCH} and labelSelector")
        seen.add(key)
