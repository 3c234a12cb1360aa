"""The life of an intent: every state knows what each event makes of it, and a claim's entry has the open ones."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import msgspec
import pytest

from mooring.api.core import SecretReference
from mooring.sidecars.provisioner.model.intent import (
    NEXT,
    ClaimIntents,
    Intent,
    IntentEvent,
    IntentState,
    entry_after,
)
from tests.support.intents import an_entry
from tests.support.rows import each_row

BEGUN, LEFT, MADE, LOST, REFUSED, DOOMED, ABSENT, STORED = IntentEvent
S = IntentState


def test_the_table_is_complete():
    assert set(itertools.product(IntentState, IntentEvent)) == set(NEXT)


def test_every_state_is_reached_and_left():
    assert set(IntentState) == {after for (before, _), after in NEXT.items() if after not in (None, before)}
    assert set(IntentState) == {before for (before, _), after in NEXT.items() if after not in (None, before)}


@each_row("state", [state for state in IntentState if state is not S.CLOSED])
def test_what_may_have_been_made_is_closed_by_no_refusal(state: IntentState):
    """But by that of the first call: nothing was asked for before."""
    ends = {event for event in IntentEvent if NEXT[state, event] is S.CLOSED}
    assert {ABSENT, STORED} | ({REFUSED} if state is S.ASKED else set()) == ends


@each_row("state", [S.UNKNOWN, S.REFUSED, S.MADE, S.DELETING])
def test_what_may_have_been_made_is_never_taken_for_a_first_call(state: IntentState):
    assert S.ASKED not in {NEXT[state, event] for event in IntentEvent}


@each_row(
    ("events", "last"),
    [
        pytest.param((BEGUN, MADE, STORED), S.CLOSED, id="P01"),
        pytest.param((BEGUN, LOST, BEGUN, MADE, STORED), S.CLOSED, id="P40"),
        pytest.param((BEGUN, REFUSED), S.CLOSED, id="P43"),
        pytest.param((BEGUN, LOST, BEGUN, REFUSED), S.REFUSED, id="P42"),
        pytest.param((BEGUN, LOST, BEGUN, REFUSED, BEGUN), S.UNKNOWN, id="P42-asked-again"),
        pytest.param((BEGUN, LEFT, BEGUN, REFUSED), S.REFUSED, id="P42-found"),
        pytest.param((BEGUN, MADE, DOOMED, LOST), S.DELETING, id="P36-could-not-be-deleted"),
        pytest.param((BEGUN, MADE, LOST), S.UNKNOWN, id="P36-could-not-be-written"),
        pytest.param((BEGUN, MADE, DOOMED, ABSENT), S.CLOSED, id="P46-refused-and-deleted"),
    ],
)
def test_lives(events: Sequence[IntentEvent], last: IntentState):
    state: IntentState | None = S.CLOSED
    for event in events:
        assert state is not None
        state = NEXT[state, event]
    assert last is state


# -- the entry of a claim

ONE, OTHER = (Intent("u", "ns", "c", "pvc-u", f'{{"name":"{name}"}}', "{}") for name in ("one", "other"))
ELSEWHERE = msgspec.structs.replace(ONE, secret=SecretReference("s", "ns"))


def played(*steps: tuple[Intent, IntentEvent], entry: ClaimIntents | None = None) -> ClaimIntents | None:
    for intent, event in steps:
        entry = entry_after(entry, intent, event)
    return entry


BOTH = an_entry(ONE, OTHER, state=S.REFUSED)


@each_row(
    ("steps", "left"),
    [
        pytest.param(
            [(OTHER, REFUSED), (ONE, REFUSED)], an_entry(OTHER, ONE, state=S.REFUSED), id="the last goes last"
        ),
        pytest.param([(ONE, ABSENT)], an_entry(OTHER, state=S.REFUSED), id="one proved absent says nothing of another"),
        pytest.param([(ONE, BEGUN)], an_entry(OTHER, ONE), id="the one that is asked for is the current one"),
        pytest.param([(ELSEWHERE, BEGUN)], an_entry(ONE, OTHER, ELSEWHERE, state=S.ASKED), id="another account"),
        pytest.param([(ELSEWHERE, REFUSED)], BOTH, id="refused at the first call"),
        pytest.param([(ONE, STORED), (OTHER, ABSENT)], None, id="the last request ends the entry"),
    ],
)
def test_P42_what_an_answer_leaves_open(steps: Sequence[tuple[Intent, IntentEvent]], left: ClaimIntents | None):
    assert left == played(*steps, entry=BOTH)


def test_a_request_whose_secret_is_gone_waits_beside_the_one_with_the_new_secret():
    assert an_entry(ONE, ELSEWHERE, state=S.ASKED) == played((ONE, BEGUN), (ONE, LOST), (ELSEWHERE, BEGUN))


@each_row("seed", range(50))
def test_in_any_life_all_but_the_last_request_are_refused(seed: int):
    draw, entry = random.Random(seed), None
    for _ in range(100):
        intent, event = draw.choice((ONE, OTHER, ELSEWHERE)), draw.choice(list(IntentEvent))
        known = None if entry is None else entry.like(intent)
        state = NEXT[S.CLOSED if known is None else known.state, event]
        is_current = entry is None or entry.current is None or entry.current is known
        if state is None or event is LEFT or not (is_current or event is BEGUN):
            continue
        before = () if entry is None else entry.requests
        entry = entry_after(entry, intent, event)
        left = () if entry is None else entry.requests
        assert all(one.state is S.REFUSED for one in left[:-1])
        assert {one.key for one in before} - {intent.key} <= {one.key for one in left}, "of the others none is lost"
