"""The ports and the work of a program with a recorder beside them. The driver stands apart: `driver.py`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.base.clock import Clock, Instant
from mooring.base.randomness import Random
from mooring.control.flight.recorder import Recorder
from mooring.control.manager import Work
from mooring.control.order import ORDER
from mooring.control.ordered_work import OrderedWork
from mooring.control.runtime import Runtime
from mooring.kube.cluster import EVERYTHING, Cluster, Request, Selection, Verb, WatchEvent
from mooring.kube.errors import ApiError

T = TypeVar("T")


class RecordedCluster(Cluster):
    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._cluster, self._recorder = cluster, recorder

    async def ask(self, request: Request) -> Any:
        recorder = self._recorder
        number = recorder.asks(request)
        try:
            answer = await self._cluster.ask(request)
        except ApiError as error:
            recorder.refused(number, request, error)
            raise
        except BaseException:
            recorder.gave_up(number)
            raise
        recorder.answered(number, request, answer)
        return answer

    async def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        recorder = self._recorder
        request = Request(Verb.LIST, kind, selection=selection, resource_version=resource_version)
        number = recorder.opened(request)
        watch = self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)
        try:
            async with contextlib.aclosing(watch) as events:
                async for event in events:
                    recorder.event(number, event)
                    yield event
        except ApiError as error:
            recorder.ended(number, error)
            raise
        except asyncio.CancelledError:
            recorder.left(request)
            raise
        recorder.ended(number, None)


class RecordedClock:
    """Says the time, and keeps what it said."""

    def __init__(self, clock: Clock, recorder: Recorder) -> None:
        self._clock, self._recorder, self._now = clock, recorder, clock.now

    def now(self) -> Instant:
        now = self._now()
        if ORDER.get() is not None:  # not who only looks at the program, as a page of metrics
            self._recorder.reads.append(now)
        return now

    def wall_s(self) -> float:
        wall_s = self._clock.wall_s()
        self._recorder.wall(wall_s)
        return wall_s

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self._recorder.resumed("sleep", "")


class RecordedRandom(Random):
    """Draws from another source, and keeps what it drew."""

    def __init__(self, randomness: Random, recorder: Recorder) -> None:
        self._source, self._recorder = randomness, recorder

    def uniform(self, low: float, high: float) -> float:
        return self._drew(f"uniform {low!r} {high!r}", self._source.uniform(low, high))

    def below(self, bound: int) -> int:
        return self._drew(f"below {bound}", self._source.below(bound))

    def happens(self, probability: float) -> bool:
        return self._drew(f"happens {probability!r}", self._source.happens(probability))

    def shuffle(self, items: list[object]) -> None:
        order: list[object] = list(range(len(items)))
        self._source.shuffle(order)
        self._drew(f"shuffle {len(items)}", order)
        items[:] = [items[place] for place in order]  # type: ignore[call-overload]

    def jittered(self, seconds: float, share: float) -> float:
        return self._drew(f"jittered {seconds!r} {share!r}", self._source.jittered(seconds, share))

    def suffix(self, length: int = 5) -> str:
        return self._drew(f"suffix {length}", self._source.suffix(length))

    def uid(self) -> str:
        return self._drew("uid", self._source.uid())

    def _drew(self, method: str, value: T) -> T:
        self._recorder.drew(method, value)
        return value


def recorded(runtime: Runtime, recorder: Recorder) -> Runtime:
    """The same ports, with the recorder beside them."""
    return msgspec.structs.replace(
        runtime,
        cluster=RecordedCluster(runtime.cluster, recorder),
        clock=RecordedClock(runtime.clock, recorder),
        randomness=RecordedRandom(runtime.randomness, recorder),
    )


class RecordedWork(OrderedWork):
    """recorder: also hears of the work's end, and of the driver's return. begins: called when the work does.

    While a standby follows, nothing is kept: the record begins with what the caches hold when the work begins.
    """

    def __init__(self, make: Callable[[], Work], recorder: Recorder, begins: Callable[[], None] = lambda: None) -> None:
        super().__init__(make, recorder)
        self._recorder, self._begins = recorder, begins

    async def follow(self) -> None:
        self._recorder.rest()
        await super().follow()

    async def run(self) -> None:
        self._recorder.begin()
        self._begins()
        await super().run()

    async def drain(self, timeout_s: float) -> bool:
        self._recorder.drained()
        return await super().drain(timeout_s)

    def driver_returned(self) -> None:
        self._recorder.returned()
        super().driver_returned()
