"""Carries out decisions about a class: the claim is marked, the driver called, the answer saved on volume and claim.

The patches stand below: strategic merge patches, {} for none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.control.decision import Decision, Failed
from mooring.control.events import EventOnce
from mooring.control.runtime import Runtime
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.conditions import (
    Body,
    condition_patch,
    conditions_patch,
    no_conditions,
    patch_body,
    probe_patch,
)
from mooring.sidecars.resizer.decision import LoadSecret, LookAtSecret
from mooring.sidecars.resizer.modification import decide as d
from mooring.sidecars.resizer.modification.decide import (
    Refused,
    class_names,
    decide_after,
    decide_modification,
    state_of,
)
from mooring.sidecars.resizer.reconcile import ClaimReconciler
from mooring.sidecars.resizer.view import View

NOT_CALLED: Final = "NotCalled"
"""In place of a code: this process has marked the claim, and not called the driver yet, so that it is not at work."""
_BOTH: Final = (names.MODIFYING, names.MODIFY_ERROR)


class Reconciler(ClaimReconciler):
    """Performs the actions of decisions, for one driver."""

    work, failed, call = "modify", names.MODIFY_FAILED, d.Modify

    def __init__(self, runtime: Runtime, view: View, *more: Any) -> None:
        super().__init__(runtime, view, *more)
        if not view.driver.modifies:
            self._told = EventOnce(self._events, runtime.clock, d.UNABLE_S)

    def decide(self, key: Key) -> Decision[d.Action]:
        return decide_modification(self.view, key, self._clock.now())

    @staticmethod
    def facts(claim: PersistentVolumeClaim) -> tuple[Any, ...]:
        status = claim.status
        return (claim.spec.volume_name, status.phase, class_names(claim), status.modify_volume_status)

    async def _perform(self, claim: PersistentVolumeClaim, actions: Sequence[d.Action]) -> None:
        await self._claims.settle(claim)
        secrets: Mapping[str, str] = {}
        pv_uid = self._volume_of(claim).metadata.uid  # one made anew during the call has not been modified
        for action in actions:
            match action:
                case d.Cancel():
                    await self._write(claim, cancelled(claim))
                    self._tell(claim, names.MODIFY_CANCELED, "Cancelled modify.")
                case d.MarkPending():
                    await self._write(claim, pending())
                    self.view.memory.hurry(key_of(claim))  # a refusal of the class before counts no more
                case d.Mark(class_name):
                    await self._mark(claim, class_name)
                case LookAtSecret(ref):
                    await self._look_at_secret(claim, ref)
                case LoadSecret(ref):
                    secrets = await self._load_secret(claim, ref)
                case d.Modify():
                    await self._modify(claim, pv_uid, action, secrets)

    async def _mark(self, claim: PersistentVolumeClaim, class_name: str) -> None:
        await self._write_mark(claim, marked(claim, class_name, self._now()))
        if state_of(claim)[0] != names.MODIFY_IN_PROGRESS:
            self.view.memory.change(claim, error=NOT_CALLED)  # until the call: another class may take this one's place
        text = f"external resizer is modifying volume {claim.metadata.name} with vac {class_name}"
        self._tell(claim, names.MODIFY_STARTED, text)

    async def _modify(
        self, claim: PersistentVolumeClaim, pv_uid: str, action: d.Modify, secrets: Mapping[str, str]
    ) -> None:
        class_name = action.target
        self.view.memory.change(claim, error=None)
        try:
            await self._driver.controller_modify_volume(action.order.request(secrets), Call(self._options.timeout_s))
        except DriverError as error:
            refused = decide_after(class_name, error)
            self._remember(claim, class_name, refused.reason, is_infeasible=refused.is_infeasible)

            def body(now: PersistentVolumeClaim) -> Body:
                return {} if _is_over(now, class_name) else failed(now, refused, self._now())

            await self._write_refusal(claim, self._write_answer(claim, body))
            raise Failed(refused.told) from error
        self._remember(claim, class_name, "", is_infeasible=False)
        await self._save(claim, pv_uid, class_name)

    async def _save(self, claim: PersistentVolumeClaim, pv_uid: str, class_name: str) -> None:
        """The volume first: a claim that says it is done is looked at no more. Raises Failed, Stale."""
        await self._write_volume(claim, pv_uid, lambda pv: volume_class(pv, class_name))
        await self._write_answer(claim, lambda now: done(class_name))
        text = f"external resizer modified volume {claim.metadata.name} with vac {class_name} successfully"
        self._tell(claim, names.MODIFY_SUCCESSFUL, text)
        self.forget(claim)


def _is_over(claim: PersistentVolumeClaim, class_name: str) -> bool:
    """True for a claim that is on its way to no class, and has this one, by an earlier call, or the one of its wish:
    nothing has failed.
    """
    wanted, current = class_names(claim)
    return claim.status.modify_volume_status is None and current in (class_name, wanted)


# -- patches


def marked(claim: PersistentVolumeClaim, class_name: str, now: str) -> Body:
    """The driver is about to be asked for this class. What was said of another one, or of an earlier try, goes. It
    always changes the claim.
    """
    state = {"status": names.MODIFY_IN_PROGRESS, "targetVolumeAttributesClassName": class_name}
    message = f'Modifying volume to "{class_name}" is in progress.'
    modifying = condition_patch(claim, names.MODIFYING, now, message=message, is_probed=True)
    conditions = conditions_patch(claim, [modifying or probe_patch(claim, names.MODIFYING, now)], [names.MODIFY_ERROR])
    return patch_body({"modifyVolumeStatus": state, **conditions})


def pending() -> Body:
    """The wanted class is missing. The target of an earlier modification stays."""
    return patch_body({"modifyVolumeStatus": {"status": names.MODIFY_PENDING}})


def cancelled(claim: PersistentVolumeClaim) -> Body:
    """Differs from external-resizer, which leaves the error behind."""
    return patch_body(conditions_patch(claim, [], _BOTH))


def failed(claim: PersistentVolumeClaim, refused: Refused, now: str) -> Body:
    """The driver has refused, or may be at work still."""
    modifying = condition_patch(claim, names.MODIFYING, now, message=refused.condition, is_probed=True)
    error = condition_patch(
        claim, names.MODIFY_ERROR, now, reason=refused.reason, message=refused.message, is_probed=True
    )
    status = conditions_patch(claim, [modifying, error], [])
    if refused.is_infeasible:
        status["modifyVolumeStatus"] = {"status": names.MODIFY_INFEASIBLE}
    return patch_body(status)


def done(class_name: str) -> Body:
    """The volume has the class."""
    status = {"modifyVolumeStatus": None, "currentVolumeAttributesClassName": class_name}
    return patch_body(status | no_conditions(_BOTH))


def volume_class(pv: PersistentVolume, class_name: str) -> Body:
    """{} where the PersistentVolume says so already."""
    is_there = pv.spec.volume_attributes_class_name == class_name
    return {} if is_there else {"spec": {"volumeAttributesClassName": class_name}}
