"""The parts that carrying out a growth and a modification have in common.

A write after a call is based on the object as it was read: a write that is carried out late undoes nothing.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable

from mooring.api.core import PersistentVolume, PersistentVolumeClaim, reference_to
from mooring.api.meta import Key, key_of
from mooring.base.clock import rfc3339
from mooring.base.log import logger
from mooring.control.events import EventRecorder
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from mooring.controllers.resizer.conditions import Body
from mooring.controllers.resizer.decision import Decision
from mooring.controllers.resizer.secrets import Secrets
from mooring.controllers.resizer.view import View
from mooring.controllers.resizer.writes import CONFLICTS_MAX, Failed, Writes
from mooring.csi.driver import Driver

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
