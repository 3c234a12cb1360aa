"""The patches of a modification: strategic merge patches, {} for none. Pure."""

from __future__ import annotations

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.modification.decide import Refused
from mooring.sidecars.resizer.view import (
    Body,
    condition_patch,
    conditions_patch,
    no_conditions,
    patch_body,
    probe_patch,
)

_BOTH = (names.MODIFYING, names.MODIFY_ERROR)


def marked(claim: PersistentVolumeClaim, class_name: str, now: str) -> Body:
    """The driver is about to be asked for this class; what was told about another one, or an earlier try, goes.

    It always changes the claim.
    """
    under_way = {"status": names.MODIFY_IN_PROGRESS, "targetVolumeAttributesClassName": class_name}
    message = f'Modifying volume to "{class_name}" is in progress.'
    modifying = condition_patch(claim, names.MODIFYING, now, message=message, is_probed=True)
    conditions = conditions_patch(claim, [modifying or probe_patch(claim, names.MODIFYING, now)], [names.MODIFY_ERROR])
    return patch_body({"modifyVolumeStatus": under_way, **conditions}, {})


def pending() -> Body:
    """The wanted class is missing. The target of an earlier modification stays."""
    return {"status": {"modifyVolumeStatus": {"status": names.MODIFY_PENDING}}}


def cancelled(claim: PersistentVolumeClaim) -> Body:
    """Differs from external-resizer, which leaves the error behind."""
    return patch_body(conditions_patch(claim, [], _BOTH), {})


def failed(claim: PersistentVolumeClaim, refused: Refused, now: str) -> Body:
    """The driver has refused, or may be at work still."""
    modifying = condition_patch(claim, names.MODIFYING, now, message=refused.condition, is_probed=True)
    error = condition_patch(
        claim, names.MODIFY_ERROR, now, reason=refused.reason, message=refused.message, is_probed=True
    )
    status = conditions_patch(claim, [modifying, error], [])
    if refused.is_infeasible:
        status["modifyVolumeStatus"] = {"status": names.MODIFY_INFEASIBLE}
    return patch_body(status, {})


def done(class_name: str) -> Body:
    """The volume has the class."""
    status = {"modifyVolumeStatus": None, "currentVolumeAttributesClassName": class_name}
    return patch_body({**status, **no_conditions(_BOTH)}, {})


def volume_class(pv: PersistentVolume, class_name: str) -> Body:
    """{} where the PersistentVolume says so already."""
    return (
        {}
        if pv.spec.volume_attributes_class_name == class_name
        else {"spec": {"volumeAttributesClassName": class_name}}
    )
