"""Growing and modifying, as far as they are alike: a decision's actions are performed, and users hear of problems.

Every write is based on the claim as it was read: one that is carried out late undoes nothing.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from mooring.api.core import SECRETS, PersistentVolume, PersistentVolumeClaim, SecretReference, reference_to
from mooring.api.meta import Key, key_of
from mooring.base.clock import rfc3339
from mooring.base.log import logger
from mooring.control.call_slots import CallSlots
from mooring.control.decision import Decision, Failed
from mooring.control.events import EventOnce, EventRecorder
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Result, Vanished
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretError, secret_values
from mooring.csi.driver import Driver
from mooring.kube.errors import ApiError
from mooring.kube.patch import strategic_patch
from mooring.sidecars.resizer.conditions import Body
from mooring.sidecars.resizer.view import View

log = logger(__name__)


class ClaimReconciler(abc.ABC):
    """Performs the actions of decisions, for one driver."""

    #: A verb, for people.
    work: ClassVar[str]
    #: The reason of events about failures.
    failed: ClassVar[str]
    #: The action that calls the driver: it has an `order`, and a `target`, the wish that it asks for.
    call: ClassVar[type[Any]]

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
        self.view, self._clock, self._cluster, self._options = view, runtime.clock, runtime.cluster, view.options
        self._calls, self._driver, self._claims, self._volumes = calls, driver, claims, volumes
        self._events, self._told = events, EventOnce(events, runtime.clock)

    # -- what growing and modifying say of themselves

    @abc.abstractmethod
    def decide(self, key: Key) -> Decision[Any]: ...

    @abc.abstractmethod
    async def _perform(self, claim: PersistentVolumeClaim, actions: Sequence[Any]) -> None:
        """The actions in order. Raises Failed, Stale."""

    @staticmethod
    @abc.abstractmethod
    def facts(claim: PersistentVolumeClaim) -> tuple[Any, ...]:
        """The parts of a claim whose change calls for a look at it. Conditions are none: they are for people."""

    @staticmethod
    def others_have_acted(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
        """True where the answer to a write of the resizer shows a change of the status by others."""
        return False

    # -- one decision

    async def perform(self, key: Key, decision: Decision[Any]) -> Result | None:
        """Carry out the decision about a claim; then there is more to decide. Raises Failed, Stale."""
        claim = self.view.claim(key)
        if claim is None:
            self.view.memory.forget(key)  # an answer that came after its end
            return None
        if not decision.actions:
            return None
        call = self._call_of(decision)
        slot = self._calls.begin(call.order.handle, f"the {self.work} of {key}") if call else contextlib.nullcontext()
        try:
            with slot:
                await self._perform(claim, decision.actions)
        except Failed as failure:
            if not self._is_overtaken(key, call):
                raise
            await self.show(key, decision, failure)
            text = f"failed to {self.work}: {failure}; the claim asks for something else by now"
            log.error(text, PersistentVolumeClaim=str(key))
            return Result(decision.because, again=True)
        return Result(decision.because, decision.done, again=True)

    def _call_of(self, decision: Decision[Any]) -> Any:
        return next((action for action in decision.actions if isinstance(action, self.call)), None)

    def _is_overtaken(self, key: Key, refused: Any) -> bool:
        """True once the refusal of this call frees the driver for what the claim asks for now: that has not failed
        yet.
        """
        then = None if refused is None else self._call_of(self.decide(key))
        return then is not None and then.target != refused.target

    async def show(self, key: Key, decision: Decision[Any], failure: Failed) -> None:
        """Send a Warning about the claim, unless users have heard that lately."""
        claim = self.view.claim(key)
        if claim is not None:
            self._told.tell(reference_to(claim, "PersistentVolumeClaim"), self.failed, str(failure))

    def forget(self, claim: PersistentVolumeClaim) -> None:
        """The claim is gone, or has all that it asks for."""
        self._told.forget(claim.metadata.uid)
        self.view.memory.forget(key_of(claim))
        self._claims.forget(claim)

    # -- what both do

    def _remember(self, claim: PersistentVolumeClaim, target: str, code: str, *, is_infeasible: bool) -> None:
        """The driver has answered a request for this size or class. code: "" for success."""
        now = self._clock.now()
        slow_target, until = (target, now + self._options.retry_interval_max_s) if is_infeasible else ("", 0.0)
        self.view.memory.change(
            claim, error=code, slow_target=slow_target, slow_until=until, looked_at=now, refused_at=now
        )

    def _volume_of(self, claim: PersistentVolumeClaim, uid: str = "") -> PersistentVolume:
        """The claim's volume as it is now. uid: of the one that is meant, "" for any. Raises Vanished."""
        found = self.view.volume(claim.spec.volume_name)
        if found is None or uid not in ("", found.metadata.uid):
            raise Vanished(claim.metadata.name)
        return found

    async def _write(self, claim: PersistentVolumeClaim, body: Body) -> PersistentVolumeClaim:
        """Patch the claim's status, and metadata with it; nothing for {}. Raises Failed, Stale."""
        if not body:
            return claim
        return await self._claims.patch(claim, strategic_patch(body, of=claim), "status", strictly=True)

    async def _write_mark(self, claim: PersistentVolumeClaim, body: Body) -> PersistentVolumeClaim:
        """Write on the claim what the driver will be asked for, if it is still as it was read: a newer one may want
        something else. Raises Failed, Stale.
        """
        self.view.memory.change(claim, marked_from=claim.metadata.resource_version)
        return await self._write(claim, body)

    async def _write_answer(
        self, claim: PersistentVolumeClaim, body_of: Callable[[PersistentVolumeClaim], Body]
    ) -> bool:
        """Patch the status of the claim as it is by now, for the answer must not be lost. body_of: {} for a claim of
        which it says nothing any more; False then. Raises Failed, Stale.
        """

        def patch(now: PersistentVolumeClaim) -> Any:
            body = body_of(now)
            return strategic_patch(body, of=now) if body else None

        return await self._claims.amend(claim, patch, "status")

    async def _write_refusal(self, claim: PersistentVolumeClaim, write: Awaitable[object]) -> None:
        """A failure to save a refusal is only logged: users hear of the refusal, and it comes again with the next try.
        Raises Stale.
        """
        try:
            await write
        except Failed as error:
            log.error("could not save the error in the status", error=error, PersistentVolumeClaim=str(key_of(claim)))

    async def _write_volume(
        self, claim: PersistentVolumeClaim, pv_uid: str, body_of: Callable[[PersistentVolume], Body]
    ) -> None:
        """Patch the volume. One that has it all by the cache is read: a server that was set back may have another one.
        Raises Failed, Stale.
        """
        if not body_of(pv := self._volume_of(claim, pv_uid)):
            await self._look_at(pv)
        pv = self._volume_of(claim, pv_uid)
        await self._volumes.amend(pv, lambda now: strategic_patch(body, of=now) if (body := body_of(now)) else None)

    async def _look_at(self, pv: PersistentVolume) -> None:
        await self._volumes.look(pv)

    async def _load_secret(self, claim: PersistentVolumeClaim, ref: SecretReference) -> Mapping[str, str]:
        """Return the values for a call. Raises Failed."""
        try:
            secret = await self._cluster.get(SECRETS, ref.name, ref.namespace)
            values = secret_values(secret)
        except (ApiError, SecretError) as error:
            raise Failed(f"error getting secret {ref.name} in namespace {ref.namespace}: {error}") from error
        self.view.memory.change(claim, secret_version=secret.metadata.resource_version)
        return values

    async def _look_at_secret(self, claim: PersistentVolumeClaim, ref: SecretReference) -> None:
        """A request whose Secret has changed is no longer infeasible; a Secret that is gone heals nothing."""
        memory = self.view.memory
        memory.change(claim, looked_at=self._clock.now())
        try:
            secret = await self._cluster.get(SECRETS, ref.name, ref.namespace)
        except ApiError:
            return
        if secret.metadata.resource_version != memory.of(claim).secret_version:
            memory.change(claim, slow_target="")

    def _now(self) -> str:
        return rfc3339(self._clock.wall_s())

    def _tell(self, claim: PersistentVolumeClaim, reason: str, text: str) -> None:
        self._events.event(reference_to(claim, "PersistentVolumeClaim"), "Normal", reason, text)
