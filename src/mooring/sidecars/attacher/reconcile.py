"""Carries out decisions, in order: calls to the driver, and writes to the API server (`writes.py`); and shows what
failed.
"""

from __future__ import annotations

import contextlib
from typing import Final

from mooring.api.core import PERSISTENT_VOLUMES, SecretReference
from mooring.api.driver_versions import versions_on
from mooring.api.meta import Key, is_deleting
from mooring.api.storage import CSI_NODES, VolumeAttachment
from mooring.base.clock import Clock, Instant, rfc3339
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.control.call_slots import CallSlot, CallSlots
from mooring.control.controller import Controller
from mooring.control.decision import Decision, Failed
from mooring.control.result import Result, Stale, Vanished
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache, SecretError
from mooring.control.topics import Topic
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.kube.errors import ApiError
from mooring.sidecars.attacher import decide as d
from mooring.sidecars.attacher.memory import Evidence, PublishState, UnconfirmedPublish, secret_read
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.sidecars.attacher.requests import PublishOrder, UnpublishOrder
from mooring.sidecars.attacher.view import View
from mooring.sidecars.attacher.writes import Target, Writes
from mooring.wire.grpc.codes import Code

log = logger(__name__)

ERROR_BYTES_MAX: Final = 1024
"""The longest message of a VolumeError; the API server refuses more, and then no user would see the error."""


def room_on(node_name: str) -> Topic:
    """The topic that is told when a volume is no longer attached to this node."""
    return f"room/{node_name}"


class Reconciler:
    """Performs the actions of decisions, for one driver."""

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        slots: CallSlots[str],
        writes: Writes,
        driver: Driver,
        timeout_s: float,
        attachments: Controller[str],
    ) -> None:
        self._clock, self._view, self._memory = runtime.clock, view, view.memory
        self._slots, self._writes, self._driver, self._attachments = slots, writes, driver, attachments
        #: How long a call may take.
        self._timeout_s = timeout_s
        self._secrets = SecretCache(runtime.cluster, runtime.clock)
        #: The versions of node plugins, by node, that a warning has named.
        self._warned: dict[str, str] = {}

    async def perform(self, name: str, decision: Decision[d.Action]) -> Result | None:
        """Carry out the decision about an attachment. Raises Failed, Stale."""
        began_s = self._clock.now()
        match decision.actions:
            case (d.WaitForCall(volume_handle),):
                self._slots.wait(volume_handle, name)
                return Result(decision.because, keeps_backoff=True)
            case (d.ShareSecret(ref),):
                self._memory.secrets.share(name, ref)
                return Result(decision.because, keeps_backoff=True, waits_for=frozenset({secret_read(ref)}))
        calls = [one for one in decision.actions if isinstance(one, d.Publish | d.Unpublish)]  # all of one volume
        try:
            with contextlib.ExitStack() as stack:
                slot = stack.enter_context(self._slots.begin(calls[0].order.handle, name)) if calls else None
                await self.carry_out(Target(name, decision.uid), decision.actions, slot)
        except Vanished as gone:  # the change that says so wakes the name; anew at once, it would come twice
            raise Failed(str(gone), is_shown=True) from gone
        finally:
            if self._memory.worked_on is not None:
                self._memory.worked_on.add(name)
            if calls or not decision.again:
                self._memory.secrets.forget(name)
        if decision.problem is None and not decision.again:
            self._memory.drift.pop(name, None)
            self._log_done(name, decision, began_s)
        return Result(decision.because, again=decision.again)

    async def release(self, pv_name: str, decision: Decision[d.Action]) -> None:
        """Carry out the decision about a volume. Raises Failed, Stale."""
        for _ in decision.actions:
            await self._writes.remove_volume_finalizer(pv_name)

    def _log_done(self, name: str, decision: Decision[d.Action], began_s: Instant) -> None:
        if not decision.actions or not log.enabled(2):
            return
        if not decision.done:
            log.info(2, "done", VolumeAttachment=name, result=str(decision.because))
            return
        result = f"{decision.done} in {(self._clock.now() - began_s) * 1000:.0f} ms"
        published = [one.order.node_id for one in decision.actions if isinstance(one, d.Publish)]
        left = [one.order.node_id for one in decision.actions if isinstance(one, d.Unpublish)]
        log.info(2, "done", VolumeAttachment=name, result=result, node_id=", ".join(published or left))

    async def carry_out(self, target: Target, actions: tuple[d.Action, ...], slot: CallSlot[str] | None) -> None:
        """Perform the actions in order. Raises Failed, Stale.

        slot: taken for the calls; free for others as soon as the driver has answered the last one.
        """
        writes = self._writes
        for place, action in enumerate(actions):
            match action:
                case d.AddVolumeFinalizer(pv_name):
                    await writes.add_volume_finalizer(pv_name)
                case d.LookUpVolume(pv_name):
                    await writes.look_up(PERSISTENT_VOLUMES, pv_name)
                case d.LookUpNode(node_name):
                    await writes.look_up(CSI_NODES, node_name)
                case d.LoadSecret(ref):
                    await self._load_secret(target.name, ref)
                case d.AddFinalizer(node_id):
                    await writes.add_finalizer(target, node_id)
                case d.Publish(order):
                    assert slot is not None
                    if not any(isinstance(before, d.AddFinalizer) for before in actions):
                        await self._confirm_wish(target)
                    await self._publish(target, order, slot)
                case d.ConfirmStatus():
                    await writes.confirm_status(target)
                case d.Unpublish(order):
                    await self._unpublish(target, order)
                    if slot is not None and not any(
                        isinstance(later, d.Publish | d.Unpublish) for later in actions[place + 1 :]
                    ):
                        slot.call_over()
                case d.SettlePublish():
                    await self._settle(target)
                case d.EndUndo():
                    self._observe(target.name, Evidence.UNDONE)
                case d.RemoveFinalizer(mark):
                    self._observe(target.name, Evidence.RELEASED)
                    await writes.remove_finalizer(target, mark)
                case d.MarkAttached():
                    await writes.mark_attached(target, {})
                case d.MarkDetached():
                    await writes.mark_detached(target)
                case d.ClearError():
                    await writes.clear_error(target)

    # -- the driver

    async def _publish(self, target: Target, order: PublishOrder, slot: CallSlot[str]) -> None:
        """Call and save the answer. Raises Failed, and Stale when the publish has to be undone at once."""
        attachment = target.find(self._view)
        if attachment is None:  # its end has been handled already, and would confirm nothing any more
            raise Vanished("gone before it could be attached")
        self._warn_of_version(attachment)
        # From here on the publish may have happened, whatever becomes of the call.
        self._memory.mark_unconfirmed(UnconfirmedPublish(order.undone, attachment))
        request = order.request(self._memory.secrets.values(target.name))
        log.info(2, "attaching", VolumeAttachment=target.name, node_id=order.node_id)
        try:
            answer = await self._driver.controller_publish_volume(request, Call(self._timeout_s, order.migrated))
        except DriverError as error:
            raise self._failed_call(target.name, error, order.secret) from error
        slot.call_over()
        evidence = await self._writes.mark_attached(target, dict(answer.publish_context))
        if self._memory.observe(target.name, evidence) is PublishState.ORPHANED:
            raise Stale(target.name)

    async def _unpublish(self, target: Target, order: UnpublishOrder) -> None:
        """Call the driver. Raises Failed.

        Differs from external-attacher, where a volume of a machine that is gone from the cluster and from the cloud
        goes to its next node while the first detach fails for ever: here it waits for that detach, so the detach ends.
        """
        name, unconfirmed = target.name, self._memory.unconfirmed_of(target.name)
        request = order.request(self._memory.secrets.values(name))
        log.info(2, "detaching", VolumeAttachment=name, node_id=order.node_id)
        try:
            await self._driver.controller_unpublish_volume(request, Call(self._timeout_s, order.migrated))
        except DriverError as error:
            attachment = target.find(self._view) or (unconfirmed.attachment if unconfirmed is not None else None)
            if (
                error.code != Code.NOT_FOUND
                or attachment is None
                or not await self._writes.is_machine_gone(attachment.spec.node_name, order.node_id)
            ):
                raise self._failed_call(name, error, order.secret) from error
            log.warning(
                "neither the driver nor the API server knows the node any more: the volume counts as detached there",
                VolumeAttachment=name,
                node_id=order.node_id,
                error=error,
            )
        # It settles a publish on that machine, not one on another.
        if unconfirmed is not None and unconfirmed.order.node_id == order.node_id:
            self._observe(name, Evidence.UNPUBLISHED)

    async def _confirm_wish(self, target: Target) -> None:
        """Ask the API server before a volume that is shown as attached is published again without any write: the cache
        may be old. Raises Failed, Stale.
        """
        attachment = target.find(self._view)
        if attachment is None or not attachment.status.attached:
            return
        if await self._ask(target) is Evidence.VANISHED:
            raise Vanished("gone before it could be attached again")
        found = target.find(self._view)
        if found is not None and is_deleting(found):
            raise Stale("deleted before it could be attached again")

    async def _settle(self, target: Target) -> None:
        """Confirm at the API server that the attachment still shows the publish: where a second attacher works without
        a Lease, the cache may show a state from before it.

        Raises Failed, and Stale when the publish has to be undone at once.
        """
        shown = target.find(self._view)
        if await self._ask(target) is Evidence.VANISHED:
            self._observe(target.name, Evidence.VANISHED)
            raise Stale(target.name)
        if target.find(self._view) is not shown:
            raise Stale("it has changed since it was shown as attached")
        self._observe(target.name, Evidence.SHOWN)

    async def _ask(self, target: Target) -> Evidence:
        """Ask the API server: MARKED or VANISHED. Raises Failed where it does not say."""
        evidence = await self._writes.ask(target)
        if evidence is Evidence.UNKNOWN:
            raise Failed("can't tell whether it is still to be attached: the API server does not answer", is_shown=True)
        return evidence

    def _observe(self, name: str, evidence: Evidence) -> None:
        unconfirmed = self._memory.unconfirmed_of(name)
        state = self._memory.observe(name, evidence)
        if unconfirmed is None or state is not PublishState.SETTLED:
            return
        meta = unconfirmed.attachment.metadata
        if self._view.attachment(meta.name, meta.uid) is None:  # no event will say that its volume is free
            same = self._view.of_same_volume(unconfirmed.attachment)
            self._attachments.retry_now(one.metadata.name for one in same)

    async def _load_secret(self, name: str, ref: SecretReference) -> None:
        """Read the Secret for the next call of this attachment, and of all that share it. Raises Failed."""
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
            self._attachments.tell(secret_read(ref))

    def _failed_call(self, name: str, error: DriverError, secret: SecretReference | None) -> Failed:
        if secret is not None:  # perhaps it was the secret: read it anew next time
            self._secrets.invalidate(secret)
        attachment = self._view.attachment(name)
        is_full = attachment is not None and error.code == Code.RESOURCE_EXHAUSTED
        heals = (room_on(attachment.spec.node_name),) if attachment is not None and is_full else ()
        return Failed(shortened(str(error), ERROR_BYTES_MAX), code=error.code, heals=heals)

    def _warn_of_version(self, attachment: VolumeAttachment) -> None:
        """Warn once per version: a driver whose node plugins are not upgraded with its controller may not understand
        each other's context.
        """
        node_name, ours = attachment.spec.node_name, self._view.driver.version
        csi_node = self._view.nodes.get(Key("", node_name))
        theirs = versions_on(csi_node).get(self._view.driver.name, "") if csi_node else ""
        if theirs in ("", ours, self._warned.get(node_name)):
            return
        self._warned[node_name] = theirs
        text = (
            "A volume is attached to a node that has another version of the driver: upgrade the node plugins "
            "first, then the controller"
        )
        log.warning(text, VolumeAttachment=attachment.metadata.name, node=node_name, version_there=theirs, version=ours)


_ATTACH: Final = "attach"
_DETACH: Final = "detach"
_UNDO: Final = "undo a publish"


class Telling:
    """Shows failures in the status of attachments."""

    def __init__(self, view: View, writes: Writes, clock: Clock, options: AttacherOptions) -> None:
        self._view, self._writes, self._clock, self._options = view, writes, clock, options

    async def show(self, name: str, decision: Decision[d.Action], failure: Failed) -> None:
        """Show the failure of a decision about the attachment."""
        text, work = shortened(str(failure), ERROR_BYTES_MAX), self.work(name, decision)
        attachment = self._view.attachment(name, decision.uid)
        if work == _UNDO:
            await self._show_to_the_next(name, text)
        elif attachment is not None:
            await self._show(attachment, work == _DETACH, text, failure.code)

    def work(self, name: str, decision: Decision[d.Action]) -> str:
        """Return what was tried, for the log."""
        orphaned, attachment = self._view.memory.orphaned(name), self._view.attachment(name)
        # An attach whose attachment vanished during the call has the same uid, and is no undo yet.
        undoes = any(isinstance(action, d.EndUndo | d.LoadSecret) for action in decision.actions[-1:])
        if undoes and orphaned is not None and orphaned.attachment.metadata.uid == decision.uid:
            return _UNDO
        attaches = d.AddVolumeFinalizer | d.AddFinalizer | d.Publish | d.MarkAttached
        # It may have been deleted since the decision to attach it.
        is_attach = any(isinstance(action, attaches) for action in decision.actions)
        return _DETACH if attachment is not None and is_deleting(attachment) and not is_attach else _ATTACH

    async def _show_to_the_next(self, name: str, text: str) -> None:
        """Show an attachment that has the name of a vanished one what it waits for."""
        attachment = self._view.attachment(name)
        if attachment is not None and attachment.spec.attacher == self._view.driver.name:
            waits = f"waits until what an earlier VolumeAttachment of this name left published is taken back: {text}"
            await self._show(attachment, is_deleting(attachment), shortened(waits, ERROR_BYTES_MAX), None)

    async def _show(self, attachment: VolumeAttachment, detaching: bool, text: str, code: int | None) -> None:
        field = "detachError" if detaching else "attachError"
        shown_code = code if self._options.report_error_codes and not detaching else None
        try:
            await self._writes.save_error(attachment, field, text, rfc3339(self._clock.wall_s()), shown_code)
        except (Failed, Stale) as error:
            log.error("could not save the error in the status", error=error, VolumeAttachment=attachment.metadata.name)
