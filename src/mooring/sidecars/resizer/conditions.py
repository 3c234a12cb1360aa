"""A claim's conditions, and patches of them. They are joined by type, so that nobody else's is touched. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Condition

Body: TypeAlias = dict[str, Any]
"""A strategic merge patch, or a part of one; {} for nothing."""


def condition_of(claim: PersistentVolumeClaim, kind: str) -> Condition | None:
    return next((one for one in claim.status.conditions or () if one.type == kind), None)


def is_true(claim: PersistentVolumeClaim, kind: str) -> bool:
    """True when the claim has this condition, and it holds."""
    found = condition_of(claim, kind)
    return found is not None and found.status == "True"


def condition_patch(
    claim: PersistentVolumeClaim, kind: str, now: str, *, reason: str = "", message: str = "", is_probed: bool = False
) -> Body | None:
    """The condition holds; None where it says so already, and keeps its time. now: RFC 3339. is_probed: with the time
    of the last look.
    """
    before = condition_of(claim, kind)
    if before is not None and (before.status, before.reason, before.message) == ("True", reason, message):
        return None
    changes: Body = {"reason": reason or None, "message": message or None}
    if before is None:
        changes = {name: text for name, text in changes.items() if text is not None}
    if is_probed:
        changes["lastProbeTime"] = now
    if before is None or (before.status, before.reason) != ("True", reason):
        changes["lastTransitionTime"] = now
    return {"type": kind, "status": "True", **changes}


def probe_patch(claim: PersistentVolumeClaim, kind: str, now: str) -> Body:
    """The condition says what it said. The time of the last look changes the claim, also within the second of the look
    before.
    """
    before = condition_of(claim, kind)
    return {"type": kind, "lastProbeTime": None if before is not None and before.last_probe_time == now else now}


def conditions_patch(claim: PersistentVolumeClaim, changes: Iterable[Body | None], dropped: Iterable[str]) -> Body:
    """dropped: types that are to go, where they are."""
    gone = [{"$patch": "delete", "type": kind} for kind in dropped if condition_of(claim, kind) is not None]
    patches = [*(one for one in changes if one is not None), *gone]
    return {"conditions": patches} if patches else {}


def no_conditions(kinds: Iterable[str]) -> Body:
    """Remove these conditions, also where the claim in hand has none: the answer to the write of one may be lost."""
    return {"conditions": [{"$patch": "delete", "type": kind} for kind in kinds]}


def patch_body(status: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> Body:
    """{} when neither changes."""
    return {**({"metadata": metadata} if metadata else {}), **({"status": status} if status else {})}
