"""Pods that were a Job's: nobody counts them any more, so the finalizer that keeps them until then is taken off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.meta import Key, finalizers_of, key_of
from mooring.api.pods import Pod
from mooring.api.workloads import JOBS, Job
from mooring.base.log import logger
from mooring.cluster.workloads.jobs import reasons as why
from mooring.cluster.workloads.jobs.tally import TRACKING
from mooring.cluster.workloads.ownership import controller_of
from mooring.cluster.workloads.view import BY_CONTROLLER, WorkloadCaches, controller_key
from mooring.cluster.workloads.writes import Writes
from mooring.control.controller import Controller
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change
from mooring.kube.errors import NotFound

log = logger(__name__)

WORKERS: Final = 1


def former_job(pod: Pod) -> str | None:
    """The name of the Job that the pod's owner reference names, "" for a pod without a controller; None for a pod that
    is not a Job's.
    """
    controller = controller_of(pod)
    if TRACKING not in finalizers_of(pod) or (controller is not None and controller.kind != JOBS.name):
        return None
    return "" if controller is None else controller.name


def is_orphan(pod: Pod, job: Job | None) -> bool:
    """True for a pod that no Job counts. job: the one of the name that `former_job` gives."""
    controller = controller_of(pod)
    return job is None or controller is None or controller.uid != job.metadata.uid


class Orphans:
    def __init__(self, runtime: Runtime, caches: WorkloadCaches, writes: Writes) -> None:
        self._caches, self._writes = caches, writes
        self.controller: Controller[Key] = Controller(
            runtime, "job-orphans", self._reconcile, workers=WORKERS, label="Pod", log=log
        )
        self.controller.watch(caches.pods, self._pod_changed)
        self.controller.watch(caches.jobs, self._job_gone)

    def _pod_changed(self, change: Change[Pod]) -> Iterator[Key]:
        if change.new is not None and self._seems_orphan(change.new):
            yield change.key

    def _job_gone(self, change: Change[Job]) -> Iterator[Key]:
        if change.old is not None and (change.new is None or change.new.metadata.uid != change.old.metadata.uid):
            yield from (
                key_of(pod) for pod in self._caches.pods.store.by(BY_CONTROLLER, controller_key(JOBS.name, change.key))
            )

    def _seems_orphan(self, pod: Pod) -> bool:
        name = former_job(pod)
        return name is not None and is_orphan(
            pod, self._caches.jobs.store.get(Key(pod.metadata.namespace, name)) if name else None
        )

    async def _reconcile(self, key: Key) -> Result:
        """Raises ApiError, Stale."""
        pod = self._caches.pods.store.get(key)
        if pod is None or not self._seems_orphan(pod):
            return Result(why.NoOrphan())
        if is_orphan(pod, await self._found(pod)):
            await self._writes.take_finalizer(pod, TRACKING)
            return Result(why.Orphan(), done="let go")
        return Result(why.NoOrphan())

    async def _found(self, pod: Pod) -> Job | None:
        """The pod's Job, from the API server: the watch of Jobs may be behind that of pods."""
        name = former_job(pod)
        try:
            return await self._writes.cluster.get(JOBS, name, pod.metadata.namespace) if name else None
        except NotFound:
            return None
