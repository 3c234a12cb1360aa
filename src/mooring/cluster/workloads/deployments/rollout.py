"""How many replicas each ReplicaSet of a Deployment is to have, step by step of a rollout. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from mooring.api.meta import annotation
from mooring.api.workloads import Deployment, ReplicaSet
from mooring.cluster.workloads.deployments.revisions import (
    DESIRED,
    MAX,
    by_age,
    max_surge,
    max_unavailable,
    size_annotations,
)


class Scale(msgspec.Struct, frozen=True):
    """The number of replicas that a ReplicaSet is to have."""

    replica_set: ReplicaSet
    replicas: int


def total(sets: Iterable[ReplicaSet]) -> int:
    return sum(one.spec.replicas for one in sets)


def size_of_new(deployment: Deployment, new: int, everything: int) -> int:
    """The size that the new ReplicaSet may have, within the surge. new: the replicas that it has; everything: those of
    all ReplicaSets.
    """
    wanted = deployment.spec.replicas
    if deployment.spec.strategy.type != "RollingUpdate" or new >= wanted:
        return wanted
    room = wanted + max_surge(deployment) - everything
    return new + max(0, min(room, wanted - new))


def roll_new(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Scale]:
    size = size_of_new(deployment, new.spec.replicas, total((new, *old)))
    return [] if size == new.spec.replicas else [Scale(new, size)]


def roll_old(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Scale]:
    """Shrink old ReplicaSets: first by replicas that are unavailable anyway, then by as many as are to spare."""
    if not total(old):
        return []
    least = deployment.spec.replicas - max_unavailable(deployment)
    unavailable = new.spec.replicas - new.status.available_replicas
    may_go = total((new, *old)) - least - unavailable
    if may_go <= 0:
        return []
    sizes = {one.metadata.uid: one.spec.replicas for one in old}
    for one in by_age(old):
        unhealthy = max(0, min(may_go, sizes[one.metadata.uid] - one.status.available_replicas))
        sizes[one.metadata.uid] -= unhealthy
        may_go -= unhealthy
    spare = sum(one.status.available_replicas for one in (new, *old)) - least
    for one in by_age(old):
        going = max(0, min(spare, sizes[one.metadata.uid]))
        sizes[one.metadata.uid] -= going
        spare -= going
    return [Scale(one, sizes[one.metadata.uid]) for one in by_age(old) if sizes[one.metadata.uid] != one.spec.replicas]


def stop_old(old: Iterable[ReplicaSet]) -> list[Scale]:
    return [Scale(one, 0) for one in old if one.spec.replicas]


def is_scaled(deployment: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """True when a ReplicaSet was sized for another number of replicas."""
    wanted = str(deployment.spec.replicas)
    return any(one.spec.replicas and annotation(one, DESIRED) not in ("", wanted) for one in sets)


def rescale(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> list[Scale]:
    """Scale after a change of the number of replicas: a single ReplicaSet gets it all, several get their shares.

    Left out is a ReplicaSet that has its replicas, and whose annotations say for which size of the Deployment; among
    several they have to say the surge, too.
    """
    everyone = (*old, *([new] if new is not None else []))
    if not everyone:
        return []
    active = [one for one in everyone if one.spec.replicas]
    wanted = deployment.spec.replicas
    latest = active[0] if len(active) == 1 else None
    if not active:
        latest = new or (by_age(old)[-1] if old else None)
    if latest is not None:
        return (
            [Scale(latest, wanted)]
            if latest.spec.replicas != wanted or annotation(latest, DESIRED) != str(wanted)
            else []
        )
    if new is not None and new.spec.replicas == wanted == new.status.available_replicas:
        return stop_old(old)
    shares = _in_proportion(deployment, active) if deployment.spec.strategy.type == "RollingUpdate" else []
    sized = size_annotations(deployment).items()
    return [
        one
        for one in shares
        if one.replicas != one.replica_set.spec.replicas or not sized <= _notes(one.replica_set).items()
    ]


def _notes(one: ReplicaSet) -> Mapping[str, str]:
    return one.metadata.annotations or {}


def _in_proportion(deployment: Deployment, active: Sequence[ReplicaSet]) -> list[Scale]:
    """Share the difference out: the largest comes first, of equal ones the newest when replicas are added, the oldest
    when they are taken; what is left goes to the first.
    """
    wanted = deployment.spec.replicas
    allowed = wanted + max_surge(deployment) if wanted else 0
    missing = allowed - total(active)
    aged = by_age(active)
    ordered = sorted(aged[::-1] if missing > 0 else aged, key=lambda one: -one.spec.replicas)
    sizes: list[int] = []
    added = 0
    for one in ordered:
        share = _share(deployment, one, missing, added) if missing else 0
        sizes.append(one.spec.replicas + share)
        added += share
    sizes[0] = max(0, sizes[0] + missing - added)
    return [Scale(one, size) for one, size in zip(ordered, sizes, strict=True)]


def _share(deployment: Deployment, one: ReplicaSet, missing: int, added: int) -> int:
    """The ReplicaSet's share of the replicas to add, or to take."""
    if not one.spec.replicas:
        return 0
    if not deployment.spec.replicas:
        return -one.spec.replicas
    before = annotation(one, MAX)
    size_before = int(before) if before.isdigit() and int(before) else deployment.status.replicas
    if not size_before:
        return 0
    grown = one.spec.replicas * (deployment.spec.replicas + max_surge(deployment)) / size_before
    share = math.floor(grown + 0.5) - one.spec.replicas
    left = missing - added
    return min(share, left) if missing > 0 else max(share, left)
