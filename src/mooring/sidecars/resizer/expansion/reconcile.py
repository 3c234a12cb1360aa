"""Carries out decisions about growth: the claim is marked, the driver called, the answer saved on volume and claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mooring.api.core import PersistentVolumeClaim, SecretReference
from mooring.api.meta import Key, key_of
from mooring.base.log import logger
from mooring.control.decision import Decision, Failed
from mooring.control.topics import Topic
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.kube.patch import strategic_patch
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.claim_controller import ClaimReconciler, never
from mooring.sidecars.resizer.decision import LoadSecret, LookAtSecret, unused
from mooring.sidecars.resizer.expansion import decide as d
from mooring.sidecars.resizer.expansion import patches
from mooring.sidecars.resizer.expansion.decide import After, Expanded, decide_after, decide_expansion
from mooring.sidecars.resizer.requests import is_nodes_turn
from mooring.sidecars.resizer.view import Body, quantity, sizes_of

log = logger(__name__)


class Reconciler(ClaimReconciler):
    """Performs the actions of decisions, for one driver."""

    work, failed, call = "grow", names.RESIZE_FAILED, d.Expand
    _has_told_of_a_dropped_field = False

    def decide(self, key: Key) -> Decision[d.Action]:
        return decide_expansion(self._view, key, self._clock.now())

    async def _perform(self, claim: PersistentVolumeClaim, actions: Sequence[d.Action]) -> None:
        await self._claims.settle(claim, anyway=_is_unproved(actions))
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
                case LookAtSecret(ref):
                    await self._secrets.look(claim, ref)
                case LoadSecret(ref):
                    secrets = await self._load(claim, ref)
                case d.Expand():
                    after = await self._expand(action, secrets)
                    await self._save(claim, pv_uid, action.size, after)
                case d.ExpandOnNode(size):
                    await self._save(claim, pv_uid, size, After(size, on_node=True))

    # -- before the call

    async def _mark(self, claim: PersistentVolumeClaim, mark: d.Mark) -> None:
        asked = {"anew": mark.anew, "keeps_error": mark.keeps_error, "recover": self._options.recover}
        body = patches.marked(claim, mark.size, self._now(), **asked)
        self._tell_of_a_dropped_field(body, await self._write_mark(claim, body))
        self._tell(claim, names.RESIZE_STARTED, f"External resizer is resizing volume {claim.spec.volume_name}")

    def _tell_of_a_dropped_field(self, body: Body, answer: PersistentVolumeClaim) -> None:
        """Once: a server of before 1.32 takes a claim's status, and keeps nothing of what recovery from a failed growth needs."""
        is_dropped = body.get("status", {}).get("allocatedResources") and not answer.status.allocated_resources
        if is_dropped and not self._has_told_of_a_dropped_field:
            self._has_told_of_a_dropped_field = True
            text = "The API server drops status.allocatedResources: a growth that fails can't be taken back"
            log.warning(text, needed="Kubernetes 1.32 or later")

    async def _load(self, claim: PersistentVolumeClaim, ref: SecretReference) -> Mapping[str, str]:
        try:
            return await self._secrets.load(claim, ref)
        except Failed as failure:
            raise Failed(d.failure_text(self._view, self._volume_of(claim), str(failure))) from failure

    # -- the call

    async def _expand(self, action: d.Expand, secrets: Mapping[str, str]) -> After:
        order = action.order
        try:
            answer = await self._driver.controller_expand_volume(
                order.request(secrets), Call(self._options.timeout_s, order.migrated)
            )
        except DriverError as error:
            return decide_after(order.size_bytes, error)
        return decide_after(order.size_bytes, Expanded(answer.capacity_bytes, answer.node_expansion_required))

    # -- after the call

    async def _save(self, claim: PersistentVolumeClaim, pv_uid: str, asked: str, after: After) -> None:
        self._remember(claim, asked, after.reason, is_infeasible=after.is_infeasible)
        if not after.size:
            if self._options.recover:
                write = self._write_unless(
                    claim, self._is_beyond(asked), lambda now: patches.failed(now, after, self._now())
                )
                await self._save_failure(claim, write)
            heals: tuple[Topic, ...] = ()
            if after.reason == d.FAILED_PRECONDITION and self._options.handle_volume_inuse_error:
                self._view.pods.want()  # perhaps because of a pod that uses the claim: the end of the last one heals it
                heals = (unused(key_of(claim)),)
            raise Failed(d.failure_text(self._view, self._volume_of(claim), after.error), heals=heals)
        before = (
            (claim.status.capacity or {}).get(names.STORAGE, "") if after.on_node and self._options.annotate else ""
        )
        await self._write_volume(claim, pv_uid, lambda pv: patches.volume_size(pv, after.size, before))
        if after.on_node:
            await self._hand_over(claim, asked, after.size)
        else:
            await self._write_unless(
                claim, never, lambda now: patches.done(now, after.size, recover=self._options.recover)
            )
            self._tell(claim, names.RESIZE_SUCCESSFUL, "Resize volume succeeded")
        self.forget(claim)

    def _is_beyond(self, size: str) -> Callable[[PersistentVolumeClaim], bool]:
        """True for a claim of which an earlier call has made this size, so that a failure to make it says nothing any more."""

        def is_beyond(claim: PersistentVolumeClaim) -> bool:
            return _has(size)(claim) or is_nodes_turn(sizes_of(claim, self._volume_of(claim)))

        return is_beyond

    async def _hand_over(self, claim: PersistentVolumeClaim, asked: str, size: str) -> None:
        """The node's turn. Raises Failed, Stale."""
        text = patches.pending_text(self._view.driver)
        recover = self._options.recover
        write = self._write_unless(
            claim, _has(size), lambda now: patches.node_next(now, asked, text, self._now(), recover=recover)
        )
        if await write:
            self._tell(claim, names.FS_RESIZE_REQUIRED, "Require file system resize of volume on node")


def _is_unproved(actions: Sequence[d.Action]) -> bool:
    """True where neither a write to the claim nor a call shows that the claim is still the one in the cache: a restore may have undone it.

    The volume would show a size that nobody asks for any more, and no node would make.
    """
    kinds = {type(action) for action in actions}
    return d.ExpandOnNode in kinds and d.Mark not in kinds


def _has(size: str) -> Callable[[PersistentVolumeClaim], bool]:
    """True for a claim that has this size by now: the node, or an earlier call, may have been quicker."""
    return lambda claim: quantity((claim.status.capacity or {}).get(names.STORAGE)).value >= quantity(size).value
