"""Growing and modifying, as far as they are alike: a claim is decided, waits, or has its actions performed; users hear of problems.

A claim that failed comes again after its back-off, or at once when something changes that could heal it. Users hear of a problem when it is
a new one, and again while it lasts, so that it stays in sight.

A write after a call is based on the object as it was read: a write that is carried out late undoes nothing.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from mooring.api.core import SECRETS, PersistentVolume, PersistentVolumeClaim, SecretReference, reference_to
from mooring.api.meta import Key, key_of
from mooring.base.backoff import retry_backoff
from mooring.base.clock import rfc3339
from mooring.base.log import logger
from mooring.control.call_slots import CallSlots
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision, Failed
from mooring.control.event_once import EventOnce
from mooring.control.events import EventRecorder
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Result, Vanished
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretError, secret_values
from mooring.control.topics import Topic
from mooring.csi.driver import Driver
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import ApiError
from mooring.kube.patch import strategic_patch
from mooring.sidecars.resizer.decision import WatchPods
from mooring.sidecars.resizer.memory import Memory
from mooring.sidecars.resizer.view import Body, View

log = logger(__name__)


class ClaimReconciler(abc.ABC):
    """Performs the actions of decisions, for one driver. calls: one at a time for each volume, and two claims may have one volume."""

    work: ClassVar[str]
    """A verb, for people."""
    failed: ClassVar[str]
    """The reason of events about failures."""
    call: ClassVar[type[Any]]
    """The action that calls the driver: it has an `order` and a `target`."""

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        calls: CallSlots[str],
        claims: ObjectWriter[PersistentVolumeClaim],
        volumes: ObjectWriter[PersistentVolume],
        driver: Driver,
        events: EventRecorder,
    ) -> None:
        self._clock, self._view, self._calls, self._driver, self._events = runtime.clock, view, calls, driver, events
        self._claims, self._volumes, self._told = claims, volumes, EventOnce(events, runtime.clock)
        self._secrets, self._options = _Secrets(runtime, view.memory), view.options

    # -- one decision

    @abc.abstractmethod
    def decide(self, key: Key) -> Decision[Any]: ...

    async def perform(self, key: Key, decision: Decision[Any]) -> Result | None:
        """After the actions there is more to decide. Raises Failed, Stale."""
        claim = self._view.claim(key)
        if claim is None:
            self._view.memory.forget(key)
            return None
        actions = [action for action in decision.actions if not isinstance(action, WatchPods)]
        if len(actions) < len(decision.actions):
            self._view.pods.want()
        if not actions:
            return (
                None
                if not decision.actions
                else Result(decision.because, "", False, decision.waits_for, decision.after_s, True)
            )
        handles = [action.order.handle for action in actions if isinstance(action, self.call)]
        try:
            with self._calls.begin(handles[0], f"the {self.work} of {key}") if handles else contextlib.nullcontext():
                await self._perform(claim, actions)
        except Failed as failure:
            if not self._is_overtaken(key, decision):
                raise
            await self.show(key, decision, failure)
            text = f"failed to {self.work}: {failure}; the claim asks for something else by now"
            log.error(text, PersistentVolumeClaim=str(key))
            return Result(decision.because, again=True)
        return Result(decision.because, decision.done, again=True)

    @abc.abstractmethod
    async def _perform(self, claim: PersistentVolumeClaim, actions: Sequence[Any]) -> None:
        """The actions in order. Raises Failed, Stale."""

    def _is_overtaken(self, key: Key, refused: Decision[Any]) -> bool:
        """True once the refusal of what was begun before frees the driver for what the claim asks for now: that has not failed yet."""
        before, then = (
            [a.target for a in one.actions if isinstance(a, self.call)] for one in (refused, self.decide(key))
        )
        return bool(before and then) and before != then

    async def show(self, key: Key, decision: Decision[Any], failure: Failed) -> None:
        """A Warning about the claim, unless users have heard that lately."""
        claim = self._view.claim(key)
        if claim is not None:
            self._view.memory.change(claim, told=True)
            self._told.tell(reference_to(claim, "PersistentVolumeClaim"), self.failed, str(failure))

    def forget(self, claim: PersistentVolumeClaim) -> None:
        """The claim is gone, or has all that it asks for."""
        if self._view.memory.of(claim).told:
            self._told.forget(claim.metadata.uid)
        self._view.memory.forget(key_of(claim))
        self._claims.forget(claim)

    # -- what both do

    def _remember(self, claim: PersistentVolumeClaim, target: str, code: str, *, is_infeasible: bool) -> None:
        """The driver has answered a request for this size or class. code: "" for success."""
        now = self._clock.now()
        slow_target, until = (target, now + self._options.retry_interval_max_s) if is_infeasible else ("", 0.0)
        self._view.memory.change(
            claim, error=code, slow_target=slow_target, slow_until=until, looked_at=now, refused_at=now
        )

    def _volume_of(self, claim: PersistentVolumeClaim, uid: str = "") -> PersistentVolume:
        """The claim's volume as it is now. uid: of the one that is meant, "" for any. Raises Vanished."""
        found = self._view.volume(claim.spec.volume_name)
        if found is None or uid not in ("", found.metadata.uid):
            raise Vanished(claim.metadata.name)
        return found

    async def _write(self, claim: PersistentVolumeClaim, body: Body) -> PersistentVolumeClaim:
        """Patches the status, and metadata with it, of the claim as it was read; nothing for {}. Raises Failed, Stale."""
        return (
            claim
            if not body
            else await self._claims.patch(claim, strategic_patch(body, of=claim), "status", strictly=True)
        )

    async def _write_mark(self, claim: PersistentVolumeClaim, body: Body) -> PersistentVolumeClaim:
        """As _write: from here on the claim says what the driver is asked for. Only as it was read: a newer one may want something else."""
        self._view.memory.change(claim, marked_from=claim.metadata.resource_version)
        return await self._write(claim, body)

    async def _write_unless(
        self,
        claim: PersistentVolumeClaim,
        is_done: Callable[[PersistentVolumeClaim], bool],
        body_of: Callable[[PersistentVolumeClaim], Body],
    ) -> bool:
        """False for a claim that is done by now, as where the answer to an earlier write was lost. Raises Failed, Stale."""
        is_late = False

        def body(now: PersistentVolumeClaim) -> Body:
            nonlocal is_late
            is_late = is_done(now)
            return {} if is_late else body_of(now)

        await self._claims.amend(
            claim, lambda now: strategic_patch(new, of=now) if (new := body(now)) else None, "status"
        )
        return not is_late

    async def _write_volume(
        self, claim: PersistentVolumeClaim, pv_uid: str, body_of: Callable[[PersistentVolume], Body]
    ) -> None:
        """One that has it all, as the cache says, is looked at: a server that was set back may have another one. Raises Failed, Stale."""
        if not body_of(pv := self._volume_of(claim, pv_uid)):
            await self._look_at(pv)
        pv = self._volume_of(claim, pv_uid)
        await self._volumes.amend(pv, lambda now: strategic_patch(body, of=now) if (body := body_of(now)) else None)

    async def _look_at(self, pv: PersistentVolume) -> None:
        await self._volumes.look(pv)

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


def tells_all(controllers: Sequence[ClaimController]) -> Callable[[Topic], None]:
    """Growing and modifying wait for the same topics. controllers: those there are by then."""

    def tell(topic: Topic) -> None:
        for one in controllers:
            one.controller.tell(topic)

    return tell


class ClaimController:
    """needs: a cache that this one alone waits for."""

    def __init__(
        self, runtime: Runtime, view: View, reconciler: ClaimReconciler, needs: Informer[Any] | None = None
    ) -> None:
        options = view.options
        self.controller: Controller[Key] = Controller(
            runtime,
            f"{view.driver.name}-pvc",
            Deciding(reconciler.decide, reconciler.perform, reconciler.show, reconciler.work),
            workers=options.workers,
            backoff=retry_backoff(options.retry_interval_start_s, options.retry_interval_max_s),
            label="PersistentVolumeClaim",
            log=log,
        )
        self._memory, self._reconciler, self._needs, self._is_to_end = view.memory, reconciler, needs, asyncio.Event()

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

    def decide(self, key: Key) -> Decision[Any]:
        return self._reconciler.decide(key)

    def forget(self, claim: PersistentVolumeClaim) -> None:
        """The claim is gone."""
        self.controller.forget(key_of(claim))
        self._reconciler.forget(claim)

    def hurry(self, key: Key) -> None:
        """Something has changed that could heal this claim: it is tried again at once, also where the driver held it for infeasible."""
        self._memory.hurry(key)
        self.controller.retry_now((key,))


class _Secrets:
    """memory: has the version that the driver had last."""

    def __init__(self, runtime: Runtime, memory: Memory) -> None:
        self._cluster, self._clock, self._memory = runtime.cluster, runtime.clock, memory

    async def load(self, claim: PersistentVolumeClaim, ref: SecretReference) -> Mapping[str, str]:
        """The values. Raises Failed."""
        try:
            secret = await self._cluster.get(SECRETS, ref.name, ref.namespace)
            values = secret_values(secret)
        except (ApiError, SecretError) as error:
            raise Failed(f"error getting secret {ref.name} in namespace {ref.namespace}: {error}") from error
        self._memory.change(claim, secret_version=secret.metadata.resource_version)
        return values

    async def look(self, claim: PersistentVolumeClaim, ref: SecretReference) -> None:
        """A claim whose Secret has changed is no longer held for infeasible. Raises nothing: a Secret that is gone heals nothing."""
        self._memory.change(claim, looked_at=self._clock.now())
        try:
            secret = await self._cluster.get(SECRETS, ref.name, ref.namespace)
        except ApiError:
            return
        if secret.metadata.resource_version != self._memory.of(claim).secret_version:
            self._memory.change(claim, slow_target="")
