"""The loop of a controller: changes wake keys, workers reconcile them, and each result says when a key comes again.

- A key is never with two workers. A change while it is being worked on brings it once more.
- A result may park the key under topics. Telling one of them wakes it, also when it was told between decision and parking.
- A failure (`Retry`, `ApiError`) delays the key by a back-off that doubles; a topic that could heal it ends the wait at once.
- `Stale` and `again` reconcile once more at once, STEPS_MAX times; then other keys get their turn, and a stale one waits for its back-off.
  The log names one that stays stale.
- `Deciding` in place of a reconcile: the controller explains the decision and performs it; users see a failure, and the key fails.
- Any other exception is a bug: it is logged, and the key comes again after its back-off.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

from mooring.api.meta import Object
from mooring.base.backoff import retry_backoff
from mooring.base.log import Logger, logger
from mooring.control.backlog import newest_keys
from mooring.control.decision import Deciding, Decision, Failed
from mooring.control.draining import WorkerGroup
from mooring.control.events import REPEAT_S, SLACK_S
from mooring.control.order import ORDER
from mooring.control.queue import BackOff, QueueMetrics, WorkQueue
from mooring.control.result import Because, Failing, Result, Retry, Stale, TriesAgain
from mooring.control.runtime import Runtime
from mooring.control.slim import changed
from mooring.control.topics import Topic, Topics
from mooring.kube.cache.informer import Change, Informer
from mooring.kube.cache.reader import Reader
from mooring.kube.errors import ApiError

A = TypeVar("A")
K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Object)

STEPS_MAX: Final = 4
"""Reconciles of one key in a row before others get their turn."""

STALE_LOGGED: Final = 2
"""Back-offs in a row of a stale key, from which on the log names it."""

AGAIN_S_MIN: Final = 0.001
"""The shortest rest of a key. A key that comes a rounding error too early would otherwise be back at once, again and again."""

BACK_OFF: Final = retry_backoff(0.1, 60.0)

_log = logger(__name__)


class Controller(Generic[K]):
    """One queue of keys with its workers.

    name: of the queue in metrics, and of the tasks. reconcile: the work on one key, or how it is decided and performed. label: the name of
    the key in logs, mostly a kind's. log: of the package that these lines are of. about: key-values of a key for logs, in place of the
    label.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        reconcile: Callable[[K], Awaitable[Result]] | Deciding[K, Any] | None = None,
        *,
        workers: int,
        backoff: BackOff = BACK_OFF,
        label: str = "key",
        log: Logger = _log,
        about: Callable[[K], Mapping[str, str]] | None = None,
    ) -> None:
        assert workers > 0
        self.name = name
        self._reconcile: Callable[[K], Awaitable[Result]] = _nobody
        self._decides = False
        if reconcile is not None:
            self.reconcile_by(reconcile)
        self._worker_count = workers
        self._about = about or (lambda key: {label: str(key)})
        self._log = log
        self._explained = runtime.explained
        self._topics: Topics[K] = Topics()
        order = ORDER.get()
        self._place = name if order is None else order.named(name, label)
        metrics = runtime.metrics.once(QueueMetrics)
        self._queue: WorkQueue[K] = WorkQueue(
            name,
            clock=runtime.clock,
            randomness=runtime.randomness,
            backoff=backoff,
            metrics=metrics,
            place=self._place,
        )
        self._stale_count = metrics.stale.labels(name)
        self._workers = WorkerGroup()

    def reconcile_by(self, how: Callable[[K], Awaitable[Result]] | Deciding[K, Any]) -> None:
        """In place of the argument, before it runs: where the parts that reconcile wake this very controller, and so come after it."""
        self._decides = isinstance(how, Deciding)
        self._reconcile = functools.partial(self._decide_and_perform, how) if isinstance(how, Deciding) else how

    # -- waking keys

    def watch(
        self,
        informer: Informer[T],
        keys: Callable[[Change[T]], Iterable[K] | None] | None = None,
        *,
        tells: Callable[[Change[T]], Iterable[Topic]] | None = None,
        only: Callable[[T], bool] | None = None,
    ) -> None:
        """The way in which the changes of a cache reach a controller; those by our own writes are among them.

        keys: the keys that a change concerns; they are added. It gives None where it wakes keys by the other methods here, of several
        controllers perhaps. tells: the topics that a change concerns; one of the version alone concerns none.
        only: changes from and to objects of which it is False concern nobody, as client-go's FilteringResourceEventHandler has it.
        """

        def wake(change: Change[T]) -> None:
            if only is not None and not any(obj is not None and only(obj) for obj in (change.old, change.new)):
                return
            for key in (keys(change) if keys is not None else None) or ():
                self._queue.add(key)
            if tells is not None and changed(change.old, change.new):
                self.tell(*tells(change))

        informer.on_change(wake)

    def add(self, key: K) -> None:
        """The key is reconciled as soon as a worker is free."""
        self._queue.add(key)

    def add_later(self, *sources: Iterable[K | None]) -> None:
        """Each of these keys is reconciled once, when nothing else waits.

        sources: asked in turns, for one key at a time; None is no key.
        """
        self._queue.add_later(*sources)

    def newest_due(
        self, objects: Reader[T], key: Callable[[T], K | None], rests: Callable[[K], Because | None]
    ) -> Iterator[K | None]:
        """A source for `add_later`: as `newest_keys`, without the keys that need no look.

        rests: gives the reason why a key needs none, which is shown as if it had been looked at; None for a key that is due.
        """

        def due(obj: T) -> K | None:
            found = key(obj)
            try:
                because = None if found is None else rests(found)
            except Exception:  # the worker that gets the key tells of it
                return found
            if found is None or because is None:
                return found
            self._show(found, because)
            return None

        return newest_keys(objects, due)

    def add_after(self, key: K, seconds: float) -> None:
        """The key is reconciled after a while; the earliest of several delayed adds counts."""
        self._queue.add_after(key, seconds)

    def tell(self, *topics: Topic, anew: bool = False, by: K | None = None) -> None:
        """Something has happened: the keys that wait for it, or that it could heal, are reconciled at once.

        anew: their failures are forgotten: this is the very event that they waited for. by: the key whose work has made it happen; it may
        still be parked, and is not woken: a failure would wake itself, without its back-off.
        """
        for key in self._topics.tell(topics):
            if key == by:
                continue
            if anew:
                self._queue.reset_failures(key)
            self._queue.add(key)

    def apply_result(self, key: K, came_to: Result | Retry) -> None:
        """Applies a result to a key that another controller reconciled."""
        if isinstance(came_to, Retry):
            self._failed(key, came_to)
        elif came_to.again:
            self._queue.add(key)
        else:
            self._succeeded(key, came_to)

    def retry_now(self, keys: Iterable[K]) -> None:
        """Ends the back-off of those among the keys that have failed, or may be failing at this moment; their failures are forgotten."""
        for key in keys:
            if self._queue.failures(key) or self._queue.in_hand(key):
                self._queue.reset_failures(key)
                self._queue.add(key)

    def forget(self, key: K) -> None:
        """The object of the key is gone: another object that takes its name has no failures and waits for nothing."""
        self._queue.reset_failures(key)
        self._topics.drop(key)

    # -- asking about a key

    def failures(self, key: K) -> int:
        """Failures in a row."""
        return self._queue.failures(key)

    def in_hand(self, key: K) -> bool:
        """True while a worker has the key."""
        return self._queue.in_hand(key)

    def explain(self, key: K, because: Because) -> None:
        """Tells what was decided, before it is carried out; logs it at level 4."""
        self._show(key, because)
        if self._log.enabled(4):
            self._log.info(4, "decided", because=str(because), **self._about(key))

    def _show(self, key: K, because: Because) -> None:
        if self._explained is not None:
            self._explained(self.name, key, because)

    # -- life

    async def run(self) -> None:
        """Works until cancelled, or until drained."""
        async with self._workers.workers() as group:
            for number in range(self._worker_count):
                group.create_task(self._queue.work(self._work), name=f"{self._place}/worker/{number}")

    async def drain(self, timeout_s: float) -> bool:
        """Takes no new key, lets the work in hand end; then run() returns. False when timeout_s was too short."""
        self.close()
        return await self._workers.drained(timeout_s)

    def close(self) -> None:
        """Takes no new key from now on."""
        self._queue.close()

    # -- one key

    async def _work(self, key: K) -> None:
        try:
            await self._reconcile_in_steps(key)
        except Exception as error:  # the queue logs it, and tries again
            self._told_in_order(key, f"unexpectedly: {error!r}")
            raise
        finally:
            self._topics.end(key)

    async def _reconcile_in_steps(self, key: K) -> None:
        stale: Stale | None = None
        for _ in range(STEPS_MAX):
            self._topics.begin(key)
            try:
                result = await self._reconcile(key)
            except Stale as error:
                stale = error
                continue
            except Retry as failure:
                self._failed(key, failure)
                return
            except ApiError as error:
                self._failed(key, Retry(f"could not be done, trying again: {error}"))
                return
            if not self._decides and (order := ORDER.get()) is not None:
                order.decided(self._place, key, result)
            if result.done and self._log.enabled(2):
                self._log.info(2, result.done, because=str(result.because), **self._about(key))
            if not result.again:
                self._succeeded(key, result)
                return
            stale = None
        if stale is not None:
            self._stayed_stale(key, stale)
        else:
            self._queue.add(key)

    async def _decide_and_perform(self, how: Deciding[K, A], key: K) -> Result:
        """Raises Retry, Stale, ApiError."""
        try:
            decision = how.decide(key)  # no await between this and the first action
            if (order := ORDER.get()) is not None:
                order.decided(self._place, key, decision)
            self.explain(key, decision.because)
            return await self._performed(how, key, decision)
        finally:
            if how.ended is not None:
                how.ended(key)

    async def _performed(self, how: Deciding[K, A], key: K, decision: Decision[A]) -> Result:
        problem, after_s = decision.problem, decision.after_s
        waits = bool(decision.waits_for) or after_s is not None
        try:
            result = await how.perform(key, decision)
            if problem is not None and not waits:
                raise Failed(problem.error, problem=problem)
        except Failed as failure:
            if how.show is not None and not failure.is_shown and self.failures(key) + 1 >= failure.patience:
                await how.show(key, decision, failure)
            work = how.work if isinstance(how.work, str) else how.work(key, decision)
            text = f"failed to {work}: {failure}" if work else str(failure)
            raise Retry(text, heals=failure.heals, because=problem) from failure
        if result is not None:
            return result
        if problem is not None:
            if how.show is not None:
                await how.show(key, decision, Failed(problem.error, problem=problem))
            after_s = min(REPEAT_S + SLACK_S, math.inf if after_s is None else after_s)
        done = (decision.done or str(decision.because)) if decision.actions and self._log.enabled(2) else ""
        return Result(
            decision.because,
            done,
            decision.again,
            decision.waits_for,
            after_s,
            keeps_backoff=waits and not decision.actions,
        )

    def _stayed_stale(self, key: K, why: Stale) -> None:
        """Something keeps moving under the work: not at full speed for ever. From the second back-off on people hear of it, since a write
        that can never match what is stored looks just the same.
        """
        delay_s = self._queue.retry(key)
        self._stale_count.inc()
        if self._queue.failures(key) >= STALE_LOGGED:
            text = f"what is stored is another than the cache shows, again and again: {why}"
            self._show(key, TriesAgain(text, delay_s))
            self._told_in_order(key, text)
            self._log.bind(**self._about(key)).error(text, retry_in_s=round(delay_s, 3))

    def _succeeded(self, key: K, result: Result) -> None:
        self._show(key, result.because)
        if (order := ORDER.get()) is not None:
            order.came_to(self._place, key, str(getattr(result.because, "error", "")))
        if not result.keeps_backoff:
            self._queue.reset_failures(key)
        if not self._topics.park(key, result.waits_for):
            self._queue.add(key)
        elif result.after_s is not None:
            self._queue.add_after(key, max(AGAIN_S_MIN, result.after_s))

    def _told_in_order(self, key: K, failure: str) -> None:
        """A work that decides has told its decision already."""
        if (order := ORDER.get()) is not None:
            if not self._decides:
                order.decided(self._place, key, Result(Failing(failure)))
            order.came_to(self._place, key, failure)

    def _failed(self, key: K, failure: Retry) -> None:
        delay_s = self._queue.retry(key)
        self._show(key, TriesAgain(str(failure), delay_s))
        self._told_in_order(key, str(failure))
        log = self._log.bind(**self._about(key))
        if failure.because is not None:
            log = log.bind(because=str(failure.because))
        log.error(str(failure), retry_in_s=round(delay_s, 3))
        if not self._topics.park(key, failure.heals):
            self._queue.add(key)


async def _nobody(key: object) -> Result:
    raise AssertionError(f"nobody reconciles {key}")
