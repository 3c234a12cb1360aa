"""What must be true of workloads at rest: what is wished for is there, is of the newest template, and is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.api.workloads import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS
from mooring.cluster.workloads.jobs.tally import TRACKING
from tests.sim.checkers import Complaint
from tests.sim.plane.plan import NAMESPACE
from tests.sim.plane.stands import Json, is_alive
from tests.sim.plane.workload_hands import NOTE
from tests.sim.plane.workload_stands import controller_of, pod_names


def complaints(world: Any) -> Iterator[Complaint]:
    for stateful_set in world.truth.all(STATEFUL_SETS.whole()):
        yield from _of_set(world, stateful_set)
    for deployment in world.truth.all(DEPLOYMENTS.whole()):
        yield from _of_deployment(world, deployment)
    for job in world.truth.all(JOBS.whole()):
        yield from _of_job(world, job)


def _of_set(world: Any, stateful_set: Json) -> Iterator[Complaint]:
    name, spec, status = stateful_set["metadata"]["name"], stateful_set["spec"], stateful_set.get("status", {})
    pods = _pods_of(world, stateful_set)
    wanted = pod_names(stateful_set)
    if set(wanted) != pods.keys():
        yield "replicas-wrong", f"StatefulSet {name} has {sorted(pods)}, and {wanted} are wished for"
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        yield from _outdated(f"StatefulSet {name}", spec["template"], pods)
        if status.get("currentRevision") != status.get("updateRevision"):
            yield "status-wrong", f"StatefulSet {name} says {status}"
    told = {key: status.get(key, 0) for key in ("replicas", "readyReplicas", "availableReplicas")}
    if (
        set(told.values()) != {spec["replicas"]}
        or status.get("observedGeneration") != stateful_set["metadata"]["generation"]
    ):
        yield "status-wrong", f"StatefulSet {name} wishes for {spec['replicas']}, and says {status}"
    yield from _owners(world, stateful_set, pods)


def _of_deployment(world: Any, deployment: Json) -> Iterator[Complaint]:
    name, spec, status = deployment["metadata"]["name"], deployment["spec"], deployment.get("status", {})
    sets = [one for one in world.truth.all(REPLICA_SETS.whole()) if _is_owned(one, deployment)]
    pods = {name: pod for one in sets for name, pod in _pods_of(world, one).items()}
    if len(pods) != spec["replicas"]:
        yield "replicas-wrong", f"Deployment {name} has {sorted(pods)}, and {spec['replicas']} are wished for"
    yield from _outdated(f"Deployment {name}", spec["template"], pods)
    told = {status.get(key, 0) for key in ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")}
    if told != {spec["replicas"]} or status.get("observedGeneration") != deployment["metadata"]["generation"]:
        yield "status-wrong", f"Deployment {name} wishes for {spec['replicas']}, and says {status}"
    old_count = sum(not one["spec"]["replicas"] for one in sets) - (not spec["replicas"])  # (the newest is no old one)
    if old_count > spec["revisionHistoryLimit"]:
        yield "history-wrong", f"Deployment {name} keeps {old_count} old ReplicaSets"


def _of_job(world: Any, job: Json) -> Iterator[Complaint]:
    """It is over, and its counters are true."""
    name, status = job["metadata"]["name"], job.get("status", {})
    if not any(
        one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in status.get("conditions") or ()
    ):
        yield "job-goes-on", f"Job {name} does not end: {status}"
    elif pods := _pods_of(world, job):
        yield "job-goes-on", f"Job {name} is over, and {sorted(pods)} run"
    if any((status.get("uncountedTerminatedPods") or {}).values()) or status.get("active"):
        yield "status-wrong", f"Job {name} says {status}"
    for pod in world.laws.pods.values():
        if _is_owned(pod, job) and TRACKING in (pod["metadata"].get("finalizers") or ()):
            yield "job-holds", f"pod {pod['metadata']['name']} of Job {name} is not counted"


def _is_owned(obj: Json, owner: Json) -> bool:
    controller = controller_of(obj)
    return controller is not None and bool(controller["uid"] == owner["metadata"]["uid"])


def _owners(world: Any, stateful_set: Json, pods: dict[str, Json]) -> Iterator[Complaint]:
    """Claims of pods that stay belong to the set where they are to go with it, and else to nobody."""
    policy, uid = stateful_set["spec"]["persistentVolumeClaimRetentionPolicy"], stateful_set["metadata"]["uid"]
    wanted = {uid} if policy["whenDeleted"] == "Delete" else set()
    for pod_name in pods:
        for template in stateful_set["spec"]["volumeClaimTemplates"]:
            claim = world.laws.claims.get((NAMESPACE, f"{template['metadata']['name']}-{pod_name}"))
            owners = {one["uid"] for one in (claim or {"metadata": {}})["metadata"].get("ownerReferences") or ()}
            if claim is not None and owners != wanted:
                yield (
                    "owners-wrong",
                    f"claim {claim['metadata']['name']} is owned by {owners}, and should be by {wanted}",
                )


def _pods_of(world: Any, owner: Json) -> dict[str, Json]:
    """Its living pods by name."""
    found = {}
    for pod in world.laws.pods.values():
        if _is_owned(pod, owner) and is_alive(pod):
            found[pod["metadata"]["name"]] = pod
    return found


def _outdated(who: str, template: Json, pods: dict[str, Json]) -> Iterator[Complaint]:
    newest = template["metadata"]["annotations"][NOTE]
    for name, pod in pods.items():
        if (pod["metadata"].get("annotations") or {}).get(NOTE) != newest:
            yield "outdated", f"pod {name} of {who} is of an old template"
