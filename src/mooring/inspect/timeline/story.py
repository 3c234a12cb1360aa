"""The moments of a chain in order, and the waits between them. Pure.

Most times of Kubernetes are whole seconds, cut. So moments count as equal within a second, and then stand in the order
of a volume's life.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from mooring.api.coordination import NODE_LEASE_NAMESPACE
from mooring.inspect.scene import Scene, Unseen
from mooring.inspect.timeline.moments import states, terms, told, written
from mooring.inspect.timeline.traces import Lane, Moment, Source, Traced

GAP_S: Final = 5.0

_LIFE: Final = (
    "pvc created",
    "pod created",
    "pvc event",
    "pv created",
    "pvc event ProvisioningSucceeded",
    "pv",
    "pvc",
    "pod event FailedScheduling",
    "pod event Scheduled",
    "pod",
    "volumeattachment created",
    "volumeattachment",
    "pod event SuccessfulAttachVolume",
    "pod event FailedAttachVolume",
    "node",
    "csinode",
    "pod event",
    "volumegroupsnapshot created",
    "volumesnapshot created",
    "volumegroupsnapshotcontent created",
    "volumesnapshotcontent created",
    "volumegroupsnapshotcontent",
    "volumesnapshotcontent",
    "volumegroupsnapshot",
    "volumesnapshot",
    "lease",
)
"""Kinds of lanes, sources of moments and Events' reasons in the order of a volume's life."""
_RANKS: Final[Mapping[str, int]] = {words: rank for rank, words in enumerate(_LIFE)}
SERVER: Final = "mooring"
"""The manager of what is written inside of an embedded server: all programs of a `mooring dev` have this name."""
_OF_OTHERS: Final = ("SuccessfulAttachVolume", "SnapshotCreated", "SnapshotReady", "GroupSnapshotReady")
"""Events in which a controller tells what a driver's sidecar has done."""
_OF_WAITS: Final = ("ExternalProvisioning", "ExternalExpanding", "WaitForFirstConsumer", "WaitForPodScheduled")
"""Events in which a controller tells for what it waits."""
_FROM_THE_START: Final = ("node", "csinode", "lease")
"""These live long before a chain: only what happened to them since its beginning belongs to it."""


class Gap(msgspec.Struct, frozen=True):
    """after: the number of the moment before it. who: had to move, "" for unknown. is_open: nobody has moved since."""

    after: int
    seconds: float
    who: str
    is_open: bool = False


class Timeline(msgspec.Struct, frozen=True):
    """subject: `pvc shop/data`. lanes: those with a moment. gaps: in order. unseen: what the rights of whoever asks do
    not show.
    """

    subject: str
    now_s: float
    lanes: tuple[Lane, ...]
    moments: tuple[Moment, ...]
    gaps: tuple[Gap, ...]
    unseen: tuple[Unseen, ...] = ()

    def blocked_by(self, who: str) -> Timeline:
        """The same, with the waits that nobody has ended named: who has to move now had to move then."""
        gaps = tuple(msgspec.structs.replace(one, who=who) if one.is_open else one for one in self.gaps)
        return msgspec.structs.replace(self, gaps=gaps)

    @property
    def begin_s(self) -> float:
        return self.moments[0].at_s if self.moments else self.now_s

    @property
    def end_s(self) -> float:
        return self.moments[-1].at_s if self.moments else self.now_s


def timeline(subject: str, asked: str, scene: Scene, lanes: Mapping[Lane, Traced], gap_s: float) -> Timeline:
    """asked: the kind of the object that the question is about. gap_s: longer waits are shown, the longest always."""
    found = [moment for lane, obj in lanes.items() for moment in _moments(lane, obj, scene)]
    late = {lane.label for lane in lanes if lane.kind in _FROM_THE_START and lane.kind != asked}
    begin_s = min((one.at_s for one in found if one.lane not in late), default=0.0)
    moments = in_order([one for one in found if one.lane not in late or int(one.at_s) >= int(begin_s)], lanes)
    told_of = {one.lane for one in moments}
    kept = tuple(lane for lane in lanes if lane.label in told_of)
    return Timeline(subject, scene.now_s, kept, moments, gaps_of(moments, gap_s), tuple(scene.unseen))


def _moments(lane: Lane, obj: Traced, scene: Scene) -> Iterable[Moment]:
    if lane.kind == "lease":
        lease = next((one for one in scene.leases.values() if one.metadata.uid == lane.uid), None)
        return terms(lane, lease, scene.now_s) if lease is not None else ()
    found = [*written(lane, obj), *states(lane, obj), *told(lane, scene.events_of(lane.uid))]
    if lane.kind == "node":
        signs = (
            one
            for one in scene.leases.values()
            if (one.metadata.namespace, one.metadata.name) == (NODE_LEASE_NAMESPACE, lane.name)
        )
        found += [moment for lease in signs for moment in terms(lane, lease, scene.now_s)]
    return found


def in_order(moments: Iterable[Moment], lanes: Iterable[Lane]) -> tuple[Moment, ...]:
    kinds = {lane.label: lane.kind for lane in lanes}
    return tuple(
        sorted(moments, key=lambda one: (int(one.at_s), *_rank(one, kinds[one.lane]), one.at_s, one.lane, one.what))
    )


def _rank(moment: Moment, kind: str) -> tuple[int, int]:
    """The place of moments of one second: what an object began with comes first, what its end is about last."""
    words = (f"{kind} {moment.source.value} {moment.reason}".rstrip(), f"{kind} {moment.source.value}", kind)
    rank = next((_RANKS[one] for one in words if one in _RANKS), len(_LIFE))
    return (1, rank) if moment.source is Source.DELETED else (0, rank)


def gaps_of(moments: Sequence[Moment], gap_s: float) -> tuple[Gap, ...]:
    """The gaps between moments, in whole seconds, as most times are."""
    found = [
        _gap(number, float(int(after.at_s) - int(before.at_s)), moments[number + 1 :])
        for number, (before, after) in enumerate(pairwise(moments))
        if int(after.at_s) > int(before.at_s)
    ]
    longest_s = max((one.seconds for one in found), default=0.0)
    return tuple(one for one in found if one.seconds > gap_s or one.seconds == longest_s)


def _gap(number: int, seconds: float, later: Sequence[Moment]) -> Gap:
    """A wait is for the program that ended it: the author of the next moment that moved something on. A complaint
    moves nothing, and its author waits like everybody else: the kubelet tells that a mount timed out while
    csi-attacher has to attach.
    """
    moved = next((one for one in later if not _is_complaint(one)), None)
    if moved is None:
        return Gap(number, seconds, "", is_open=True)
    # Somebody who asks for an object's end gives up the wait. A server that keeps no managedFields does not show the
    # write that an Event follows: the author of the Event was not the one to move.
    is_unknown = moved.source is Source.DELETED or moved.who == SERVER or moved.reason in _OF_OTHERS
    return Gap(number, seconds, "" if is_unknown else moved.who)


def _is_complaint(moment: Moment) -> bool:
    return moment.is_repeat or moment.is_bad or moment.reason in _OF_WAITS
