"""The controller of StatefulSets: which change wakes which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key
from mooring.api.pods import Pod
from mooring.api.workloads import STATEFUL_SETS
from mooring.base.log import logger
from mooring.cluster.workloads.statefulsets.reconcile import Reconciler
from mooring.cluster.workloads.view import WorkloadCaches
from mooring.cluster.workloads.writes import Writes
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change

log = logger(__name__)

COMPONENT: Final = "statefulset-controller"
WORKERS: Final = 5


def stateful_sets(runtime: Runtime, caches: WorkloadCaches, recorder: EventRecorder) -> tuple[Controller[Key], ...]:
    reconciler = Reconciler(
        caches, Writes(runtime, caches, recorder, STATEFUL_SETS, caches.stateful_sets), runtime.clock
    )
    controller: Controller[Key] = Controller(
        runtime, "statefulset", reconciler.reconcile, workers=WORKERS, label="StatefulSet", log=log
    )

    def pod_changed(change: Change[Pod]) -> Iterator[Key]:
        caches.pod_changed(change)
        yield from caches.owners(change, STATEFUL_SETS, caches.stateful_sets)

    def claim_changed(change: Change[PersistentVolumeClaim]) -> Iterator[Key]:
        """The sets whose pod may wait for the claim's end, or that may have to let go of a claim that became theirs."""
        namespace, new = change.key.namespace, change.new
        if new is None:
            for one in caches.stateful_sets.store.values():
                if one.metadata.namespace == namespace and one.spec.volume_claim_templates:
                    yield Key(namespace, one.metadata.name)
        elif change.old is None or change.old.metadata.owner_references != new.metadata.owner_references:
            yield from (
                Key(namespace, owner.name)
                for owner in new.metadata.owner_references or ()
                if owner.kind == STATEFUL_SETS.name
            )

    controller.watch(caches.stateful_sets, lambda change: [change.key])
    controller.watch(caches.pods, pod_changed)
    controller.watch(caches.revisions, lambda change: caches.owners(change, STATEFUL_SETS, caches.stateful_sets))
    controller.watch(caches.claims, claim_changed)
    return (controller,)
