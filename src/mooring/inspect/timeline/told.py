"""Moments that Events tell, and the terms of the leaders among a driver's sidecars. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mooring.api.coordination import NODE_LEASE_NAMESPACE, Lease
from mooring.inspect.locks import CONTROLLER_LOCKS, LOCKS, SKEW_S
from mooring.inspect.scene import SeenEvent, moment_s
from mooring.inspect.timeline.traces import Lane, Moment, Source


def told(lane: Lane, events: Iterable[SeenEvent]) -> Iterator[Moment]:
    """An Event that was repeated gives two moments: the first time and the last. A warning of the same reason repeats the first, too."""
    warned = set[tuple[str, str]]()
    for one in sorted(events, key=lambda event: event.first_s):
        count = one.series.count if one.series is not None else one.count
        text = f"{one.reason}: {one.message}" if one.message else one.reason
        who, is_bad = one.reporting_component or one.source.component, one.type == "Warning"
        if one.first_s:
            is_repeat = is_bad and (who, one.reason) in warned
            yield Moment(one.first_s, lane.label, Source.EVENT, f"said {text}", who, is_bad, one.reason, is_repeat)
        if is_bad:
            warned.add((who, one.reason))
        if count > 1 and one.last_s > one.first_s:
            yield Moment(one.last_s, lane.label, Source.EVENT, f"said it for the {_nth(count)} time: {text}", who, is_bad, one.reason, True)


def _nth(count: int) -> str:
    ending = "th" if count % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}"


def terms(lane: Lane, lease: Lease, now_s: float) -> Iterator[Moment]:
    """A sidecar's Lease: when its holder got it, and when it was renewed last, if it is not any more. Of a node: the latter."""
    spec, is_node = lease.spec, lease.metadata.namespace == NODE_LEASE_NAMESPACE
    who = "kubelet" if is_node else program_of(lease.metadata.name)
    holder = spec.holder_identity or "nobody"
    if not is_node and (at_s := moment_s(spec.acquire_time)) and spec.holder_identity:
        number = f", after {spec.lease_transitions} changes of the holder" if spec.lease_transitions else ""
        yield Moment(at_s, lane.label, Source.LEASE, f"began to lead as {holder}{number}", who)
    renewed_s = moment_s(spec.renew_time)
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
    fitting = [(len(form), program) for program, form in LOCKS.items() if form != "{}" and lock.startswith(form.partition("{}")[0])]
    return max(fitting, default=(0, "csi-provisioner"))[1]
