"""The controller of Jobs: which change wakes which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.meta import Key
from mooring.api.pods import Pod
from mooring.api.workloads import JOBS, Job
from mooring.base.log import logger
from mooring.cluster.workloads.jobs.orphans import Orphans
from mooring.cluster.workloads.jobs.reconcile import Reconciler
from mooring.cluster.workloads.view import WorkloadCaches
from mooring.cluster.workloads.writes import Writes
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change

log = logger(__name__)

COMPONENT: Final = "job-controller"
WORKERS: Final = 5


def jobs(runtime: Runtime, caches: WorkloadCaches, recorder: EventRecorder) -> tuple[Controller[Key], ...]:
    writes = Writes(runtime, caches, recorder, JOBS, caches.jobs)
    reconciler = Reconciler(caches, writes, runtime.clock)
    controller: Controller[Key] = Controller(
        runtime, "job", reconciler.reconcile, workers=WORKERS, label="Job", log=log
    )

    def pod_changed(change: Change[Pod]) -> Iterator[Key]:
        caches.pod_changed(change)
        yield from caches.owners(change, JOBS, caches.jobs)

    def job_changed(change: Change[Job]) -> Iterator[Key]:
        if change.new is None:
            reconciler.gone(change.object)
        yield change.key

    controller.watch(caches.jobs, job_changed)
    controller.watch(caches.pods, pod_changed)
    return controller, Orphans(runtime, caches, writes).controller
