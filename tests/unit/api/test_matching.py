from __future__ import annotations

import msgspec

from mooring.api.core import NodeSelector
from mooring.api.matching import node_matches, selects, topology_matches
from mooring.api.meta import LabelSelector
from mooring.api.storage import TopologySelectorTerm
from tests.support.rows import each_row

LABELS = {"zone": "a", "size": "4"}


def _expression(key: str, operator: str, *values: str) -> dict[str, object]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@each_row(
    ("selector", "expected"),
    [
        ({}, True),
        ({"matchLabels": {"zone": "a"}}, True),
        ({"matchLabels": {"zone": "b"}}, False),
        ({"matchLabels": {"zone": "a"}, **_expression("size", "In", "5")}, False),
        (_expression("zone", "In", "b", "a"), True),
        (_expression("zone", "NotIn", "a"), False),
        (_expression("none", "NotIn", "a"), True),
        (_expression("none", "Exists"), False),
        (_expression("none", "DoesNotExist"), True),
        (_expression("zone", "Unheard"), False),
    ],
)
def test_label_selectors(selector: object, expected: bool) -> None:
    assert expected is selects(msgspec.convert(selector, LabelSelector), LABELS)
    assert selects(LabelSelector(), None)


@each_row(
    ("terms", "expected"),
    [
        ([], False),
        ([{}], False),
        ([_expression("zone", "In", "b"), _expression("zone", "In", "a")], True),
        ([_expression("size", "Gt", "3")], True),
        ([_expression("size", "Lt", "3")], False),
        ([_expression("size", "Gt", "many")], False),
        ([_expression("size", "Gt", "0003")], True),
        ([_expression("size", "Gt", "-3")], False),
        ([_expression("size", "Lt", "1_0")], False),
        ([_expression("size", "Lt", "9223372036854775807")], True),
        ([_expression("size", "Lt", "9223372036854775808")], False),
        ([_expression("size", "Gt")], False),
        ([_expression("size", "Gt", "3", "3")], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}], False),
    ],
)
def test_node_selectors(terms: object, expected: bool) -> None:
    assert expected is node_matches(msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector), LABELS, "n1")


@each_row(
    ("terms", "expected"),
    [
        ([], True),
        ([{}], False),
        ([{"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]}], True),
        ([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}, {"key": "size", "values": ["5"]}]}], False),
    ],
)
def test_allowed_topologies(terms: object, expected: bool) -> None:
    assert expected is topology_matches(msgspec.convert(terms, tuple[TopologySelectorTerm, ...]), LABELS)
