"""Runs the controllers on a record that was cut: its beginning is lost, so that its order can't be kept.

The controllers start anew on what the caches held at the cut, and go their own way from there. They get the events at their times, and the
recorded answer for each request that is the very one of the record. Requests about objects that nobody but the program writes, as the
provisioner's journal, are answered here, from what the program had of them at the cut. Any other request that the record doesn't hold stays
without answer: what waits for it stops there.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Hashable
from typing import Any, TypeVar

import msgspec

from mooring.base.clock import LoopClock
from mooring.control.flight import entries
from mooring.control.flight.entries import Asked, CachedKind, Entry, Header, fault_of
from mooring.control.flight.shown import shown
from mooring.control.order import Unheard, task_name
from mooring.inspect.replay.director import TURNS_MAX, Decided, Departure, Waiter
from mooring.inspect.replay.loop import ReplayLoop
from mooring.inspect.replay.said import Said
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import NotFound

K = TypeVar("K", bound=Hashable)


class OwnObjects:
    """The objects of one kind in one namespace that are the program's own, from what it had of them at the cut."""

    def __init__(self, kept: CachedKind) -> None:
        found: list[dict[str, Any]] = msgspec.json.decode(kept.items)
        self._objects = {one["metadata"]["name"]: one for one in found}
        self._count = 0

    def answer(self, asked: Asked) -> Entry | None:
        """As an API server would; None where it is not about one of them as a whole."""
        if asked.verb not in ("get", "create", "replace") or asked.subresource:
            return None
        if asked.verb != "get":
            self._count += 1
            body = msgspec.json.decode(asked.body)
            body["metadata"]["resourceVersion"] = f"{self._count}"
            self._objects[asked.name] = body
        found = self._objects.get(asked.name)
        if found is None:
            return Entry(entries.ANSWER, fault=fault_of(NotFound(f"{asked.resource} {asked.name!r} not found")))
        return Entry(entries.ANSWER, answer=msgspec.Raw(msgspec.json.encode(found)))


class FreeDirector(Unheard):
    """An `Order` that directs nothing, with the answers of a record. loop, on_decision: as for Director."""

    def __init__(self, loop: ReplayLoop, header: Header, on_decision: Callable[[Decided], None]) -> None:
        super().__init__()
        self._loop, self._on_decision, self._clock = loop, on_decision, LoopClock()
        self._header, self.said = header, Said()
        self._waiters: list[Waiter] = []
        self._answers: dict[tuple[tuple[str, ...], str], deque[Entry]] = defaultdict(deque)  # by place and body
        self._events: dict[tuple[str, ...], deque[Entry]] = defaultdict(deque)  # by what a watch shows
        self._scopes = dict(header.watches)
        self._versions: dict[tuple[str, ...], str] = {}  # the newest that a watch has shown
        self._listed: set[tuple[str, ...]] = set()
        self._own = {
            (one.resource, one.selection[0]): OwnObjects(one) for one in header.caches if one.version == entries.OWN
        }
        self.stopped: Exception | None = None
        self.informers: list[Informer[Any]] = []
        self.decided_count = 0
        self.returned: Callable[[], None] = lambda: None
        self.drained: Callable[[], None] = lambda: None
        self.cancelled: Callable[[], None] = lambda: None

    # -- the course

    def begin(self, record: tuple[Entry, ...], reads: tuple[float, ...]) -> None:
        self._loop.advance(record[0].t if record else 0.0)

    async def run(self, record: tuple[Entry, ...]) -> None:
        """Goes through the record. Raises what on_decision raised, and Departure for a program that runs without end."""
        await self._quiet()
        for entry in record:
            await self._until(entry.t)
            self._came(entry)
            await self._quiet()

    async def _until(self, moment: float) -> None:
        """Time goes on, timer by timer."""
        while (handle := self._loop.earliest(lambda _: True)) is not None and handle.when() <= moment:
            self._loop.advance(handle.when())
            self._loop.fire(lambda one, handle=handle: one is handle)  # type: ignore[misc]
            await self._quiet()
        self._loop.advance(moment)

    async def _quiet(self) -> None:
        for _ in range(TURNS_MAX):
            await self._clock.sleep(0)
            if self.stopped is not None:
                raise self.stopped
            if not self._loop.is_busy:
                return
        raise Departure("the program runs on and on without waiting for anything")

    def _came(self, entry: Entry) -> None:
        """What the line brings, for whoever waits for it, now or later."""
        match entry.kind:
            case entries.OPENED if entry.asked is not None:
                self._scopes[entry.what] = (entry.asked.resource, *entry.asked.selection)
            case entries.EVENT:
                scope = self._scopes.get(entry.what, ())
                self._events[scope].append(entry)
                self._versions[scope] = entry.rv
            case entries.ANSWER | entries.CALL if entry.asked is not None:
                self._answers[entry.asked.place, entry.asked.body].append(entry)
            case entries.DREW:
                self.said.drew(entry)
            case entries.RETURNED:
                self.returned()
            case entries.DRAINED:
                self.drained()
        for waiter in tuple(self._waiters):
            self._serve(waiter)

    def _serve(self, waiter: Waiter) -> None:
        came = (
            self._events.get(waiter.about)
            if waiter.asked is None
            else self._answers.get((waiter.about, waiter.asked.body))
        )
        found = came.popleft() if came else self._owned(waiter.asked) or self._cached(waiter.asked)
        if found is not None:
            self._waiters.remove(waiter)
            waiter.future.set_result(found)

    def _owned(self, asked: Asked | None) -> Entry | None:
        own = None if asked is None else self._own.get((asked.resource, asked.namespace))
        return None if own is None or asked is None else own.answer(asked)

    def _cached(self, asked: Asked | None) -> Entry | None:
        """The answer to a list: what the cache held at the cut."""
        if asked is None or asked.verb != "list" or asked.token:
            return None
        for one in self._header.caches:
            if (one.resource, one.selection) == (asked.resource, asked.selection):
                is_whole = asked.limit != 1  # one object is asked for where the version alone matters
                if is_whole and asked.place in self._listed:
                    return None
                self._listed.add(asked.place)
                version = self._versions.get((one.resource, *one.selection), one.version)
                page = b'{"items":%b,"rv":%b,"token":"","unread":[]}' % (
                    one.items if is_whole else b"[]",
                    msgspec.json.encode(version),
                )
                return Entry(entries.ANSWER, answer=msgspec.Raw(page))
        return None

    # -- for the ports

    async def at_gate(
        self, kinds: tuple[str, ...], about: tuple[str, ...], asked: Asked | None = None, ready: Collection[Any] = ()
    ) -> Entry:
        """The answer, or the next event, once the record has it."""
        waiter = Waiter(kinds, task_name(), about, self._loop.create_future(), asked, ready)
        self._waiters.append(waiter)
        self._serve(waiter)
        try:
            return await waiter.future
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def observed(self, kind: str, about: tuple[str, ...]) -> None: ...

    def unanswered(self) -> list[str]:
        """The requests and calls that wait for their answer."""
        return [str(one.asked) for one in self._waiters if one.asked is not None]

    def now(self) -> float:
        return self._loop.now

    # -- as an Order

    def decided(self, controller: str, key: Hashable, what: object) -> None:
        """An exception of on_decision ends the replay at the next moment of rest: here it would be the worker's."""
        self.decided_count += 1
        because = str(getattr(what, "because", ""))
        if self.stopped is None:
            try:
                self._on_decision(
                    Decided(self.decided_count, self._loop.now, controller, shown(key), because, shown(what))
                )
            except Exception as error:
                self.stopped = error

    def caches(self, informer: Informer[Any]) -> None:
        self.informers.append(informer)
