"""Parts of patches of a claim: its conditions, joined by type, so that nobody else's is touched. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from mooring.api.core import PersistentVolumeClaim
from mooring.controllers.resizer.view import condition_of

Body: TypeAlias = dict[str, Any]
"""A strategic merge patch, or a part of one; {} for nothing."""


def condition_patch(
    claim: PersistentVolumeClaim, kind: str, now: str, *, reason: str = "", message: str = "", is_probed: bool = False
) -> Body | None:
    """The condition holds; None where it says so already, and keeps its time. now: RFC 3339. is_probed: with the time of the last look."""
    before = condition_of(claim, kind)
    if before is not None and (before.status, before.reason, before.message) == ("True", reason, message):
        return None
    told: Body = {"reason": reason or None, "message": message or None}
    if before is None:
        told = {name: text for name, text in told.items() if text is not None}
    if is_probed:
        told["lastProbeTime"] = now
    if before is None or (before.status, before.reason) != ("True", reason):
        told["lastTransitionTime"] = now
    return {"type": kind, "status": "True", **told}


def conditions_patch(claim: PersistentVolumeClaim, told: Iterable[Body | None], dropped: Iterable[str]) -> Body:
    """dropped: types that are to go, where they are."""
    gone = [{"$patch": "delete", "type": kind} for kind in dropped if condition_of(claim, kind) is not None]
    changes = [*(one for one in told if one is not None), *gone]
    return {"conditions": changes} if changes else {}


def no_conditions(kinds: Iterable[str]) -> Body:
    """They go, wherever they are: the claim in hand may lack one that was written, and whose answer was lost."""
    return {"conditions": [{"$patch": "delete", "type": kind} for kind in kinds]}


def patch_body(status: Mapping[str, Any], metadata: Mapping[str, Any]) -> Body:
    """{} when neither changes."""
    return {**({"metadata": metadata} if metadata else {}), **({"status": status} if status else {})}
