"""From any state: the quick share of each room. All states: `python -m tests.sim.states --whole`."""

from __future__ import annotations

import itertools

import pytest

from tests.sim.states.run import run_state
from tests.sim.states.shares import ROOMS, quick, run_one
from tests.sim.states.space import Axis, Space

PARTS = 4
"""Of a room's states `make test` takes one in so many, `make test-long` the others."""


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("parts", [(0,), pytest.param((1, 2, 3), marks=pytest.mark.long)], ids=["quick", "long"])
def test_every_state_comes_to_rest(room: str, parts: tuple[int, ...]) -> None:
    for number, state in enumerate(quick(room)):
        if number % PARTS in parts:
            outcome = run_one(room, state)
            assert not outcome.complaints, outcome.report()


def test_a_state_goes_the_same_way_again() -> None:
    room = ROOMS["snapshots"]
    state = room.space.state_of("snap=deleting,content=begun")
    assert run_state(room, state).story == run_state(room, state).story


def test_the_quick_share_has_every_pair_of_values() -> None:
    for room in ROOMS:
        axes = ROOMS[room].space.axes
        wanted = {
            ((one.name, left), (other.name, right))
            for one, other in itertools.combinations(axes, 2)
            for left, right in itertools.product(one.values, other.values)
        }
        has = {pair for state in quick(room) for pair in itertools.combinations(state.items(), 2)}
        assert wanted <= has


def test_a_share_of_a_greater_strength_has_every_triple() -> None:
    space = Space(Axis("a", ("1", "2", "3")), Axis("b", ("1", "2")), Axis("c", ("1", "2", "3")), Axis("d", ("1", "2")))
    triples = {triple for state in space.covering(3) for triple in itertools.combinations(state.items(), 3)}
    wanted = {triple for state in space.whole() for triple in itertools.combinations(state.items(), 3)}
    assert wanted == triples


def test_an_id_names_its_state() -> None:
    for room in ROOMS.values():
        for state in itertools.islice(room.space.whole(), 0, None, 997):
            assert dict(state) == dict(room.space.state_of(room.space.id_of(state)))
