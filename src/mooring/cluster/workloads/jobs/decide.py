"""How many pods of a Job are to run, whether it is over, and its status. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, TypeAlias

import msgspec

from mooring.api.meta import is_deleting
from mooring.api.pods import Pod
from mooring.api.workloads import Job, JobStatus, ProbedCondition
from mooring.base.clock import parse_rfc3339, rfc3339
from mooring.cluster.workloads.conditions import find, is_true, put
from mooring.cluster.workloads.decision import CreatePods, DeletePod
from mooring.cluster.workloads.jobs import reasons as why
from mooring.cluster.workloads.jobs.tally import FAILURE_TARGET, Tally, replaces_failed_only, terminating_of
from mooring.cluster.workloads.pods import BURST_MAX, first_to_go, is_active, is_ready, left_s
from mooring.control.decision import Decision

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
SUSPENDED: Final = "Suspended"
CRITERIA_MET: Final = "SuccessCriteriaMet"


class Verdict(msgspec.Struct, frozen=True):
    """The end of a Job, as its conditions say it."""

    is_success: bool
    reason: str
    message: str


REACHED: Final = Verdict(True, "CompletionsReached", "Reached expected number of succeeded pods")
BACKED_OFF: Final = Verdict(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
TOO_LONG: Final = Verdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")


class Remove(msgspec.Struct, frozen=True):
    """Delete the Job itself, whose time after its end is up."""


class Discount(msgspec.Struct, frozen=True):
    """Take the finalizer from a pod, which then does not count as failed once it is deleted: nobody needs it any
    more.
    """

    pod: Pod


class End(msgspec.Struct, frozen=True):
    """Write the verdict into the status, whatever came of the other actions. is_over: nothing of the Job runs any
    more.
    """

    verdict: Verdict
    is_over: bool


Action: TypeAlias = Remove | Discount | DeletePod | CreatePods | End


def decide(
    job: Job, pods: Sequence[Pod], going: Collection[str], tally: Tally, waits_s: float, now: float
) -> Decision[Action]:
    """waits_s: the rest of the back-off after a failure. now: seconds since the epoch."""
    if is_deleting(job):
        return Decision(why.Deleting())
    if is_finished(job):
        return _kept(job, now)
    active = tuple(pod for pod in pods if is_active(pod, going))
    verdict = _verdict(job, active, tally, now)
    if verdict is not None:
        uncounted = bool(tally.uncounted.succeeded or tally.uncounted.failed)
        is_over = not (active or terminating_of(pods, going) or uncounted)
        gone = _spared(active) if verdict.is_success else tuple(map(DeletePod, active))
        return Decision(why.Ends(verdict.message), (*gone, End(verdict, is_over)))
    if job.spec.suspend:
        return Decision(why.Suspended(), _spared(active))
    busy = len(active) + (terminating_of(pods, going) if replaces_failed_only(job) else 0)
    return _sized(job, active, busy, tally, waits_s, now)


def _kept(job: Job, now: float) -> Decision[Action]:
    """Decide about a Job that has ended: it stays until a user deletes it, or for so long as its spec says."""
    life_s, ended_at = job.spec.ttl_seconds_after_finished, _ended_at(job)
    if life_s is None or ended_at is None:
        return Decision(why.Over())
    after_s = left_s(parse_rfc3339(ended_at), life_s, now)
    return Decision(why.Over(), after_s=after_s) if after_s > 0 else Decision(why.Expired(life_s), (Remove(),))


def _ended_at(job: Job) -> str | None:
    ended = find(job.status.conditions, FAILED) or find(job.status.conditions, COMPLETE)
    return ended.last_transition_time if ended is not None else None


def is_finished(job: Job) -> bool:
    return is_true(job.status.conditions, COMPLETE) or is_true(job.status.conditions, FAILED)


def _verdict(job: Job, active: Sequence[Pod], tally: Tally, now: float) -> Verdict | None:
    for kind, is_success in ((CRITERIA_MET, True), (FAILURE_TARGET, False)):
        found = find(job.status.conditions, kind)
        if found is not None and found.status == "True":
            return Verdict(is_success, found.reason, found.message)
    if tally.all_failed > job.spec.backoff_limit:
        return BACKED_OFF
    left_s = _deadline_in_s(job, now)
    if left_s is not None and left_s <= 0 and not job.spec.suspend:
        return TOO_LONG
    return REACHED if _is_reached(job, active, tally) else None


def _is_reached(job: Job, active: Sequence[Pod], tally: Tally) -> bool:
    """True once the Job has its completions; without a number of them after one success, when the others have ended."""
    if job.spec.completions is None:
        return tally.all_succeeded > 0 and not active
    return tally.all_succeeded >= job.spec.completions


def _deadline_in_s(job: Job, now: float) -> float | None:
    if job.spec.active_deadline_seconds is None or job.status.start_time is None:
        return None
    return left_s(parse_rfc3339(job.status.start_time), job.spec.active_deadline_seconds, now)


def _sized(job: Job, active: Sequence[Pod], busy: int, tally: Tally, waits_s: float, now: float) -> Decision[Action]:
    """busy: the pods whose place no new one may take."""
    wanted, deadline_s = _wanted(job, active, tally), _deadline_in_s(job, now)
    if len(active) > wanted:
        spared = _spared(first_to_go(active, len(active) - wanted))
        return Decision(why.TooMany(len(active), wanted), spared, after_s=deadline_s)
    if busy < wanted and waits_s > 0:
        return Decision(
            why.BacksOff(tally.all_failed), after_s=min(waits_s, deadline_s if deadline_s is not None else waits_s)
        )
    create = min(max(0, wanted - busy), BURST_MAX)
    return Decision(why.Runs(wanted, tally.all_succeeded), (CreatePods(create),) if create else (), after_s=deadline_s)


def _spared(pods: Sequence[Pod]) -> tuple[Discount | DeletePod, ...]:
    """Delete these pods without counting them as failed."""
    return (*map(Discount, pods), *map(DeletePod, pods))


def _wanted(job: Job, active: Sequence[Pod], tally: Tally) -> int:
    """How many pods are to run now."""
    if job.spec.completions is None:
        return len(active) if tally.all_succeeded else job.spec.parallelism
    return min(job.spec.parallelism, job.spec.completions - tally.all_succeeded)


def status_of(
    job: Job, pods: Sequence[Pod], going: Collection[str], tally: Tally, end: End | None, now: float
) -> JobStatus:
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
            found = put(found, _condition(kind, "True", end.verdict.reason, end.verdict.message, now))
    elif job.spec.suspend:
        found = put(found, _condition(SUSPENDED, "True", "JobSuspended", "Job suspended", now))
    elif is_true(found, SUSPENDED):
        found = put(found, _condition(SUSPENDED, "False", "JobResumed", "Job resumed", now))
    return tuple(found)


def _kinds(end: End) -> tuple[str, ...]:
    """The conditions of an end: first the outcome, then, when no pod is left, that the Job is over."""
    first, last = (CRITERIA_MET, COMPLETE) if end.verdict.is_success else (FAILURE_TARGET, FAILED)
    return (first, last) if end.is_over else (first,)


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> ProbedCondition:
    at = rfc3339(now)
    return ProbedCondition(kind, status, reason, message, last_transition_time=at, last_probe_time=at)
