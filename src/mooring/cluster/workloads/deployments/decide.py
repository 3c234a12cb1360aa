"""The next step of a Deployment. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import msgspec

from mooring.api.meta import is_deleting
from mooring.api.workloads import Deployment, ReplicaSet
from mooring.cluster.workloads.deployments import reasons as why
from mooring.cluster.workloads.deployments import rollout
from mooring.cluster.workloads.deployments.revisions import (
    REVISION,
    annotations_of_new,
    body_of_new,
    by_age,
    new_of,
    next_revision,
    revision_of,
    size_annotations,
)
from mooring.cluster.workloads.deployments.rollout import Scale
from mooring.control.decision import Decision


class Create(msgspec.Struct, frozen=True):
    """Create the new ReplicaSet."""

    body: dict[str, Any]


class Amend(msgspec.Struct, frozen=True):
    """Patch the new ReplicaSet. change: a merge patch."""

    change: dict[str, Any]


class Resize(msgspec.Struct, frozen=True):
    """Scale a ReplicaSet, or only note its size. sized: the annotations that say for which number it was sized."""

    scale: Scale
    sized: dict[str, str]


class Delete(msgspec.Struct, frozen=True):
    replica_set: ReplicaSet


class SetRevision(msgspec.Struct, frozen=True):
    """Set the Deployment's revision."""

    revision: str


Action: TypeAlias = Create | Amend | Resize | Delete | SetRevision


def decide(deployment: Deployment, sets: Sequence[ReplicaSet], old_running: Collection[str] = ()) -> Decision[Action]:
    """sets: the Deployment's. old_running: the uids of ReplicaSets some of whose pods have not ended yet."""
    if is_deleting(deployment):
        return Decision(why.Deleting())
    new = new_of(deployment, sets)
    old = tuple(one for one in by_age(sets) if new is None or one.metadata.uid != new.metadata.uid)
    if deployment.spec.paused or rollout.is_scaled(deployment, sets):
        decision = _rescaled(deployment, new, old)
    elif deployment.spec.strategy.type == "Recreate":
        decision = _recreated(deployment, new, old, any(one.metadata.uid in old_running for one in old))
    else:
        decision = _rolled(deployment, new, old)
    return decision if new is None else _synced(deployment, new, old, decision)


def _rescaled(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Decision[Action]:
    resized = _resized(deployment, rollout.rescale(deployment, new, old))
    if deployment.spec.paused:
        return Decision(why.Paused(), (*resized, *_outdated(deployment, old)))
    return Decision(why.Scaled(deployment.spec.replicas), resized)


def _recreated(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], old_running: bool
) -> Decision[Action]:
    if stops := rollout.stop_old(old):
        return Decision(why.StopsOld(), _resized(deployment, stops))
    return Decision(why.WaitsForOld()) if old_running else _started(deployment, new, old)


def _rolled(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Decision[Action]:
    if (
        new is not None
        and not rollout.roll_new(deployment, new, old)
        and (scales := rollout.roll_old(deployment, new, old))
    ):
        return Decision(why.Replaces(), _resized(deployment, scales))
    return _started(deployment, new, old)


def _started(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Decision[Action]:
    """Make the new ReplicaSet, or give it its size; once all is done, remove old ones beyond the history."""
    if new is None:
        size = rollout.size_of_new(deployment, 0, rollout.total(old))
        revision = next_revision(old)
        return Decision(why.NewTemplate(), (Create(body_of_new(deployment, size, revision)), SetRevision(revision)))
    if scales := rollout.roll_new(deployment, new, old):
        return Decision(why.Grows(scales[0].replicas), _resized(deployment, scales))
    if is_complete(deployment, new, old):
        return Decision(why.Complete(deployment.spec.replicas), _outdated(deployment, old))
    return Decision(why.WaitsForPods(new.status.available_replicas, deployment.spec.replicas))


def _resized(deployment: Deployment, scales: Sequence[Scale]) -> tuple[Resize, ...]:
    sized = size_annotations(deployment)
    return tuple(Resize(scale, sized) for scale in scales)


def _synced(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet], decision: Decision[Action]
) -> Decision[Action]:
    """The decision, with a patch of what the new ReplicaSet lacks before its actions, and the Deployment's revision
    after them.
    """
    wanted = annotations_of_new(deployment, new, next_revision(old))
    have = new.metadata.annotations or {}
    annotations = {key: value for key, value in wanted.items() if have.get(key) != value}
    change: dict[str, Any] = {"metadata": {"annotations": annotations}} if annotations else {}
    if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        change["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
    amend = (Amend(change),) if change else ()
    revision = (SetRevision(wanted[REVISION]),) if str(revision_of(deployment)) != wanted[REVISION] else ()
    return msgspec.structs.replace(decision, actions=(*amend, *decision.actions, *revision))


def is_complete(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> bool:
    wanted = deployment.spec.replicas
    return new.status.replicas == new.status.available_replicas == wanted and not any(
        one.status.replicas for one in old
    )


def _outdated(deployment: Deployment, old: Sequence[ReplicaSet]) -> tuple[Delete, ...]:
    """Delete empty ReplicaSets beyond the history limit, the oldest revisions first."""
    idle = [one for one in old if not is_deleting(one)]
    count = len(idle) - deployment.spec.revision_history_limit
    first = sorted(idle, key=revision_of)[: max(0, count)]
    return tuple(Delete(one) for one in first if not (one.status.replicas or one.spec.replicas) and _is_observed(one))


def _is_observed(one: ReplicaSet) -> bool:
    return one.metadata.generation <= one.status.observed_generation
