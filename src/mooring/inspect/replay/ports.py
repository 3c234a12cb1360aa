"""The ports of a program in a replay: each answers from the record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Generic, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.base.clock import Instant, LoopClock
from mooring.base.randomness import Random
from mooring.control.flight import entries
from mooring.control.flight.entries import Asked, asked_of, error_of, message_bytes
from mooring.csi.driver import A, Call, Driver, Q, Rpc
from mooring.csi.redact import redacted, without_secrets
from mooring.inspect.replay.director import Director
from mooring.inspect.replay.free import FreeDirector
from mooring.kube.cluster import EVERYTHING, Cluster, EventType, Page, Request, Selection, UnreadItem, Verb, WatchEvent

T = TypeVar("T")


class _Page(msgspec.Struct, Generic[T]):
    items: tuple[T, ...] = ()
    rv: str = ""
    token: str = ""
    unread: tuple[tuple[str, str, str], ...] = ()


class ReplayCluster(Cluster):
    def __init__(self, director: Director | FreeDirector) -> None:
        self._director = director

    async def ask(self, request: Request) -> Any:
        asked = asked_of(request)
        try:
            entry = await self._director.at_gate((entries.ANSWER,), asked.place, asked)
        except asyncio.CancelledError:
            self._director.observed(entries.GAVE_UP, asked.place[:2])
            raise
        if entry.fault is not None:
            raise error_of(entry.fault)
        return answer_of(request, entry.answer)

    async def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        asked = asked_of(Request(Verb.LIST, kind, selection=selection))
        scope = (asked.resource, *asked.selection)
        self._director.observed(entries.OPENED, scope)
        while True:
            try:
                entry = await self._director.at_gate((entries.EVENT, entries.ENDED), scope)
            except asyncio.CancelledError:
                self._director.observed(entries.GAVE_UP, asked.place[:2])
                raise
            if entry.kind == entries.ENDED:
                if entry.fault is not None:
                    raise error_of(entry.fault)
                return
            obj: T | None = msgspec.json.decode(entry.answer, type=kind.struct | None)
            yield WatchEvent(EventType(entry.type), obj, entry.rv, entry.last)


def answer_of(request: Request, answer: msgspec.Raw) -> Any:
    """The answer as the port gives it."""
    struct: Any = request.kind.struct
    match request.verb:
        case Verb.LIST:
            page = msgspec.json.decode(answer, type=_Page[struct])
            return Page(page.items, page.rv, page.token, tuple(UnreadItem(*one) for one in page.unread))
        case Verb.SERVES | Verb.POST | Verb.DELETE:
            return msgspec.json.decode(answer)
    return msgspec.json.decode(answer, type=struct)


class ReplayDriver(Driver):
    def __init__(self, director: Director | FreeDirector) -> None:
        self._director = director

    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        asked = Asked("call", rpc.attribute, body=redacted(without_secrets(request)))
        try:
            entry = await self._director.at_gate((entries.CALL,), asked.place, asked)
        except asyncio.CancelledError:
            self._director.observed(entries.GAVE_UP, asked.place[:2])
            raise
        if entry.fault is not None:
            raise error_of(entry.fault)
        return rpc.response_type.FromString(message_bytes(msgspec.json.decode(entry.answer, type=str)))


class ReplayClock:
    """began_s: wall time at the program's zero."""

    def __init__(self, director: Director | FreeDirector, began_s: float) -> None:
        self._director, self._clock = director, LoopClock(began_s)

    def now(self) -> Instant:
        return self._director.now()

    def wall_s(self) -> float:
        wall_s = self._director.said.wall()
        return self._clock.wall_s() if wall_s is None else wall_s

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self._director.resumed("sleep", "")


class ReplayRandom(Random):
    """Draws what was drawn; where the record has no more, values of its own."""

    def __init__(self, director: Director | FreeDirector) -> None:
        super().__init__(0)
        self._director = director

    def uniform(self, low: float, high: float) -> float:
        return self._drew(f"uniform {low!r} {high!r}", super().uniform(low, high))

    def below(self, bound: int) -> int:
        return self._drew(f"below {bound}", super().below(bound))

    def happens(self, probability: float) -> bool:
        return self._drew(f"happens {probability!r}", super().happens(probability))

    def shuffle(self, items: list[object]) -> None:
        order = self._drew(f"shuffle {len(items)}", list(range(len(items))))
        items[:] = [items[place] for place in order]

    def jittered(self, seconds: float, share: float) -> float:
        return self._drew(f"jittered {seconds!r} {share!r}", super().jittered(seconds, share))

    def suffix(self, length: int = 5) -> str:
        return self._drew(f"suffix {length}", super().suffix(length))

    def uid(self) -> str:
        return self._drew("uid", super().uid())

    def _drew(self, method: str, own: T) -> T:
        value = self._director.said.draw(method)
        return own if value is None else value
