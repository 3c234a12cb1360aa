"""What follows for a publish that may have happened: rows of (the evidence, the next step)."""

from __future__ import annotations

import pytest

from mooring.sidecars.attacher.memory import After, Learnt, decide_after

OVER, UNDO, FREED = After(over=True), After(undo=True), After(over=True, freed=True)


@pytest.mark.parametrize(
    ("learnt", "unconfirmed", "orphaned"),
    [
        (Learnt.MARKED, OVER, UNDO),
        (Learnt.UNSENT, After(ask=True), UNDO),
        (Learnt.UNKNOWN, After(), UNDO),
        (Learnt.VANISHED, UNDO, UNDO),
        (Learnt.UNPUBLISHED, FREED, UNDO),
        (Learnt.RELEASED, OVER, UNDO),
        (Learnt.SHOWN, OVER, OVER),
        (Learnt.UNDONE, FREED, FREED),
    ],
)
def test_a_publish_unconfirmed_is_over_or_undone_by_what_is_learnt(learnt, unconfirmed, orphaned):
    assert (unconfirmed, orphaned) == (decide_after(learnt, orphaned=False), decide_after(learnt, orphaned=True))


def test_every_thing_that_can_be_learnt_has_a_row():
    assert 8 == len(Learnt)
