"""LabelSelector and NodeSelector as fields of other kinds: what is valid in them, and which labels are outdated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from mooring.api import names
from mooring.apiserver import field_errors, metadata
from mooring.apiserver.codecs.schema import Messages
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks


def validate_labels(selector: Json, field: str) -> Iterator[FieldCause]:
    yield from metadata.labels(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for number, requirement in enumerate(selector.get("matchExpressions") or []):
        yield from _validate_label_requirement(requirement, f"{field}.matchExpressions[{number}]")


def _validate_label_requirement(requirement: Json, field: str) -> Iterator[FieldCause]:
    yield from _validate_operator(requirement, field, ())
    yield from _validate_operands(requirement, field)


def _validate_operands(requirement: Json, field: str, *, any_value: bool = False) -> Iterator[FieldCause]:
    yield from field_errors.named(requirement["key"], f"{field}.key", names.qualified_name)
    if any_value:
        return
    for index, value in enumerate(requirement.get("values") or []):
        yield from field_errors.named(value, f"{field}.values[{index}]", names.label_value)


def _validate_operator(requirement: Json, field: str, comparing: Sequence[str]) -> list[FieldCause]:
    """comparing: operators that take one value."""
    operator, values = requirement["operator"], requirement.get("values") or []
    if operator in comparing:
        text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        return [] if len(values) == 1 else [field_errors.required(f"{field}.values", text)]
    match operator:
        case "In" | "NotIn":
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            return [] if values else [field_errors.required(f"{field}.values", text)]
        case "Exists" | "DoesNotExist":
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            return [field_errors.forbidden(f"{field}.values", text)] if values else []
    return [field_errors.invalid(f"{field}.operator", operator, "not a valid selector operator")]


NODE_MESSAGES: Final = Messages("""
NodeSelector=: 1 nodeSelectorTerms *NodeSelectorTerm!
NodeSelectorTerm=: 1 matchExpressions *NodeSelectorRequirement, 2 matchFields *NodeSelectorRequirement
NodeSelectorRequirement: 1 key s!, 2 operator s!, 3 values *s
""")

_GA_LABELS: Final = {
    "beta.kubernetes.io/arch": ("kubernetes.io/arch", "v1.14"),
    "beta.kubernetes.io/os": ("kubernetes.io/os", "v1.14"),
    "failure-domain.beta.kubernetes.io/zone": ("topology.kubernetes.io/zone", "v1.17"),
    "failure-domain.beta.kubernetes.io/region": ("topology.kubernetes.io/region", "v1.17"),
    "beta.kubernetes.io/instance-type": ("node.kubernetes.io/instance-type", "v1.17"),
}


def validate_nodes(selector: Json, field: str) -> Iterator[FieldCause]:
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        yield field_errors.required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")
        return
    for number, term in enumerate(terms):
        yield from validate_term(term, f"{field}.nodeSelectorTerms[{number}]")


def validate_term(term: Json, field: str, *, any_value: bool = False) -> Iterator[FieldCause]:
    """any_value: also values that no label has."""
    for at, requirement in checks.each(term.get("matchExpressions"), f"{field}.matchExpressions"):
        yield from _validate_operands(requirement, at, any_value=any_value)
        yield from _validate_operator(requirement, at, ("Gt", "Lt"))
    for index, requirement in enumerate(term.get("matchFields") or []):
        yield from _validate_field(requirement, f"{field}.matchFields[{index}]")


def node_warnings(selector: Json, field: str) -> list[str]:
    """Warnings about labels that have been renamed."""
    terms = enumerate(selector.get("nodeSelectorTerms") or [])
    return [text for number, term in terms for text in term_warnings(term, f"{field}.nodeSelectorTerms[{number}]")]


def term_warnings(term: Json, field: str) -> list[str]:
    keys = enumerate(requirement["key"] for requirement in term.get("matchExpressions") or [])
    return [text for number, key in keys for text in outdated(key, f"{field}.matchExpressions[{number}].key")]


def value_warnings(term: Json, field: str) -> Iterator[str]:
    """Warnings about values that no label has, where they are allowed."""
    for at, requirement in checks.each(term.get("matchExpressions"), f"{field}.matchExpressions"):
        for place, value in checks.each(requirement.get("values"), f"{at}.values"):
            yield from (f"{place}: {value} is invalid, {reason}" for reason in names.label_value(value))


def outdated(key: str, field: str, *, alone: bool = False) -> list[str]:
    """The warning about a label that has another name by now. alone: the field holds nothing but the label."""
    if key not in _GA_LABELS:
        return []
    label, since = _GA_LABELS[key]
    return [f'{field}: {"" if alone else f"{key} is "}deprecated since {since}; use "{label}" instead']


def same_but_for_ga_labels(new: Any, old: Any) -> bool:
    """True if nothing changed but beta labels that became the GA ones. As for the real server, a label without a new
    name became "".
    """
    if isinstance(new, dict) and isinstance(old, dict):
        renamed = "key" in old and new.get("key") == _GA_LABELS.get(old["key"], ("",))[0]
        names = (new.keys() | old.keys()) - ({"key"} if renamed else set())
        return all(same_but_for_ga_labels(new.get(name), old.get(name)) for name in names)
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(same_but_for_ga_labels, new, old))
    return bool(new == old)


def _validate_field(requirement: Json, field: str) -> Iterator[FieldCause]:
    values = requirement.get("values") or []
    if requirement["operator"] not in ("In", "NotIn"):
        yield field_errors.invalid(f"{field}.operator", requirement["operator"], "not a valid selector operator")
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield field_errors.required(f"{field}.values", text)
    if requirement["key"] != "metadata.name":
        yield field_errors.invalid(f"{field}.key", requirement["key"], "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from field_errors.named(value, f"{field}.values[{index}]", names.dns_subdomain)
