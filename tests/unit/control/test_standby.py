"""A manager that stands by: its caches follow, its controllers and metrics do nothing, and it begins with all that is
there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from mooring.api.core import NODES
from mooring.api.meta import Key
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.cluster.attachdetach.controller import AttachDetach
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.options import BinderOptions
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.manager import Manager, Managers, Work
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.control.test_controller import SETTLED

pytestmark = in_virtual_time


class Room:
    def __init__(self) -> None:
        clock, store = LoopClock(), new_store(Random(1), 0.0)
        self.cluster = LocalCluster(store, clock=clock, randomness=Random(2))
        self.runtime = Runtime(self.cluster, clock, Random(3), Metrics())
        self.seen: list[Key] = []

    def manager(self, caches: Caches | None = None) -> Manager:
        """It notes the nodes."""
        caches = caches or Caches(self.runtime)
        nodes = caches.of(NODES)
        notes: Controller[Key] = Controller(self.runtime, "notes", self._note, workers=1)
        notes.watch(nodes, lambda change: (change.key,))
        return Manager(caches, notes)

    async def _note(self, key: Key) -> Result:
        self.seen.append(key)
        return SETTLED

    async def add(self, name: str) -> None:
        await self.cluster.create(NODES, {"metadata": {"name": name}})


def alone(room: Room) -> Work:
    return room.manager()


def together(room: Room) -> Work:
    caches = Caches(room.runtime)
    return Managers(caches, {"one": room.manager(caches.share())})


@each_row("make", [alone, together])
async def test_it_follows_does_nothing_and_begins_with_what_is_there(make) -> None:
    room = Room()
    await room.add("before")
    async with asyncio.TaskGroup() as group:
        work = make(room)
        following = group.create_task(work.follow())
        await asyncio.sleep(10)
        await room.add("meanwhile")
        await asyncio.sleep(10)
        assert ([], False) == (room.seen, work.has_synced)
        await work.caught_up()
        assert [] == room.seen
        running = group.create_task(work.run())
        await asyncio.sleep(1)
        assert (["meanwhile", "before"], True) == ([key.name for key in room.seen], work.has_synced), (
            "the newest comes first"
        )
        await room.add("later")
        await asyncio.sleep(1)
        assert "later" == room.seen[-1].name
        assert await work.drain(10)
        await running
        following.cancel()


@each_row("make", [alone, together])
async def test_work_that_never_stood_by_follows_by_itself(make) -> None:
    room = Room()
    await room.add("before")
    async with asyncio.TaskGroup() as group:
        work = make(room)
        await work.caught_up()
        running = group.create_task(work.run())
        await asyncio.sleep(1)
        assert ["before"] == [key.name for key in room.seen]
        assert await work.drain(10)
        await running


@contextlib.asynccontextmanager
async def working(work: Work, stood_by_s: float, look: Callable[[], None]) -> AsyncIterator[None]:
    """The block runs once the work has stood by for so long, and looked, and has worked for a second."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work.follow())]
        await asyncio.sleep(stood_by_s)
        look()
        tasks.append(group.create_task(work.run()))
        await asyncio.sleep(1)
        yield
        for task in tasks:
            task.cancel()


async def test_a_standby_of_attach_detach_shows_no_metrics() -> None:
    room, shown = Room(), set[str]()
    work = AttachDetach(room.runtime, AttachDetachOptions())
    async with working(work, 100, lambda: shown.update(_samples(room))):
        assert shown < _samples(room)
    assert shown == _samples(room)


async def test_a_standby_counts_no_volumes() -> None:
    room, shown = Room(), set[str]()
    async with working(make_binder(room.runtime, BinderOptions()), 10, lambda: shown.update(_samples(room))):
        assert "pv_collector_bound_pv_count" not in shown
        assert "pv_collector_bound_pv_count" in _samples(room)


def _samples(room: Room) -> set[str]:
    """The families that say something."""
    return {family.name for family in room.runtime.metrics.registry.collect()}
