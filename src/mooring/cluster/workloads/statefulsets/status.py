"""A StatefulSet's status. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mooring.api.pods import Pod
from mooring.api.workloads import StatefulSet, StatefulSetStatus
from mooring.cluster.workloads.pods import is_available, is_running_and_ready
from mooring.cluster.workloads.statefulsets.decide import View
from mooring.cluster.workloads.statefulsets.identity import revision_of


def status_of(view: View) -> StatefulSetStatus:
    stateful_set, pods = view.stateful_set, view.pods
    staying = [pod for pod in pods if not view.is_terminating(pod)]
    ready = [pod for pod in pods if is_running_and_ready(pod)]
    status = StatefulSetStatus(
        observed_generation=stateful_set.metadata.generation,
        replicas=len(pods),
        ready_replicas=len(ready),
        available_replicas=sum(is_available(pod, stateful_set.spec.min_ready_seconds, view.now) for pod in ready),
        current_replicas=_of_revision(staying, view.current.revision),
        updated_replicas=_of_revision(staying, view.update.revision),
        current_revision=view.current.revision,
        update_revision=view.update.revision,
        collision_count=stateful_set.status.collision_count or 0,
    )
    return _completed(stateful_set, status)


def _of_revision(pods: Sequence[Pod], revision: str) -> int:
    return sum(revision_of(pod) == revision for pod in pods)


def _completed(stateful_set: StatefulSet, status: StatefulSetStatus) -> StatefulSetStatus:
    """The status, with the newest revision as the current one once all pods are of it."""
    everyone = stateful_set.spec.replicas
    if stateful_set.spec.update_strategy.type != "RollingUpdate" or not (
        status.updated_replicas == status.ready_replicas == status.replicas == everyone
    ):
        return status
    return msgspec.structs.replace(
        status, current_replicas=status.updated_replicas, current_revision=status.update_revision
    )
