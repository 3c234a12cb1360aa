"""A text is told once about an object, and again when it is another one, or lasts."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.core import ObjectReference
from mooring.base.clock import LoopClock
from mooring.control import events as room
from mooring.control.events import REPEAT_S, EventOnce
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


class Events:
    """Takes an EventRecorder's place. has_room: False where each event is dropped."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str, str]] = []
        self.has_room = True

    def event(self, ref: ObjectReference, type: str, reason: str, message: str) -> bool:
        if self.has_room:
            self.told.append((ref.name, type, reason, message))
        return self.has_room

    @property
    def texts(self) -> list[str]:
        return [text for *_, text in self.told]


def of(name: str) -> ObjectReference:
    return ObjectReference("v1", "PersistentVolumeClaim", "default", name, f"uid-{name}")


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
async def once(events: Events) -> EventOnce:
    return EventOnce(events, LoopClock())  # type: ignore[arg-type]


async def test_the_same_is_told_once_of_each_object(events: Events, once: EventOnce):
    for name in ("a", "a", "b"):
        once.tell(of(name), "Failed", "no room")
    assert [("a", "Warning", "Failed", "no room"), ("b", "Warning", "Failed", "no room")] == events.told


async def test_another_text_is_told_at_once_and_so_is_the_first_after_it(events: Events, once: EventOnce):
    for text in ("no room", "no right", "no room"):
        once.tell(of("a"), "Failed", text, type="Normal")
    assert ["no room", "no right", "no room"] == events.texts


async def test_what_lasts_is_told_again(events: Events, once: EventOnce):
    once.tell(of("a"), "Failed", "no room")
    await asyncio.sleep(REPEAT_S - 1)
    assert pytest.approx(1.0) == once.left_s("uid-a", "no room")
    once.tell(of("a"), "Failed", "no room")
    await asyncio.sleep(1.5)
    once.tell(of("a"), "Failed", "no room")
    assert ["no room", "no room"] == events.texts


async def test_several_things_about_an_object_do_not_hide_each_other(events: Events, once: EventOnce):
    for _ in range(2):
        once.tell(of("a"), "Failed", "no room", about="pv-1")
        once.tell(of("a"), "Failed", "no node", about="pv-2")
    assert ["no room", "no node"] == events.texts
    once.forget("uid-a", "pv-1")
    for about, text in (("pv-1", "no room"), ("pv-2", "no node")):
        once.tell(of("a"), "Failed", text, about=about)
    assert ["no room", "no node", "no room"] == events.texts


async def test_another_object_of_the_name_hears_it_anew(events: Events, once: EventOnce):
    once.tell(of("a"), "Failed", "no room")
    once.forget("uid-a")
    once.tell(of("a"), "Failed", "no room")
    assert ["no room", "no room"] == events.texts


async def test_what_is_new_in_a_status_is_told_anyway(events: Events, once: EventOnce):
    once.tell(of("a"), "Failed", "no room")
    once.tell(of("a"), "Failed", "no room", anew=True)
    assert ["no room", "no room"] == events.texts


async def test_what_was_told_anew_is_told_again_only_after_its_time(events: Events, once: EventOnce):
    once.tell(of("a"), "Failed", "no room")
    await asyncio.sleep(REPEAT_S - 1)
    once.tell(of("a"), "Failed", "no room", anew=True)
    assert pytest.approx(REPEAT_S) == once.left_s("uid-a", "no room")
    await asyncio.sleep(2)
    once.tell(of("a"), "Failed", "no room")
    assert ["no room", "no room"] == events.texts


async def test_an_event_that_was_dropped_is_told_at_the_next_look(events: Events, once: EventOnce):
    events.has_room = False
    once.tell(of("a"), "Failed", "no room")
    assert 0 == once.left_s("uid-a", "no room")
    events.has_room = True
    once.tell(of("a"), "Failed", "no room")
    assert ["no room"] == events.texts


async def test_a_message_of_a_log_is_told_once(once: EventOnce):
    assert [True, False, True] == [once.note("node-1", version) for version in ("1.0", "1.0", "1.1")]


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(room, "OBJECTS_MAX", 2)
    once = EventOnce(None, LoopClock())
    assert [True] * 3 == [once.note(uid, "no room") for uid in ("a", "b", "c")]
    assert [True, False] == [once.note(uid, "no room") for uid in ("a", "c")], "the first one was given up"


async def test_what_nobody_forgets_is_over_after_a_while() -> None:
    """Its text would be sent again by then, so nothing need be remembered."""
    once = EventOnce(None, LoopClock())
    for number in range(100):
        once.note(f"uid-{number}", "text")
        await asyncio.sleep(60)
    assert len(once._sent) <= 1.25 * (REPEAT_S / 60 + 2)
