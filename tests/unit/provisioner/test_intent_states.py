"""The life of an intent: every state knows what each event makes of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from mooring.sidecars.provisioner.intents.states import NEXT, IntentEvent, IntentState
from mooring.sidecars.provisioner.intents.tracker import still_unknown
from mooring.sidecars.provisioner.model.intent import Intent

BEGUN, FOUND, MADE, LOST, KEPT, RULED_OUT, STORED = IntentEvent
ENDED, OPEN, UNKNOWN, UNRESOLVED, PENDING = IntentState


def test_the_table_is_complete():
    assert set(itertools.product(IntentState, IntentEvent)) == set(NEXT)


def test_every_state_is_reached_and_left():
    assert set(IntentState) == {after for (before, _), after in NEXT.items() if after not in (None, before)}
    assert set(IntentState) == {before for (before, _), after in NEXT.items() if after not in (None, before)}


@pytest.mark.parametrize("state", IntentState)
def test_only_what_is_stored_or_ruled_out_ends(state: IntentState):
    ends = {event for event in IntentEvent if NEXT[state, event] is ENDED}
    assert {RULED_OUT, STORED} == ends


@pytest.mark.parametrize("state", [state for state in IntentState if state is not ENDED])
@pytest.mark.parametrize("event", [BEGUN, FOUND, LOST, KEPT])
def test_what_may_have_been_made_is_never_taken_for_certain(state: IntentState, event: IntentEvent):
    assert state is OPEN or NEXT[state, event] is not OPEN


@pytest.mark.parametrize(
    ("events", "last"),
    [
        pytest.param((BEGUN, MADE, STORED), ENDED, id="P01"),
        pytest.param((BEGUN, LOST, BEGUN, MADE, STORED), ENDED, id="P40"),
        pytest.param((BEGUN, RULED_OUT), ENDED, id="P43"),
        pytest.param((BEGUN, LOST, BEGUN, KEPT), UNRESOLVED, id="P42"),
        pytest.param((BEGUN, LOST, BEGUN, KEPT, BEGUN), UNKNOWN, id="P42-asked-again"),
        pytest.param((FOUND, BEGUN, KEPT), UNRESOLVED, id="P42-found"),
        pytest.param((BEGUN, MADE, LOST), UNKNOWN, id="P36-could-not-be-deleted"),
        pytest.param((BEGUN, MADE, RULED_OUT), ENDED, id="P46-refused-and-deleted"),
    ],
)
def test_lives(events: Sequence[IntentEvent], last: IntentState):
    state: IntentState | None = ENDED
    for event in events:
        assert state is not None
        state = NEXT[state, event]
    assert last is state


ONE, OTHER = (Intent("u", "ns", "c", "pvc-u", f'{{"name":"{name}"}}', "{}") for name in ("one", "other"))


@pytest.mark.parametrize(
    ("proves_absent", "unknown", "left"),
    [
        (False, [ONE, OTHER], [ONE, OTHER]),
        (True, [ONE, OTHER], [OTHER]),
        (True, [ONE], []),
        (False, [], []),
    ],
)
def test_P42_what_an_answer_leaves_unknown(proves_absent: bool, unknown: list[Intent], left: list[Intent]):
    assert left == still_unknown(unknown, ONE, proves_absent=proves_absent)
