"""The controller of ReplicaSets: which change wakes which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.meta import Key
from mooring.api.pods import Pod
from mooring.api.workloads import REPLICA_SETS
from mooring.base.log import logger
from mooring.cluster.workloads.replicasets.reconcile import Reconciler
from mooring.cluster.workloads.view import WorkloadCaches
from mooring.cluster.workloads.writes import Writes
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change

log = logger(__name__)

COMPONENT: Final = "replicaset-controller"
WORKERS: Final = 5


def replica_sets(runtime: Runtime, caches: WorkloadCaches, recorder: EventRecorder) -> tuple[Controller[Key], ...]:
    reconciler = Reconciler(caches, Writes(runtime, caches, recorder, REPLICA_SETS, caches.replica_sets), runtime.clock)
    controller: Controller[Key] = Controller(
        runtime, "replicaset", reconciler.reconcile, workers=WORKERS, label="ReplicaSet", log=log
    )

    def pod_changed(change: Change[Pod]) -> Iterator[Key]:
        caches.pod_changed(change)
        yield from caches.owners(change, REPLICA_SETS, caches.replica_sets)

    controller.watch(caches.replica_sets, lambda change: [change.key])
    controller.watch(caches.pods, pod_changed)
    return (controller,)
