"""Carries out decisions, in order: calls to the driver, and writes to the API server (`writes.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable

from mooring.api.core import SecretReference
from mooring.api.meta import is_deleting
from mooring.api.storage import VolumeAttachment
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.control.call_slots import CallSlots
from mooring.control.decision import Decision, Failed
from mooring.control.event_once import EventOnce
from mooring.control.result import Result, Stale, Vanished
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache, SecretError
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.kube.errors import ApiError
from mooring.sidecars.attacher import decision as d
from mooring.sidecars.attacher.event_handlers import EventHandlers, room_on
from mooring.sidecars.attacher.memory import Learnt, UnconfirmedPublish, secret_read
from mooring.sidecars.attacher.requests import PublishOrder, UnpublishOrder
from mooring.sidecars.attacher.telling import ERROR_BYTES_MAX
from mooring.sidecars.attacher.view import View
from mooring.sidecars.attacher.writes import Target, Writes
from mooring.wire.grpc.codes import Code

log = logger(__name__)


class Reconciler:
    """Performs the actions of decisions, for one driver. timeout_s: of each call."""

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        slots: CallSlots[str],
        writes: Writes,
        driver: Driver,
        timeout_s: float,
        handlers: EventHandlers,
    ) -> None:
        self._clock, self._view, self._memory, self._slots, self._writes = (
            runtime.clock,
            view,
            view.memory,
            slots,
            writes,
        )
        self._driver, self._timeout_s, self._handlers = driver, timeout_s, handlers
        self._secrets = SecretCache(runtime.cluster, runtime.clock)
        self._versions = EventOnce(None, runtime.clock, math.inf)  # by node

    async def perform(self, name: str, decision: Decision[d.Action]) -> Result | None:
        """The decision about an attachment. Raises Failed, Stale."""
        began_s = self._clock.now()
        match decision.actions:
            case (d.WaitForCall(volume_handle),):
                self._slots.wait(volume_handle, name)
                return Result(decision.because, keeps_backoff=True)
            case (d.ShareSecret(ref),):
                self._memory.secrets.share(name, ref)
                return Result(decision.because, keeps_backoff=True, waits_for=frozenset({secret_read(ref)}))
        calls = tuple(
            action for action in decision.actions if isinstance(action, d.Publish | d.Unpublish)
        )  # of one volume
        target = Target(name, decision.uid)
        try:
            if calls:
                with self._slots.begin(calls[0].order.handle, name) as slot:
                    await self.carry_out(target, decision.actions, slot.call_over)
            else:
                await self.carry_out(target, decision.actions, _nothing)
        except Vanished as gone:  # the change that says so wakes the name; anew at once, it would come twice
            raise Failed(str(gone), is_shown=True) from gone
        finally:
            self._memory.worked_on(name)
            if calls or not decision.again:
                self._memory.secrets.forget(name)
        if decision.problem is None and not decision.again:
            self._memory.mark_drift(name, None)
            self._log_done(name, decision, calls, began_s)
        return Result(decision.because, again=decision.again)

    async def release(self, pv_name: str, decision: Decision[d.Action]) -> None:
        """The decision about a volume. Raises Failed, Stale."""
        for _ in decision.actions:
            await self._writes.remove_volume_finalizer(pv_name)

    def _log_done(
        self, name: str, decision: Decision[d.Action], calls: tuple[d.Publish | d.Unpublish, ...], began_s: Instant
    ) -> None:
        """One line for what has been done."""
        if not decision.actions or not log.enabled(2):
            return
        if decision.done:
            result = f"{decision.done} in {(self._clock.now() - began_s) * 1000:.0f} ms"
            told = [one for one in calls if isinstance(one, d.Publish)] or calls
            log.info(
                2, "done", VolumeAttachment=name, result=result, node_id=", ".join(one.order.node_id for one in told)
            )
        else:
            log.info(2, "done", VolumeAttachment=name, result=str(decision.because))

    async def carry_out(self, target: Target, actions: tuple[d.Action, ...], call_over: Callable[[], None]) -> None:
        """Performs the actions in order. call_over: called when the driver has answered. Raises Failed, Stale."""
        writes = self._writes
        last_call = next((action for action in reversed(actions) if isinstance(action, d.Publish | d.Unpublish)), None)
        for action in actions:
            match action:
                case d.AddVolumeFinalizer(pv_name):
                    await writes.add_volume_finalizer(pv_name)
                case d.LookUpVolume(pv_name):
                    await writes.look_up_volume(pv_name)
                case d.LookUpNode(node_name):
                    await writes.look_up_node(node_name)
                case d.LoadSecret(ref):
                    await self._load_secret(target.name, ref)
                case d.AddFinalizer(node_id):
                    await writes.add_finalizer(target, node_id)
                case d.Publish(order):
                    if not any(isinstance(before, d.AddFinalizer) for before in actions):
                        await self._confirm_wish(target)
                    await self._publish(target, order, call_over)
                case d.ConfirmStatus():
                    await writes.confirm_status(target)
                case d.Unpublish(order):
                    await self._unpublish(target.name, order)
                    self._unpublished(target.name, order)
                    if action is last_call:
                        call_over()
                case d.SettlePublish():
                    await self._settle(target)
                case d.EndUndo():
                    self._learn(target.name, Learnt.UNDONE)
                case d.RemoveFinalizer(mark):
                    self._learn(target.name, Learnt.RELEASED)
                    await writes.remove_finalizer(target, mark)
                case d.MarkAttached():
                    await writes.mark_attached(target, {})
                case d.MarkDetached():
                    await writes.mark_detached(target)
                case d.ClearError():
                    await writes.clear_error(target)

    # -- the driver

    async def _confirm_wish(self, target: Target) -> None:
        """Before what is shown as attached is published again, and nothing was written: the cache may be of long ago.

        Raises Failed, Stale.
        """
        attachment = target.find(self._view)
        if attachment is None or not attachment.status.attached:
            return
        match await self._ask(target):
            case Learnt.MARKED if (found := target.find(self._view)) is not None and is_deleting(found):
                raise Stale("deleted before it could be attached again")
            case Learnt.VANISHED:
                raise Vanished("gone before it could be attached again")

    async def _publish(self, target: Target, order: PublishOrder, call_over: Callable[[], None]) -> None:
        """Calls and saves the answer. Raises Failed, and Stale when the publish has to be undone at once."""
        attachment = target.find(self._view)
        if attachment is None:  # its end has been handled already, and would confirm nothing any more
            raise Vanished("gone before it could be attached")
        self._tell_version(attachment)
        self._memory.mark_unconfirmed(UnconfirmedPublish(order.undone, attachment))
        request = order.request(self._memory.secrets.values(target.name))
        try:
            answer = await self._driver.controller_publish_volume(request, Call(self._timeout_s, order.migrated))
        except DriverError as error:
            raise self._failed_call(target.name, error, order.secret) from error
        call_over()
        after = self._memory.learn(target.name, await self._writes.mark_attached(target, dict(answer.publish_context)))
        if after.ask:
            after = self._memory.learn(target.name, await self._writes.ask(target))
        if after.undo:
            raise Stale(target.name)

    async def _settle(self, target: Target) -> None:
        """What the cache shows as attached may be of before the publish, and gone since: where a second attacher works, elected by nobody.

        Raises Failed, and Stale when the publish has to be undone at once.
        """
        shown = target.find(self._view)
        match await self._ask(target):
            case Learnt.VANISHED:
                self._learn(target.name, Learnt.VANISHED)
                raise Stale(target.name)
            case Learnt.MARKED if target.find(self._view) is not shown:
                raise Stale("it has changed since it was shown as attached")
        self._learn(target.name, Learnt.SHOWN)

    async def _ask(self, target: Target) -> Learnt:
        """MARKED or VANISHED. Raises Failed where the API server does not say."""
        learnt = await self._writes.ask(target)
        if learnt is Learnt.UNKNOWN:
            raise Failed("can't tell whether it is still to be attached: the API server does not answer", is_shown=True)
        return learnt

    def _tell_version(self, attachment: VolumeAttachment) -> None:
        """A driver whose node plugins are not upgraded with its controller may not understand each other's context: once per version."""
        node_name, ours = attachment.spec.node_name, self._view.driver.version
        theirs = self._view.version_on(node_name)
        if not theirs or theirs == ours or not self._versions.note(node_name, theirs):
            return
        text = "A volume is attached to a node that has another version of the driver: upgrade the node plugins first, then the controller"
        log.warning(text, VolumeAttachment=attachment.metadata.name, node=node_name, version_there=theirs, version=ours)

    async def _unpublish(self, name: str, order: UnpublishOrder) -> None:
        request = order.request(self._memory.secrets.values(name))
        try:
            await self._driver.controller_unpublish_volume(request, Call(self._timeout_s, order.migrated))
        except DriverError as error:
            raise self._failed_call(name, error, order.secret) from error

    def _unpublished(self, name: str, order: UnpublishOrder) -> None:
        """It settles a publish on that machine, not one on another."""
        unconfirmed = self._memory.unconfirmed_of(name)
        if unconfirmed is not None and unconfirmed.order.node_id == order.node_id:
            self._learn(name, Learnt.UNPUBLISHED)

    def _learn(self, name: str, learnt: Learnt) -> None:
        unconfirmed = self._memory.unconfirmed_of(name)
        after = self._memory.learn(name, learnt)
        if after.freed and unconfirmed is not None and not self._view.is_there(unconfirmed.attachment):
            self._handlers.publish_undone(unconfirmed.attachment)

    async def _load_secret(self, name: str, ref: SecretReference) -> None:
        """For the next call of this attachment, and of all that share it. Raises Failed."""
        shared = self._memory.secrets
        if (failure := shared.failure(name, ref)) is not None:
            raise Failed(failure)
        shared.begin(ref)
        try:
            shared.succeeded(name, ref, await self._secrets.get(ref))
        except (ApiError, SecretError) as error:
            text = f'failed to load secret "{ref.namespace}/{ref.name}": {error}'
            shared.failed(ref, text)
            raise Failed(text) from error
        finally:
            shared.end(ref)
            self._handlers.secret_read(ref)

    def _failed_call(self, name: str, error: DriverError, secret: SecretReference | None) -> Failed:
        if secret is not None:  # perhaps it was the secret: read it anew next time
            self._secrets.invalidate(secret)
        attachment = self._view.attachment(name)
        is_full = attachment is not None and error.code == Code.RESOURCE_EXHAUSTED
        heals = (room_on(attachment.spec.node_name),) if attachment is not None and is_full else ()
        return Failed(shortened(str(error), ERROR_BYTES_MAX), code=error.code, heals=heals)


def _nothing() -> None:
    """In place of the end of a call, where none is made."""
