"""What keeps two writers apart: a decision counts for the state it was taken on, and a volume is in one hand at a
time.
"""

from __future__ import annotations

import asyncio

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import Key
from mooring.cluster.binder import edits, options
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.volumes.controller import VolumeLocks, unlocked
from mooring.control.caches import Caches
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from tests.support.binding import POD, PV, PVC, BinderWorld, Tenant, annotations, binding
from tests.support.builders import NS, a_claim, a_volume
from tests.support.cluster_world import LateWatch
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


async def test_what_has_changed_since_is_not_written() -> None:
    ours = BinderWorld()
    world = Tenant(ours.users)
    runtime = Runtime(ours.cluster, ours.clock, ours.randomness, ours.metrics)
    shared = Caches(runtime)
    caches = BindingCaches(runtime, shared, schedules=False)
    await world.create(a_claim())
    stale = await ours.users.get(PERSISTENT_VOLUME_CLAIMS, "claim", NS)
    async with asyncio.TaskGroup() as group:
        tasks = shared.start(group)
        await shared.synced()
        await world.patch(PVC, "claim", {"metadata": {"annotations": {"a": "b"}}})
        with pytest.raises(Stale):
            await caches.whole_claims.put(stale, edits.ask("p"))
        assert {"a": "b"} == annotations(await world.get(PVC, "claim"))
        known = caches.claims.store.get(Key(NS, "claim"))
        assert isinstance(known, PersistentVolumeClaim)
        await caches.whole_claims.put(known, edits.select_node("n1"))
        again = caches.claims.store.get(Key(NS, "claim"))
        assert again is not None
        ours.cluster.requests.clear()
        await caches.whole_claims.put(again, edits.select_node("n2"))
        assert ["update persistentvolumeclaims"] == [one.short for one in ours.cluster.requests], (
            "the last answer is remembered"
        )
        await world.delete(PVC, "claim")
        await world.patch(PVC, "claim", {"metadata": {"finalizers": None}})
        await world.gone(PVC, "claim")
        with pytest.raises(Stale):
            await caches.whole_claims.put(again, edits.select_node("n3"))
        for task in tasks:
            task.cancel()


def test_a_volume_is_locked_once_and_its_end_is_told() -> None:
    told: list[str] = []
    locks = VolumeLocks(told.append)
    with locks.lock("pv", Key(NS, "claim")):
        assert (True, False, {"pv": Key(NS, "claim")}) == (locks.is_locked("pv"), locks.is_locked("other"), locks.taken)
        assert [] == told
        with pytest.raises(AssertionError), locks.lock("pv"):
            pass
    assert ([unlocked("pv")], False, {}) == (told, locks.is_locked("pv"), locks.taken)


async def test_a_pod_whose_watch_is_late_is_bound_once() -> None:
    async with binding(LateWatch("pods", seconds=1.0), parts=frozenset({options.SCHEDULER})) as (ours, world):
        node = await world.make_node()
        await world.make_pod()
        await world.scheduled(world("pod"), node)
        await world.patch(POD, world("pod"), {"metadata": {"labels": {"a": "b"}}})
        await world.make_node("n2")
        await asyncio.sleep(30)
        assert ["create pods/binding"] == ours.writes(world("pod"))


async def test_a_volume_that_vanishes_while_it_is_bound_leaves_a_claim_that_waits() -> None:
    async with binding() as (_, world):
        await world.create(a_volume(world("pv")))
        await world.phase(PV, world("pv"), "Available")
        await world.delete(PV, world("pv"))
        await world.create(a_claim(world("claim")))
        await asyncio.sleep(1)
        assert "Pending" == (await world.get(PVC, world("claim")))["status"]["phase"]
