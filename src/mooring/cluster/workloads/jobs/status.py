"""A Job's status: counts, and its conditions from the start to the end. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from mooring.api.pods import Pod
from mooring.api.workloads import Job, JobStatus, ProbedCondition
from mooring.base.clock import rfc3339
from mooring.cluster.workloads import conditions
from mooring.cluster.workloads.jobs.decide import (
    COMPLETE,
    CRITERIA_MET,
    FAILED,
    SUSPENDED,
    End,
    is_finished,
)
from mooring.cluster.workloads.jobs.tally import FAILURE_TARGET, Tally, terminating_of
from mooring.cluster.workloads.pods import is_active, is_ready


def status_of(job: Job, pods: Sequence[Pod], going: Collection[str], tally: Tally, end: End | None, now: float) -> JobStatus:
    """end: None while it runs. now: seconds since the epoch."""
    status = msgspec.structs.replace(
        job.status,
        succeeded=tally.succeeded,
        failed=tally.failed,
        uncounted_terminated_pods=tally.uncounted,
    )
    if is_finished(job):
        return status
    active = [pod for pod in pods if is_active(pod, going)]
    status = msgspec.structs.replace(
        status,
        active=len(active),
        ready=sum(map(is_ready, active)),
        terminating=terminating_of(pods, going),
        start_time=_start_time(job, now),
        conditions=_conditions(job, end, now) or None,
    )
    ended = end is not None and end.is_over and end.verdict.is_success
    return msgspec.structs.replace(status, completion_time=rfc3339(now)) if ended else status


def _start_time(job: Job, now: float) -> str | None:
    """A suspended Job has not started; a resumed one starts anew."""
    if job.spec.suspend:
        return None
    return job.status.start_time or rfc3339(now)


def _conditions(job: Job, end: End | None, now: float) -> tuple[ProbedCondition, ...]:
    found = job.status.conditions or ()
    if end is not None:
        for kind in _kinds(end):
            found = conditions.put(found, _condition(kind, "True", end.verdict.reason, end.verdict.message, now))
    elif job.spec.suspend:
        found = conditions.put(found, _condition(SUSPENDED, "True", "JobSuspended", "Job suspended", now))
    elif conditions.is_true(found, SUSPENDED):
        found = conditions.put(found, _condition(SUSPENDED, "False", "JobResumed", "Job resumed", now))
    return tuple(found)


def _kinds(end: End) -> tuple[str, ...]:
    """First what it comes to, then, when no pod is left, that it is over."""
    first, last = (CRITERIA_MET, COMPLETE) if end.verdict.is_success else (FAILURE_TARGET, FAILED)
    return (first, last) if end.is_over else (first,)


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> ProbedCondition:
    at = rfc3339(now)
    return ProbedCondition(kind, status, reason, message, last_transition_time=at, last_probe_time=at)
