"""A Deployment's status: counts, and whether the rollout goes on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mooring.api.workloads import Deployment, DeploymentStatus, ReplicaSet, UpdatedCondition
from mooring.base.clock import parse_rfc3339, rfc3339
from mooring.cluster.workloads import conditions
from mooring.cluster.workloads.deployments.revisions import max_unavailable, new_of
from mooring.cluster.workloads.deployments.rollout import total
from mooring.cluster.workloads.pods import left_s

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
FAILURE: Final = "ReplicaFailure"
NEW_AVAILABLE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
NOT_MADE: Final = "ReplicaSetCreateError"
_NEVER_S: Final = 2**31 - 1
_PAUSED: Final = "DeploymentPaused"


def status_of(deployment: Deployment, sets: Sequence[ReplicaSet], made: bool, now: float) -> DeploymentStatus:
    """made: the new ReplicaSet was made just now. now: seconds since the epoch."""
    new = new_of(deployment, sets)
    available = sum(one.status.available_replicas for one in sets)
    status = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(one.status.replicas for one in sets),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(one.status.ready_replicas for one in sets),
        available_replicas=available,
        unavailable_replicas=max(0, total(sets) - available),
        terminating_replicas=sum(one.status.terminating_replicas or 0 for one in sets),
        conditions=deployment.status.conditions,
        collision_count=deployment.status.collision_count,
    )
    status = _with(status, _available(deployment, available, now))
    progress = _progress(deployment, status, new, made, now) if _has_deadline(deployment) else None
    if progress is not None or not _has_deadline(deployment):  # (put as it is: progress of the same reason is progress)
        rest = conditions.without(status.conditions, PROGRESSING)
        status = msgspec.structs.replace(status, conditions=rest if progress is None else (*rest, progress))
    return _with_failure(status, new, sets, now)


def refused(deployment: Deployment, message: str, now: float) -> DeploymentStatus:
    """The status while the new ReplicaSet can't be made."""
    if not _has_deadline(deployment):
        return deployment.status
    return _with(deployment.status, _condition(PROGRESSING, "False", NOT_MADE, message, now))


def looked_at_again_s(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """Seconds until the deadline of a rollout that is not complete; None where there is none."""
    current, deadline_s = (
        conditions.find(status.conditions, PROGRESSING),
        deployment.spec.progress_deadline_seconds or 0,
    )
    if current is None or current.reason in (NEW_AVAILABLE, TIMED_OUT) or deployment.spec.paused:
        return None
    return max(0.0, left_s(_updated_at(current), deadline_s, now)) + 1.0


def _has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds not in (None, _NEVER_S)


def _with(status: DeploymentStatus, new: UpdatedCondition) -> DeploymentStatus:
    return msgspec.structs.replace(status, conditions=conditions.put(status.conditions, new))


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> UpdatedCondition:
    at = rfc3339(now)
    return UpdatedCondition(kind, status, reason, message, last_transition_time=at, last_update_time=at)


def _available(deployment: Deployment, available: int, now: float) -> UpdatedCondition:
    if available >= deployment.spec.replicas - max_unavailable(deployment):
        return _condition(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
    text = "Deployment does not have minimum availability."
    return _condition(AVAILABLE, "False", "MinimumReplicasUnavailable", text, now)


def _progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, made: bool, now: float
) -> UpdatedCondition | None:
    """The new condition Progressing, None where it stays as it is."""
    current = conditions.find(deployment.status.conditions, PROGRESSING)
    if (told := _pausing(deployment, current, now)) is not None or deployment.spec.paused:
        return told
    if new is not None and (made or current is None):
        reason, verb = ("NewReplicaSetCreated", "Created") if made else ("FoundNewReplicaSet", "Found")
        return _refreshed(
            current, _condition(PROGRESSING, "True", reason, f'{verb} new replica set "{new.metadata.name}"', now)
        )
    if current is not None and status.replicas == status.updated_replicas and current.reason == NEW_AVAILABLE:
        return None
    who = f'ReplicaSet "{new.metadata.name}"' if new is not None else f'Deployment "{deployment.metadata.name}"'
    if _is_complete(deployment, status):
        return _refreshed(
            current, _condition(PROGRESSING, "True", NEW_AVAILABLE, f"{who} has successfully progressed.", now)
        )
    if _has_progressed(deployment.status, status):
        return _refreshed(current, _condition(PROGRESSING, "True", "ReplicaSetUpdated", f"{who} is progressing.", now))
    if current is not None and _is_late(deployment, current, now):
        return (
            None
            if current.reason == TIMED_OUT
            else _condition(PROGRESSING, "False", TIMED_OUT, f"{who} has timed out progressing.", now)
        )
    return None


def _pausing(deployment: Deployment, current: UpdatedCondition | None, now: float) -> UpdatedCondition | None:
    """The condition for pausing or resuming, once each; None for neither."""
    reason = "" if current is None else current.reason
    if deployment.spec.paused and reason not in (_PAUSED, TIMED_OUT):
        return _condition(PROGRESSING, "Unknown", _PAUSED, "Deployment is paused", now)
    if not deployment.spec.paused and reason == _PAUSED:
        return _condition(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed", now)
    return None


def _refreshed(current: UpdatedCondition | None, new: UpdatedCondition) -> UpdatedCondition:
    """The condition at each progress, also one of the same reason, since the deadline begins anew."""
    if current is None or current.status != new.status:
        return new
    return msgspec.structs.replace(new, last_transition_time=current.last_transition_time)


def _is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    return status.updated_replicas == status.replicas == status.available_replicas == deployment.spec.replicas


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    old_before, old_after = before.replicas - before.updated_replicas, after.replicas - after.updated_replicas
    grown = ("updated_replicas", "ready_replicas", "available_replicas")
    return old_after < old_before or any(getattr(after, part) > getattr(before, part) for part in grown)


def _is_late(deployment: Deployment, current: UpdatedCondition, now: float) -> bool:
    if current.reason == NEW_AVAILABLE:
        return False
    deadline_s = deployment.spec.progress_deadline_seconds or 0
    return current.reason == TIMED_OUT or _updated_at(current) + deadline_s < now


def _updated_at(current: UpdatedCondition) -> float:
    at = current.last_update_time or current.last_transition_time
    return parse_rfc3339(at) if at else 0.0


def _with_failure(
    status: DeploymentStatus, new: ReplicaSet | None, sets: Sequence[ReplicaSet], now: float
) -> DeploymentStatus:
    """The status with a ReplicaSet's failure as the Deployment's; that of the new one counts first."""
    for one in (*([new] if new is not None else []), *sets):
        found = conditions.find(one.status.conditions, FAILURE)
        if found is not None:
            return _with(status, _condition(FAILURE, found.status, found.reason, found.message, now))
    return msgspec.structs.replace(status, conditions=conditions.without(status.conditions, FAILURE) or None)
