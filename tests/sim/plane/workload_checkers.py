"""What must be true of workloads at rest: what is wished for is there, is of the newest template, and is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.api.workloads import STATEFUL_SETS
from tests.sim.checkers import Complaint
from tests.sim.plane.plan import NAMESPACE
from tests.sim.plane.stands import Json, is_alive
from tests.sim.plane.workload_hands import NOTE
from tests.sim.plane.workload_stands import controller_of


def complaints(world: Any) -> Iterator[Complaint]:
    for stateful_set in world.truth.all(STATEFUL_SETS.whole()):
        yield from _of_set(world, stateful_set)


def _of_set(world: Any, stateful_set: Json) -> Iterator[Complaint]:
    name, spec, status = stateful_set["metadata"]["name"], stateful_set["spec"], stateful_set.get("status", {})
    pods = _pods_of(world, stateful_set)
    start = spec["ordinals"]["start"] if "ordinals" in spec else 0
    wanted = {f"{name}-{ordinal}" for ordinal in range(start, start + spec["replicas"])}
    if wanted != pods.keys():
        yield "replicas-wrong", f"StatefulSet {name} has {sorted(pods)}, and {sorted(wanted)} are wished for"
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        yield from _outdated(f"StatefulSet {name}", spec["template"], pods)
    told = {key: status.get(key, 0) for key in ("replicas", "readyReplicas", "availableReplicas")}
    if set(told.values()) != {spec["replicas"]} or status.get("observedGeneration") != stateful_set["metadata"]["generation"]:
        yield "status-wrong", f"StatefulSet {name} wishes for {spec['replicas']}, and says {status}"
    yield from _owners(world, stateful_set, pods)


def _owners(world: Any, stateful_set: Json, pods: dict[str, Json]) -> Iterator[Complaint]:
    """Claims of pods that stay belong to the set where they are to go with it, and else to nobody."""
    policy, uid = stateful_set["spec"]["persistentVolumeClaimRetentionPolicy"], stateful_set["metadata"]["uid"]
    wanted = {uid} if policy["whenDeleted"] == "Delete" else set()
    for pod_name in pods:
        for template in stateful_set["spec"]["volumeClaimTemplates"]:
            claim = world.laws.claims.get((NAMESPACE, f"{template['metadata']['name']}-{pod_name}"))
            owners = {one["uid"] for one in (claim or {"metadata": {}})["metadata"].get("ownerReferences") or ()}
            if claim is not None and owners != wanted:
                yield "owners-wrong", f"claim {claim['metadata']['name']} is owned by {owners}, and should be by {wanted}"


def _pods_of(world: Any, owner: Json) -> dict[str, Json]:
    """Its living pods by name."""
    found = {}
    for pod in world.laws.pods.values():
        controller = controller_of(pod)
        if controller is not None and controller["uid"] == owner["metadata"]["uid"] and is_alive(pod):
            found[pod["metadata"]["name"]] = pod
    return found


def _outdated(who: str, template: Json, pods: dict[str, Json]) -> Iterator[Complaint]:
    newest = template["metadata"]["annotations"][NOTE]
    for name, pod in pods.items():
        if (pod["metadata"].get("annotations") or {}).get(NOTE) != newest:
            yield "outdated", f"pod {name} of {who} is of an old template"
