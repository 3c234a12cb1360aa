"""What keeps two writers apart: a decision counts for the state it was taken on, and a volume is in one hand at a time."""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import Key
from mooring.binding import edits, options
from mooring.binding.caches import Caches
from mooring.binding.edits import Moved
from mooring.binding.hands import Hands
from tests.support.bindables import NS, a_claim, a_volume
from tests.support.binding import POD, PV, PVC, LateWatch, Ours, World, annotations
from tests.support.virtual_loop import in_virtual_time


@in_virtual_time
async def test_what_has_changed_since_is_not_written() -> None:
    ours = Ours()
    world = World(ours.users)
    caches = Caches(ours.cluster, ours.clock, ours.chance)
    await world.create(a_claim())
    stale = await ours.users.get(PERSISTENT_VOLUME_CLAIMS, "claim", NS)
    async with asyncio.TaskGroup() as group:
        tasks = caches.start(group)
        await caches.synced()
        await world.patch(PVC, "claim", {"metadata": {"annotations": {"a": "b"}}})
        with pytest.raises(Moved):
            await caches.whole_claims.put(stale, edits.ask("p"))
        assert {"a": "b"} == annotations(await world.get(PVC, "claim"))
        known = caches.claims.store.get(Key(NS, "claim"))
        assert isinstance(known, PersistentVolumeClaim)
        await caches.whole_claims.put(known, edits.select_node("n1"))
        again = caches.claims.store.get(Key(NS, "claim"))
        assert again is not None
        ours.cluster.requests.clear()
        await caches.whole_claims.put(again, edits.select_node("n2"))
        assert ["update persistentvolumeclaims"] == [one.short for one in ours.cluster.requests], "the last answer is remembered"
        await world.delete(PVC, "claim")
        await world.patch(PVC, "claim", {"metadata": {"finalizers": None}})
        await world.gone(PVC, "claim")
        with pytest.raises(Moved):
            await caches.whole_claims.put(again, edits.select_node("n3"))
        for task in tasks:
            task.cancel()


def test_who_waits_for_a_volume_is_woken_once() -> None:
    hands, woken = Hands(), []
    with hands.hold("pv", Key(NS, "claim")):
        assert (True, {"pv": Key(NS, "claim")}) == (hands.is_held("pv"), hands.taken)
        for _ in range(2):
            hands.wait("pv", "me", lambda: woken.append("me"))
        hands.wait("pv", "you", lambda: woken.append("you"))
        assert (True, False) == (hands.has_waiting("me"), hands.has_waiting("nobody"))
    assert (["me", "you"], False, {}) == (woken, hands.is_held("pv"), hands.taken)
    assert not hands.has_waiting("me")


@in_virtual_time
async def test_a_pod_whose_watch_is_late_is_bound_once() -> None:
    ours = Ours(LateWatch("pods", seconds=1.0), parts=frozenset({options.SCHEDULER}))
    async with ours.binding() as world:
        node = await world.make_node()
        await world.make_pod()
        await world.scheduled(world("pod"), node)
        await world.patch(POD, world("pod"), {"metadata": {"labels": {"a": "b"}}})
        await world.make_node("n2")
        await asyncio.sleep(30)
        assert ["create pods/binding"] == ours.writes(world("pod"))


@in_virtual_time
async def test_a_volume_that_vanishes_while_it_is_bound_leaves_a_claim_that_waits() -> None:
    ours = Ours()
    async with ours.binding() as world:
        await world.create(a_volume(world("pv")))
        await world.phase(PV, world("pv"), "Available")
        await world.delete(PV, world("pv"))
        await world.create(a_claim(world("claim")))
        await asyncio.sleep(1)
        assert "Pending" == (await world.get(PVC, world("claim")))["status"]["phase"]
