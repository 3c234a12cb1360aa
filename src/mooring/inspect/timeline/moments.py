"""Moments that API objects tell. Pure.

An object tells its conditions, phases, errors, containers and deletion, and the writers of its fields, from
managedFields. A manager's entry lists the fields that it owns, with one time: that of its last write to any of them. So
an entry gives one moment. Only the maker of an object owns the field that no object of its kind is made without. Events
tell what others have seen, and a Lease when somebody led.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mooring.api.coordination import NODE_LEASE_NAMESPACE, Lease
from mooring.base.clock import seconds_of
from mooring.base.json_text import from_json
from mooring.inspect.locks import CONTROLLER_LOCKS, LOCKS, SKEW_S
from mooring.inspect.scene import SeenEvent
from mooring.inspect.timeline.traces import Lane, ManagedFields, Moment, Source, TimedError, Traced

_SHOWN_MAX: Final = 4
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Owns what an object had before its first apply, with the time of that: whoever wrote it, this entry is nobody's,
and no moment.
"""
_MADE_WITH: Final[Mapping[str, str]] = {
    "pod": "containers",
    "pvc": "resources",
    "pv": "capacity",
    "volumeattachment": "attacher",
    "volumesnapshot": "source",
    "volumesnapshotcontent": "driver",
    "volumegroupsnapshot": "source",
    "volumegroupsnapshotcontent": "driver",
}
"""The field of `spec` that an object has from its beginning, and that nobody else writes, by kind."""


def states(lane: Lane, obj: Traced) -> Iterator[Moment]:
    yield from _conditions(lane, obj)
    yield from _phases(lane, obj)
    yield from _errors(lane, obj)
    yield from _containers(lane, obj)
    yield from _deletion(lane, obj)


def _conditions(lane: Lane, obj: Traced) -> Iterator[Moment]:
    for one in (obj.status.conditions if obj.status else None) or ():
        at_s = seconds_of(one.last_transition_time)
        if at_s:
            why = ": ".join(part for part in (one.reason, one.message) if part)
            who = owner_of(
                obj, "f:status", "f:conditions", f"k:{json.dumps({'type': one.type}, separators=(',', ':'))}"
            )
            what = f"set {one.type} to {one.status}" + (f" ({why})" if why else "")
            yield Moment(at_s, lane.label, Source.STATE, what, who)


def _phases(lane: Lane, obj: Traced) -> Iterator[Moment]:
    status = obj.status
    if status is None:
        return
    if at_s := seconds_of(status.last_phase_transition_time):
        yield Moment(
            at_s, lane.label, Source.STATE, f"set the phase {status.phase}", owner_of(obj, "f:status", "f:phase")
        )
    if at_s := seconds_of(status.start_time):
        yield Moment(
            at_s, lane.label, Source.STATE, "took the pod up on its node", owner_of(obj, "f:status", "f:startTime")
        )
    if at_s := _cut_s(status.creation_time):
        yield Moment(at_s, lane.label, Source.STATE, "took the snapshot, as the driver has it", "the driver")


def _cut_s(time: str | int | None) -> float:
    return time / 1e9 if isinstance(time, int) else seconds_of(time)


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
        if error is not None and (at_s := seconds_of(error.time)):
            what = f"{words}: {error.message}"
            yield Moment(at_s, lane.label, Source.ERROR, what, owner_of(obj, "f:status", f"f:{field}"), is_bad=True)


def _containers(lane: Lane, obj: Traced) -> Iterator[Moment]:
    who = owner_of(obj, "f:status", "f:containerStatuses")
    for one in (obj.status.container_statuses if obj.status else None) or ():
        running, ended = one.state.running, one.state.terminated
        if running is not None and (at_s := seconds_of(running.started_at)):
            yield Moment(at_s, lane.label, Source.STATE, f"started the container {one.name}", who)
        if ended is not None and (at_s := seconds_of(ended.finished_at)):
            what = f"saw the end of the container {one.name} (exit code {ended.exit_code})"
            yield Moment(at_s, lane.label, Source.STATE, what, who, is_bad=ended.exit_code != 0)


def _deletion(lane: Lane, obj: Traced) -> Iterator[Moment]:
    """A pod's deletionTimestamp lies its grace period after the request."""
    at_s = seconds_of(obj.metadata.deletion_timestamp)
    if at_s:
        held = f"; held by {', '.join(obj.metadata.finalizers)}" if obj.metadata.finalizers else ""
        yield Moment(
            at_s - (obj.metadata.deletion_grace_period_seconds or 0),
            lane.label,
            Source.DELETED,
            f"asked for its end{held}",
        )


def written(lane: Lane, obj: Traced) -> Iterator[Moment]:
    """The object's beginning, and the last write of each manager."""
    made_s, maker = seconds_of(obj.metadata.creation_timestamp), maker_of(lane, obj)
    if made_s:
        yield Moment(made_s, lane.label, Source.CREATED, "created it", maker.manager if maker is not None else "")
    for entry in obj.metadata.managed_fields or ():
        at_s = seconds_of(entry.time)
        if not at_s or entry.manager == _BEFORE_FIRST_APPLY or (entry is maker and int(at_s) == int(made_s)):
            continue
        fields = fields_of(entry)
        if fields:
            again = "last wrote one of " if entry is maker else "wrote "
            yield Moment(at_s, lane.label, Source.WROTE, again + _listed(fields), entry.manager)


def maker_of(lane: Lane, obj: Traced) -> ManagedFields | None:
    """The entry of whoever made the object; None where the record does not prove one."""
    mark = _MADE_WITH.get(lane.kind, "")
    entries = [one for one in obj.metadata.managed_fields or () if not one.subresource]
    owners = [one for one in entries if mark and f"f:{mark}" in _below(one.fields_v1, "f:spec")]
    return owners[0] if len(owners) == 1 and owners[0].manager != _BEFORE_FIRST_APPLY else None


def owner_of(obj: Traced, *path: str) -> str:
    """The one manager of a field, "" where there are several or none. path: elements as in fieldsV1, `f:status`,
    `f:phase`.
    """
    owners = {one.manager for one in obj.metadata.managed_fields or () if _has(one.fields_v1, path)}
    owner = owners.pop() if len(owners) == 1 else ""
    return owner if owner != _BEFORE_FIRST_APPLY else ""


def fields_of(entry: ManagedFields) -> list[str]:
    """The fields in short: two names deep, for annotations and conditions three; spec first, metadata last."""
    found = [name for element, below in entry.fields_v1.items() for name in _short(element, below)]
    rank = {"spec": 0, "status": 1}
    return sorted(dict.fromkeys(found), key=lambda name: rank.get(name.partition(".")[0], 2))


def _short(element: str, below: Any) -> Iterator[str]:
    top = _name(element)
    if top is None:
        return
    inner = [one for one in (below if isinstance(below, dict) else {}) if _name(one) is not None]
    for one in inner:
        name, deeper = _name(one), below[one]
        elements = deeper if isinstance(deeper, dict) else {}
        if top == "metadata" and name == "annotations":
            yield from (
                (f"annotation {key}" for key in map(_name, elements) if key)
                if any(map(_name, elements))
                else ("annotations",)
            )
        elif top == "status" and name == "conditions":
            types = [kept for kept in map(_type_of, elements) if kept]
            yield from (f"status.conditions[{kept}]" for kept in types) if types else ("status.conditions",)
        else:
            yield f"{top}.{name}"
    if not inner:
        yield top


def _name(element: str) -> str | None:
    return element[2:] if element.startswith("f:") and len(element) > 2 else None


def _type_of(element: str) -> str:
    """The type of a condition, from an element like `k:{"type":"Ready"}`."""
    try:
        keys = from_json(element[2:]) if element.startswith("k:") else None
    except ValueError:
        return ""
    return str(keys.get("type", "")) if isinstance(keys, dict) else ""


def _below(fields: Any, element: str) -> Mapping[str, Any]:
    found = fields.get(element) if isinstance(fields, dict) else None
    return found if isinstance(found, dict) else {}


def _has(fields: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    for element in path[:-1]:
        fields = _below(fields, element)
    return path[-1] in fields


def _listed(fields: list[str]) -> str:
    more = len(fields) - _SHOWN_MAX
    return ", ".join(fields[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def told(lane: Lane, events: Iterable[SeenEvent]) -> Iterator[Moment]:
    """An Event that was repeated gives two moments: the first time and the last. A warning of the same reason repeats
    the first, too.
    """
    warned = set[tuple[str, str]]()
    for one in sorted(events, key=lambda event: event.first_s):
        count = one.series.count if one.series is not None else one.count
        text = f"{one.reason}: {one.message}" if one.message else one.reason
        who, is_bad = program_behind(one.reporting_component or one.source.component), one.type == "Warning"
        if one.first_s:
            is_repeat = is_bad and (who, one.reason) in warned
            yield Moment(one.first_s, lane.label, Source.EVENT, f"said {text}", who, is_bad, one.reason, is_repeat)
        if is_bad:
            warned.add((who, one.reason))
        if count > 1 and one.last_s > one.first_s:
            yield Moment(
                one.last_s,
                lane.label,
                Source.EVENT,
                f"said it for the {_nth(count)} time: {text}",
                who,
                is_bad,
                one.reason,
                True,
            )


def program_behind(component: str) -> str:
    """The program that an Event names as its component: a provisioner by its driver, a host and a uid, others by their
    own name and the driver.
    """
    name, _, host = component.partition("_")
    if host and "." in name:
        return name if "/" in name else "csi-provisioner"
    return component.partition(" ")[0].replace("external-resizer", "csi-resizer")


def _nth(count: int) -> str:
    ending = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"


def terms(lane: Lane, lease: Lease, now_s: float) -> Iterator[Moment]:
    """A sidecar's Lease: when its holder got it, and when it was renewed last, if it is not any more. Of a node: the
    latter.
    """
    spec, is_node = lease.spec, lease.metadata.namespace == NODE_LEASE_NAMESPACE
    who = "kubelet" if is_node else program_of(lease.metadata.name)
    holder = spec.holder_identity or "nobody"
    if not is_node and (at_s := seconds_of(spec.acquire_time)) and spec.holder_identity:
        number = f", after {spec.lease_transitions} changes of the holder" if spec.lease_transitions else ""
        yield Moment(at_s, lane.label, Source.LEASE, f"began to lead as {holder}{number}", who)
    renewed_s = seconds_of(spec.renew_time)
    if renewed_s and now_s - renewed_s > (spec.lease_duration_seconds or 15) + SKEW_S:
        what = "gave its last sign of life" if is_node else f"renewed its Lease for the last time, as {holder}"
        yield Moment(renewed_s, lane.label, Source.LEASE, what, who, is_bad=True)


def program_of(lock: str) -> str:
    """The program whose Lease has this name."""
    known = {**{name: program for program, name in CONTROLLER_LOCKS.items()}}
    if lock in known:
        return known[lock]
    if lock.startswith("mooring-controller-"):
        return "mooring controller"
    fitting = [
        (len(form), program)
        for program, form in LOCKS.items()
        if form != "{}" and lock.startswith(form.partition("{}")[0])
    ]
    return max(fitting, default=(0, "csi-provisioner"))[1]
