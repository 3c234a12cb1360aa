"""The loop of a controller. A sketch of what it does with a key; all of it is in `Controller._reconcile_in_steps`:

    async def worker():
        while True:
            key = await queue.get()                # no other worker has it; a change meanwhile brings it once more
            for _ in range(STEPS_MAX):
                try:
                    decision = decide(key)         # pure, on the caches; nothing is awaited before the first action
                    explain(key, decision.because)
                    for read in reads(key, decision):
                        await read()               # it would destroy: what forbids that is read, and decided again
                    result = await perform(key, decision)
                except Stale:                      # the cache was behind: at once, then after a back-off
                    continue
                except (Failed, ApiError) as failure:  # a Failed that has used up its patience: await show(…)
                    goes_round(key)                # its own write may have woken it: held back, too
                    queue.retry(key)               # after a back-off that doubles
                    topics.wait(key, failure.heals)  # or at once when one of these is told
                    break
                if not result.again:
                    queue.reset_failures(key)      # unless it only waits (`keeps_backoff`)
                    topics.wait(key, result.waits_for)  # until one of these is told; PARKED: until its object changes
                    queue.add_after(key, result.after_s)  # or by then
                goes_round(key)                    # it did the same a moment ago: held back, longer each time
                if not result.again:
                    break
            else:
                queue.add(key)                     # others get their turn; one that stayed stale: queue.retry(key)

A topic that is told between decision and wait counts, unless the key's own work told it (`tell`, by). A plain
`reconcile`, in place of `Deciding`, returns the result by itself, and raises `Retry`; a Failed of an `ObjectWriter`
counts as one, and is shown to nobody. Any other exception is a bug: it is logged, and the key comes again after its
back-off.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from mooring.api.meta import Object
from mooring.base import effects
from mooring.base.backoff import retry_backoff
from mooring.base.clock import Instant
from mooring.base.log import Logger, logger
from mooring.control.backlog import newest_keys
from mooring.control.decision import Deciding, Decision, Failed, Read
from mooring.control.events import REPEAT_S, SLACK_S
from mooring.control.hot_keys import HELD, HotKeys
from mooring.control.queue import BackOff, QueueMetrics, Relief, WorkerGroup, WorkQueue
from mooring.control.result import Because, Result, Retry, Stale, TriesAgain
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

WORKERS: Final = 4
"""Keys that a controller works on at the same time, unless it says another number."""

HELD_LOGGED: Final = 3
"""Times in a row that a key is held back, at which the log names it, once."""

STALE_LOGGED: Final = 2
"""Back-offs in a row of a stale key, from which on the log names it."""

AGAIN_S_MIN: Final = 0.001
"""The shortest rest of a key. A key that comes a rounding error too early would otherwise be back at once, again and
again.
"""

BACK_OFF: Final = retry_backoff(0.1, 60.0)

_log = logger(__name__)


class Controller(Generic[K]):
    """One queue of keys with its workers.

    name: the queue's in metrics, and the tasks'. reconcile: the work on one key, or how it is decided and performed.
    label: the name of the key in logs, mostly a kind's. log: the logger of the package whose controller this is. about:
    key-values of a key for logs, in place of the label. relief_s: a key that takes longer holds no worker from then on;
    None where it does as long as it takes.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        reconcile: Callable[[K], Awaitable[Result]] | Deciding[K, Any] | None = None,
        *,
        workers: int = WORKERS,
        relief_s: float | None = None,
        backoff: BackOff = BACK_OFF,
        label: str = "key",
        log: Logger = _log,
        about: Callable[[K], Mapping[str, str]] | None = None,
    ) -> None:
        assert workers > 0
        self.name = name
        self._reconcile: Callable[[K], Awaitable[Result]] = _nobody
        if reconcile is not None:
            self.reconcile_by(reconcile)
        self._worker_count, self._relief_s = workers, relief_s
        self._about = about or (lambda key: {label: str(key)})
        self._log = log
        self._explained = runtime.explained
        self._topics: Topics[K] = Topics()
        self._label, self._steps = label, runtime.steps
        metrics = runtime.metrics.once(QueueMetrics)
        self._clock = runtime.clock
        self._hot: HotKeys[K] = HotKeys(runtime.clock)
        self._queue: WorkQueue[K] = WorkQueue(
            name,
            clock=runtime.clock,
            randomness=runtime.randomness,
            backoff=backoff,
            metrics=metrics,
            held_s=self._hot.left_s,
        )
        self._absent: set[K] = set()  # keys that have failed since their last success by a driver's absence alone
        self._stale_count, self._held_count = metrics.stale.labels(name), metrics.held.labels(name)
        self._workers = WorkerGroup()

    def reconcile_by(self, how: Callable[[K], Awaitable[Result]] | Deciding[K, Any]) -> None:
        """Set how keys are reconciled, before the controller runs: for parts that reconcile and wake this very
        controller, and so are made after it.
        """
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
        """Let the changes of a cache, those by our own writes among them, wake keys.

        keys: the keys that a change concerns; they are added. It gives None where it wakes keys by the other methods
        here, of several controllers perhaps. Without keys and tells, a change concerns the key of its own object.
        tells: the topics that a change concerns; one of the version alone concerns none.
        only: changes from and to objects of which it is False concern nobody, as client-go's
        FilteringResourceEventHandler has it.
        """

        if keys is None and tells is None:
            keys = _own_key

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

        rests: gives the reason why a key needs none, which is shown as if it had been looked at; None for a key that is
        due.
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

        anew: their failures are forgotten: this is the very event that they waited for. by: the key whose work has made
        it happen; it may still wait for it, or come to wait for it, and is not woken: a failure would wake itself,
        without its back-off.
        """
        for key in self._topics.tell(topics, by):
            if anew:
                self._queue.reset_failures(key)
            self._queue.add(key)

    def apply_result(self, key: K, came_to: Result | Retry) -> None:
        """Applies a result to a key that another controller reconciled. A topic that was told between its decision and
        this call does not count, since the key was not in hand here: such a result names a time as well.
        """
        if isinstance(came_to, Retry):
            self._failed(key, came_to)
        elif came_to.again:
            self._queue.add(key)
        else:
            self._succeeded(key, came_to)

    def retry_now(self, keys: Iterable[K]) -> None:
        """Ends the back-off of those among the keys that have failed, or may be failing at this moment; their failures
        are forgotten.
        """
        for key in keys:
            if self._queue.failures(key) or self._queue.in_hand(key):
                self._queue.reset_failures(key)
                self._queue.add(key)

    def driver_returned(self) -> None:
        """Ends the back-off of the keys that have failed by the driver's absence alone. One at which the driver broke
        down, or which it refused, keeps its own: called at once, it might break the driver down under all the others.
        """
        self.retry_now(tuple(self._absent))
        self._absent.clear()

    def forget(self, key: K) -> None:
        """The object of the key is gone: another object that takes its name has no failures and waits for nothing."""
        self._succeed(key)
        self._topics.drop(key)
        self._hot.forget(key)

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
        numbers = itertools.count()
        async with self._workers.workers() as group:

            def start_worker() -> None:
                group.create_task(self._queue.work(self._work, relief), name=f"{self.name}/worker/{next(numbers)}")

            relief = None if self._relief_s is None else Relief(self._relief_s, start_worker)
            for _ in range(self._worker_count):
                start_worker()

    async def drain(self, timeout_s: float) -> bool:
        """Takes no new key, lets the work in hand end; then run() returns. False when timeout_s was too short."""
        self.close()
        return await self._workers.drained(timeout_s)

    def close(self) -> None:
        """Takes no new key from now on."""
        self._queue.close()

    # -- one key

    async def _work(self, key: K) -> None:
        if self._steps is not None:
            self._steps.begun(self.name, self._label, key)
        try:
            await self._reconcile_in_steps(key)
        except Exception as error:  # the queue logs it, and tries again
            self._ended(key, f"unexpectedly: {error!r}")
            raise
        finally:
            self._topics.end(key)

    async def _reconcile_in_steps(self, key: K) -> None:
        stale: Stale | None = None
        for _ in range(STEPS_MAX):
            self._topics.begin(key)
            began, done = self._clock.now(), effects.begin()
            try:
                result = await self._reconcile(key)
            except Stale as error:
                stale = error
                continue
            except (Retry, Failed, ApiError) as error:
                failure = _retry_of(error)
                self._note_absence(key, is_absent=effects.UNSENT in done)
                self.goes_round(key, began, (*done, str(failure)))  # it may have woken itself, past its back-off
                self._failed(key, failure)
                return
            except Exception as bug:  # the queue tries again
                self.goes_round(key, began, (*done, repr(bug)))
                raise
            if result.done and done and self._log.enabled(2):
                self._log.info(2, result.done, because=str(result.because), **self._about(key))
            comes_at_once = result.again or self._succeeded(key, result)
            is_held = self.goes_round(key, began, (*done, *((str(result.because),) if comes_at_once else ())))
            if not result.again:
                return
            stale = None
            if is_held:
                break
        if stale is not None:
            self._stayed_stale(key, stale)
        else:
            self._queue.add(key)

    def goes_round(self, key: K, began: Instant, done: tuple[object, ...]) -> bool:
        """Note what a step has done (`base/effects.py`); True where the key is held back from now on. To be called by a
        room as well, for work on a key that it began in a task of its own: before it adds the key.
        """
        times = self._hot.ended(key, began, done)
        if times:
            self._held_count.inc()
        if times == HELD_LOGGED:
            log = self._log.bind(**self._about(key))
            log.warning("the same is done again and again; the key is held back, longer each time", times=times)
        return times > 0

    async def _decide_and_perform(self, how: Deciding[K, A], key: K) -> Result:
        """Raises Retry, Stale, ApiError."""
        try:
            decision = how.decide(key)  # no await between this and the first action
            if self._steps is not None:
                self._steps.decided(decision)
            self.explain(key, decision.because)
            return await self._performed(how, key, decision)
        finally:
            if how.ended is not None:
                how.ended(key)

    async def _performed(self, how: Deciding[K, A], key: K, decision: Decision[A]) -> Result:
        problem, after_s = decision.problem, decision.after_s
        waits = bool(decision.waits_for) or after_s is not None
        try:
            if reads := () if how.reads is None else how.reads(key, decision):
                await self._decide_afresh(how, key, decision, reads)
            elif decision.destroys:
                raise AssertionError(f"would destroy something by the cache alone: {decision.because}")
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
            # An Event is sent once more at the first look after REPEAT_S: so there is one, also where nothing else
            # wakes the key.
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

    async def _decide_afresh(self, how: Deciding[K, A], key: K, decision: Decision[A], reads: Sequence[Read]) -> None:
        """Raises Stale where what was read decides otherwise; Failed, ApiError."""
        for read in reads:
            await read()
        afresh = how.decide(key)
        if (afresh.uid, afresh.actions) != (decision.uid, decision.actions):
            raise Stale(f"the API server says otherwise than the cache: not {decision.because}")

    def _stayed_stale(self, key: K, why: Stale) -> None:
        """Hold back a key under whose work something keeps changing. From the second back-off on the log names it,
        since a write that can never match what is stored looks just the same.
        """
        delay_s = self._queue.retry(key)
        self._stale_count.inc()
        if self._queue.failures(key) >= STALE_LOGGED:
            text = f"what is stored is another than the cache shows, again and again: {why}"
            self._show(key, TriesAgain(text, delay_s))
            self._ended(key, text)
            self._log.bind(**self._about(key)).error(text, retry_in_s=round(delay_s, 3))

    def _succeeded(self, key: K, result: Result) -> bool:
        """Returns True where the key comes again at once: a topic that it waits for was told meanwhile, perhaps by its
        own work.
        """
        self._show(key, result.because)
        self._ended(key, str(getattr(result.because, "error", "")), result.because)
        if not result.keeps_backoff:
            self._succeed(key)
        if not self._topics.wait(key, result.waits_for):
            self._queue.add(key)
            return True
        if result.after_s is None:
            return False
        self._queue.add_after(key, max(AGAIN_S_MIN, result.after_s))
        return result.after_s < HELD.base_s

    def _succeed(self, key: K) -> None:
        self._queue.reset_failures(key)
        self._absent.discard(key)

    def _note_absence(self, key: K, *, is_absent: bool) -> None:
        """Note whether the key has failed by the driver's absence alone; called before the failure is counted."""
        if not is_absent:
            self._absent.discard(key)
        elif not self._queue.failures(key):
            self._absent.add(key)

    def _ended(self, key: K, failure: str, because: Because | None = None) -> None:
        if self._steps is not None:
            self._steps.ended(self.name, key, failure, because)

    def _failed(self, key: K, failure: Retry) -> None:
        delay_s = self._queue.retry(key)
        self._show(key, TriesAgain(str(failure), delay_s))
        self._ended(key, str(failure))
        log = self._log.bind(**self._about(key))
        if failure.because is not None:
            log = log.bind(because=str(failure.because))
        log.error(str(failure), retry_in_s=round(delay_s, 3))
        if not self._topics.wait(key, failure.heals):
            self._queue.add(key)


def _retry_of(error: Retry | Failed | ApiError) -> Retry:
    match error:
        case Retry():
            return error
        case Failed():
            return Retry(str(error), heals=error.heals)
    return Retry(f"could not be done, trying again: {error}")


def _own_key(change: Change[Any]) -> tuple[Any, ...]:
    return (change.key,)


async def _nobody(key: object) -> Result:
    raise AssertionError(f"nobody reconciles {key}")
