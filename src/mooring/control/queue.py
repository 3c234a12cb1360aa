"""The work queue between watches and workers: client-go's semantics.

- A key waits once, however often it is added, and is never with two workers. Added while it is being worked on, it
  comes once more afterwards.
- A delayed add keeps the earliest time. A plain add is worked on at once, and cancels a pending delayed one:
  the run that it causes decides anew when to look again.
- `retry` delays by a back-off that doubles per failure of this key, until `reset_failures`.
- A backlog of keys is looked up one by one while no other key is ready (`add_later`): news goes first.
- One timer serves all delays. Memory is bounded by the keys themselves, and the counts of failures by FAILURES_MAX.

Source: client-go util/workqueue (queue, delaying queue, item exponential failure limiter).
Differs from client-go: a plain add cancels the pending delayed add (there it fires later, for nothing), back-off has
jitter, and after `close` no key is handed out any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import traceback
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

import msgspec

from mooring.base import heap
from mooring.base.backoff import BackOff
from mooring.base.clock import Clock, Instant, Share, give_way
from mooring.base.log import logger
from mooring.base.logform import Lines
from mooring.base.randomness import Random
from mooring.control.backlog import Backlog
from mooring.control.queue_metrics import QueueMetrics

__all__ = ["BackOff", "QueueClosed", "QueueMetrics", "Relief", "WorkQueue", "WorkerGroup"]

K = TypeVar("K", bound=Hashable)

FAILURES_MAX: Final = 100_000
KEYS_IN_TURN: Final = 16
"""Keys that a worker handles in a row while MANY_KEYS or a backlog wait; with a backlog, all workers of the queue
together.
"""
MANY_KEYS: Final = 64
DRAWS_IN_TURN: Final = 50
"""Keys of the backlog that are looked up in one turn of the loop. A decision about each may take 30 µs."""
_STALE_TIMERS_MAX: Final = 64  # forgotten entries of the heap that are put up with, beyond one per live entry
_TICK_S: Final = 0.001  # timers may fire a clock's tick early; uvloop's is a millisecond

_log = logger(__name__)


class Relief(msgspec.Struct, frozen=True):
    """A worker that has had a key for after_s is replaced by another, and ends with that key."""

    after_s: float
    start_worker: Callable[[], object]


class QueueClosed(Exception):
    """The queue hands out no more keys: a worker ends."""


class WorkQueue(Generic[K]):
    """name: the label of its metrics and logs. backoff: for `retry`. held_s: for how long a key is held back yet
    (`control/hot_keys.py`): an add meanwhile waits.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        randomness: Random,
        backoff: BackOff,
        metrics: QueueMetrics | None = None,
        held_s: Callable[[K], float] | None = None,
    ) -> None:
        self._name, self._clock, self._randomness, self._backoff = name, clock, randomness, backoff
        self._queue: deque[K] = deque()
        self._backlog: Backlog[K] | None = None  # there while it has keys
        self._draws, self._keys, self._draws_rest = Share(DRAWS_IN_TURN), Share(KEYS_IN_TURN), False
        self._dirty: dict[
            K, Instant
        ] = {}  # keys to be worked on, since when: in the queue, or again after their worker is done
        self._processing: dict[K, Instant] = {}  # keys in the hands of a worker, since when
        self._waiting: dict[
            K, tuple[Instant, int]
        ] = {}  # delayed keys, until when, and the number of their entry in the heap
        self._heap: list[
            tuple[Instant, int, K]
        ] = []  # by time, then number; an entry that `_waiting` doesn't confirm is stale
        self._pushes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due: Instant | None = None
        self._failures: dict[K, tuple[int, Instant]] = {}  # failures in a row, and when the first of them was
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._workers = 0
        self._metrics = None if metrics is None else metrics.of(self)
        self._held_s = held_s

    @property
    def name(self) -> str:
        return self._name

    def __len__(self) -> int:
        """Keys ready for a worker."""
        return len(self._queue)

    def work_s(self) -> list[float]:
        """Seconds that each key in hand has been worked on."""
        now = self._clock.now()
        return [now - since for since in self._processing.values()]

    @property
    def failing_count(self) -> int:
        """Keys that have failed, and have not been forgotten since; 0 where no worker runs."""
        return len(self._failures) if self._workers else 0

    def oldest_s(self) -> float:
        """Age of the oldest key that waits for a worker, is in hand, or has failed; 0.0 without one. A mere delay is no
        wait.

        Where no worker runs it is 0.0, too: the queue is that of a term which is over, or has not begun.
        """
        if not self._workers:
            return 0.0
        since = [*itertools.islice(self._dirty.values(), 1), *self._processing.values()]
        if self._failures:
            since.append(min(began for _, began in self._failures.values()))
        return self._clock.now() - min(since) if since else 0.0

    def add(self, key: K) -> None:
        """The key is worked on as soon as a worker is free."""
        if self._closed:
            return
        self._waiting.pop(key, None)
        if key in self._dirty:
            return
        if key not in self._processing and self._is_held(key):
            return
        self._dirty[key] = self._clock.now()
        if self._metrics:
            self._metrics.adds.inc()
        if key not in self._processing:
            self._enqueue(key)

    def add_later(self, *sources: Iterable[K | None]) -> None:
        """Each of these keys is added once, unless it was worked on meanwhile, one at a time: whenever a worker finds
        no other key.

        sources: asked in turns, and each for its next key only then; None is no key (`Backlog.put`).
        """
        if self._closed:
            return
        self._backlog = self._backlog or Backlog()
        self._backlog.put(sources)
        for _ in range(len(self._getters)):
            self._wake_one()

    def add_after(self, key: K, seconds: float) -> None:
        """The key is added after a while; the earliest of several delayed adds counts. seconds <= 0: at once."""
        if self._closed:
            return
        if self._metrics:
            self._metrics.retries.inc()
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.now() + seconds
        if key in self._waiting and self._waiting[key][0] <= due:
            return
        self._pushes += 1
        self._waiting[key] = due, self._pushes
        heapq.heappush(self._heap, (due, self._pushes, key))
        if len(self._heap) > 2 * len(self._waiting) + _STALE_TIMERS_MAX:
            self._heap = [entry for entry in self._heap if self._confirms(entry)]
            heapq.heapify(self._heap)
        self._set_timer()

    def retry(self, key: K) -> float:
        """Counts a failure and adds the key after its back-off. Returns the delay in seconds."""
        failures, since = self._failures.pop(key, (0, self._clock.now()))
        failures += 1
        self._failures[key] = failures, since
        if len(self._failures) > FAILURES_MAX:
            oldest = next(iter(self._failures))
            del self._failures[oldest]
            _log.warning(
                "Too many keys in back-off, forgetting the failures of the oldest", queue=self._name, key=str(oldest)
            )
        delay_s = self._backoff.jittered_s(failures, self._randomness)
        self.add_after(key, delay_s)
        return delay_s

    def reset_failures(self, key: K) -> None:
        """Forgets the failures of the key; a delayed add stays."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Failures in a row."""
        return self._failures.get(key, (0, 0.0))[0]

    def in_hand(self, key: K) -> bool:
        """True while a worker has the key."""
        return key in self._processing

    async def get(self) -> K:
        """The next key; the caller owns it until `done`. Raises QueueClosed."""
        key = await self._first()
        now = self._clock.now()
        added = self._dirty.pop(key)
        if not self._dirty:
            self._dirty.clear()  # gives its room back: a resync has all keys at once
        self._processing[key] = now
        if self._backlog is not None:
            self._backlog.begins(key)
        if self._metrics:
            self._metrics.queue_duration.observe(now - added)
        return key

    async def _first(self) -> K:
        """The key that waits longest, else one of the backlog. Raises QueueClosed."""
        while not self._queue and not self._closed:
            if self._backlog is not None and not self._draws_rest:
                await self._draw(self._backlog)
                continue
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter in self._getters:
                    self._getters.remove(getter)
                elif self._queue or self._backlog is not None:
                    self._wake_one()  # it had been woken: the next one takes its place
                raise
        if self._closed:
            raise QueueClosed(self._name)
        return self._queue.popleft()

    async def _draw(self, backlog: Backlog[K]) -> None:
        """Adds the next key of the backlog, if it is due. While the others have their turn, no other worker draws."""
        if self._draws.is_taken:
            self._draws_rest = True
            try:
                await give_way()
            except asyncio.CancelledError:
                self._wake_one()  # another worker goes on with the backlog
                raise
            finally:
                self._draws_rest = False
            return
        self._draws.take()
        if (key := backlog.draw()) is not None:
            self.add(key)
        if not backlog:
            self._backlog = None
            if backlog.was_long:
                heap.settle()

    async def work(self, handle: Callable[[K], Awaitable[None]], relief: Relief | None = None) -> None:
        """One worker: hands keys to handle until the queue is closed. An exception of that is a bug: it is logged, and
        the key comes again. relief: where a key that takes long holds up no others.

        Where many keys wait, others get their turn now and then: a key that needs nothing is handled without waiting
        for anybody, and thousands of them in a row, after a resync for one, would be a stand-still of the whole
        process.
        """
        self._workers += 1
        try:
            await self._work(handle, relief)
        except QueueClosed:
            return
        finally:
            self._workers -= 1

    async def _work(self, handle: Callable[[K], Awaitable[None]], relief: Relief | None) -> None:
        """Raises QueueClosed."""
        for number in itertools.count(1):
            if number % KEYS_IN_TURN == 0 and len(self._queue) >= MANY_KEYS:
                await give_way()
            while self._backlog is not None and self._keys.is_taken:
                await give_way()
            key = await self.get()
            if self._backlog is not None:
                self._keys.take()
            if relief is None:
                await self._handle(handle, key)
            elif await self._handle_until_relieved(handle, key, relief):
                return

    async def _handle_until_relieved(self, handle: Callable[[K], Awaitable[None]], key: K, relief: Relief) -> bool:
        """True when another worker has taken this one's place."""
        is_relieved = False

        def start_worker() -> None:
            nonlocal is_relieved
            is_relieved = True
            relief.start_worker()

        timer = asyncio.get_running_loop().call_later(relief.after_s, start_worker)
        try:
            await self._handle(handle, key)
        finally:
            timer.cancel()
        return is_relieved

    async def _handle(self, handle: Callable[[K], Awaitable[None]], key: K) -> None:
        try:
            await handle(key)
        except Exception as error:  # must not end the other keys' work
            trace = Lines("".join(traceback.format_exception(error)))
            _log.error(
                "failed unexpectedly, trying again", error=error, queue=self._name, key=str(key), traceback=trace
            )
            self.retry(key)
        finally:
            self.done(key)

    def done(self, key: K) -> None:
        """The worker is done with the key."""
        began = self._processing.pop(key)
        if self._metrics:
            self._metrics.work_duration.observe(self._clock.now() - began)
        if key in self._dirty and not self._closed:
            if self._is_held(key):
                del self._dirty[key]
            else:
                self._enqueue(key)

    def close(self) -> None:
        """From now on adds do nothing and `get` raises QueueClosed; keys in hand may still be put down."""
        self._closed = True
        self._stop_timer()
        self._backlog = None
        for container in (self._queue, self._dirty, self._waiting, self._heap):
            container.clear()
        while self._getters:
            self._wake_one()

    def _is_held(self, key: K) -> bool:
        """True for a key that is held back: it is added when that is over."""
        left_s = 0.0 if self._held_s is None else self._held_s(key)
        if left_s <= _TICK_S:
            return False
        self.add_after(key, left_s)
        return True

    def _enqueue(self, key: K) -> None:
        assert key in self._dirty
        assert key not in self._processing
        self._queue.append(key)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():  # cancelled a moment ago
                getter.set_result(None)
                return

    def _confirms(self, entry: tuple[Instant, int, K]) -> bool:
        return self._waiting.get(entry[2]) == entry[:2]

    def _set_timer(self) -> None:
        """Sets the one timer to the earliest delayed add."""
        while self._heap and not self._confirms(self._heap[0]):
            heapq.heappop(self._heap)
        due = self._heap[0][0] if self._heap else None
        if self._timer is not None and due == self._timer_due:
            return
        self._stop_timer()
        if due is not None:
            delay_s = max(0.0, due - self._clock.now())
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._release_due)
            self._timer_due = due

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timer_due = None

    def _release_due(self) -> None:
        self._stop_timer()
        now = self._clock.now() + _TICK_S
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if self._confirms(entry):
                self.add(entry[2])
        self._set_timer()


class WorkerGroup:
    """A controller's workers.

    async with workers.workers() as group:
        group.create_task(queue.work(handle))

    It is drained once all of them have ended; their queues are closed first.
    """

    def __init__(self) -> None:
        self._has_begun = False
        self._drained = asyncio.Event()

    @contextlib.asynccontextmanager
    async def workers(self) -> AsyncIterator[asyncio.TaskGroup]:
        """The group to start workers in; the block ends with the last of them."""
        self._has_begun = True
        async with asyncio.TaskGroup() as group:
            yield group
        self._drained.set()

    async def drained(self, timeout_s: float) -> bool:
        """Waits for the end, timeout_s at the most. False when that was too short; True at once when it has not
        begun.
        """
        if not self._has_begun:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._drained.wait()
        return self._drained.is_set()
