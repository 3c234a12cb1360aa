"""The pods of a Job that have ended: each counts once, and failures make the next pod wait. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from mooring.api.meta import finalizers_of, is_deleting
from mooring.api.pods import Pod
from mooring.api.workloads import Job, Uncounted
from mooring.base.clock import Instant
from mooring.cluster.workloads.conditions import is_true
from mooring.cluster.workloads.pods import FINISHED, is_going

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of a Job's pods: a pod stays until it is counted."""

FAILURE_TARGET: Final = "FailureTarget"
"""The condition of a Job that is about to fail."""

FIRST_BACKOFF_S: Final = 10.0
BACKOFF_S_MAX: Final = 600.0


class Tally(msgspec.Struct, frozen=True):
    """succeeded, failed: the counters, with the pods that were marked before and are free of their finalizer.
    uncounted: the marked pods.

    release: pods whose finalizer goes, now that they are marked. Whatever happens in between, each pod counts once.
    """

    succeeded: int
    failed: int
    uncounted: Uncounted
    release: tuple[Pod, ...]

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted.succeeded or ())

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted.failed or ())


def count(job: Job, pods: Sequence[Pod], going: Collection[str]) -> Tally:
    """pods: the Job's. going: the uids of those that we have deleted. A deleted pod has failed, unless only its end
    counts.
    """
    leaving_fails = is_true(job.status.conditions, FAILURE_TARGET) or is_deleting(job) or not replaces_failed_only(job)
    before = job.status.uncounted_terminated_pods or Uncounted()
    held = {pod.metadata.uid for pod in pods if TRACKING in finalizers_of(pod)}
    succeeded, freed = _split(before.succeeded or (), held)
    failed, lost = _split(before.failed or (), held)
    for pod in pods:
        uid = pod.metadata.uid
        if uid not in held or uid in succeeded or uid in failed:
            continue
        if pod.status.phase == "Succeeded":
            succeeded.append(uid)
        elif pod.status.phase == "Failed" or (leaving_fails and is_going(pod, going)):
            failed.append(uid)
    marked = {*(before.succeeded or ()), *(before.failed or ())}
    release = tuple(pod for pod in pods if pod.metadata.uid in held & marked)
    uncounted = Uncounted(tuple(succeeded) or None, tuple(failed) or None)
    return Tally(job.status.succeeded + freed, job.status.failed + lost, uncounted, release)


def _split(uids: Sequence[str], held: Collection[str]) -> tuple[list[str], int]:
    """The uids whose pod still has its finalizer, and the number of the others."""
    kept = [uid for uid in uids if uid in held]
    return kept, len(uids) - len(kept)


def terminating_of(pods: Sequence[Pod], going: Collection[str]) -> int:
    """The number of the pods that are being deleted and have not ended yet."""
    return sum(is_going(pod, going) and pod.status.phase not in FINISHED for pod in pods)


def replaces_failed_only(job: Job) -> bool:
    """True where a pod that is being deleted keeps its place until it has ended."""
    return job.spec.pod_replacement_policy == "Failed"


class Failures(msgspec.Struct, frozen=True):
    """The failures of a Job's pods, as this process saw them. in_a_row: since the last success. last_at: when the last
    one was seen.
    """

    succeeded: int
    failed: int
    in_a_row: int
    last_at: Instant

    def waits_s(self, now: Instant) -> float:
        """Seconds until the next pod may be made."""
        return self.last_at + backoff_s(self.in_a_row) - now if self.in_a_row else 0.0


def seen_failures(before: Failures | None, tally: Tally, now: Instant) -> Failures:
    """The failures seen by now. before: at the last decision; after a start all failures count as seen just now."""
    if before is None:
        return Failures(tally.all_succeeded, tally.all_failed, tally.all_failed, now)
    new = max(0, tally.all_failed - before.failed)
    earlier = 0 if tally.all_succeeded > before.succeeded else before.in_a_row
    return Failures(tally.all_succeeded, tally.all_failed, earlier + new, now if new else before.last_at)


def backoff_s(failures: int) -> float:
    """Seconds between the last of so many failures and the next pod."""
    return 0.0 if not failures else float(min(FIRST_BACKOFF_S * 2 ** min(failures - 1, 10), BACKOFF_S_MAX))
