"""Lets the tasks of a program go on in the order in which a record has them.

A task that waits for an answer, an event, a key, a lock or the end of a sleep stands at a gate. The director goes through the record: it
opens the gate that the next line names, and lets everything run until nothing is ready any more. It sets the time that the line has; timers
end only where the line can't come about otherwise, so that one which was late then is late now.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Hashable
from typing import Any, Final, TypeVar

import msgspec

from mooring.base.clock import LoopClock
from mooring.control.flight import entries
from mooring.control.flight.entries import Asked, Entry
from mooring.control.flight.shown import shown
from mooring.control.order import Unheard, task_name
from mooring.inspect.replay.loop import ReplayLoop, is_sleep, timeout_of
from mooring.inspect.replay.said import Said
from mooring.kube.cache.informer import Informer

K = TypeVar("K", bound=Hashable)

TURNS_MAX: Final = 100_000
"""Turns of the loop for one line of a record: what runs longer runs for ever."""
TICK_S: Final = 0.0011
"""A timer may end so much too early."""


class Waiter(msgspec.Struct, eq=False):
    """A task at a gate. about: the request's place, the watch's scope, the queue, or the wait. ready: keys that a worker may take."""

    kinds: tuple[str, ...]
    who: str
    about: tuple[str, ...]
    future: asyncio.Future[Entry]
    asked: Asked | None = None
    ready: Collection[Any] = ()


class Decided(msgspec.Struct, frozen=True):
    """One decision of the replay. number: from 1."""

    number: int
    t: float
    controller: str
    key: str
    because: str
    shown: str


class Departure(Exception):
    """The replay can't go on as the record has it. str() says where, and what is different."""


class Director(Unheard):
    """An `Order` for a replay. loop: it has to be the one that runs.

    on_decision: called with each decision, in the middle of its step: what it raises ends the replay.
    """

    directs = True

    def __init__(self, loop: ReplayLoop, on_decision: Callable[[Decided], None] = lambda _: None) -> None:
        super().__init__()
        self._loop, self._on_decision, self._clock = loop, on_decision, LoopClock()
        self._waiters: list[Waiter] = []
        self._observed: deque[tuple[str, Any]] = deque()
        self._scopes: dict[str, tuple[str, ...]] = {}
        self.said = Said()
        self.stopped: Exception | None = None
        self.informers: list[Informer[Any]] = []
        self.decided_count = 0
        self.returned: Callable[[], None] = lambda: None
        self.drained: Callable[[], None] = lambda: None
        self.cancelled: Callable[[], None] = lambda: None
        self._is_cancelled = self._is_drained = False

    # -- the course

    def begin(self, record: tuple[Entry, ...], reads: tuple[float, ...]) -> None:
        """What clock and chance say before the first gate. reads: what the clock says until the first line."""
        self._loop.advance(record[0].t if record else 0.0)
        self.said.begin(record, reads)

    async def run(self, record: tuple[Entry, ...]) -> None:
        """Goes through the record. Raises Departure, and what on_decision raised."""
        last = max((place for place, entry in enumerate(record) if entry.kind == entries.DECIDED), default=-1)
        await self._quiet()
        for place, entry in enumerate(record[: last + 1]):
            match entry.kind:
                case entries.DREW | entries.WALL:
                    continue  # they were handed out with the line before them
                case entries.RETURNED:
                    self._pass(record, place)
                    self.returned()
                case entries.DRAINED:
                    self._pass(record, place)
                    self._drain()
                case entries.DECIDED:
                    await self._until(entry, lambda entry=entry: self._takes_decision(entry))  # type: ignore[misc]
                case _:
                    await self._until(entry, lambda entry=entry, place=place: self._opens(record, place, entry))  # type: ignore[misc]
            await self._quiet()

    def _pass(self, record: tuple[Entry, ...], place: int) -> None:
        """From here on the clock and chance say what they said after this line."""
        self._loop.advance(record[place].t)
        self.said.pass_gate(record, place)

    async def _until(self, entry: Entry, is_done: Callable[[], bool]) -> None:
        """Until the line has come about. Raises Departure."""
        while self._timer_shown_by_clock():
            await self._quiet()
        own = self._own_timeout(entry), self._early_timer, self._let_go, self._any_timeout, self._cancel(entry)
        for step in (None, self._on_time(entry), self._timer, *own):
            while True:
                if is_done():
                    return
                if step is None or not step():
                    break
                await self._quiet()
        raise Departure(self._missing(entry))

    def _on_time(self, entry: Entry) -> Callable[[], bool]:
        def advance() -> bool:
            moved = self._loop.now < entry.t
            self._loop.advance(entry.t)
            return moved

        return advance

    def _timer_shown_by_clock(self) -> bool:
        """A timer that ended before the next gate: the clock said something then, and nobody here has asked for that yet."""
        if (said := self.said.last) is None:
            return False
        handle = self._loop.earliest(lambda handle: timeout_of(handle) is None and not is_sleep(handle))
        if handle is None or handle.when() > said + TICK_S:
            return False
        self._loop.advance(handle.when())
        return self._fire(lambda one: one is handle)

    def _timer(self) -> bool:
        return self._fire(lambda handle: timeout_of(handle) is None)

    def _early_timer(self) -> bool:
        return self._fire(lambda handle: timeout_of(handle) is None, TICK_S)

    def _fire(self, choose: Callable[[asyncio.TimerHandle], bool], early_s: float = 0.0) -> bool:
        """Ends one timer; what the clock said before its time is said no more."""
        fired = self._loop.fire(choose, early_s)
        if fired is not None:
            self.said.forget_before(fired.when() - TICK_S)
        return fired is not None

    def _own_timeout(self, entry: Entry) -> Callable[[], bool]:
        def fire() -> bool:
            def chosen(handle: asyncio.TimerHandle) -> bool:
                task = timeout_of(handle)
                return task is not None and task.get_name() == entry.who

            return entry.kind in (entries.GAVE_UP, entries.ENDED) and self._fire(chosen, TICK_S)

        return fire

    def _any_timeout(self) -> bool:
        return self._fire(lambda handle: True, TICK_S)

    def _cancel(self, entry: Entry) -> Callable[[], bool]:
        """Who had asked was told to end, from outside."""

        def cancel() -> bool:
            if entry.kind != entries.GAVE_UP or self._is_cancelled:
                return False
            self._is_cancelled = True
            self.cancelled()
            return True

        return cancel

    def _drain(self) -> None:
        """The work is told to end; workers without a key end at once."""
        self._is_drained = True
        self.drained()
        for waiter in [one for one in self._waiters if entries.BEGUN in one.kinds]:
            self._open(waiter, Entry(entries.DRAINED))

    def _let_go(self) -> bool:
        """A wait that was none in the record: a lock that was free then."""
        for waiter in self._waiters:
            if waiter.kinds == (entries.RESUMED,):
                return self._open(waiter, Entry(entries.RESUMED))
        return False

    async def _quiet(self) -> None:
        """Until nothing is ready. Raises what was raised in a step."""
        for _ in range(TURNS_MAX):
            await self._clock.sleep(0)
            if self.stopped is not None:
                raise self.stopped
            if not self._loop.is_busy:
                return
        raise Departure("the program runs on and on without waiting for anything")

    # -- the gates

    def _opens(self, record: tuple[Entry, ...], place: int, entry: Entry) -> bool:
        if entry.kind in (entries.OPENED, entries.GAVE_UP):
            return self._takes_sign(entry)
        about = self._about(entry)
        waiter = self._waiter(entry, about)
        if waiter is None:
            return False
        if entry.asked is not None and waiter.asked is not None and waiter.asked.body != entry.asked.body:
            raise Departure(
                f"at {entry.t:.3f} s: {entry.who} sends\n  {waiter.asked}\nwhere the record has\n  {entry.asked}"
            )
        self._pass(record, place)
        return self._open(waiter, entry)

    def _takes_sign(self, entry: Entry) -> bool:
        assert entry.asked is not None
        sign = (
            entry.kind,
            entry.asked.place[:2] if entry.kind == entries.GAVE_UP else (entry.asked.resource, *entry.asked.selection),
        )
        if sign not in self._observed:
            return False
        self._observed.remove(sign)
        if entry.kind == entries.OPENED:
            self._scopes[entry.what] = sign[1]
        return True

    def _about(self, entry: Entry) -> tuple[str, ...]:
        if entry.kind in (entries.EVENT, entries.ENDED):
            return self._scopes.get(entry.what, ())
        if entry.asked is not None:
            return entry.asked.place
        return (entry.what, entry.key) if entry.kind == entries.RESUMED else (entry.what,)

    def _waiter(self, entry: Entry, about: tuple[str, ...]) -> Waiter | None:
        found = [
            one
            for one in self._waiters
            if entry.kind in one.kinds
            and one.about == about
            and (entry.kind != entries.BEGUN or any(shown(key) == entry.key for key in one.ready))
            and (entry.kind != entries.RESUMED or one.who == entry.who)
        ]
        same = [
            one
            for one in found
            if one.asked is not None and entry.asked is not None and one.asked.body == entry.asked.body
        ]
        own = [one for one in same or found if one.who == entry.who]
        return next(iter(own or same or found), None)

    def _open(self, waiter: Waiter, entry: Entry) -> bool:
        self._waiters.remove(waiter)
        waiter.future.set_result(entry)
        return True

    def unanswered(self) -> list[str]:
        """The requests and calls that wait for their answer."""
        return [str(one.asked) for one in self._waiters if one.asked is not None]

    async def at_gate(
        self, kinds: tuple[str, ...], about: tuple[str, ...], asked: Asked | None = None, ready: Collection[Any] = ()
    ) -> Entry:
        """Waits until the record has it that the caller goes on."""
        waiter = Waiter(kinds, task_name(), about, self._loop.create_future(), asked, ready)
        self._waiters.append(waiter)
        try:
            return await waiter.future
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def observed(self, kind: str, about: tuple[str, ...]) -> None:
        """Something has happened in the replay that the record has, too."""
        self._observed.append((kind, about))

    def _missing(self, entry: Entry) -> str:
        what = entry.shown or str(entry.asked or f"{entry.what} {entry.key}".strip())
        waiting = "; ".join(f"{one.who}: {one.asked or ' '.join(one.about)}" for one in self._waiters[:10])
        return f"at {entry.t:.3f} s the record has: {entry.who}: {entry.kind} {what}\nThe replay waits for: {waiting or 'nothing'}"

    # -- as an Order

    async def next_key(self, queue: str, ready: Collection[K]) -> K | None:
        if self._is_drained:
            return None
        entry = await self.at_gate((entries.BEGUN,), (queue,), ready=ready)
        return None if entry.kind == entries.DRAINED else next(key for key in ready if shown(key) == entry.key)

    def decided(self, controller: str, key: Hashable, what: object) -> None:
        self._observed.append(
            (entries.DECIDED, (controller, shown(key), shown(what), str(getattr(what, "because", ""))))
        )

    def _takes_decision(self, entry: Entry) -> bool:
        found = next((sign for sign in self._observed if sign[0] == entries.DECIDED), None)
        if found is None:
            return False
        self._observed.remove(found)
        controller, key, text, because = found[1]
        self.decided_count += 1
        self._on_decision(Decided(self.decided_count, self._loop.now, controller, key, because, text))
        if (controller, key, text) != (entry.what, entry.key, entry.shown):
            raise Departure(
                f"decision {self.decided_count}, at {entry.t:.3f} s, is\n  {controller} {key}: {text}\n"
                f"where the record has\n  {entry.what} {entry.key}: {entry.shown}"
            )
        return True

    async def resumed(self, what: str, key: Hashable) -> None:
        await self.at_gate((entries.RESUMED,), (what, shown(key)))

    def caches(self, informer: Informer[Any]) -> None:
        self.informers.append(informer)

    # -- time and chance

    def now(self) -> float:
        """What the clock said at this place, else the time of the last line."""
        said = self.said.now()
        return self._loop.now if said is None else said
