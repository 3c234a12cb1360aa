"""The objects and indexes that workloads are decided from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import Key, Kind, Object, is_deleting, key_of
from mooring.api.pods import PODS, Pod
from mooring.api.workloads import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ControllerRevision,
    Deployment,
    Job,
    ReplicaSet,
    StatefulSet,
)
from mooring.cluster.workloads.ownership import controller_of
from mooring.control.caches import Caches
from mooring.kube.cache.informer import Change, Informer

T = TypeVar("T", bound=Object)

BY_CONTROLLER: Final = "workloads/controller"
BY_SET: Final = "workloads/set"


def controller_key(kind: str, key: Key) -> str:
    """The value of the index for the objects that this one controls, or that one of its name did."""
    return f"{kind}/{key}"


def orphans_key(namespace: str) -> str:
    return f"nobody/{namespace}"


def by_controller(obj: Object) -> Iterable[str]:
    controller = controller_of(obj)
    if controller is None:
        return (orphans_key(obj.metadata.namespace),)
    return (controller_key(controller.kind, Key(obj.metadata.namespace, controller.name)),)


def by_set(claim: PersistentVolumeClaim) -> Iterable[str]:
    """The uids of the StatefulSets that take the claim with them."""
    return (owner.uid for owner in claim.metadata.owner_references or () if owner.kind == STATEFUL_SETS.name)


_INDEXES: Final[Mapping[str, Any]] = {BY_CONTROLLER: by_controller}


class WorkloadCaches:
    """going: the uids of pods that we have deleted, until the watch shows it."""

    def __init__(self, shared: Caches) -> None:
        self.deployments: Informer[Deployment] = shared.of(DEPLOYMENTS)
        self.replica_sets: Informer[ReplicaSet] = shared.of(REPLICA_SETS, indexes=_INDEXES)
        self.stateful_sets: Informer[StatefulSet] = shared.of(STATEFUL_SETS)
        self.revisions: Informer[ControllerRevision] = shared.of(CONTROLLER_REVISIONS, indexes=_INDEXES)
        self.jobs: Informer[Job] = shared.of(JOBS)
        self.pods: Informer[Pod] = shared.of(PODS, indexes=_INDEXES)
        self.claims: Informer[PersistentVolumeClaim] = shared.of(PERSISTENT_VOLUME_CLAIMS, indexes={BY_SET: by_set})
        self.going: set[str] = set()

    def candidates(self, informer: Informer[T], kind: Kind[Any], key: Key) -> tuple[T, ...]:
        """The objects that the one of this key controls, or may adopt."""
        owned = informer.store.by(BY_CONTROLLER, controller_key(kind.name, key))
        return (*owned, *informer.store.by(BY_CONTROLLER, orphans_key(key.namespace)))

    def owners(self, change: Change[Any], kind: Kind[Any], informer: Informer[Any]) -> Iterator[Key]:
        """The objects of this kind that a change of a pod, a ReplicaSet or a revision concerns."""
        for obj in (change.old, change.new):
            if obj is None:
                continue
            controller = controller_of(obj)
            if controller is None:
                yield from (
                    key_of(one) for one in informer.store.values() if one.metadata.namespace == obj.metadata.namespace
                )
            elif controller.kind == kind.name:
                yield Key(obj.metadata.namespace, controller.name)

    def pod_changed(self, change: Change[Pod]) -> None:
        """Forgets a deletion of ours once the watch has shown it."""
        if change.new is None or is_deleting(change.new):
            self.going.discard(change.object.metadata.uid)
        if change.old is not None and change.new is not None and change.old.metadata.uid != change.new.metadata.uid:
            self.going.discard(change.old.metadata.uid)
