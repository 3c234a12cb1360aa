"""Events on change and now and then, and those that find no room: told later, not forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mooring.api.core import EVENTS, ObjectReference
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.cluster.binder import options
from mooring.cluster.binder.announcer import Announcer
from mooring.cluster.binder.reasons import EventText
from mooring.cluster.binder.volumes.decide import MISSING_S
from mooring.control import events
from mooring.control.events import EventRecorder
from tests.support.binding import BinderWorld, Tenant
from tests.support.builders import Json, a_bound_claim, a_claim
from tests.support.cluster_world import EPOCH_S
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster

CLAIM = ObjectReference(api_version="v1", kind="PersistentVolumeClaim", namespace="ns", name="claim", uid="u")
TOLD = EventText("Warning", "ClaimLost", "gone")


@in_virtual_time
async def test_what_found_no_room_is_owed() -> None:
    recorder = EventRecorder(FakeCluster(), "test", clock=LoopClock(EPOCH_S), randomness=Random(1))
    announcer = Announcer(recorder, LoopClock(EPOCH_S))
    for _ in range(events.WAITING_MAX):
        recorder.event(CLAIM, *TOLD)
    assert (False, True) == (announcer.tell(CLAIM, TOLD), announcer.owes("u"))
    running = asyncio.create_task(recorder.run())
    await recorder.drain(5)
    assert (True, False) == (announcer.tell(CLAIM, TOLD), announcer.owes("u"))
    running.cancel()


CROWDS = {
    "claims-that-wait": lambda name: a_claim(name, sc=""),
    "claims-that-are-lost": lambda name: a_bound_claim(name, "none"),
}


@in_virtual_time
@pytest.mark.parametrize("body", CROWDS.values(), ids=CROWDS)
async def test_every_object_of_a_crowd_is_told_of(body: Callable[[str], Json], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of the claims that have lost their data, which is said only once."""
    monkeypatch.setattr(events, "WAITING_MAX", 5)
    ours = BinderWorld(parts=frozenset({options.BINDER}))
    world = Tenant(ours.users)
    for number in range(12):
        await world.create(body(world(f"claim{number}")))
    async with ours.binding():
        await asyncio.sleep(60)
    found = (await ours.users.list(EVENTS)).items
    assert 12 == len({event.involved_object.uid for event in found})


@in_virtual_time
async def test_B14_a_volume_that_stays_missing_is_told_after_a_minute() -> None:
    ours = BinderWorld(parts=frozenset({options.BINDER}))
    world = Tenant(ours.users)
    await world.create(a_claim("claim", sc="", volume="missing"))
    async with ours.binding():
        await asyncio.sleep(MISSING_S - 5.0)
        assert () == (await ours.users.list(EVENTS)).items
        await asyncio.sleep(10.0)
        assert ['volume "missing" does not exist'] == [event.message for event in (await ours.users.list(EVENTS)).items]
