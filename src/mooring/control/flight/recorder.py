"""The recorder of one program: records what its ports and its order report, and keeps the latest in a ring."""

from __future__ import annotations

import asyncio
import itertools
from array import array
from collections.abc import Callable, Collection, Hashable
from typing import Any, Final, TypeVar

import msgspec

from mooring.base.clock import Clock
from mooring.control.flight import entries
from mooring.control.flight.ring import Ring
from mooring.control.flight.stripping import holds_secrets, stripped_answer
from mooring.control.order import task_name
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Page, Request, Verb, WatchEvent

K = TypeVar("K", bound=Hashable)

BYTES_MAX: Final = 8 * 2**20
DECISION_BYTES: Final = 600
"""A decision with its actions, beside what it shares with others. Measured."""
FAILING_MAX: Final = 10_000
"""Keys of which it is known since when they fail."""
_encode: Final = msgspec.json.Encoder().encode
UNREADABLE: Final = b"null"


class Recorder:
    """An `Order` that only hears. clock: the program's. bytes_max: of what it keeps.

    troubled: called with a text when a key has failed for stuck_s (0: never), again with each further failure of it.

    It costs the program no await, no draw and no request: what it does is the same with it and without.
    """

    directs = False

    def __init__(
        self, clock: Clock, bytes_max: int = BYTES_MAX, stuck_s: float = 0.0, troubled: Callable[[str], None] = lambda why: None
    ) -> None:
        assert bytes_max > 0
        self._stuck_s, self._troubled = stuck_s, troubled
        self._failing_since: dict[tuple[str, Hashable], float] = {}
        self.clock = clock
        self.ring = Ring(bytes_max, self._base)
        self.in_flight: dict[int, tuple[float, Request | str]] = {}
        self._numbers = itertools.count(1)
        self._informers: list[Informer[Any]] = []
        self._hidden: set[int] = set()  # watches of Secrets
        self._is_on = True

    def stop(self) -> None:
        """What comes from now on is not kept."""
        self._is_on = False

    @property
    def reads(self) -> array[float]:
        """Of the clock, since the segment began."""
        return self.ring.now.reads

    # -- as an Order

    async def next_key(self, queue: str, ready: Collection[K]) -> K | None:
        raise AssertionError("a recorder does not direct")

    def begun(self, queue: str, key: Hashable) -> None:
        self._note(entries.BEGUN, 0, queue, key)

    def decided(self, controller: str, key: Hashable, what: object) -> None:
        self._note(entries.DECIDED, DECISION_BYTES, controller, key, what)

    def came_to(self, controller: str, key: Hashable, failure: str) -> None:
        if not failure:
            if self._failing_since:
                self._failing_since.pop((controller, key), None)
            return
        now = self.clock.now()
        since = self._failing_since.setdefault((controller, key), now)
        if len(self._failing_since) > FAILING_MAX:
            del self._failing_since[next(iter(self._failing_since))]
        if self._stuck_s and now - since >= self._stuck_s:
            self._troubled(f"{controller}: {key} has failed for {now - since:.0f} s: {failure}")

    async def resumed(self, what: str, key: Hashable) -> None:
        self._note(entries.RESUMED, 0, what, key)

    def caches(self, informer: Informer[Any]) -> None:
        self._informers.append(informer)

    # -- from the ports

    def asks(self, what: Request | str) -> int:
        """A number for a request or a call, until it is over."""
        number = next(self._numbers)
        self.in_flight[number] = self.clock.now(), what
        return number

    def answered(self, number: int, request: Request, answer: Any) -> None:
        del self.in_flight[number]
        if self._is_on:
            kept = encoded_answer(request, answer)
            self._note(entries.ANSWER, len(kept), request, kept, None)

    def refused(self, number: int, request: Request, error: Exception) -> None:
        del self.in_flight[number]
        self._note(entries.ANSWER, 0, request, UNREADABLE, error)

    def gave_up(self, number: int) -> None:
        _, what = self.in_flight.pop(number)
        self._note(entries.GAVE_UP, 0, what)

    def left(self, request: Request) -> None:
        """A watch is given up."""
        self._note(entries.GAVE_UP, 0, request)

    def opened(self, request: Request) -> int:
        """A watch begins."""
        number = next(self._numbers)
        if holds_secrets(request):
            self._hidden.add(number)
        self._note(entries.OPENED, 0, number, request)
        return number

    def event(self, number: int, event: WatchEvent[Any]) -> None:
        if self._is_on:
            kept = b"null" if event.object is None or number in self._hidden else _encoded(event.object)
            self._note(entries.EVENT, len(kept), number, event.type, event.resource_version, event.initial_events_end, kept)

    def ended(self, number: int, error: Exception | None) -> None:
        self._note(entries.ENDED, 0, number, error)

    def called(self, number: int, attribute: str, request: bytes, answer: bytes | None, error: Exception | None) -> None:
        del self.in_flight[number]
        self._note(entries.CALL, len(request) + len(answer or b""), attribute, request, answer, error)

    def drew(self, method: str, value: object) -> None:
        self._note(entries.DREW, 0, method, value)

    def wall(self, value: float) -> None:
        self._note(entries.WALL, 0, value)

    def returned(self) -> None:
        """The driver was away and is back."""
        self._note(entries.RETURNED, 0)

    def drained(self) -> None:
        """The work is told to end."""
        self._note(entries.DRAINED, 0)

    def _note(self, kind: str, size: int, *rest: object) -> None:
        if self._is_on:
            now = self.ring.now
            self.ring.note((kind, asyncio.get_running_loop().time(), task_name(), len(now.reads), *rest), size)

    def _base(self) -> tuple[Any, int]:
        """What the caches hold: references, and about how many bytes they take."""
        base = tuple((informer.scope, informer.store.version, informer.store.values()) for informer in self._informers)
        return base, sum(8 * len(objects) for _, _, objects in base)


def encoded_answer(request: Request, answer: Any) -> bytes:
    """An answer as JSON, without secrets."""
    if request.verb is Verb.LIST and isinstance(answer, Page):
        unread = [tuple(one) for one in answer.unread]
        page = {"items": answer.items, "rv": answer.resource_version, "token": answer.continue_token, "unread": unread}
        return _encoded(stripped_answer(request, page))
    return _encoded(stripped_answer(request, answer))


def _encoded(value: Any) -> bytes:
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError):  # a value that is no JSON; a program must not fail for its recorder
        return UNREADABLE
