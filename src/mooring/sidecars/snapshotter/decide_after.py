"""The snapshotter's second decision: it judges the driver's answer about a snapshot, and whose snapshot that is. Pure.

`decide_after_group.py` does so for a group. Where the driver has said nothing of it, as after a refusal, both are
decided here.

`creation.py` says what an answer to the request to make it means for the mark. The status gets all that an OK says,
else the error. A snapshot that is not ready is asked for again after a while; one whose content goes is deleted, ready
or not. One that can't be saved, or has no id, is made again under its name.

A handle that is in the status stays there, it is what a deletion needs.

The snapshot of an answer is the content's, whatever the driver names as its source: many name it in a spelling of their
own, and csi-snapshotter never looks. Two contents may have one handle; it is deleted with the last of them.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.api.group_snapshot import VolumeGroupSnapshotContentStatus
from mooring.api.snapshot import VolumeSnapshotContent, VolumeSnapshotContentStatus
from mooring.api.snapshot_kinds import SINGLES, Content, handle_of, imported_handle, row_of, volumes_of
from mooring.api.snapshot_names import is_group_content
from mooring.base.text import quoted
from mooring.control.topics import Topic
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.creation import Outcome
from mooring.sidecars.snapshotter.decision import Failure
from mooring.sidecars.snapshotter.requests import CreateOrder
from mooring.sidecars.snapshotter.view import is_given_up

_INT64_MAX: Final = 2**63 - 1


class After(msgspec.Struct, frozen=True):
    """What follows from an answer: first the status is written, then the mark goes, then users hear of it."""

    #: The status to be written, None where it stays as it is.
    status: VolumeSnapshotContentStatus | VolumeGroupSnapshotContentStatus | None = None
    #: The outcome of the creation is known: its mark goes.
    unmarks: bool = False
    failure: Failure | None = None
    #: The text of a Warning about a snapshot that is left where it may be.
    kept: str = ""
    #: There is more to do at once.
    again: bool = False
    #: The driver is to be asked again later.
    polls: bool = False
    #: The driver said something new about a snapshot that is not ready.
    news: bool = False
    #: Topics, one of which has to be told first.
    waits_for: frozenset[Topic] = frozenset()


# -- the driver has told of it


def after_created(content: VolumeSnapshotContent, snapshot: csi.Snapshot, now_ns: int) -> After:
    """CreateSnapshot was answered with OK."""
    if not snapshot.snapshot_id:
        return After(failure=refused(content, "the driver answered without snapshot_id"))
    return msgspec.structs.replace(_learnt(content, snapshot.snapshot_id, snapshot, now_ns), unmarks=True)


def _learnt(content: VolumeSnapshotContent, handle: str, snapshot: csi.Snapshot, now_ns: int, group: str = "") -> After:
    """Time, size and handle are written once. Differs from csi-snapshotter: a missing time is now, not 1970, and an
    error goes at once.
    """
    old = content.status or VolumeSnapshotContentStatus()
    new = msgspec.structs.replace(
        old,
        snapshot_handle=old.snapshot_handle or handle,
        creation_time=old.creation_time if old.creation_time is not None else time_ns(snapshot, now_ns),
        restore_size=old.restore_size
        if old.restore_size is not None
        else (snapshot.size_bytes if snapshot.size_bytes > 0 else None),
        ready_to_use=snapshot.ready_to_use,
        error=None,
        volume_group_snapshot_handle=old.volume_group_snapshot_handle or group or None,
    )
    return taken(content, new)


def taken(content: Content, new: VolumeSnapshotContentStatus | VolumeGroupSnapshotContentStatus) -> After:
    """The snapshot that the driver named is the content's."""
    over, is_new = new.ready_to_use is True or is_given_up(content), new != content.status
    return After(new if is_new else None, again=over, polls=not over, news=is_new)


def time_ns(snapshot: csi.Snapshot | csi.VolumeGroupSnapshot, now_ns: int) -> int:
    """The creation time in the answer; now, where that is missing or no time that the API server takes."""
    if not snapshot.HasField("creation_time"):
        return now_ns
    found = snapshot.creation_time.seconds * 10**9 + snapshot.creation_time.nanos
    return found if 0 < found <= _INT64_MAX else now_ns


def after_asked(content: VolumeSnapshotContent, handle: str, snapshot: csi.Snapshot | None, now_ns: int) -> After:
    """The driver was asked for a snapshot by its handle. snapshot: None where it knows none."""
    if snapshot is None:
        return After(failure=unchecked(content, f"can not find snapshot for snapshotID {handle}"))
    alone = content.spec.source.volume_handle is not None and not is_group_content(content)
    return _learnt(content, handle, snapshot, now_ns, group="" if alone else snapshot.group_snapshot_id)


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


# -- words for users


def refused(content: Content, text: str) -> Failure:
    row = row_of(content)
    if row is not SINGLES and imported_handle(content) is not None:
        return unchecked(content, text)
    shown = quoted(text) if text.startswith("rpc error") else text
    return Failure(
        f"{row.title}CreationFailed",
        f"Failed to create {row.noun}: failed to take {row.noun} of {named_volumes(content)}: {shown}",
    )


def unchecked(content: Content, text: str) -> Failure:
    row = row_of(content)
    return Failure(f"{row.title}ContentCheckandUpdateFailed", f"Failed to check and update {row.noun} content: {text}")


def named_volumes(content: Content) -> str:
    if row_of(content) is SINGLES:
        return f"the volume {''.join(volumes_of(content))}"
    return f"the volumes [{' '.join(volumes_of(content))}]"


def as_json(status: VolumeSnapshotContentStatus | VolumeGroupSnapshotContentStatus | None) -> dict[str, Any] | None:
    """The status as JSON, None where there is none."""
    found: dict[str, Any] | None = None if status is None else msgspec.to_builtins(status)
    return found


def after_unasked(content: Content, error: DriverError) -> After:
    """The driver did not answer about one that was there before."""
    row = row_of(content)
    named = f"{'content' if row is SINGLES else f'{row.noun} content'} {content.metadata.name}"
    return After(failure=unchecked(content, f"failed to list {row.noun} for {named}: {error}"))


def after_refused(content: Content, order: CreateOrder, error: DriverError, outcome: Outcome) -> After:
    """The request to make it failed. outcome: what that means for the creation."""
    row, is_over = row_of(content), outcome is not Outcome.OPEN
    perhaps = f"an earlier request may have made {row.noun} {quoted(order.name)} of {named_volumes(content)}"
    if outcome is Outcome.GIVEN_UP:
        kept = f"{perhaps}, which is not deleted: for too long the driver refuses to tell: {quoted(str(error))}"
        return After(unmarks=True, kept=kept, again=True)
    if is_over and is_given_up(content):
        return After(unmarks=True, again=True)
    if is_given_up(content) and error.final and not error.answered:
        way_out = f"where the storage has none, take the annotation {row.being_created} off"
        text = f"Failed to create {row.noun}: {perhaps}: {way_out}; the driver refuses to tell: {quoted(str(error))}"
        return After(failure=Failure(f"{row.title}CreationFailed", text))
    return After(unmarks=is_over, failure=refused(content, str(error)))


def after_unsaved(content: Content, error: str) -> Failure:
    """The API server does not take what the driver has answered, as an id of megabytes. The mark stays: a deletion has
    to find it out.

    Differs from csi-snapshotter, where only the log tells of that.
    """
    row, text = row_of(content), f"the API server refused the driver's answer: {error}"
    if imported_handle(content) is None and not handle_of(content):
        return Failure(f"{row.title}CreationFailed", f"Failed to create {row.noun}: {text}")
    return unchecked(content, text)
