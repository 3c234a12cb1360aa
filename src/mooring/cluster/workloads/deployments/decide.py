"""The next step of a Deployment. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

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
from mooring.control.result import Because


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """make: the body of the new ReplicaSet. amend: a merge patch of the new one. revision: for the Deployment, "" as it is.

    sized: annotations of the ReplicaSets that are scaled, or that stay as they are and were sized for another number.
    """

    because: Because
    make: dict[str, Any] | None = None
    amend: dict[str, Any] | None = None
    revision: str = ""
    scale: tuple[Scale, ...] = ()
    sized: dict[str, str] | None = None
    delete: tuple[ReplicaSet, ...] = ()


def decide(deployment: Deployment, sets: Sequence[ReplicaSet], old_running: Collection[str] = ()) -> Decision:
    """sets: the Deployment's. old_running: the uids of ReplicaSets some of whose pods have not ended yet."""
    if is_deleting(deployment):
        return Decision(why.Deleting())
    new = new_of(deployment, sets)
    old = tuple(one for one in by_age(sets) if new is None or one.metadata.uid != new.metadata.uid)
    if deployment.spec.paused or rollout.is_scaled(deployment, sets):
        return _rescaled(deployment, new, old)
    if deployment.spec.strategy.type == "Recreate":
        return _recreated(deployment, new, old, any(one.metadata.uid in old_running for one in old))
    return _rolled(deployment, new, old)


def _rescaled(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Decision:
    scales = tuple(rollout.rescale(deployment, new, old))
    because = why.Paused() if deployment.spec.paused else why.Scaled(deployment.spec.replicas)
    delete = _outdated(deployment, old) if deployment.spec.paused else ()
    return _synced(deployment, new, old, Decision(because, scale=scales, sized=size_annotations(deployment), delete=delete))


def _recreated(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], old_running: bool) -> Decision:
    if stops := rollout.stop_old(old):
        return _synced(deployment, new, old, Decision(why.StopsOld(), scale=tuple(stops), sized=size_annotations(deployment)))
    if old_running:
        return _synced(deployment, new, old, Decision(why.WaitsForOld()))
    return _started(deployment, new, old)


def _rolled(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Decision:
    started = _started(deployment, new, old)
    if new is None or started.scale:
        return started
    if scales := rollout.roll_old(deployment, new, old):
        return dataclasses.replace(started, because=why.Replaces(), scale=tuple(scales), sized=size_annotations(deployment), delete=())
    return started


def _started(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Decision:
    """The new ReplicaSet is made, or gets its size; once all is done, old ones beyond the history go."""
    sized = size_annotations(deployment)
    if new is None:
        size = rollout.size_of_new(deployment, 0, rollout.total(old))
        revision = next_revision(old)
        return Decision(why.NewTemplate(), make=body_of_new(deployment, size, revision), revision=revision)
    scales = tuple(rollout.roll_new(deployment, new, old))
    if scales:
        return _synced(deployment, new, old, Decision(why.Grows(scales[0].replicas), scale=scales, sized=sized))
    done = is_complete(deployment, new, old)
    because = why.Complete(deployment.spec.replicas) if done else why.WaitsForPods(new.status.available_replicas, deployment.spec.replicas)
    return _synced(deployment, new, old, Decision(because, delete=_outdated(deployment, old) if done else ()))


def _synced(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], decision: Decision) -> Decision:
    """The same, with what the new ReplicaSet and the Deployment's revision lack."""
    if new is None:
        return decision
    wanted = annotations_of_new(deployment, new, next_revision(old))
    have = new.metadata.annotations or {}
    annotations = {key: value for key, value in wanted.items() if have.get(key) != value}
    amend: dict[str, Any] = {"metadata": {"annotations": annotations}} if annotations else {}
    if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
        amend["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
    revision = wanted[REVISION] if str(revision_of(deployment)) != wanted[REVISION] else ""
    return dataclasses.replace(decision, amend=amend or None, revision=revision)


def is_complete(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> bool:
    wanted = deployment.spec.replicas
    return new.status.replicas == new.status.available_replicas == wanted and not any(one.status.replicas for one in old)


def _outdated(deployment: Deployment, old: Sequence[ReplicaSet]) -> tuple[ReplicaSet, ...]:
    """Empty ReplicaSets beyond the history limit, the oldest revisions first."""
    idle = [one for one in old if not is_deleting(one)]
    count = len(idle) - deployment.spec.revision_history_limit
    first = sorted(idle, key=revision_of)[: max(0, count)]
    return tuple(one for one in first if not (one.status.replicas or one.spec.replicas) and _is_observed(one))


def _is_observed(one: ReplicaSet) -> bool:
    return one.metadata.generation <= one.status.observed_generation
