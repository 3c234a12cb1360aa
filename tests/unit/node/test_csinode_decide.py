"""What is written to Node and CSINode for a driver that comes or goes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from mooring.api.core import Node
from mooring.api.meta import ObjectMeta, OwnerReference
from mooring.api.storage import CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources
from mooring.control.decision import Decision
from mooring.kube.cluster import Patch
from mooring.node.csinode.decide import (
    MIGRATED,
    NODE_IDS,
    decide_csinode,
    decide_csinode_without,
    decide_migrated,
    decide_node,
    decide_node_without,
    is_of,
    migrated_text,
    new_csinode,
)
from mooring.node.drivers import DriverOnNode
from tests.support.rows import each_row

VERSION = {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}


def a_node(ids: Mapping[str, str] | str = "", **labels: str) -> Node:
    text = ids if isinstance(ids, str) else json.dumps(ids)
    return Node(metadata=ObjectMeta(name="n", uid="u1", labels=labels, annotations={NODE_IDS: text} if text else None))


def a_driver(name: str = "d1", node_id: str = "id1", limit: int = 0, **topology: str) -> DriverOnNode:
    return DriverOnNode(name, node_id, limit, topology)


def an_entry(
    name: str = "d1", node_id: str = "id1", keys: tuple[str, ...] = (), count: int | None = None
) -> CSINodeDriver:
    return CSINodeDriver(name, node_id, keys or None, None if count is None else VolumeNodeResources(count=count))


def a_csinode(*drivers: CSINodeDriver) -> CSINode:
    return CSINode(metadata=ObjectMeta(name="n", resource_version="7"), spec=CSINodeSpec(drivers=drivers or None))


def ids(text: Mapping[str, str]) -> dict[str, str]:
    return {NODE_IDS: json.dumps(text, separators=(",", ":"))}


def bodies(metadata: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Of patches of this node alone."""
    return [] if metadata is None else [{"metadata": {**metadata, "uid": "u1"}}]


def problem_of(decision: Decision[Patch]) -> str:
    """It is no decision to write anything."""
    assert decision.problem is not None
    assert not decision.actions
    return decision.problem.error


@each_row(
    ("node", "coming", "metadata"),
    [
        pytest.param(a_node(), a_driver(k="v"), {"labels": {"k": "v"}, "annotations": ids({"d1": "id1"})}, id="CSN-1"),
        pytest.param(a_node({"d1": "id1"}, k="v"), a_driver(k="v"), None, id="CSN-2"),
        pytest.param(a_node({"d2": "id2"}), a_driver(), {"annotations": ids({"d1": "id1", "d2": "id2"})}, id="CSN-3"),
        pytest.param(a_node({"d1": "old"}), a_driver(), {"annotations": ids({"d1": "id1"})}, id="new-id"),
        pytest.param(a_node({"d1": "id1"}, a="x"), a_driver(a="x", b="y"), {"labels": {"b": "y"}}, id="new-label"),
    ],
)
def test_a_driver_is_entered_at_its_node(node: Node, coming: DriverOnNode, metadata: dict[str, Any] | None) -> None:
    assert bodies(metadata) == [patch.body for patch in decide_node(node, coming).actions]


def test_CSN4_a_label_with_another_value_is_a_collision() -> None:
    decision = decide_node(a_node(k="old"), a_driver(k="new"))
    assert re.search(
        r"detected topology value collision.*'k':'new'.*'k':'old'.*kubectl label node n k-", problem_of(decision)
    )


@each_row("broken", ["{", "[]", '"x"', "1"])
def test_CSN10_a_broken_annotation_is_refused(broken: str) -> None:
    for decision in (decide_node(a_node(broken), a_driver()), decide_node_without(a_node(broken), "d1")):
        assert "annotation" in problem_of(decision)


@each_row(
    ("node", "annotations"),
    [
        pytest.param(a_node({"d1": "id1"}, k="v"), {NODE_IDS: None}, id="CSN-9"),
        pytest.param(a_node({"d1": "id1", "d2": "x"}), ids({"d2": "x"}), id="others-stay"),
        pytest.param(a_node({"d2": "x"}), None, id="absent"),
        pytest.param(a_node(), None, id="none"),
    ],
)
def test_a_driver_is_taken_off_its_node(node: Node, annotations: dict[str, Any] | None) -> None:
    """Labels are in no patch."""
    wanted = bodies(None if annotations is None else {"annotations": annotations})
    assert wanted == [patch.body for patch in decide_node_without(node, "d1").actions]


def entry(name: str = "d1", keys: list[str] | None = None, **allocatable: Any) -> dict[str, Any]:
    return {"name": name, "nodeID": "id1", "topologyKeys": keys, **allocatable}


@each_row(
    ("present", "coming", "operations"),
    [
        pytest.param(
            [],
            a_driver(b="1", a="2"),
            [{"op": "add", "path": "/spec/drivers", "value": [entry(keys=["a", "b"])]}],
            id="CSN-1",
        ),
        pytest.param([an_entry(keys=("b", "a"))], a_driver(a="1", b="2"), [], id="CSN-2"),
        pytest.param(
            [an_entry("d2")], a_driver(), [{"op": "add", "path": "/spec/drivers/-", "value": entry()}], id="CSN-3"
        ),
        pytest.param(
            [an_entry("d2"), an_entry(node_id="old")],
            a_driver(),
            [{"op": "remove", "path": "/spec/drivers/1"}],
            id="new-id",
        ),
        pytest.param(
            [an_entry(keys=("a",))], a_driver(b="1"), [{"op": "remove", "path": "/spec/drivers/0"}], id="new-keys"
        ),
        pytest.param(
            [an_entry(count=5)],
            a_driver(limit=7),
            [{"op": "add", "path": "/spec/drivers/0/allocatable", "value": {"count": 7}}],
            id="ALC-1",
        ),
        pytest.param([an_entry(count=5)], a_driver(limit=5), [], id="same-count"),
        pytest.param(
            [an_entry(count=5)], a_driver(), [{"op": "remove", "path": "/spec/drivers/0/allocatable"}], id="no-count"
        ),
    ],
)
def test_a_driver_is_entered_in_the_csinode(
    present: list[CSINodeDriver], coming: DriverOnNode, operations: list[dict[str, Any]]
) -> None:
    """Every patch names the version that was read: another writer's entry is not lost."""
    wanted = [[VERSION, *operations]] if operations else []
    assert wanted == [patch.body for patch in decide_csinode(a_csinode(*present), coming).actions]


@each_row(
    ("limit", "count"),
    [(10, 10), (2**31 - 1, 2**31 - 1), (2**31, 2**31 - 1), (2**63 - 1, 2**31 - 1), (0, None), (-1, None)],
)
def test_CSN7_a_limit_becomes_a_count(limit: int, count: int | None) -> None:
    (patch,) = decide_csinode(a_csinode(), a_driver(limit=limit)).actions
    (_, operation) = patch.body
    assert ({} if count is None else {"allocatable": {"count": count}}) == {
        key: value for key, value in operation["value"][0].items() if key == "allocatable"
    }


def test_CSN9_the_last_driver_leaves_an_empty_csinode() -> None:
    (patch,) = decide_csinode_without(a_csinode(an_entry()), "d1").actions
    assert [VERSION, {"op": "remove", "path": "/spec/drivers/0"}] == patch.body
    assert () == decide_csinode_without(a_csinode(an_entry("d2")), "d1").actions
    assert () == decide_csinode_without(a_csinode(), "d1").actions


@each_row(
    ("text", "is_right"),
    [
        (migrated_text(), True),
        (",".join(reversed(migrated_text().split(","))), True),
        (migrated_text() + ",", True),
        ("", False),
        ("x", False),
    ],
)
def test_the_annotation_of_migrated_plugins_is_written_when_the_set_differs(text: str, is_right: bool) -> None:
    decision = decide_migrated(
        CSINode(
            metadata=ObjectMeta(name="n", uid="c1", resource_version="7", annotations={MIGRATED: text, "other": "x"})
        )
    )
    wanted = {"metadata": {"annotations": {MIGRATED: migrated_text()}, "resourceVersion": "7", "uid": "c1"}}
    assert ([] if is_right else [wanted]) == [patch.body for patch in decision.actions]


@each_row(
    ("owner", "expected"),
    [
        (OwnerReference(kind="Node", name="n", uid="u1"), True),
        (OwnerReference(kind="Node", name="n", uid="u2"), False),
        (OwnerReference(kind="Node", name="m", uid="u1"), False),
        (OwnerReference(kind="Pod", name="n", uid="u1"), False),
        (None, False),
    ],
)
def test_CSN5_a_csinode_belongs_to_one_node(owner: OwnerReference | None, expected: bool) -> None:
    csinode = CSINode(metadata=ObjectMeta(name="n", owner_references=(owner,) if owner else None))
    assert expected == is_of(csinode, a_node())


def test_CSN1_a_new_csinode_is_owned_by_its_node() -> None:
    made = new_csinode(a_node())
    assert [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u1"}] == made["metadata"]["ownerReferences"]
    assert {"drivers": []} == made["spec"]
