"""Carries out decisions about growth: the claim is marked, the driver called, the answer saved on volume and claim.

The patches stand below: strategic merge patches with the differences from the object in hand, {} for none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from mooring.api.core import PersistentVolume, PersistentVolumeClaim, SecretReference
from mooring.api.meta import Key, annotation, key_of
from mooring.base.log import logger
from mooring.control.decision import Decision, Failed
from mooring.control.topics import Topic
from mooring.csi.driver import Call
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.errors import DriverError
from mooring.kube.patch import strategic_patch
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.conditions import (
    Body,
    condition_of,
    condition_patch,
    conditions_patch,
    no_conditions,
    patch_body,
    probe_patch,
)
from mooring.sidecars.resizer.decision import LoadSecret, LookAtSecret, WatchPods, unused
from mooring.sidecars.resizer.expansion import decide as d
from mooring.sidecars.resizer.expansion.decide import After, decide_after, decide_expansion
from mooring.sidecars.resizer.reconcile import ClaimReconciler
from mooring.sidecars.resizer.requests import ExpandOrder
from mooring.sidecars.resizer.view import FAILED_PRECONDITION, quantity, sizes_of, storage

log = logger(__name__)

STARTED: Final = "ResizeStarted"
"""The reason of Resizing. Differs from external-resizer, which gives it neither reason nor message."""
RESTART_A_POD: Final = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
WHILE_IN_USE: Final = (
    "Waiting for file system resize of volume on node, which happens while a pod uses the volume, or as soon as "
    "one does."
)


class Reconciler(ClaimReconciler):
    """Performs the actions of decisions, for one driver."""

    work, failed, call = "grow", names.RESIZE_FAILED, d.Expand
    _has_told_of_a_dropped_field = False

    def decide(self, key: Key) -> Decision[d.Action]:
        return decide_expansion(self.view, key, self._clock.now())

    @staticmethod
    def facts(claim: PersistentVolumeClaim) -> tuple[Any, ...]:
        status = claim.status
        steps = status.capacity, status.allocated_resources, status.allocated_resource_statuses
        sizes = map(storage, (claim.spec.resources.requests, *steps))
        return (claim.spec.volume_name, status.phase, annotation(claim, names.RESIZER), *sizes)

    @staticmethod
    def others_have_acted(old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> bool:
        """True for what a node writes of its part; the resizer writes that only after a call that worked."""
        step = storage(new.status.allocated_resource_statuses)
        is_another = step != storage(old.status.allocated_resource_statuses)
        return storage(old.status.capacity) != storage(new.status.capacity) or (is_another and step in names.NODE_STEPS)

    async def _perform(self, claim: PersistentVolumeClaim, actions: Sequence[d.Action]) -> None:
        kinds = {type(action) for action in actions}
        # Where neither a write to the claim nor a call shows that the claim is still the one in the cache, it is read:
        # a restore may have undone it, and the volume would show a size that no claim asks for and no node makes.
        await self._claims.settle(claim, anyway=d.ExpandOnNode in kinds and d.Mark not in kinds)
        secrets: Mapping[str, str] = {}
        pv_uid = self._volume_of(claim).metadata.uid  # one made anew during the call has not grown
        for action in actions:
            match action:
                case d.DropPreResize():
                    pv = self._volume_of(claim)
                    dropped = strategic_patch({"metadata": {"annotations": {names.PRE_RESIZE: None}}}, of=pv)
                    await self._volumes.patch(pv, dropped, strictly=True)
                case d.Mark():
                    await self._mark(claim, action)
                case WatchPods():
                    self.view.pods.want()
                case LookAtSecret(ref):
                    await self._look_at_secret(claim, ref)
                case LoadSecret(ref):
                    secrets = await self._load(claim, ref)
                case d.Expand(order, size):
                    await self._save(claim, pv_uid, size, await self._expand(order, secrets))
                case d.ExpandOnNode(size):
                    await self._save(claim, pv_uid, size, After(size, on_node=True))

    # -- before the call

    async def _mark(self, claim: PersistentVolumeClaim, mark: d.Mark) -> None:
        body = marked(claim, mark, self._now(), recover=self._options.recover)
        answer = await self._write_mark(claim, body)
        is_dropped = body.get("status", {}).get("allocatedResources") and not answer.status.allocated_resources
        if is_dropped and not self._has_told_of_a_dropped_field:
            self._has_told_of_a_dropped_field = True  # a server of before 1.32 keeps nothing of what recovery needs
            text = "The API server drops status.allocatedResources: a growth that fails can't be taken back"
            log.warning(text, needed="Kubernetes 1.32 or later")
        if not mark.keeps_error:  # else the driver is not called yet
            self._tell(claim, names.RESIZE_STARTED, f"External resizer is resizing volume {claim.spec.volume_name}")

    async def _load(self, claim: PersistentVolumeClaim, ref: SecretReference) -> Mapping[str, str]:
        try:
            return await self._load_secret(claim, ref)
        except Failed as failure:
            raise Failed(d.failure_text(self.view, self._volume_of(claim), str(failure))) from failure

    # -- the call, and after it

    async def _expand(self, order: ExpandOrder, secrets: Mapping[str, str]) -> After:
        call = Call(self._options.timeout_s, order.migrated)
        try:
            answer = await self._driver.controller_expand_volume(order.request(secrets), call)
        except DriverError as error:
            return decide_after(order.size_bytes, error)
        return decide_after(order.size_bytes, answer)

    async def _save(self, claim: PersistentVolumeClaim, pv_uid: str, asked: str, after: After) -> None:
        """The volume first: a claim that says it is done is looked at no more. Raises Failed, Stale."""
        self._remember(claim, asked, after.reason, is_infeasible=after.is_infeasible)
        if not after.size:
            await self._save_refusal(claim, asked, after)
        recover, size = self._options.recover, after.size
        before = storage(claim.status.capacity) if after.on_node and self._options.annotate else ""
        await self._write_volume(claim, pv_uid, lambda pv: volume_size(pv, size, before))
        if not after.on_node:
            await self._write_answer(claim, lambda now: done(now, size, recover=recover))
            self._tell(claim, names.RESIZE_SUCCESSFUL, "Resize volume succeeded")
        else:
            text = pending_text(self.view.driver)
            if await self._write_answer(
                claim, lambda now: node_next(now, asked, size, text, self._now(), recover=recover)
            ):
                self._tell(claim, names.FS_RESIZE_REQUIRED, "Require file system resize of volume on node")
        self.forget(claim)

    async def _save_refusal(self, claim: PersistentVolumeClaim, asked: str, after: After) -> NoReturn:
        """Raises Failed with the driver's error, Stale."""

        def refused(now: PersistentVolumeClaim) -> Body:
            return {} if self._is_over(now, asked) else failed(now, after, self._now())

        if self._options.recover:
            await self._write_refusal(claim, self._write_answer(claim, refused))
        heals: tuple[Topic, ...] = ()
        if after.reason == FAILED_PRECONDITION and self._options.handle_volume_inuse_error:
            self.view.pods.want()  # perhaps because of a pod that uses the claim: the end of the last one heals it
            heals = (unused(key_of(claim)),)
        raise Failed(d.failure_text(self.view, self._volume_of(claim), after.error), heals=heals)

    def _is_over(self, claim: PersistentVolumeClaim, size: str) -> bool:
        """True for a claim that asks for nothing any more, or has this size by an earlier call: nothing has failed."""
        sizes = sizes_of(claim, self._volume_of(claim))
        return sizes.is_served or sizes.has.value >= quantity(size).value or sizes.is_nodes_turn


def pending_text(driver: DriverCapabilities) -> str:
    """The message of FileSystemResizePending. Differs from external-resizer, which always asks for a pod's start."""
    return WHILE_IN_USE if driver.expands_online else RESTART_A_POD


# -- patches of the claim


def marked(claim: PersistentVolumeClaim, mark: d.Mark, now: str, *, recover: bool) -> Body:
    """The driver is about to be asked for this size. What was said of another one, or of a refusal, goes. It always
    changes the claim.
    """
    status: Body = {}
    before = storage(claim.status.allocated_resources)
    if recover and not (before and quantity(before).value == quantity(mark.size).value):
        status["allocatedResources"] = {names.STORAGE: mark.size}
    if mark.anew:  # written also where the claim in hand says so: it may be an old one
        status["allocatedResourceStatuses"] = {names.STORAGE: names.CONTROLLER_IN_PROGRESS}
    kept = {names.RESIZING, names.CONTROLLER_ERROR} if mark.keeps_error else {names.RESIZING}
    dropped = [kind for kind in names.RESIZE_CONDITIONS if kind not in kept] if mark.anew else []
    message = f"Volume {claim.spec.volume_name} is to grow to {mark.size}"
    resizing = condition_patch(claim, names.RESIZING, now, reason=STARTED, message=message)
    status |= conditions_patch(claim, [resizing or probe_patch(claim, names.RESIZING, now)], dropped)
    return patch_body(status, _note(claim, None) if recover else {})


def node_next(claim: PersistentVolumeClaim, asked: str, size: str, message: str, now: str, *, recover: bool) -> Body:
    """The driver has done its part, and the node does the rest. {} for a claim that has the size, and is on its way to
    no other: the node was quicker.

    A claim that has it, and whose node has refused it (a ReadWriteMany volume grows on each node), is handed over
    again. asked: a claim of before a restore may not say it.
    """
    step = storage(claim.status.allocated_resource_statuses)
    has_size = quantity(storage(claim.status.capacity)).value >= quantity(size).value
    if has_size and step in ("", names.NODE_PENDING, names.NODE_IN_PROGRESS):
        return {}
    pending = condition_patch(claim, names.FS_PENDING, now, message=message)
    if not recover:
        return patch_body(conditions_patch(claim, [pending], [names.RESIZING, names.CONTROLLER_ERROR]))
    status = conditions_patch(claim, [pending], [names.CONTROLLER_ERROR]) | _step(claim, names.NODE_PENDING)
    if quantity(storage(claim.status.allocated_resources)).value < quantity(asked).value:
        status["allocatedResources"] = {names.STORAGE: asked}
    return patch_body(status, _note(claim, None))


def done(claim: PersistentVolumeClaim, size: str, *, recover: bool) -> Body:
    """The volume has grown, and the node need not know."""
    has = quantity(storage(claim.status.capacity))
    status: Body = {} if has.value == quantity(size).value else {"capacity": {names.STORAGE: size}}
    steps = claim.status.allocated_resource_statuses
    if recover and steps:
        status["allocatedResourceStatuses"] = None if set(steps) == {names.STORAGE} else {names.STORAGE: None}
    return patch_body(status | no_conditions(names.RESIZE_CONDITIONS), _note(claim, "true") if recover else {})


def failed(claim: PersistentVolumeClaim, after: After, now: str) -> Body:
    """The driver has refused, or may be at work still: its last error is on the claim, for the user and for the next
    process.

    An error after which it may be at work is added to no claim; where a former one stands, it takes its place.
    """
    status: Body = {}
    if after.is_final or condition_of(claim, names.CONTROLLER_ERROR) is not None:
        message = f"failed to expand pvc with {after.error}"
        error = condition_patch(claim, names.CONTROLLER_ERROR, now, reason=after.reason, message=message)
        status = conditions_patch(claim, [error], [])
    if after.is_infeasible:
        status |= _step(claim, names.CONTROLLER_INFEASIBLE)
    return patch_body(status)


def _step(claim: PersistentVolumeClaim, step: str) -> Body:
    before = storage(claim.status.allocated_resource_statuses)
    return {} if before == step else {"allocatedResourceStatuses": {names.STORAGE: step}}


def _note(claim: PersistentVolumeClaim, value: str | None) -> Body:
    """The annotation that says whether the node has nothing to do for this growth; {} where it stands already."""
    before = (claim.metadata.annotations or {}).get(names.NOT_REQUIRED)
    return {} if before == value else {"annotations": {names.NOT_REQUIRED: value}}


# -- the patch of the PersistentVolume


def volume_size(pv: PersistentVolume, size: str, before: str) -> Body:
    """before: what the annotation says of the file system's size; "" for no annotation. One that is there stays."""
    body: Body = {}
    if quantity(storage(pv.spec.capacity)).value != quantity(size).value:
        body["spec"] = {"capacity": {names.STORAGE: size}}
    if before and not annotation(pv, names.PRE_RESIZE):
        body["metadata"] = {"annotations": {names.PRE_RESIZE: before}}
    return body
