"""Which changes of a claim wake it: our own writes do not, but what their answers show of others' does, for no event
will.
"""

from __future__ import annotations

import pytest

from mooring.kube.cache.informer import Cause
from mooring.sidecars.resizer.controller import is_news
from mooring.sidecars.resizer.expansion.reconcile import Reconciler as Expansion
from mooring.sidecars.resizer.modification.reconcile import Reconciler as Modification
from mooring.sidecars.resizer.names import CONTROLLER_IN_PROGRESS as PROGRESS
from mooring.sidecars.resizer.names import CONTROLLER_INFEASIBLE as INFEASIBLE
from mooring.sidecars.resizer.names import NODE_IN_PROGRESS, NODE_INFEASIBLE, NODE_PENDING
from mooring.sidecars.resizer.reconcile import ClaimReconciler
from tests.support.builders import Json, typed
from tests.support.rows import each_row
from tests.unit.resizer.views import claim_body


def is_woken(old: Json, new: Json, work: type[ClaimReconciler] = Expansion) -> bool:
    return is_news(work, typed(old), typed(new), Cause.OWN_WRITE)


@each_row(
    ("old", "new"),
    [
        pytest.param(claim_body(9, 1, 3, NODE_IN_PROGRESS), claim_body(9, 3, 3), id="the-node-has-grown-it"),
        pytest.param(
            claim_body(9, 1, 3, NODE_IN_PROGRESS), claim_body(9, 1, 3, NODE_INFEASIBLE), id="the-node-can-not"
        ),
        pytest.param(claim_body(3, 1, 3, PROGRESS), claim_body(9, 1, 3, PROGRESS), id="another-wish"),
        pytest.param(claim_body(3, 1, phase="Pending"), claim_body(3, 1), id="bound"),
    ],
)
def test_the_answer_to_our_own_write_shows_the_work_of_others(old, new):
    assert is_woken(old, new)


@each_row(
    ("old", "new"),
    [
        pytest.param(claim_body(9, 1), claim_body(9, 1, 9, PROGRESS), id="marked"),
        pytest.param(claim_body(9, 1, 3, NODE_INFEASIBLE), claim_body(9, 1, 9, PROGRESS), id="marked-after-a-node"),
        pytest.param(claim_body(9, 1, 9, PROGRESS), claim_body(9, 1, 9, INFEASIBLE), id="refused"),
    ],
)
def test_our_own_write_wakes_nobody(old, new):
    assert not is_woken(old, new)


def test_a_growth_does_not_wake_the_class_of_its_claim():
    assert not is_woken(claim_body(9, 1, 9, PROGRESS), claim_body(9, 1, 9, NODE_PENDING), Modification)
