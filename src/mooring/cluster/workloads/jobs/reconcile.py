"""Carries out the decision about a Job."""

from __future__ import annotations

from mooring.api.meta import Key
from mooring.api.pods import PODS, Pod
from mooring.api.workloads import JOBS, Job, JobStatus
from mooring.base.clock import Clock
from mooring.cluster.workloads.conditions import is_true
from mooring.cluster.workloads.decision import CreatePods, DeletePod
from mooring.cluster.workloads.jobs import reasons as why
from mooring.cluster.workloads.jobs.decide import (
    SUSPENDED,
    Action,
    Discount,
    End,
    Remove,
    decide,
    is_finished,
    status_of,
)
from mooring.cluster.workloads.jobs.tally import TRACKING, Failures, Tally, count, seen_failures
from mooring.cluster.workloads.ownership import claim, reference
from mooring.cluster.workloads.pods import from_template
from mooring.cluster.workloads.view import WorkloadCaches
from mooring.cluster.workloads.writes import NORMAL, WARNING, Writes
from mooring.control.decision import Decision
from mooring.control.result import Result, Retry, Stale
from mooring.kube.errors import ApiError


class Reconciler:
    def __init__(self, caches: WorkloadCaches, writes: Writes, clock: Clock) -> None:
        self._caches, self._writes, self._clock = caches, writes, clock
        self._failures: dict[str, Failures] = {}  # by the Job's uid

    def gone(self, job: Job) -> None:
        """Forget what is known of the Job."""
        self._failures.pop(job.metadata.uid, None)

    async def reconcile(self, key: Key) -> Result:
        """Raises Retry, Stale, ApiError."""
        job = self._caches.jobs.store.get(key)
        if job is None:
            return Result(why.Gone())
        if job.spec.managed_by not in (None, "kubernetes.io/job-controller"):
            return Result(why.Foreign(str(job.spec.managed_by)))
        if job.spec.completion_mode == "Indexed":
            self._writes.tell(job, "IndexedNotSupported", "Jobs of completion mode Indexed are not run here", WARNING)
            return Result(why.Indexed())
        claimed = claim(job, job.spec.selector, self._caches.candidates(self._caches.pods, JOBS, key))
        if claimed.adopt or claimed.release:
            await self._writes.own(PODS, self._caches.pods, job, claimed, TRACKING)
        return await self._work(job, key)

    async def _work(self, job: Job, key: Key) -> Result:
        tally = count(job, self._pods(job, key), self._caches.going)
        decision = decide(
            job, self._pods(job, key), self._caches.going, tally, self._waits_s(job, tally), self._clock.wall_s()
        )
        trouble: Exception | None = None
        try:
            await self._carry_out(job, decision)
        except (Retry, ApiError) as error:  # ended pods are counted all the same
            trouble = error
        end = next((action for action in decision.actions if isinstance(action, End)), None)
        await self._account(job, key, tally, end)
        if trouble is not None:
            raise trouble
        return Result(decision.because, after_s=decision.after_s)

    async def _account(self, job: Job, key: Key, tally: Tally, end: End | None) -> None:
        """Lets go the pods that are marked, and writes the status."""
        for pod in tally.release:
            await self._writes.take_finalizer(pod, TRACKING)
        status = status_of(job, self._pods(job, key), self._caches.going, tally, end, self._clock.wall_s())
        if await self._writes.write_status(job, job.status, status):
            self._tell(job, status, end)

    # -- what is so

    def _pods(self, job: Job, key: Key) -> tuple[Pod, ...]:
        return claim(job, job.spec.selector, self._caches.candidates(self._caches.pods, JOBS, key)).mine

    def _waits_s(self, job: Job, tally: Tally) -> float:
        """Seconds of the Job's back-off that are left."""
        if is_finished(job):
            self.gone(job)
            return 0.0
        now = self._clock.now()
        known = self._failures[job.metadata.uid] = seen_failures(self._failures.get(job.metadata.uid), tally, now)
        return known.waits_s(now)

    # -- what is done

    async def _carry_out(self, job: Job, decision: Decision[Action]) -> None:
        for action in decision.actions:
            match action:
                case Remove():
                    await self._remove(job)
                case Discount(pod):  # not one that has ended meanwhile: its end is to be counted
                    await self._writes.take_finalizer(pod, TRACKING, strictly=True)
                case DeletePod(pod):
                    await self._writes.delete_pod(pod)
                    self._writes.tell(job, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
                case CreatePods(count):
                    for _ in range(count):
                        await self._create(job)
                case End():
                    pass  # the status, which follows in any case

    async def _remove(self, job: Job) -> None:
        """Delete the Job. Raises Stale where its time to live is another one by now."""
        meta = job.metadata
        fresh = await self._writes.cluster.get(JOBS, meta.name, meta.namespace)
        if fresh.spec.ttl_seconds_after_finished != job.spec.ttl_seconds_after_finished:
            raise Stale("the Job's time has changed")
        await self._writes.delete(JOBS, self._caches.jobs, job, propagation="Foreground")

    async def _create(self, job: Job) -> None:
        body = from_template(job.spec.template, reference(JOBS, job), generate_name=f"{job.metadata.name}-")
        body["metadata"]["finalizers"] = [*body["metadata"].get("finalizers", ()), TRACKING]
        try:
            made = await self._writes.create_pod(job, body)
        except Retry as error:
            self._writes.tell(job, "FailedCreate", f"Error creating: {error.__cause__}", WARNING)
            raise
        self._writes.tell(job, "SuccessfulCreate", f"Created pod: {made.metadata.name}")

    # -- events

    def _tell(self, job: Job, status: JobStatus, end: End | None) -> None:
        before, now = is_true(job.status.conditions, SUSPENDED), is_true(status.conditions, SUSPENDED)
        if now and not before:
            self._writes.tell(job, "Suspended", "Job suspended")
        if before and not now:
            self._writes.tell(job, "Resumed", "Job resumed")
        if end is None or not end.is_over:
            return
        if end.verdict.is_success:
            self._writes.tell(job, "Completed", "Job completed", NORMAL)
        else:
            self._writes.tell(job, end.verdict.reason, end.verdict.message, WARNING)
