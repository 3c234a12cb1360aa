"""Names and numbers of a StatefulSet's pods and claims, the pods themselves, and who owns a claim. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Kind, Object
from mooring.api.pods import PODS, Pod
from mooring.api.workloads import STATEFUL_SETS, StatefulSet
from mooring.cluster.workloads.ownership import controller_of, reference, references_of
from mooring.cluster.workloads.pods import from_template

Json = dict[str, Any]

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
REVISION: Final = "controller-revision-hash"
DELETE: Final = "Delete"
_ORDINAL_MAX: Final = 2**31 - 1


def ordinal_of(stateful_set: StatefulSet, pod: Object) -> int | None:
    """The pod's number, None for a pod whose name is not one of the set's."""
    prefix, _, number = pod.metadata.name.rpartition("-")
    if prefix != stateful_set.metadata.name or not (number.isascii() and number.isdigit()):
        return None
    return int(number) if int(number) <= _ORDINAL_MAX else None


def ordinals(stateful_set: StatefulSet) -> range:
    start = stateful_set.spec.ordinals.start
    return range(start, start + stateful_set.spec.replicas)


def revision_of(pod: Object) -> str:
    return (pod.metadata.labels or {}).get(REVISION, "")


def claim_names(stateful_set: StatefulSet, pod_name: str) -> dict[str, str]:
    """The names of a pod's claims, by those of their templates."""
    names = (template["metadata"]["name"] for template in stateful_set.spec.volume_claim_templates or ())
    return {name: f"{name}-{pod_name}" for name in names}


def claim_bodies(stateful_set: StatefulSet, pod_name: str) -> list[Json]:
    """The claims of a pod, with the labels of the set's selector."""
    return [
        _claim_body(stateful_set, template, pod_name) for template in stateful_set.spec.volume_claim_templates or ()
    ]


def _claim_body(stateful_set: StatefulSet, template: Json, pod_name: str) -> Json:
    meta, selector = template["metadata"], stateful_set.spec.selector
    wanted = {**(meta.get("labels") or {}), **((selector.match_labels if selector else None) or {})}
    metadata: Json = {part: copy.deepcopy(meta[part]) for part in ("annotations", "finalizers") if meta.get(part)}
    metadata |= {"name": f"{meta['name']}-{pod_name}", **({"labels": wanted} if wanted else {})}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": copy.deepcopy(template["spec"]),
    }


def pod_body(stateful_set: StatefulSet, template: Mapping[str, Any], revision: str, ordinal: int) -> Json:
    """The pod of this number, from a template and the name of its revision."""
    prefix = f"{stateful_set.metadata.name}-"  # (the name is given all the same: the real one writes both)
    body = from_template(template, reference(STATEFUL_SETS, stateful_set), generate_name=prefix)
    name, meta, spec = f"{stateful_set.metadata.name}-{ordinal}", body["metadata"], body["spec"]
    meta["name"] = name
    meta["labels"] = {**(meta.get("labels") or {}), POD_NAME: name, POD_INDEX: str(ordinal), REVISION: revision}
    spec["hostname"], spec["subdomain"] = name, stateful_set.spec.service_name
    claims = claim_names(stateful_set, name)
    own = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims.items()]
    others = [volume for volume in spec.get("volumes") or () if volume["name"] not in claims]
    if own or others:
        spec["volumes"] = [*own, *others]
    return body


def lost_labels(stateful_set: StatefulSet, pod: Pod) -> dict[str, str]:
    """The labels of the pod's name and number, where it lacks that of its name: it was adopted, or a user has taken
    them off.
    """
    if (pod.metadata.labels or {}).get(POD_NAME) == pod.metadata.name:
        return {}
    return {POD_NAME: pod.metadata.name, POD_INDEX: str(ordinal_of(stateful_set, pod))}


def claim_owners(stateful_set: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> list[Json] | None:
    """The owners that the retention policy gives a claim; None where it has them. A foreign controller stays the only
    one.

    A claim of a former set or pod of the name stays as it is: the garbage collector sees to it.
    """
    if _is_of_former(stateful_set, pod, claim):
        return None
    have = references_of(claim)
    rest = [one for one in have if one["uid"] not in (stateful_set.metadata.uid, pod.metadata.uid)]
    owner = None if _has_foreign_controller(stateful_set, pod, claim) else _owner(stateful_set, pod)
    wanted = [*rest, owner] if owner is not None else rest
    return None if _sorted(wanted) == _sorted(have) else wanted


def _sorted(owners: list[Json]) -> list[Json]:
    return sorted(owners, key=lambda one: str(one["uid"]))


def _is_of_former(stateful_set: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> bool:
    named = {
        (kind.api_version, kind.name, obj.metadata.name): obj.metadata.uid for kind, obj in _sides(stateful_set, pod)
    }
    owners = claim.metadata.owner_references or ()
    return any(named.get((one.api_version, one.kind, one.name), one.uid) != one.uid for one in owners)


def _sides(stateful_set: StatefulSet, pod: Pod) -> tuple[tuple[Kind[Any], Object], ...]:
    """The objects that may own a claim."""
    return (STATEFUL_SETS, stateful_set), (PODS, pod)


def is_disputed(stateful_set: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """True where the retention policy has something to say about a claim, and its controller or a former owner is in
    the way.
    """
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    foreign = _has_foreign_controller(stateful_set, pod, claim) or _is_of_former(stateful_set, pod, claim)
    return DELETE in (policy.when_deleted, policy.when_scaled) and foreign


def _has_foreign_controller(stateful_set: StatefulSet, pod: Pod, claim: PersistentVolumeClaim) -> bool:
    controller = controller_of(claim)
    return controller is not None and controller.uid not in (stateful_set.metadata.uid, pod.metadata.uid)


def _owner(stateful_set: StatefulSet, pod: Pod) -> Json | None:
    """The set while it is to take the claim with it, the pod once it is scaled away and is to; else nobody."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    ordinal = ordinal_of(stateful_set, pod)
    if policy.when_scaled == DELETE and ordinal not in ordinals(stateful_set):
        return reference(PODS, pod)
    return reference(STATEFUL_SETS, stateful_set) if policy.when_deleted == DELETE else None


def goes_with_former(stateful_set: StatefulSet, claim: PersistentVolumeClaim, pod_name: str) -> bool:
    """True for a claim that goes with a former pod of this name: a new pod would lose it."""
    owners = claim.metadata.owner_references or ()
    return stateful_set.spec.persistent_volume_claim_retention_policy.when_scaled == DELETE and any(
        (one.kind, one.name) == (PODS.name, pod_name) for one in owners
    )
