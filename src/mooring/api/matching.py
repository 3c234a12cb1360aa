"""Selectors as objects hold them: which labels a LabelSelector, a NodeSelector or a class's topology means; tolerations
of taints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mooring.api import names
from mooring.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume, Taint
from mooring.api.meta import LabelSelector, LabelSelectorRequirement
from mooring.api.pods import Toleration
from mooring.api.selector import Requirement
from mooring.api.storage import TopologySelectorTerm

_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent", "Gt": ">", "Lt": "<"}
_NAME: Final = "metadata.name"


def selects(selector: LabelSelector, labels: Mapping[str, str] | None) -> bool:
    """True when all of the selector holds; one of nothing selects everything."""
    have = labels or {}
    wanted = selector.match_labels or {}
    return all(have.get(key) == value for key, value in wanted.items()) and _all_hold(selector.match_expressions, have)


def node_matches(selector: NodeSelector, labels: Mapping[str, str] | None, name: str) -> bool:
    """True when one of the terms matches the node; a selector without a usable term matches none."""
    return any(_term_matches(term, labels or {}, name) for term in selector.node_selector_terms or ())


def fits_node(pv: PersistentVolume, labels: Mapping[str, str] | None, node_name: str) -> bool:
    """True when the volume can be reached from a node with these labels."""
    affinity = pv.spec.node_affinity
    return affinity is None or affinity.required is None or node_matches(affinity.required, labels, node_name)


def topology_matches(terms: Iterable[TopologySelectorTerm] | None, labels: Mapping[str, str] | None) -> bool:
    """True when one of a class's allowedTopologies means a node with these labels; without terms all are meant."""
    given = tuple(terms or ())
    have = labels or {}
    return not given or any(
        bool(term.match_label_expressions)
        and all(have.get(one.key) in (one.values or ()) for one in term.match_label_expressions or ())
        for term in given
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """True when the toleration means this taint. The operators Lt and Gt, which the API server takes behind a gate
    alone, mean none.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value


def _term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return _all_hold(term.match_expressions, labels) and _all_hold(term.match_fields, {_NAME: name})


def _all_hold(
    requirements: Iterable[LabelSelectorRequirement | NodeSelectorRequirement] | None, labels: Mapping[str, str]
) -> bool:
    return all(_holds(one, labels) for one in requirements or ())


def _holds(one: LabelSelectorRequirement | NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    operator = _OPERATORS.get(one.operator)
    if operator is None:
        return False
    values = frozenset(one.values or ())
    if operator in (">", "<") and (len(one.values or ()) != 1 or names.label_value(*values)):
        return False  # Go refuses the whole term: a number with a sign is no label's value
    return Requirement(one.key, operator, values).holds(labels)
