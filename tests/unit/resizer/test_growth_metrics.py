"""Whose move a growth waits for, as the metric tells it."""

from __future__ import annotations

from typing import Any

from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.metrics import CONTROLLER, NODE, USER, waits_for
from tests.support.resizing import INFEASIBLE, NODE_INFEASIBLE, NODE_PENDING, NODE_PROGRESS, PROGRESS, condition
from tests.support.rows import each_row
from tests.unit.resizer.views import KEY, a_view, claim_body, pv_body


@each_row(
    ("claim", "pv", "move"),
    [
        (claim_body(1, 1), pv_body(1), ""),
        (claim_body("1024Mi", 1), pv_body(1), ""),
        (claim_body(1, 2), pv_body(2), ""),
        (claim_body(2, 1), pv_body(1), CONTROLLER),
        (claim_body(2, 1, 2, PROGRESS), pv_body(1), CONTROLLER),
        (claim_body(2, 1, 2, NODE_PENDING), pv_body(2), NODE),
        (claim_body(2, 1, 2, NODE_PROGRESS), pv_body(2), NODE),
        (claim_body(2, 1, conditions=[condition(names.FS_PENDING)]), pv_body(2), NODE),
        (claim_body(2, 1, 2, INFEASIBLE), pv_body(1), USER),
        (claim_body(2, 1, 2, NODE_INFEASIBLE), pv_body(2), USER),
        (claim_body("nonsense", 1), pv_body(1), USER),
        (claim_body(2, 1), pv_body(1, csi={"driver": "another"}), ""),
        (claim_body(2, 1), None, ""),
        (claim_body(2, 1, phase="Pending"), pv_body(1), ""),
    ],
)
def test_whose_move_a_growth_waits_for(claim: Any, pv: Any, move: str) -> None:
    view = a_view(claim, pv)
    found = view.claim(KEY)
    assert found is not None
    assert move == waits_for(view, found)
