"""The row of a node."""

from __future__ import annotations

import pytest

from mooring.dev.live.board import NodeRow, ObjectBoard
from mooring.dev.live.model import ZONE, Model, node_rows
from tests.support.builders import Json, a_csi_node, a_pod, a_ready_node, an_attached_va, typed
from tests.support.rows import each_row

UNREACHABLE = "node.kubernetes.io/unreachable"


def the_row(
    node: Json, csi_node: Json | None = None, pods: tuple[Json, ...] = (), attachments: tuple[Json, ...] = ()
) -> NodeRow:
    csi_nodes = [typed(csi_node)] if csi_node else []
    (row,) = node_rows(
        ObjectBoard(
            [typed(node)], csi_nodes, [typed(pod) for pod in pods], attachments=[typed(one) for one in attachments]
        )
    )
    return row


@each_row(
    ("node", "csi_node", "expected"),
    [
        pytest.param(a_ready_node("n1"), None, NodeRow("n1", "Ready", "", 0, None, 0), id="ready"),
        pytest.param(a_ready_node("n1", ready=False), None, NodeRow("n1", "NotReady", "", 0, None, 0), id="not-ready"),
        pytest.param(
            a_ready_node("n1", ready=None), None, NodeRow("n1", "Unknown", "", 0, None, 0), id="never-heard-of"
        ),
        pytest.param(a_ready_node("n1", **{ZONE: "a"}), None, NodeRow("n1", "Ready", "a", 0, None, 0), id="zone"),
        pytest.param(
            a_ready_node("n1", rack="r", shelf="s"),
            a_csi_node("n1", keys=["rack", "shelf"]),
            NodeRow("n1", "Ready", "r/s", 0, None, 0),
            id="rack",
        ),
        pytest.param(a_ready_node("n1"), a_csi_node("n1", count=5), NodeRow("n1", "Ready", "", 0, 5, 0), id="limit"),
        pytest.param(
            a_ready_node(
                "n1", taints=({"key": UNREACHABLE, "effect": "NoSchedule"}, {"key": UNREACHABLE, "effect": "NoExecute"})
            ),
            None,
            NodeRow("n1", "Ready", "", 0, None, 0, ("unreachable:NoExecute",)),
            id="one-taint-two-effects",
        ),
        pytest.param(
            a_ready_node("n1", taints=({"key": "example.com/gpu", "effect": "NoSchedule"},), unschedulable=True),
            None,
            NodeRow("n1", "Ready", "", 0, None, 0, ("example.com/gpu:NoSchedule", "unschedulable")),
            id="somebodys-taint-and-cordoned",
        ),
    ],
)
def test_a_node(node: Json, csi_node: Json | None, expected: NodeRow) -> None:
    assert expected == the_row(node, csi_node)


def test_its_volumes_and_pods_are_counted() -> None:
    pods = (a_pod("a", node="n1"), a_pod("b", node="n2"), a_pod("c", node="n1", phase="Failed"))
    attachments = (an_attached_va("x", "pv1", "n1"), an_attached_va("y", "pv2", "n1", status={"attached": False}))
    row = the_row(a_ready_node("n1"), None, pods, attachments)
    assert (1, 1) == (row.attached, row.pods)


def test_since_when_a_node_is_not_well() -> None:
    model = Model()
    boards = [
        model.board(ObjectBoard([typed(a_ready_node("n1", ready=ready))]), now)
        for ready, now in ((True, 0.0), (False, 5.0), (False, 9.0))
    ]
    assert [None, 0.0, 4.0] == [board.nodes[0].for_s for board in boards]
    assert [False, True, True] == [board.ticks for board in boards]
