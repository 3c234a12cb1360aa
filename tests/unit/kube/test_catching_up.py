"""A cache that has to lack nothing that the API server had when it was asked: in virtual time, on the embedded server's
store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.api.coordination import LEASES
from mooring.api.core import NODES, Node
from mooring.api.meta import Kind
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.cache.informer import Change, Informer
from mooring.kube.cache.reflector import CATCHING_UP_S, PROOFS_MAX
from mooring.kube.cluster import Patch, PatchType, Verb, WatchEvent
from mooring.kube.errors import NotServed, ServerError
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import lost

pytestmark = in_virtual_time

LATE_S = 40.0
PAGE = 2


class Trouble(ServerFaults):
    """is_late: watches tell everything LATE_S too late, for as long as they are those of then. is_deaf: no bookmark
    arrives.

    is_failing: every list fails. is_missing: the kind is not served. list_s: how long a list takes. asked: what was
    asked, by verb.
    """

    def __init__(self) -> None:
        self.is_late = self.is_deaf = self.is_failing = self.is_missing = False
        self.list_s = 0.0
        self.asked: list[str] = []
        self.watches_at: list[float] = []

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        self.asked.append(verb)
        if verb == "watch":
            self.watches_at.append(now())
        if self.is_missing:
            raise NotServed("no such kind")
        if verb == Verb.LIST:
            await asyncio.sleep(self.list_s)
        if self.is_failing and verb == Verb.LIST:
            raise ServerError("not now")

    async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        if self.is_late:
            await asyncio.sleep(LATE_S)
        if self.is_deaf and event.object is None:
            raise lost()


class Room:
    """A cache of nodes that lists by pages, beside a server that has so many."""

    def __init__(self, count: int, *, may_be_missing: bool = True) -> None:
        self.trouble, clock, self.count, self._first = Trouble(), LoopClock(), 0, count
        store = new_store(Random(1), 0.0)
        self.users = LocalCluster(store, clock=clock, randomness=Random(2))
        cluster = LocalCluster(store, clock=clock, randomness=Random(3), faults=self.trouble)
        self.cache: Informer[Node] = Informer(
            cluster,
            NODES,
            clock=clock,
            randomness=Random(4),
            page_limit=PAGE,
            may_be_missing=may_be_missing,
            name="nodes",
        )
        self.told: list[Change[Node]] = []
        self.cache.on_change(self.told.append)

    async def add(self) -> None:
        self.count += 1
        await self.users.create(NODES, {"metadata": {"name": f"n-{self.count}"}})

    async def write_elsewhere(self) -> None:
        """The server's version goes on, and the watch has nothing to tell."""
        await self.users.create(LEASES, {"metadata": {"name": "some"}, "spec": {}}, "default")

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        for _ in range(self._first):
            await self.add()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.cache.run(), name="cache")
            await asyncio.sleep(1)
            self.trouble.asked.clear()
            yield
            task.cancel()

    async def catch_up(self) -> float:
        """How long it took."""
        asked_at = now()
        await self.cache.caught_up()
        return now() - asked_at


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_kind_of_one_page_is_listed_anew() -> None:
    room = Room(PAGE)
    async with room.following():
        room.trouble.is_late = True
        await room.add()
        await asyncio.sleep(1)
        assert PAGE == len(room.cache.store), "the watch is late"
        assert 0 == await room.catch_up()
        assert (PAGE + 1, [Verb.LIST] * 2) == (
            len(room.cache.store),
            [verb for verb in room.trouble.asked if verb == Verb.LIST],
        )


async def test_a_long_list_is_watched_on_until_a_bookmark_shows_that_all_has_come() -> None:
    room = Room(9)
    async with room.following():
        await room.write_elsewhere()
        assert 1 <= await room.catch_up() <= 1.3
        assert [Verb.LIST, "watch"] == room.trouble.asked, "its version, and no list"


async def test_what_a_late_watch_still_has_is_waited_for() -> None:
    room = Room(9)
    async with room.following():
        room.trouble.is_late = True
        await room.add()
        await asyncio.sleep(1)
        assert 9 == len(room.cache.store)
        catching_up = asyncio.create_task(room.cache.caught_up())
        await asyncio.sleep(2)
        assert not catching_up.done()
        await catching_up
        assert 10 == len(room.cache.store)


async def test_after_that_the_watch_is_as_long_as_before() -> None:
    room = Room(9)
    async with room.following():
        await room.write_elsewhere()
        await room.catch_up()
        room.trouble.watches_at.clear()
        await asyncio.sleep(600)
        first, *later = room.trouble.watches_at
        assert (CATCHING_UP_S + 1, True) == (pytest.approx(first, abs=1), len(later) <= 2)


async def test_without_bookmarks_all_is_listed_anew() -> None:
    room = Room(9)
    async with room.following():
        room.trouble.is_deaf = True
        await room.write_elsewhere()
        took_s = await room.catch_up()
        assert took_s < 2 * CATCHING_UP_S + 2
        assert 5 <= room.trouble.asked.count(Verb.LIST)


async def test_who_asks_while_tries_back_off_is_served_at_once_when_the_server_is_back() -> None:
    room = Room(9)
    async with room.following():
        room.trouble.is_failing = True
        first = asyncio.create_task(room.cache.caught_up())
        await asyncio.sleep(200)
        assert not first.done()
        room.trouble.is_failing = False
        assert await room.catch_up() <= 1.3
        await first


async def test_several_who_ask_at_once_cost_one_question() -> None:
    room = Room(9)
    async with room.following():
        await room.write_elsewhere()
        await asyncio.gather(*(room.cache.caught_up() for _ in range(5)))
        assert [Verb.LIST, "watch"] == room.trouble.asked


async def test_a_kind_that_may_be_missing_and_is_has_nothing_to_show() -> None:
    room = Room(0)
    room.trouble.is_missing = True
    async with room.following():
        await asyncio.sleep(100)
        assert 0 == await room.catch_up()


async def test_a_kind_that_must_be_there_is_waited_for() -> None:
    """A server that starts, or a proxy, may say for a moment that it has no such kind."""
    room = Room(9, may_be_missing=False)
    async with room.following():
        room.trouble.is_missing = True
        await asyncio.sleep(400)
        await room.add()
        catching_up = asyncio.create_task(room.cache.caught_up())
        await asyncio.sleep(10)
        assert not catching_up.done()
        room.trouble.is_missing = False
        await catching_up
        assert 10 == len(room.cache.store)


async def test_a_cache_that_nobody_follows_yet_will_list_anyway() -> None:
    assert 0 == await Room(1).catch_up()


async def test_handlers_that_come_late_are_told_of_each_object_once_as_it_is_then() -> None:
    room = Room(700)
    room.cache.leave()
    async with room.following():
        assert ([], False) == (room.told, room.cache.has_synced)
        assert room.cache.join()
        await room.users.delete(NODES, "n-700")
        await room.users.delete(NODES, "n-699")
        await room.users.create(NODES, {"metadata": {"name": "n-699", "labels": {"again": ""}}})
        await room.users.patch(NODES, "n-698", Patch(PatchType.MERGE, {"metadata": {"labels": {"new": ""}}}))
        await asyncio.sleep(1)
        assert ["n-699"] == [change.key.name for change in room.told], "the new one: the others' turn is still to come"
        telling = asyncio.create_task(room.cache.tell_all())
        for _ in range(2):
            await asyncio.sleep(0)  # it begins, and pauses once
        assert 1 < len(room.told)
        assert len(room.told) < 699, "others get their turn"
        await room.cache.synced()
        await telling
        told = {change.key.name: change.new for change in room.told}
        assert (699, 699) == (len(room.told), len(told)), "one that is gone by then is not told of"
        assert [{"again": ""}, {"new": ""}] == [told[name].metadata.labels for name in ("n-699", "n-698")]
        assert all(change.old is None for change in room.told)
        assert room.cache.has_synced


async def test_who_asks_while_the_last_proof_is_under_way_is_not_forgotten():
    """Each answer takes so long that it proves nothing: after the last one the watch begins all the same. Simulated
    life 12980 of the attacher: a new leader waited for the ten minutes of that watch.
    """
    room = Room(PAGE + 1)
    async with room.following():
        room.trouble.list_s = 2.0
        async with asyncio.TaskGroup() as group:
            group.create_task(room.catch_up(), name="first")
            await asyncio.sleep(PROOFS_MAX * room.trouble.list_s - 1.0)
            assert [Verb.LIST] * PROOFS_MAX == room.trouble.asked, "the last one is under way"
            second = group.create_task(room.catch_up(), name="second")
        assert second.result() < 4 * CATCHING_UP_S
