"""Which key may call the driver, and which is called up when a slot ends."""

from __future__ import annotations

import dataclasses

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mooring.control.call_slots import CallSlot, CallSlots, call_over


class Hall:
    """called: names called up, in order. told: topics. first: names that go first."""

    def __init__(self, calls_max: int = 2, first: tuple[str, ...] = ()) -> None:
        self.called: list[str] = []
        self.told: list[str] = []
        self.slots: CallSlots[str] = CallSlots(
            self.told.append, calls_max=calls_max, call_up=self.called.append, rank=lambda name: name not in first
        )


def test_whoever_waits_for_its_topic_hears_of_the_end_of_a_call():
    told: list[str] = []
    slots: CallSlots[str] = CallSlots(told.append)
    with slots.begin("v1", "a"), slots.begin("v2", "b"):
        assert ({"v1": "a", "v2": "b"}, False) == (dict(slots.in_flight), slots.is_full)
        assert [] == told
    assert [call_over("v2"), call_over("v1")] == told
    assert {} == dict(slots.in_flight)


def test_the_slot_is_free_when_its_end_is_told():
    free: list[bool] = []
    slots: CallSlots[str] = CallSlots(lambda topic: free.append("v1" not in slots.in_flight))
    with slots.begin("v1", "a"):
        pass
    assert [True] == free


def test_the_end_of_a_slot_calls_up_one_who_waits_for_that_volume():
    hall = Hall()
    slot = hall.slots.begin("v1", "a")
    for name in ("b", "c"):
        hall.slots.wait("v1", name)
    with slot:
        assert [] == hall.called
    assert ["b"] == hall.called


def test_detaches_are_called_up_first():
    hall = Hall(first=("detach",))
    slot = hall.slots.begin("v1", "a")
    for name in ("attach", "detach"):
        hall.slots.wait("v1", name)
    with slot:
        pass
    assert ["detach"] == hall.called


def test_who_was_called_up_and_has_no_use_for_it_passes_it_on():
    hall = Hall()
    slot = hall.slots.begin("v1", "a")
    for name in ("b", "c"):
        hall.slots.wait("v1", name)
    with slot:
        pass
    hall.slots.reconciled("b")
    assert ["b", "c"] == hall.called


def test_who_waits_for_any_call_goes_in_order_of_arrival():
    hall = Hall(calls_max=1)
    slot = hall.slots.begin("v1", "a")
    assert hall.slots.is_full
    for name in ("z", "b"):
        hall.slots.wait(None, name)
    with slot:
        slot.call_over()
        assert ["z"] == hall.called
        assert not hall.slots.is_full
    assert ["z"] == hall.called


def test_one_who_waits_for_a_volume_is_called_up_though_no_call_is_free():
    """It will find so, and wait for any call: else nobody would ever call it."""
    hall = Hall(calls_max=1)
    first = hall.slots.begin("v1", "a")
    hall.slots.wait("v1", "b")
    with first:
        first.call_over()
        second = hall.slots.begin("v2", "c")
    assert ["b"] == hall.called
    hall.slots.wait(None, "b")
    hall.slots.reconciled("b")
    with second:
        pass
    assert ["b", "b"] == hall.called


@dataclasses.dataclass
class Wish:
    volume: str
    slot: CallSlot[str] | None = None


class EveryWishComesTrue(RuleBasedStateMachine):
    """Keys that want slots, reconciled in any order, some losing interest: nobody is left waiting while a slot is
    free.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[str] = []
        self.slots: CallSlots[str] = CallSlots(
            lambda topic: None, calls_max=2, call_up=self._call_up, rank=lambda name: name
        )
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
    def is_reconciled(self, data: st.DataObject) -> None:
        if not self.queue:
            return
        name = self.queue.pop(data.draw(st.integers(0, len(self.queue) - 1)))
        wish = self.wishes.get(name)
        if wish is not None and wish.slot is None:
            if wish.volume in self.slots.in_flight:
                self.slots.wait(wish.volume, name)
            elif self.slots.is_full:
                self.slots.wait(None, name)
            else:
                wish.slot = self.slots.begin(wish.volume, name)
        self.slots.reconciled(name)

    @rule(data=st.data())
    def answers(self, data: st.DataObject) -> None:
        running = sorted(name for name, wish in self.wishes.items() if wish.slot is not None)
        if running:
            slot = self.wishes[data.draw(st.sampled_from(running))].slot
            assert slot is not None
            slot.call_over()

    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        running = sorted(name for name, wish in self.wishes.items() if wish.slot is not None)
        if running:
            slot = self.wishes.pop(data.draw(st.sampled_from(running))).slot
            assert slot is not None
            with slot:
                pass

    @rule(data=st.data())
    def loses_interest(self, data: st.DataObject) -> None:
        waiting = sorted(name for name, wish in self.wishes.items() if wish.slot is None)
        if waiting:
            del self.wishes[data.draw(st.sampled_from(waiting))]

    @invariant()
    def nobody_is_forgotten(self) -> None:
        if self.queue:
            return  # somebody is still going to be looked at
        for wish in self.wishes.values():
            if wish.slot is None:
                assert wish.volume in self.slots.in_flight or self.slots.is_full


EveryWishComesTrue.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestEveryWishComesTrue = EveryWishComesTrue.TestCase
