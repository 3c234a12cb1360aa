"""Carries out decisions about a class: the claim is marked, the driver called, the answer saved on volume and claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.control.decision import Decision, Failed
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.claim_controller import ClaimReconciler, never
from mooring.sidecars.resizer.decision import LoadSecret, LookAtSecret
from mooring.sidecars.resizer.modification import decide as d
from mooring.sidecars.resizer.modification import patches
from mooring.sidecars.resizer.modification.decide import decide_after, decide_modification

NOT_CALLED = "NotCalled"
"""In place of a code: this process has marked the claim, and not called the driver yet, so that it is not at work."""


class Reconciler(ClaimReconciler):
    """Performs the actions of decisions, for one driver."""

    work, failed, call = "modify", names.MODIFY_FAILED, d.Modify

    def decide(self, key: Key) -> Decision[d.Action]:
        return decide_modification(self._view, key, self._clock.now())

    async def _perform(self, claim: PersistentVolumeClaim, actions: Sequence[d.Action]) -> None:
        await self._claims.settle(claim)
        secrets: Mapping[str, str] = {}
        pv_uid = self._volume_of(claim).metadata.uid
        for action in actions:
            match action:
                case d.Cancel():
                    await self._write(claim, patches.cancelled(claim))
                    self._tell(claim, names.MODIFY_CANCELED, "Cancelled modify.")
                case d.MarkPending():
                    await self._write(claim, patches.pending())
                    self._view.memory.hurry(key_of(claim))  # a refusal of the class before counts no more
                case d.Mark(class_name):
                    await self._mark(claim, class_name)
                case LookAtSecret(ref):
                    await self._secrets.look(claim, ref)
                case LoadSecret(ref):
                    secrets = await self._secrets.load(claim, ref)
                case d.Modify():
                    await self._modify(claim, pv_uid, action, secrets)

    async def _mark(self, claim: PersistentVolumeClaim, class_name: str) -> None:
        await self._write_mark(claim, patches.marked(claim, class_name, self._now()))
        under_way = claim.status.modify_volume_status
        if under_way is None or under_way.status != names.MODIFY_IN_PROGRESS:
            self._view.memory.change(claim, error=NOT_CALLED)  # until the call: another class may take this one's place
        text = f"external resizer is modifying volume {claim.metadata.name} with vac {class_name}"
        self._tell(claim, names.MODIFY_STARTED, text)

    async def _modify(
        self, claim: PersistentVolumeClaim, pv_uid: str, action: d.Modify, secrets: Mapping[str, str]
    ) -> None:
        self._view.memory.change(claim, error=None)
        try:
            await self._driver.controller_modify_volume(action.order.request(secrets), Call(self._options.timeout_s))
        except DriverError as error:
            refused = decide_after(action.class_name, error)
            self._remember(claim, action.class_name, refused.reason, is_infeasible=refused.is_infeasible)
            write = self._write_unless(
                claim, _is(action.class_name), lambda now: patches.failed(now, refused, self._now())
            )
            await self._save_failure(claim, write)
            raise Failed(refused.told) from error
        self._remember(claim, action.class_name, "", is_infeasible=False)
        await self._save(claim, pv_uid, action.class_name)

    async def _save(self, claim: PersistentVolumeClaim, pv_uid: str, class_name: str) -> None:
        """The volume first: a claim that says it is done is looked at no more."""
        await self._write_volume(claim, pv_uid, lambda pv: patches.volume_class(pv, class_name))
        await self._write_unless(claim, never, lambda now: patches.done(class_name))
        text = f"external resizer modified volume {claim.metadata.name} with vac {class_name} successfully"
        self._tell(claim, names.MODIFY_SUCCESSFUL, text)
        self.forget(claim)


def _is(class_name: str) -> Callable[[PersistentVolumeClaim], bool]:
    """True for a claim that has this class, and is on its way to none: an earlier call was quicker."""
    return lambda claim: (
        claim.status.modify_volume_status is None and claim.status.current_volume_attributes_class_name == class_name
    )
