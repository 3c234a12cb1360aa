"""The ReplicaSets of a Deployment: which is the new one, what it is made of, which annotations it carries. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import annotation
from mooring.api.workloads import DEPLOYMENTS, Deployment, ReplicaSet
from mooring.cluster.workloads.ownership import reference
from mooring.cluster.workloads.pods import created_at, share_of, template_hash, with_label, without_label

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAX: Final = "deployment.kubernetes.io/max-replicas"
_NAME_LETTERS_MAX: Final = 253
_HISTORY_LETTERS_MAX: Final = 2000
_NOT_COPIED: Final = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED,
        MAX,
        "deprecated.deployment.rollback.to",
    )
)


def by_age(sets: Iterable[ReplicaSet]) -> tuple[ReplicaSet, ...]:
    """The ReplicaSets, the oldest first."""
    return tuple(sorted(sets, key=lambda one: (created_at(one), one.metadata.name)))


def new_of(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet of the template as it is now; of several the oldest."""
    template = without_label(deployment.spec.template, HASH_LABEL)
    return next((one for one in by_age(sets) if without_label(one.spec.template, HASH_LABEL) == template), None)


def revision_of(obj: ReplicaSet | Deployment) -> int:
    text = annotation(obj, REVISION)
    return int(text) if text.isdigit() else 0


def next_revision(old: Iterable[ReplicaSet]) -> str:
    return str(max((revision_of(one) for one in old), default=0) + 1)


def max_surge(deployment: Deployment) -> int:
    return _fenceposts(deployment)[0]


def max_unavailable(deployment: Deployment) -> int:
    """How many pods may be unavailable, never more than there are."""
    return min(_fenceposts(deployment)[1], deployment.spec.replicas)


def _fenceposts(deployment: Deployment) -> tuple[int, int]:
    """The surge, and how many may be unavailable. With 0 for both a rollout would stand still: then one may be."""
    rolling, replicas = deployment.spec.strategy.rolling_update, deployment.spec.replicas
    if deployment.spec.strategy.type != "RollingUpdate" or rolling is None:
        return 0, 0
    surge = share_of(rolling.max_surge, replicas, up=True)
    unavailable = share_of(rolling.max_unavailable, replicas, up=False)
    return surge, 1 if surge == unavailable == 0 else unavailable


def size_annotations(deployment: Deployment) -> dict[str, str]:
    """The size for which a ReplicaSet was scaled: a scaling during a rollout keeps the proportions."""
    replicas = deployment.spec.replicas
    return {DESIRED: str(replicas), MAX: str(replicas + max_surge(deployment))}


def annotations_of_new(deployment: Deployment, new: ReplicaSet | None, revision: str) -> dict[str, str]:
    """The annotations of the new ReplicaSet, which keeps its former revisions' numbers when an old template is back."""
    wanted = {key: value for key, value in (deployment.metadata.annotations or {}).items() if key not in _NOT_COPIED}
    before = "" if new is None else annotation(new, REVISION)
    if new is not None and revision_of(new) >= int(revision):
        return {**wanted, REVISION: before}
    history = _history("" if new is None else annotation(new, HISTORY), before)
    return {**wanted, REVISION: revision, **({HISTORY: history} if history else {})}


def _history(before: str, number: str) -> str:
    """The history with one revision more; of a long one the oldest go."""
    numbers = [one for one in (*before.split(","), number) if one]
    while len(history := ",".join(numbers)) > _HISTORY_LETTERS_MAX:
        del numbers[0]
    return history


def body_of_new(deployment: Deployment, replicas: int, revision: str) -> dict[str, Any]:
    """The ReplicaSet to make."""
    meta, spec = deployment.metadata, deployment.spec
    digest = template_hash(spec.template, deployment.status.collision_count)
    template = with_label(spec.template, HASH_LABEL, digest)
    selector: Mapping[str, Any] = msgspec.to_builtins(spec.selector)
    annotations = {**annotations_of_new(deployment, None, revision), **size_annotations(deployment)}
    return {
        "apiVersion": DEPLOYMENTS.api_version,
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta.name[: _NAME_LETTERS_MAX - len(digest) - 1]}-{digest}",
            "namespace": meta.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [reference(DEPLOYMENTS, deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.min_ready_seconds,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}},
            "template": template,
        },
    }
