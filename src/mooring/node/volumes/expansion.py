"""The node's part in growing a volume: whether it is due, and what is written to the claim. Pure.

Source: kubelet 1.36, pkg/volume/util/operationexecutor/node_expander.go. The resizer hands over by the claim's allocated resources and
their status; a claim without either was grown by an old resizer, and the node compares sizes. A volume that several nodes mount is grown
on each of them: one of them writes the claim, the others see by its size that they have their own part still to do.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Final

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.quantity import parse_quantity
from mooring.control.slim import only, slim
from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code

PENDING: Final = "NodeResizePending"
IN_PROGRESS: Final = "NodeResizeInProgress"
INFEASIBLE: Final = "NodeResizeInfeasible"
INFEASIBLE_CODES: Final = frozenset({Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.NOT_FOUND})
NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
"""Annotation of a claim whose driver has grown the volume without its nodes."""
_CONDITIONS: Final = ("Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError")


@dataclasses.dataclass(frozen=True, slots=True)
class Growth:
    """What the node is to do for one claim.

    size: a quantity as text, as it is going to stand in the claim. in_progress: the claim says already that the node is at work.
    is_old: from a resizer that sets no status. is_written: the claim has this size already, by the work of another node.
    requested: what the claim asks for by now. claim_uid: of the claim.
    """

    namespace: str
    claim: str
    claim_version: str
    size: str
    in_progress: bool = False
    is_old: bool = False
    is_written: bool = False
    requested: str = ""
    claim_uid: str = ""

    @property
    def size_bytes(self) -> int:
        return math.ceil(parse_quantity(self.size).value)

    @property
    def is_another_size_wanted(self) -> bool:
        return bool(self.requested) and parse_quantity(self.requested).value != parse_quantity(self.size).value


def decide_growth(claim: PersistentVolumeClaim, pv: PersistentVolume) -> Growth | None:
    """What is due on the node, None for nothing. What `is_written` is due only where the node knows the volume with a smaller size."""
    status, meta = claim.status, claim.metadata
    allocated, step = (status.allocated_resources or {}).get("storage"), _step(claim)
    requested = (claim.spec.resources.requests or {}).get("storage", "")
    growth = functools.partial(Growth, meta.namespace, meta.name, meta.resource_version, requested=requested, claim_uid=meta.uid)
    if step in (PENDING, IN_PROGRESS) and allocated:
        return growth(allocated, in_progress=step == IN_PROGRESS)
    has, is_given = (status.capacity or {}).get("storage"), (pv.spec.capacity or {}).get("storage")
    if step or not has or not is_given:
        return None
    if parse_quantity(has).value < parse_quantity(is_given).value:
        return growth(is_given, is_old=True) if not allocated else None
    is_shared = "ReadWriteMany" in (pv.spec.access_modes or ()) and NOT_REQUIRED not in (meta.annotations or {})
    return growth(is_given, is_written=True) if is_shared else None


CLAIM: Final = slim(
    metadata=slim(), spec=slim("access_modes"), status=slim(allocated_resource_statuses=only("storage"), capacity=only("storage"))
)
"""The part of a claim that `is_the_nodes_turn` reads."""


def is_the_nodes_turn(old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> bool:
    """True for a change that hands the claim over to the nodes, or by which one of them has told the others that it has grown."""
    if old is None:
        return False
    if _step(new) == PENDING and _step(old) != PENDING:
        return True
    return "ReadWriteMany" in (new.spec.access_modes or ()) and old.status.capacity != new.status.capacity


def _step(claim: PersistentVolumeClaim) -> str:
    return (claim.status.allocated_resource_statuses or {}).get("storage", "")


def is_still_due(growth: Growth, claim: PersistentVolumeClaim) -> bool:
    """True for the claim that the growth was decided for, changed only in what does not concern it."""
    if claim.metadata.uid != growth.claim_uid:
        return False
    if growth.is_old:
        return not _step(claim) and size_bytes_of(claim) < growth.size_bytes
    allocated = (claim.status.allocated_resources or {}).get("storage", "")
    return _step(claim) in (PENDING, IN_PROGRESS) and parse_quantity(allocated or "0").value == parse_quantity(growth.size).value


def size_bytes_of(claim: PersistentVolumeClaim) -> int:
    """As the claim's status gives it, 0 for none."""
    has = (claim.status.capacity or {}).get("storage")
    return math.ceil(parse_quantity(has).value) if has else 0


def begun_patch(growth: Growth) -> dict[str, Any]:
    """A strategic merge patch of the claim's status: the node is at work. It holds only for the claim as it was read."""
    return {
        "metadata": {"resourceVersion": growth.claim_version},
        "status": {"allocatedResourceStatuses": {"storage": IN_PROGRESS}},
    }


def done_patch(growth: Growth, version: str) -> dict[str, Any]:
    """The same: the claim has its size, and nothing is left of the way there. version: the claim's, as it was written last."""
    return {
        "metadata": {"resourceVersion": version},
        "status": {
            "capacity": {"storage": growth.size},
            "allocatedResourceStatuses": {"storage": None},
            "conditions": [{"$patch": "delete", "type": kind} for kind in _CONDITIONS],
        },
    }


def failed_patch(growth: Growth, text: str, now: str) -> dict[str, Any]:
    """A strategic merge patch of the status of this very claim, whatever has become of it meanwhile: the failure. now: RFC 3339."""
    condition = {"type": "NodeResizeError", "status": "True", "lastTransitionTime": now, "message": f"failed to expand pvc with {text}"}
    return {"status": {"conditions": [condition]}}


def refused_patch(growth: Growth, error: DriverError, *, has_failed_before: bool, now: str) -> dict[str, Any]:
    """The same, after a refusal by the driver: where it will refuse again, the controller has the claim."""
    patch = failed_patch(growth, str(error), now)
    if error.code in INFEASIBLE_CODES or (has_failed_before and growth.is_another_size_wanted):
        patch["status"]["allocatedResourceStatuses"] = {"storage": INFEASIBLE}
    return patch
