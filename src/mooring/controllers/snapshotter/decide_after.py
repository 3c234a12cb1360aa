"""The snapshotter's second decision: what follows from the driver's answer. Pure.

    CreateSnapshot              the status                         the mark                 then
    OK, ready                   all of it, without error           goes                     done; deleted if the content goes
    OK, not ready               all of it                          goes                     asked again after a while; deleted if it goes
    OK, of another volume       an error, no handle, not ready     goes: nothing is ours    tried again; a content that goes leaves it alone
    OK, without id              an error                           stays: it may be there   tried again
    OK, can't be saved          an error                           stays                    tried again
    refused for sure, at first  an error                           goes: nothing was made   tried again; a content that goes is let go
    refused for sure, later     an error                           stays                    tried again; of a content that goes see below
    may still be going on       an error                           stays                    tried again, also for a deletion

Drivers judge a request before they look up its name. So a refusal says nothing of an earlier request that was not answered, whatever its
code. A content that goes stays until CreateSnapshot is answered with OK, or the driver's list shows that nothing is there, or somebody who
knows takes the mark off.

A handle that is in the status stays there, it is what a deletion needs; unless CreateSnapshot itself says that it is of another volume
(`whose.py`), for then a deletion would take what is another's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mooring.api.snapshot import VolumeSnapshotContent, VolumeSnapshotContentStatus
from mooring.base.text import quoted
from mooring.controllers.snapshotter.decide import CHECK_FAILED, CHECK_TEXT, CREATION_FAILED, CREATION_TEXT, KEPT
from mooring.controllers.snapshotter.decision import Failure, Tell
from mooring.controllers.snapshotter.requests import CreateOrder
from mooring.controllers.snapshotter.view import handle_of, is_given_up
from mooring.controllers.snapshotter.whose import SPELLED_OTHERWISE, spelling
from mooring.controllers.snapshotting.names import BEING_CREATED, is_group_content
from mooring.csi.codes import DriverError
from mooring.csi.proto import csi_pb2 as csi

_INT64_MAX: Final = 2**63 - 1
_NAMED_MAX: Final = 3


@dataclasses.dataclass(frozen=True, slots=True)
class After:
    """status: to be written, None for as it is. unmarks: the outcome is known. again: there is more to do at once. polls: ask again later.

    nothing_made: the outcome is that the driver has nothing. news: the driver said something new about a snapshot that is not ready.
    tells: a warning, once.
    """

    status: VolumeSnapshotContentStatus | None = None
    unmarks: bool = False
    nothing_made: bool = False
    failure: Failure | None = None
    again: bool = False
    polls: bool = False
    news: bool = False
    tells: Tell | None = None


def after_created(content: VolumeSnapshotContent, volume_handle: str, snapshot: csi.Snapshot, now_ns: int, stranger: str = "") -> After:
    """CreateSnapshot was answered with OK. volume_handle: as it was asked for. stranger: what shows that it is of another volume."""
    known = handle_of(content)
    if not snapshot.snapshot_id:
        return After(failure=_refused(volume_handle, "the driver answered without snapshot_id"))
    if known and known != snapshot.snapshot_id:
        text = f"the driver answered with snapshot {quoted(snapshot.snapshot_id)}, and had answered with {quoted(known)}"
        return After(unmarks=True, failure=_refused(volume_handle, text))
    if stranger:
        return _after_stranger(content, volume_handle, f"the driver answered with {stranger}: {quoted(snapshot.snapshot_id)} is left alone")
    return dataclasses.replace(_learnt(content, snapshot, now_ns), unmarks=True)


def _after_stranger(content: VolumeSnapshotContent, volume_handle: str, text: str) -> After:
    if is_given_up(content):
        return After(unmarks=True, nothing_made=True, again=True, tells=Tell(KEPT, text))
    status = content.status
    if status is not None and handle_of(content):
        status = msgspec.structs.replace(status, snapshot_handle=None, creation_time=None, restore_size=None, ready_to_use=False)
    return After(status, unmarks=True, nothing_made=True, failure=_refused(volume_handle, text))


def _learnt(content: VolumeSnapshotContent, snapshot: csi.Snapshot, now_ns: int, group: str = "") -> After:
    """Time, size and handle are written once. Differs from csi-snapshotter: a missing time is now, not 1970, and an error goes at once."""
    old = content.status or VolumeSnapshotContentStatus()
    new = msgspec.structs.replace(
        old,
        snapshot_handle=old.snapshot_handle or snapshot.snapshot_id,
        creation_time=old.creation_time if old.creation_time is not None else time_ns(snapshot, now_ns),
        restore_size=old.restore_size if old.restore_size is not None else (snapshot.size_bytes if snapshot.size_bytes > 0 else None),
        ready_to_use=snapshot.ready_to_use,
        error=None,
        volume_group_snapshot_handle=old.volume_group_snapshot_handle or group or None,
    )
    over = new.ready_to_use is True or is_given_up(content)
    text = spelling(content.spec.source.volume_handle, snapshot)
    tells = Tell(SPELLED_OTHERWISE, text) if text else None
    return After(new if new != old else None, again=over, polls=not over, news=new != old, tells=tells)


def time_ns(snapshot: csi.Snapshot | csi.VolumeGroupSnapshot, now_ns: int) -> int:
    """Its creation time; now, where that is missing or no time that the API server takes."""
    if not snapshot.HasField("creation_time"):
        return now_ns
    found = snapshot.creation_time.seconds * 10**9 + snapshot.creation_time.nanos
    return found if 0 < found <= _INT64_MAX else now_ns


def is_refusal(error: DriverError) -> bool:
    """True for an answer by which this one request has made nothing."""
    return error.final and not error.answered


def after_refused(content: VolumeSnapshotContent, order: CreateOrder, error: DriverError, *, is_first: bool) -> After:
    """CreateSnapshot failed. is_first: no request before this one can have made anything."""
    over, going = is_first and is_refusal(error), is_given_up(content)
    if over and going:
        return After(unmarks=True, nothing_made=True, again=True)
    if going and is_refusal(error):
        return After(failure=_open(order, f"the driver refuses to tell: {quoted(str(error))}"))
    return After(unmarks=over, nothing_made=over, failure=_refused(order.volume_handle, str(error)))


def after_looked_for(order: CreateOrder, unknown: Sequence[str]) -> After:
    """The driver has listed the snapshots of the volume. unknown: the handles of those that no content names."""
    if not unknown:
        return After(unmarks=True, nothing_made=True, again=True)
    more = f" and {len(unknown) - _NAMED_MAX} more" if len(unknown) > _NAMED_MAX else ""
    return After(failure=_open(order, f"no content names {', '.join(map(quoted, unknown[:_NAMED_MAX]))}{more}, which the driver lists"))


def after_unlisted(order: CreateOrder, error: DriverError) -> After:
    """The driver has not listed the snapshots of the volume."""
    return After(failure=_open(order, f"the driver does not list its snapshots: {quoted(str(error))}"))


def _open(order: CreateOrder, text: str) -> Failure:
    """Of a content that would go, if only it were known what was made."""
    what = f"snapshot {quoted(order.name)} of the volume {order.volume_handle}"
    way_out = f"where the storage has none, take the annotation {BEING_CREATED} off"
    return Failure(CREATION_FAILED, f"{CREATION_TEXT}an earlier request may have made {what}: {way_out}; {text}")


def _refused(volume_handle: str, text: str) -> Failure:
    shown = quoted(text) if text.startswith("rpc error") else text
    return Failure(CREATION_FAILED, f"{CREATION_TEXT}failed to take snapshot of the volume {volume_handle}: {shown}")


def after_asked(content: VolumeSnapshotContent, handle: str, snapshot: csi.Snapshot | None, now_ns: int, stranger: str = "") -> After:
    """The driver was asked for a snapshot by its handle. snapshot: None where it knows none. stranger: as for `after_created`."""
    if snapshot is None:
        text = f"{CHECK_TEXT}can not find snapshot for snapshotID {handle}"
        return After(failure=Failure(CHECK_FAILED, text))
    source = content.spec.source.volume_handle
    if source is not None and stranger:
        return After(failure=Failure(CHECK_FAILED, f"{CHECK_TEXT}the driver answered with {stranger}"))
    alone = source is not None and not is_group_content(content)
    return _learnt(content, snapshot, now_ns, group="" if alone else snapshot.group_snapshot_id)


def after_believed(content: VolumeSnapshotContent, handle: str, now_ns: int) -> After:
    """The driver can't be asked for a snapshot that was there before."""
    old = content.status or VolumeSnapshotContentStatus()
    new = msgspec.structs.replace(
        old,
        snapshot_handle=old.snapshot_handle or handle,
        creation_time=old.creation_time if old.creation_time is not None else now_ns,
        ready_to_use=True,
        error=None,
    )
    return After(new, again=True)


def after_unsaved(content: VolumeSnapshotContent, error: str) -> Failure:
    """The API server does not take what the driver has answered, as an id of megabytes. The mark stays: a deletion has to find it out.

    Differs from csi-snapshotter, where only the log tells of that.
    """
    text = f"the API server refused the driver's answer: {error}"
    if content.spec.source.volume_handle is not None and not handle_of(content):
        return Failure(CREATION_FAILED, f"{CREATION_TEXT}{text}")
    return Failure(CHECK_FAILED, f"{CHECK_TEXT}{text}")


def as_json(status: VolumeSnapshotContentStatus | None) -> dict[str, Any] | None:
    """None where there is no status."""
    found: dict[str, Any] | None = None if status is None else msgspec.to_builtins(status)
    return found
