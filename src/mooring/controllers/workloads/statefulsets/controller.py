"""The controller of StatefulSets: which change wakes which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key
from mooring.api.pods import Pod
from mooring.api.workloads import STATEFUL_SETS
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.controllers.workloads.statefulsets.reconcile import Reconciler
from mooring.controllers.workloads.view import WorkloadCaches
from mooring.controllers.workloads.writes import Writes
from mooring.kube.cache.informer import Change

log = logger(__name__)

COMPONENT: Final = "statefulset-controller"
WORKERS: Final = 5


def stateful_sets(runtime: Runtime, caches: WorkloadCaches, recorder: EventRecorder) -> tuple[Controller[Key], ...]:
    reconciler = Reconciler(caches, Writes(runtime, caches, recorder, STATEFUL_SETS), runtime.clock)
    controller: Controller[Key] = Controller(runtime, "statefulset", reconciler.reconcile, workers=WORKERS, label="StatefulSet", log=log)

    def pod_changed(change: Change[Pod]) -> Iterator[Key]:
        caches.pod_changed(change)
        yield from caches.owners(change, STATEFUL_SETS, caches.stateful_sets)

    def claim_gone(change: Change[PersistentVolumeClaim]) -> Iterator[Key]:
        """A pod may wait for its end."""
        for one in caches.stateful_sets.store.values():
            if change.new is None and one.metadata.namespace == change.key.namespace and one.spec.volume_claim_templates:
                yield Key(one.metadata.namespace, one.metadata.name)

    controller.watch(caches.stateful_sets, lambda change: [change.key])
    controller.watch(caches.pods, pod_changed)
    controller.watch(caches.revisions, lambda change: caches.owners(change, STATEFUL_SETS, caches.stateful_sets))
    controller.watch(caches.claims, claim_gone)
    return (controller,)
