"""The states of a publish that may have happened: the product of its axes."""

from __future__ import annotations

from mooring.sidecars.attacher.memory import NEXT, Evidence, PublishState
from tests.support.rows import each_row

SETTLED, UNCONFIRMED, ORPHANED = PublishState


@each_row(
    ("evidence", "unconfirmed", "orphaned"),
    [
        (Evidence.MARKED, SETTLED, ORPHANED),
        (Evidence.UNKNOWN, UNCONFIRMED, ORPHANED),
        (Evidence.VANISHED, ORPHANED, ORPHANED),
        (Evidence.UNPUBLISHED, SETTLED, ORPHANED),
        (Evidence.RELEASED, SETTLED, ORPHANED),
        (Evidence.SHOWN, SETTLED, SETTLED),
        (Evidence.UNDONE, SETTLED, SETTLED),
    ],
)
def test_evidence_settles_a_publish_or_leaves_it_to_be_undone(evidence, unconfirmed, orphaned):
    assert [SETTLED, unconfirmed, orphaned] == [NEXT[state, evidence] for state in PublishState]


def test_every_state_and_evidence_has_its_field():
    assert {(state, evidence) for state in PublishState for evidence in Evidence} == set(NEXT)


def test_only_what_vanishes_is_orphaned_and_only_what_is_sure_ends_that():
    assert {Evidence.VANISHED} == {one for one in Evidence if NEXT[UNCONFIRMED, one] is ORPHANED}
    assert {Evidence.SHOWN, Evidence.UNDONE} == {one for one in Evidence if NEXT[ORPHANED, one] is SETTLED}
