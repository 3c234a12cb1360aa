"""The creation of a snapshot as a state machine. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

import pytest

from mooring.csi.errors import NON_FINAL, DriverError
from mooring.sidecars.snapshotter.creation import GIVE_UP_S, NEXT, Event, Memory, Outcome, State, Step, event_of
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row


def test_the_table_has_each_event_in_each_state():
    assert {(state, event) for state in State for event in Event} == set(NEXT)


def test_S36_only_the_refusal_of_a_first_request_is_for_good():
    over = {key for key, step in NEXT.items() if step.outcome is Outcome.NOTHING}
    assert {(State.FIRST, Event.REFUSED), (State.FIRST, Event.REFUSED_TOO_LONG)} == over
    assert {State.NEVER} == {state for (state, event), step in NEXT.items() if step.state is State.FIRST}


def test_S38_what_a_former_request_may_have_made_is_given_up_by_a_long_refusal_alone():
    given_up = {key for key, step in NEXT.items() if step.outcome is Outcome.GIVEN_UP}
    assert {(State.PERHAPS, Event.REFUSED_TOO_LONG)} == given_up
    assert Step(State.PERHAPS) == NEXT[State.PERHAPS, Event.REFUSED]


@each_row("state", list(State))
def test_a_doubt_does_not_end_unless_the_driver_or_a_deletion_ends_it(state):
    """Nothing makes NEVER of a request that was sent but the refusal of the first one, or an unsent first one."""
    steps = {event: NEXT[state, event] for event in Event}
    assert Step(State.PERHAPS) == steps[Event.UNCLEAR]
    assert Step(State.PERHAPS, Outcome.MADE) == steps[Event.ANSWERED]
    assert Step(State.DELETED) == steps[Event.DELETED]
    assert (state in (State.NEVER, State.FIRST)) == (Step(State.NEVER) == steps[Event.UNREACHED])


def error(code: int = Code.INTERNAL, **fields: bool) -> DriverError:
    return DriverError(code, "no", **fields)


@each_row(
    ("failed", "deletion_s", "event"),
    [
        (error(unsent=True), None, Event.UNREACHED),
        (error(answered=True), None, Event.UNCLEAR),
        (error(answered=True), GIVE_UP_S, Event.UNCLEAR),
        (error(), None, Event.REFUSED),
        (error(), GIVE_UP_S - 1, Event.REFUSED),
        (error(), GIVE_UP_S, Event.REFUSED_TOO_LONG),
        *((error(code), GIVE_UP_S, Event.UNCLEAR) for code in sorted(NON_FINAL)),
    ],
)
def test_S37_the_event_of_a_failed_request(failed, deletion_s, event):
    assert event is event_of(failed, deletion_s)


def test_nothing_is_known_after_a_restart():
    memory = Memory()
    memory.advance("uid", Event.SENT, 0.0, {"pool": "a"})
    assert (State.PERHAPS, {"pool": "a"}) == (memory.of("uid").state, memory.of("uid").parameters)
    assert Outcome.OPEN is memory.advance("uid", Event.REFUSED, 0.0)


def test_the_parameters_of_a_request_are_kept_until_its_outcome_is_known():
    memory = Memory()
    memory.advance("uid", Event.MARKED, 0.0)
    memory.advance("uid", Event.SENT, 0.0, {"pool": "a"})
    memory.advance("uid", Event.UNCLEAR, 0.0)
    assert {"pool": "a"} == memory.of("uid").parameters
    memory.advance("uid", Event.ANSWERED, 0.0)
    assert None is memory.of("uid").parameters


def test_the_time_of_a_deletion_is_kept_until_it_is_made_again():
    memory = Memory()
    memory.advance("uid", Event.DELETED, 7.0)
    assert pytest.approx(7.0) == memory.of("uid").deleted_at
    memory.advance("uid", Event.SENT, 8.0, {})
    assert None is memory.of("uid").deleted_at


def test_S34_one_request_by_name_answers_a_question_that_told_nothing():
    memory = Memory()
    memory.change("uid", by_name=True)
    memory.advance("uid", Event.SENT, 0.0, {})
    assert not memory.of("uid").by_name
