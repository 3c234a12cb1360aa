"""The controller of Deployments: which change wakes which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.meta import Key
from mooring.api.pods import Pod
from mooring.api.workloads import DEPLOYMENTS
from mooring.base.log import logger
from mooring.cluster.workloads.deployments.reconcile import Reconciler
from mooring.cluster.workloads.ownership import controller_of
from mooring.cluster.workloads.view import WorkloadCaches
from mooring.cluster.workloads.writes import Writes
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change

log = logger(__name__)

COMPONENT: Final = "deployment-controller"
WORKERS: Final = 5


def deployments(runtime: Runtime, caches: WorkloadCaches, recorder: EventRecorder) -> tuple[Controller[Key], ...]:
    reconciler = Reconciler(caches, Writes(runtime, caches, recorder, DEPLOYMENTS, caches.deployments), runtime.clock)
    controller: Controller[Key] = Controller(
        runtime, "deployment", reconciler.reconcile, workers=WORKERS, label="Deployment", log=log
    )

    def pod_ended(change: Change[Pod]) -> Iterator[Key]:
        """The Deployment of a pod that is gone: the strategy Recreate waits for that."""
        owner = controller_of(change.object)
        if change.new is not None or owner is None or owner.kind != "ReplicaSet":
            return
        replica_set = caches.replica_sets.store.get(Key(change.key.namespace, owner.name))
        above = controller_of(replica_set) if replica_set is not None else None
        if above is not None and above.kind == DEPLOYMENTS.name:
            yield Key(change.key.namespace, above.name)

    controller.watch(caches.deployments, lambda change: [change.key])
    controller.watch(caches.replica_sets, lambda change: caches.owners(change, DEPLOYMENTS, caches.deployments))
    controller.watch(caches.pods, pod_ended)
    return (controller,)
