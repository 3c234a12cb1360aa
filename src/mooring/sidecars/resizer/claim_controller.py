"""The loop that growing and modifying share: one claim is judged, waits, or has its decision carried out; users hear of problems once.

A claim that failed comes again after its back-off, or at once when something changes that could heal it. A problem is told when it is
another one than before, and again while it lasts, so that it stays in sight.

A write after a call is based on the object as it was read: a write that is carried out late undoes nothing.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.api.core import PersistentVolume, PersistentVolumeClaim, reference_to
from mooring.api.meta import Key, key_of
from mooring.base.backoff import retry_backoff
from mooring.base.clock import Instant, rfc3339
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.events import REPEAT_S, SLACK_S, EventRecorder
from mooring.control.result import Result, Retry, Stale
from mooring.control.runtime import Runtime
from mooring.csi.driver import Driver
from mooring.kube.cache.informer import Informer
from mooring.sidecars.resizer.decision import Decision, unused
from mooring.sidecars.resizer.memory import Calls
from mooring.sidecars.resizer.secrets import Secrets
from mooring.sidecars.resizer.view import View
from mooring.sidecars.resizer.writes import CONFLICTS_MAX, Body, Failed, Writes

log = logger(__name__)


class ClaimReconciler(abc.ABC):
    """Performs the actions of decisions, for one driver."""

    def __init__(self, runtime: Runtime, view: View, writes: Writes, driver: Driver, events: EventRecorder) -> None:
        self._clock, self._view, self._writes, self._driver, self._events = runtime.clock, view, writes, driver, events
        self._secrets, self._options = Secrets(runtime, view.memory), view.options

    @abc.abstractmethod
    async def perform(self, claim: PersistentVolumeClaim, decision: Decision) -> None:
        """The actions in order. Raises Failed, Stale."""

    def forget(self, key: Key) -> None:
        """The claim is gone."""
        self._writes.forget(key)

    def _remember(self, claim: PersistentVolumeClaim, target: str, code: str, *, is_infeasible: bool) -> None:
        """The driver has answered a request for this size or class. code: "" for success."""
        now = self._clock.now()
        slow_target, until = (target, now + self._options.retry_interval_max_s) if is_infeasible else ("", 0.0)
        self._view.memory.change(claim, error=code, slow_target=slow_target, slow_until=until, looked_at=now, refused_at=now)

    async def _write_unless(
        self,
        claim: PersistentVolumeClaim,
        is_done: Callable[[PersistentVolumeClaim], bool],
        body_of: Callable[[PersistentVolumeClaim], Body],
    ) -> bool:
        """False for a claim that is done by now, as where the answer to an earlier write was lost. Raises Failed, Stale."""
        for attempt in range(CONFLICTS_MAX):
            now = self._writes.current(claim)
            if is_done(now):
                return False
            try:
                await self._writes.claim(now, body_of(now), strictly=True)
                return True
            except Stale:  # the cache has the claim as it is now
                if attempt == CONFLICTS_MAX - 1:
                    raise
        raise AssertionError("unreachable")

    async def _write_volume(self, claim: PersistentVolumeClaim, pv_uid: str, body_of: Callable[[PersistentVolume], Body]) -> None:
        """One that has it all, as the cache says, is looked at: a server that was set back may have another one. Raises Failed, Stale."""
        if not body_of(pv := self._writes.current_volume(claim, pv_uid)):
            await self._writes.look_at_volume(pv)
        for attempt in range(CONFLICTS_MAX):
            pv = self._writes.current_volume(claim, pv_uid)
            try:
                await self._writes.volume(pv, body_of(pv))
                return
            except Stale:
                if attempt == CONFLICTS_MAX - 1:
                    raise

    async def _save_failure(self, claim: PersistentVolumeClaim, write: Awaitable[object]) -> None:
        """A failure to save it is only logged: the driver's error, of which users hear, comes again with the next try. Raises Stale."""
        try:
            await write
        except Failed as error:
            log.error("could not save the error in the status", error=error, PersistentVolumeClaim=str(key_of(claim)))

    def _now(self) -> str:
        return rfc3339(self._clock.wall_s())

    def _tell(self, claim: PersistentVolumeClaim, reason: str, text: str) -> None:
        self._events.event(reference_to(claim, "PersistentVolumeClaim"), "Normal", reason, text)


def never(_: PersistentVolumeClaim) -> bool:
    """Nothing but this write makes it done."""
    return False


class ClaimController:
    """work: for people, a verb. failed: the reason of events about failures. want_pods: called when a decision needs the pods.

    needs: a cache that this one alone waits for.
    """

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        calls: Calls,
        events: EventRecorder,
        reconciler: ClaimReconciler,
        decide: Callable[[View, Key, Instant], Decision],
        *,
        work: str,
        failed: str,
        want_pods: Callable[[], None] = lambda: None,
        needs: Informer[Any] | None = None,
    ) -> None:
        options = view.options
        self.controller: Controller[Key] = Controller(
            runtime,
            f"{view.driver.name}-pvc",
            self._reconcile,
            workers=options.workers,
            backoff=retry_backoff(options.retry_interval_start_s, options.retry_interval_max_s),
            label="PersistentVolumeClaim",
            log=log,
        )
        self._clock, self._view, self._calls, self._events = runtime.clock, view, calls, events
        self._reconciler, self._decide, self._want_pods = reconciler, decide, want_pods
        self._work, self._failed_reason = work, failed
        self._needs, self._is_to_end = needs, asyncio.Event()

    # -- life

    @property
    def name(self) -> str:
        return self.controller.name

    async def run(self) -> None:
        """Works until cancelled, or until drained, as soon as it has the cache that it needs. The others have been filled."""
        if self._needs is not None:
            async with asyncio.TaskGroup() as group:
                begun = (("synced", self._needs.synced()), ("end", self._is_to_end.wait()))
                waits = [group.create_task(one, name=f"{self.name}/{what}") for what, one in begun]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for one in waits:
                    one.cancel()
        await self.controller.run()

    async def drain(self, timeout_s: float) -> bool:
        """As of a controller."""
        self._is_to_end.set()
        return await self.controller.drain(timeout_s)

    # -- waking claims

    def forget(self, key: Key) -> None:
        """The claim is gone."""
        self.controller.forget(key)
        self._view.memory.forget(key)
        self._reconciler.forget(key)

    def hurry(self, key: Key) -> None:
        """Something has changed that could heal this claim: it is tried again at once, also where the driver held it for infeasible."""
        self._view.memory.hurry(key)
        self.controller.retry_now((key,))

    # -- one claim

    async def _reconcile(self, key: Key) -> Result:
        """Raises Retry, Stale."""
        decision = self._decide(self._view, key, self._clock.now())  # no await between this and the call's slot
        self.controller.explain(key, decision.because)
        claim = self._view.claim(key)
        if claim is None:
            self._view.memory.forget(key)
        if decision.wants_pods:
            self._want_pods()
        if claim is None or not decision.actions:
            return self._wait(claim, decision)
        try:
            with self._calls.begin(decision.handle, f"the {self._work} of {key}"):
                await self._reconciler.perform(claim, decision)
            if decision.problem is not None:
                raise Failed(decision.problem.error)
        except Failed as failure:
            if failure.is_told:
                self._tell(claim, str(failure))
            if failure.is_in_use:
                self._want_pods()
            text = f"failed to {self._work}: {failure}"
            if self._is_overtaken(key, decision):
                log.error(f"{text}; the claim asks for something else by now", PersistentVolumeClaim=str(key))
                return Result(decision.because, again=True)
            heals = (unused(key),) if failure.is_in_use else ()
            raise Retry(text, heals=heals, because=decision.problem) from failure
        return Result(decision.because, done=decision.done, again=True)

    def _is_overtaken(self, key: Key, refused: Decision) -> bool:
        """True once the refusal of what was begun before frees the driver for what the claim asks for now: that has not failed yet."""
        then = self._decide(self._view, key, self._clock.now())
        return refused.target not in ("", then.target) and then.target != ""

    def _wait(self, claim: PersistentVolumeClaim | None, decision: Decision) -> Result:
        if claim is not None and decision.problem is not None:
            self._tell(claim, decision.problem.error)
        waits, after_s = bool(decision.waits_for) or decision.after_s is not None, decision.after_s
        if decision.problem is not None:
            told_again_s = REPEAT_S + SLACK_S
            after_s = told_again_s if after_s is None else min(after_s, told_again_s)
        return Result(decision.because, waits_for=decision.waits_for, after_s=after_s, keeps_backoff=waits)

    def _tell(self, claim: PersistentVolumeClaim, text: str) -> None:
        """A Warning about the claim, unless users have heard that lately."""
        memory, now = self._view.memory, self._clock.now()
        record = memory.of(claim)
        if record.told == text and now - record.told_at < REPEAT_S:
            return
        memory.change(claim, told=text, told_at=now)
        self._events.event(reference_to(claim, "PersistentVolumeClaim"), "Warning", self._failed_reason, text)
