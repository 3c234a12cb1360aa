"""The patches of a growth: strategic merge patches with the differences from the object in hand, {} for none. Pure.

Conditions are joined by type, so that nobody else's is touched. A condition that says what it said keeps its time.
"""

from __future__ import annotations

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import annotation
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.expansion.decide import After
from mooring.sidecars.resizer.view import (
    Body,
    condition_of,
    condition_patch,
    conditions_patch,
    no_conditions,
    patch_body,
    probe_patch,
    quantity,
)

STARTED = "ResizeStarted"
"""The reason of Resizing. Differs from external-resizer, which gives it neither reason nor message."""
RESTART_A_POD = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
WHILE_IN_USE = "Waiting for file system resize of volume on node, which happens while a pod uses the volume, or as soon as one does."


def pending_text(driver: DriverCapabilities) -> str:
    """The message of FileSystemResizePending. Differs from external-resizer, which always asks for a pod's start."""
    return WHILE_IN_USE if driver.expands_online else RESTART_A_POD


# -- the claim


def marked(
    claim: PersistentVolumeClaim, size: str, now: str, *, anew: bool, recover: bool, keeps_error: bool = False
) -> Body:
    """The driver is about to be asked for this size. anew: it was another one, or infeasible; what was told about that goes.

    keeps_error: but the controller's error stays. It always changes the claim.
    """
    status: Body = {}
    if recover:
        status |= _allocated(claim, size)
    if anew:
        status |= {
            "allocatedResourceStatuses": {names.STORAGE: names.CONTROLLER_IN_PROGRESS}
        }  # also where an old claim says so
    kept = {names.RESIZING, names.CONTROLLER_ERROR} if keeps_error else {names.RESIZING}
    dropped = [kind for kind in names.RESIZE_CONDITIONS if kind not in kept] if anew else []
    message = f"Volume {claim.spec.volume_name} is to grow to {size}"
    resizing = condition_patch(claim, names.RESIZING, now, reason=STARTED, message=message)
    status |= conditions_patch(claim, [resizing or probe_patch(claim, names.RESIZING, now)], dropped)
    return patch_body(status, _note(claim, None) if recover else {})


def node_next(claim: PersistentVolumeClaim, size: str, message: str, now: str, *, recover: bool) -> Body:
    """The driver has done its part: the node does the rest. size: that was asked for; a claim of before a restore may not say so."""
    pending = condition_patch(claim, names.FS_PENDING, now, message=message)
    step = {**_at_least(claim, size), **_step(claim, names.NODE_PENDING)} if recover else {}
    dropped = [names.CONTROLLER_ERROR] if recover else [names.RESIZING, names.CONTROLLER_ERROR]
    return patch_body({**step, **conditions_patch(claim, [pending], dropped)}, _note(claim, None) if recover else {})


def done(claim: PersistentVolumeClaim, size: str, *, recover: bool) -> Body:
    """The volume has grown, and the node need not know."""
    has = quantity((claim.status.capacity or {}).get(names.STORAGE))
    status: Body = {} if has.value == quantity(size).value else {"capacity": {names.STORAGE: size}}
    steps = claim.status.allocated_resource_statuses
    if recover and steps:
        status["allocatedResourceStatuses"] = None if set(steps) == {names.STORAGE} else {names.STORAGE: None}
    status |= no_conditions(names.RESIZE_CONDITIONS)
    return patch_body(status, _note(claim, "true") if recover else {})


def failed(claim: PersistentVolumeClaim, after: After, now: str) -> Body:
    """The driver has refused, or may be at work still; what it said last is on the claim, for the user and for the process after this one.

    An error after which it may be at work is added to no claim; where a former one stands, it takes its place.
    """
    status: Body = {}
    if after.is_final or condition_of(claim, names.CONTROLLER_ERROR) is not None:
        error = condition_patch(
            claim, names.CONTROLLER_ERROR, now, reason=after.reason, message=f"failed to expand pvc with {after.error}"
        )
        status |= conditions_patch(claim, [error], [])
    if after.is_infeasible:
        status |= _step(claim, names.CONTROLLER_INFEASIBLE)
    return patch_body(status, {})


def _allocated(claim: PersistentVolumeClaim, size: str) -> Body:
    before = (claim.status.allocated_resources or {}).get(names.STORAGE)
    same = before is not None and quantity(before).value == quantity(size).value
    return {} if same else {"allocatedResources": {names.STORAGE: size}}


def _at_least(claim: PersistentVolumeClaim, size: str) -> Body:
    """A larger size was asked for since, and the claim's quota knows of it."""
    before = (claim.status.allocated_resources or {}).get(names.STORAGE)
    return {} if quantity(before).value >= quantity(size).value else {"allocatedResources": {names.STORAGE: size}}


def _step(claim: PersistentVolumeClaim, step: str) -> Body:
    before = (claim.status.allocated_resource_statuses or {}).get(names.STORAGE)
    return {} if before == step else {"allocatedResourceStatuses": {names.STORAGE: step}}


def _note(claim: PersistentVolumeClaim, value: str | None) -> Body:
    """Whether the node has nothing to do for this growth, as an annotation."""
    before = (claim.metadata.annotations or {}).get(names.NOT_REQUIRED)
    return {} if before == value else {"annotations": {names.NOT_REQUIRED: value}}


# -- the PersistentVolume


def volume_size(pv: PersistentVolume, size: str, before: str) -> Body:
    """before: what the annotation says of the file system's size; "" for no annotation. One that is there stays."""
    body: Body = {}
    if quantity((pv.spec.capacity or {}).get(names.STORAGE)).value != quantity(size).value:
        body["spec"] = {"capacity": {names.STORAGE: size}}
    if before and not annotation(pv, names.PRE_RESIZE):
        body["metadata"] = {"annotations": {names.PRE_RESIZE: before}}
    return body
