"""Who may call the driver, and who is called up when a turn ends."""

from __future__ import annotations

import dataclasses

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mooring.controllers.attacher.turns import Turn, Turns


class Hall:
    """calls: names called up, in order. first: names that go first."""

    def __init__(self, calls_max: int = 2, first: tuple[str, ...] = ()) -> None:
        self.called: list[str] = []
        self.turns = Turns(calls_max, self.called.append, lambda name: name not in first)


def test_the_end_of_a_turn_calls_up_one_who_waits_for_that_volume():
    hall = Hall()
    turn = hall.turns.begin("v1", "a")
    for name in ("b", "c"):
        hall.turns.wait("v1", name)
    with turn:
        assert [] == hall.called
    assert ["b"] == hall.called


def test_detaches_are_called_up_first():
    hall = Hall(first=("detach",))
    turn = hall.turns.begin("v1", "a")
    for name in ("attach", "detach"):
        hall.turns.wait("v1", name)
    with turn:
        pass
    assert ["detach"] == hall.called


def test_who_was_called_up_and_has_no_use_for_it_passes_it_on():
    hall = Hall()
    turn = hall.turns.begin("v1", "a")
    for name in ("b", "c"):
        hall.turns.wait("v1", name)
    with turn:
        pass
    hall.turns.looked_at("b")
    assert ["b", "c"] == hall.called


def test_who_waits_for_any_call_goes_in_order_of_arrival():
    hall = Hall(calls_max=1)
    turn = hall.turns.begin("v1", "a")
    assert hall.turns.calls_full
    for name in ("z", "b"):
        hall.turns.wait(None, name)
    with turn:
        turn.call_over()
        assert ["z"] == hall.called
        assert not hall.turns.calls_full
    assert ["z"] == hall.called


def test_one_who_waits_for_a_volume_is_called_up_though_no_call_is_free():
    """It will find so, and wait for any call: else nobody would ever call it."""
    hall = Hall(calls_max=1)
    first = hall.turns.begin("v1", "a")
    hall.turns.wait("v1", "b")
    with first:
        first.call_over()
        second = hall.turns.begin("v2", "c")
    assert ["b"] == hall.called
    hall.turns.wait(None, "b")
    hall.turns.looked_at("b")
    with second:
        pass
    assert ["b", "b"] == hall.called


def test_one_who_is_gone_is_not_called_up():
    hall = Hall()
    turn = hall.turns.begin("v1", "a")
    for name in ("b", "c"):
        hall.turns.wait("v1", name)
    hall.turns.forget("b")
    with turn:
        pass
    assert ["c"] == hall.called


@dataclasses.dataclass
class Wish:
    volume: str
    turn: Turn | None = None


class EveryWishComesTrue(RuleBasedStateMachine):
    """Keys that want turns, looked at in any order, some losing interest: nobody is left waiting while a turn is free."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[str] = []
        self.turns = Turns(2, self._call_up, lambda name: name)
        self.wishes: dict[str, Wish] = {}
        self.number = 0

    def _call_up(self, name: str) -> None:
        if name not in self.queue:
            self.queue.append(name)

    @rule(volume=st.sampled_from("xyz"))
    def comes(self, volume: str) -> None:
        self.number += 1
        name = f"k{self.number}"
        self.wishes[name] = Wish(volume)
        self.queue.append(name)

    @rule(data=st.data())
    def is_looked_at(self, data: st.DataObject) -> None:
        if not self.queue:
            return
        name = self.queue.pop(data.draw(st.integers(0, len(self.queue) - 1)))
        wish = self.wishes.get(name)
        if wish is not None and wish.turn is None:
            if wish.volume in self.turns.in_flight:
                self.turns.wait(wish.volume, name)
            elif self.turns.calls_full:
                self.turns.wait(None, name)
            else:
                wish.turn = self.turns.begin(wish.volume, name)
        self.turns.looked_at(name)

    @rule(data=st.data())
    def answers(self, data: st.DataObject) -> None:
        running = sorted(name for name, wish in self.wishes.items() if wish.turn is not None)
        if running:
            turn = self.wishes[data.draw(st.sampled_from(running))].turn
            assert turn is not None
            turn.call_over()

    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        running = sorted(name for name, wish in self.wishes.items() if wish.turn is not None)
        if running:
            turn = self.wishes.pop(data.draw(st.sampled_from(running))).turn
            assert turn is not None
            with turn:
                pass

    @rule(data=st.data())
    def loses_interest(self, data: st.DataObject) -> None:
        waiting = sorted(name for name, wish in self.wishes.items() if wish.turn is None)
        if waiting:
            name = data.draw(st.sampled_from(waiting))
            del self.wishes[name]
            self.turns.forget(name)

    @invariant()
    def nobody_is_forgotten(self) -> None:
        if self.queue:
            return  # somebody is still going to be looked at
        for wish in self.wishes.values():
            if wish.turn is None:
                assert wish.volume in self.turns.in_flight or self.turns.calls_full


EveryWishComesTrue.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestEveryWishComesTrue = EveryWishComesTrue.TestCase
