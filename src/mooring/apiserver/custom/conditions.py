"""The status of a definition: its names and its conditions, as they follow from what is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mooring.apiserver.custom import names
from mooring.base.clock import rfc3339

Json = dict[str, Any]

APPROVED: Final = "api-approved.kubernetes.io"
_TERMINATING: Final = "Terminating"


def find(definition: Json, kind: str) -> Json | None:
    """A condition of the definition's status; None for one that it doesn't have."""
    return next((found for found in definition["status"].get("conditions") or () if found["type"] == kind), None)


def is_true(definition: Json, kind: str) -> bool:
    found = find(definition, kind)
    return found is not None and found["status"] == "True"


def settled(definition: Json, others: Iterable[Json], now: float) -> Json:
    """The status that the definition is to have. others: the other definitions of its group."""
    got, reason, message = names.accepted(definition, others)
    free = not names.is_conflict(reason)
    status = {**definition["status"], "acceptedNames": got}
    changed = {"status": with_condition(status, "NamesAccepted", free, reason, message, now)}
    if free and not is_true(changed, "Established"):
        text = "the initial names have been accepted"
        changed["status"] = with_condition(changed["status"], "Established", True, "InitialNamesAccepted", text, now)
    elif find(changed, "Established") is None:
        changed["status"] = with_condition(changed["status"], "Established", False, "NotAccepted", "not all names are accepted", now)
    approved = (definition["metadata"].get("annotations") or {}).get(APPROVED)
    if approved and is_protected(definition["spec"]["group"]):
        return _with_approval(changed["status"], approved, now)
    return changed["status"]


def terminating(status: Json, now: float) -> Json:
    """The status of a definition whose deletion has been asked for."""
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    return with_condition(status, _TERMINATING, True, "InstanceDeletionPending", text, now)


def emptying(status: Json, now: float) -> Json:
    """The status while objects are left."""
    return with_condition(status, _TERMINATING, True, "InstanceDeletionInProgress", "CustomResource deletion is in progress", now)


def is_protected(group: str) -> bool:
    """True for groups that belong to Kubernetes: their kinds need an approval."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def with_condition(status: Json, kind: str, value: bool, reason: str, message: str, now: float) -> Json:
    """The status with that condition; the time is of the change from or to true."""
    text = "True" if value else "False"
    new = {"type": kind, "status": text, "lastTransitionTime": rfc3339(now), "reason": reason, "message": message}
    found = list(status.get("conditions") or ())
    for number, old in enumerate(found):
        if old["type"] == kind:
            if old["status"] == text:
                new["lastTransitionTime"] = old.get("lastTransitionTime") or new["lastTransitionTime"]
            found[number] = new
            return {**status, "conditions": found}
    return {**status, "conditions": [*found, new]}


def _with_approval(status: Json, approved: str, now: float) -> Json:
    kind = "KubernetesAPIApprovalPolicyConformant"
    if approved.startswith("unapproved"):
        text = f'not approved: "{approved}"'
        return with_condition(status, kind, False, "UnapprovedAnnotation", text, now)
    return with_condition(status, kind, True, "ApprovedAnnotation", f"approved in {approved}", now)
