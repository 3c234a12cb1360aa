"""How many pods a ReplicaSet makes or deletes, and its status. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

from mooring.api.meta import Condition, is_deleting
from mooring.api.pods import Pod
from mooring.api.workloads import ReplicaSet, ReplicaSetStatus
from mooring.base.clock import rfc3339
from mooring.cluster.workloads import conditions
from mooring.cluster.workloads.decision import CreatePods, DeletePod
from mooring.cluster.workloads.pods import BURST_MAX, FINISHED, first_to_go, is_active, is_available, is_going, is_ready
from mooring.cluster.workloads.replicasets import reasons as why
from mooring.control.decision import Decision

FAILURE = "ReplicaFailure"


Action: TypeAlias = CreatePods | DeletePod


def decide(
    replica_set: ReplicaSet, pods: Iterable[Pod], going: Collection[str], siblings: Iterable[Pod] = ()
) -> Decision[Action]:
    """siblings: pods of the other ReplicaSets of its owner. going: the uids of the pods that we have deleted."""
    if is_deleting(replica_set):
        return Decision(why.Deleting())
    active = [pod for pod in pods if is_active(pod, going)]
    wanted = replica_set.spec.replicas
    if len(active) < wanted:
        return Decision(why.TooFew(len(active), wanted), (CreatePods(min(wanted - len(active), BURST_MAX)),))
    if len(active) > wanted:
        beside = [pod for pod in siblings if is_active(pod, going)]
        gone = first_to_go(active, min(len(active) - wanted, BURST_MAX), beside)
        return Decision(why.TooMany(len(active), wanted), tuple(map(DeletePod, gone)))
    return Decision(why.Enough(wanted))


def status_of(
    replica_set: ReplicaSet, pods: Iterable[Pod], going: Collection[str], failure: Condition | None, now: float
) -> ReplicaSetStatus:
    """failure: the condition after a refused request, None after none. now: seconds since the epoch."""
    mine = tuple(pods)
    active = [pod for pod in mine if is_active(pod, going)]
    labels = ((replica_set.spec.template.get("metadata") or {}).get("labels") or {}).items()
    rest = conditions.without(replica_set.status.conditions, FAILURE)
    kept = rest if failure is None else conditions.put(replica_set.status.conditions, failure)
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels <= (pod.metadata.labels or {}).items() for pod in active),
        ready_replicas=sum(map(is_ready, active)),
        available_replicas=sum(is_available(pod, replica_set.spec.min_ready_seconds, now) for pod in active),
        terminating_replicas=sum(is_going(pod, going) and pod.status.phase not in FINISHED for pod in mine),
        observed_generation=replica_set.metadata.generation,
        conditions=kept or None,
    )


def failed(reason: str, message: str, now: float) -> Condition:
    return Condition(FAILURE, "True", reason, message, rfc3339(now))
