"""The stage of a claim whose volume grows, or changes its class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.api.core import PersistentVolumeClaim
from mooring.controllers.resizer.names import CONTROLLER_ERROR, FS_PENDING, MODIFY_ERROR, NODE_ERROR, STORAGE

_GROWING: Final = (CONTROLLER_ERROR, NODE_ERROR, FS_PENDING)
_MODIFYING: Final = (MODIFY_ERROR,)
"""The conditions that say what is waited for."""


def change_of(claim: PersistentVolumeClaim) -> tuple[str, str]:
    """The stage and the claim's own words about it; "" for a claim that stays as it is."""
    if (claim.status.allocated_resource_statuses or {}).get(STORAGE):
        return "Growing", _words(claim, _GROWING) or f"to {(claim.status.allocated_resources or {}).get(STORAGE, 'another size')}"
    change = claim.status.modify_volume_status
    if change is not None:
        return "Modifying", _words(claim, _MODIFYING) or f"to the class {change.target_volume_attributes_class_name}: {change.status}"
    return "", ""


def _words(claim: PersistentVolumeClaim, kinds: Sequence[str]) -> str:
    found = {one.type: one.message for one in claim.status.conditions or () if one.status == "True"}
    return next((found[kind] for kind in kinds if found.get(kind)), "")
