"""Moments that an object's own status and metadata tell: conditions, phases, errors, containers, deletion. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mooring.inspect.scene import moment_s
from mooring.inspect.timeline.traces import Lane, Moment, Source, TimedError, Traced
from mooring.inspect.timeline.writers import owner_of


def states(lane: Lane, obj: Traced) -> Iterator[Moment]:
    yield from _conditions(lane, obj)
    yield from _phases(lane, obj)
    yield from _errors(lane, obj)
    yield from _containers(lane, obj)
    yield from _deletion(lane, obj)


def _conditions(lane: Lane, obj: Traced) -> Iterator[Moment]:
    for one in (obj.status.conditions if obj.status else None) or ():
        at_s = moment_s(one.last_transition_time)
        if at_s:
            why = ": ".join(part for part in (one.reason, one.message) if part)
            who = owner_of(obj, "f:status", "f:conditions", f"k:{json.dumps({'type': one.type}, separators=(',', ':'))}")
            what = f"set {one.type} to {one.status}" + (f" ({why})" if why else "")
            yield Moment(at_s, lane.label, Source.STATE, what, who)


def _phases(lane: Lane, obj: Traced) -> Iterator[Moment]:
    status = obj.status
    if status is None:
        return
    if at_s := moment_s(status.last_phase_transition_time):
        yield Moment(at_s, lane.label, Source.STATE, f"set the phase {status.phase}", owner_of(obj, "f:status", "f:phase"))
    if at_s := moment_s(status.start_time):
        yield Moment(at_s, lane.label, Source.STATE, "took the pod up on its node", owner_of(obj, "f:status", "f:startTime"))
    if at_s := _cut_s(status.creation_time):
        yield Moment(at_s, lane.label, Source.STATE, "took the snapshot, as the driver has it", "the driver")


def _cut_s(time: str | int | None) -> float:
    return time / 1e9 if isinstance(time, int) else moment_s(time)


def _errors(lane: Lane, obj: Traced) -> Iterator[Moment]:
    status = obj.status
    if status is None:
        return
    named: tuple[tuple[str, str, TimedError | None], ...] = (
        ("attachError", "failed to attach", status.attach_error),
        ("detachError", "failed to detach", status.detach_error),
        ("error", "failed", status.error),
    )
    for field, words, error in named:
        if error is not None and (at_s := moment_s(error.time)):
            what = f"{words}: {error.message}"
            yield Moment(at_s, lane.label, Source.ERROR, what, owner_of(obj, "f:status", f"f:{field}"), is_bad=True)


def _containers(lane: Lane, obj: Traced) -> Iterator[Moment]:
    who = owner_of(obj, "f:status", "f:containerStatuses")
    for one in (obj.status.container_statuses if obj.status else None) or ():
        running, ended = one.state.running, one.state.terminated
        if running is not None and (at_s := moment_s(running.started_at)):
            yield Moment(at_s, lane.label, Source.STATE, f"started the container {one.name}", who)
        if ended is not None and (at_s := moment_s(ended.finished_at)):
            what = f"saw the end of the container {one.name} (exit code {ended.exit_code})"
            yield Moment(at_s, lane.label, Source.STATE, what, who, is_bad=ended.exit_code != 0)


def _deletion(lane: Lane, obj: Traced) -> Iterator[Moment]:
    """A pod's deletionTimestamp lies its grace period after the request."""
    at_s = moment_s(obj.metadata.deletion_timestamp)
    if at_s:
        held = f"; held by {', '.join(obj.metadata.finalizers)}" if obj.metadata.finalizers else ""
        yield Moment(at_s - (obj.metadata.deletion_grace_period_seconds or 0), lane.label, Source.DELETED, f"asked for its end{held}")
