"""The snapshotter's second decision: it judges the driver's answer about a snapshot, and whose snapshot that is. Pure.

`decide_after_group.py` does so for a group. Where the driver has said nothing of it, as after a refusal, both are decided here.

    the request to make it      the status                         the mark                 then
    OK, ready                   all of it, without error           goes                     done; deleted if the content goes
    OK, not ready               all of it                          goes                     asked again after a while; deleted if it goes
    OK, of another volume       an error, no handle, not ready     goes: nothing is ours    tried again; a content that goes leaves it alone
    OK, without id              an error                           stays: it may be there   tried again
    OK, can't be saved          an error                           stays                    tried again
    refused for sure, at first  an error                           goes: nothing was made   tried again; a content that goes is let go
    refused for sure, later     an error                           stays                    tried again; of a content that goes see below
    may still be going on       an error                           stays                    tried again, also for a deletion

Drivers judge a request before they look up its name. So a refusal says nothing of an earlier request that was not answered, whatever its
code. A content that goes stays until the request is answered with OK, or the driver's list shows that nothing is there, or somebody who
knows takes the mark off. Drivers list no groups.

A handle that is in the status stays there, it is what a deletion needs; unless the driver says that it is of another volume, for then a
deletion would take what is another's.

A driver names the source of a snapshot, and many spell it otherwise than the volume's handle: in other letters, by a longer or shorter
path, or not at all. csi-snapshotter never looks. So another spelling is taken, and told; but a snapshot of another volume is never taken,
and never deleted:

    the source is                                                        the snapshot is
    the handle itself                                                    the content's
    the handle in other letters, or one is the beginning or the end      the content's, with a warning that names both
    of the other's path, or one leaves parts of it open
    empty                                                                the content's, with a warning
    any of these, but exactly the volume of another content              another volume's
    anything else                                                        another volume's
    whatever, and another content has that handle of another volume      another volume's
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from mooring.api.group_snapshot import VolumeGroupSnapshotContentStatus
from mooring.api.migration import UNSPECIFIED
from mooring.api.snapshot import VolumeSnapshotContent, VolumeSnapshotContentStatus
from mooring.api.snapshot_names import is_group_content
from mooring.base.text import quoted
from mooring.control.topics import Topic
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.decision import Failure, Tell
from mooring.sidecars.snapshotter.kinds import SINGLES, Content
from mooring.sidecars.snapshotter.requests import CreateOrder
from mooring.sidecars.snapshotter.view import View, handle_of, imported_handle, is_given_up, row_of, volumes_of

_NAMED_MAX: Final = 3

_INT64_MAX: Final = 2**63 - 1
SPELLED_OTHERWISE: Final = "SourceVolumeSpelledOtherwise"


class After(msgspec.Struct, frozen=True):
    """status: to be written, None for as it is. unmarks: the outcome is known. again: there is more to do at once. polls: ask again later.

    nothing_made: the outcome is that the driver has nothing. news: the driver said something new about a snapshot that is not ready.
    tells: a warning, once. waits_for: topics, one of which has to be told first.
    """

    status: VolumeSnapshotContentStatus | VolumeGroupSnapshotContentStatus | None = None
    unmarks: bool = False
    nothing_made: bool = False
    failure: Failure | None = None
    again: bool = False
    polls: bool = False
    news: bool = False
    tells: Tell | None = None
    waits_for: frozenset[Topic] = frozenset()


# -- the driver has told of it


def after_created(content: VolumeSnapshotContent, snapshot: csi.Snapshot, now_ns: int, stranger: str = "") -> After:
    """CreateSnapshot was answered with OK. stranger: what shows that it is of another volume."""
    if not snapshot.snapshot_id:
        return After(failure=refused(content, "the driver answered without snapshot_id"))
    if other := other_handle(content, snapshot.snapshot_id, snapshot.snapshot_id):
        return other
    if stranger:
        return after_strangers(
            content, f"the driver answered with {stranger}: {quoted(snapshot.snapshot_id)} is left alone"
        )
    return msgspec.structs.replace(_learnt(content, snapshot, now_ns), unmarks=True)


def other_handle(content: Content, handle: str, told: str) -> After | None:
    """None unless another handle is known. told: as the driver says it."""
    known, noun = handle_of(content), row_of(content).noun
    if not known or known == handle:
        return None
    text = f"the driver answered with {noun} {quoted(told)}, and had answered with {quoted(known)}"
    return After(unmarks=True, failure=refused(content, text))


def after_strangers(content: Content, text: str) -> After:
    """The driver told of what is another volume's."""
    if is_given_up(content):
        return After(unmarks=True, nothing_made=True, again=True, tells=Tell(row_of(content).kept, text))
    status = content.status
    if isinstance(status, VolumeGroupSnapshotContentStatus):
        status = msgspec.structs.replace(
            status,
            volume_group_snapshot_handle=None,
            creation_time=None,
            ready_to_use=False,
            volume_snapshot_info_list=None,
        )
    elif status is not None and handle_of(content):
        status = msgspec.structs.replace(
            status, snapshot_handle=None, creation_time=None, restore_size=None, ready_to_use=False
        )
    return After(status, unmarks=True, nothing_made=True, failure=refused(content, text))


def _learnt(content: VolumeSnapshotContent, snapshot: csi.Snapshot, now_ns: int, group: str = "") -> After:
    """Time, size and handle are written once. Differs from csi-snapshotter: a missing time is now, not 1970, and an error goes at once."""
    old = content.status or VolumeSnapshotContentStatus()
    new = msgspec.structs.replace(
        old,
        snapshot_handle=old.snapshot_handle or snapshot.snapshot_id,
        creation_time=old.creation_time if old.creation_time is not None else time_ns(snapshot, now_ns),
        restore_size=old.restore_size
        if old.restore_size is not None
        else (snapshot.size_bytes if snapshot.size_bytes > 0 else None),
        ready_to_use=snapshot.ready_to_use,
        error=None,
        volume_group_snapshot_handle=old.volume_group_snapshot_handle or group or None,
    )
    return taken(content, new, spelling(content.spec.source.volume_handle, snapshot))


def taken(content: Content, new: VolumeSnapshotContentStatus | VolumeGroupSnapshotContentStatus, warning: str) -> After:
    """The snapshot that the driver named is the content's. warning: about other spellings, "" for none."""
    over, is_new = new.ready_to_use is True or is_given_up(content), new != content.status
    tells = Tell(SPELLED_OTHERWISE, warning) if warning else None
    return After(new if is_new else None, again=over, polls=not over, news=is_new, tells=tells)


def time_ns(snapshot: csi.Snapshot | csi.VolumeGroupSnapshot, now_ns: int) -> int:
    """Its creation time; now, where that is missing or no time that the API server takes."""
    if not snapshot.HasField("creation_time"):
        return now_ns
    found = snapshot.creation_time.seconds * 10**9 + snapshot.creation_time.nanos
    return found if 0 < found <= _INT64_MAX else now_ns


def after_asked(
    content: VolumeSnapshotContent, handle: str, snapshot: csi.Snapshot | None, now_ns: int, stranger: str = ""
) -> After:
    """The driver was asked for a snapshot by its handle. snapshot: None where it knows none. stranger: as for `after_created`."""
    if snapshot is None:
        return After(failure=unchecked(content, f"can not find snapshot for snapshotID {handle}"))
    source = content.spec.source.volume_handle
    if source is not None and stranger:
        return After(failure=unchecked(content, f"the driver answered with {stranger}"))
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


# -- whose it is


def is_alike(handle: str, told: str) -> bool:
    """True where one may be another spelling of the other."""
    short, long = sorted((_path(handle), _path(told)), key=len)
    return _fits(short, long[: len(short)]) or _fits(short, long[len(long) - len(short) :])


def _path(text: str) -> list[str]:
    return [part for part in text.casefold().split("/") if part]


def _fits(short: list[str], long: list[str]) -> bool:
    left_open = UNSPECIFIED.casefold()
    return all(one == other or left_open in (one, other) for one, other in zip(short, long, strict=True))


def stranger(view: View, content: VolumeSnapshotContent, snapshot: csi.Snapshot) -> str:
    """The proof that the snapshot is of another volume than its content's, "" for none, and for an import, which is of no volume."""
    handle, told = content.spec.source.volume_handle, snapshot.source_volume_id
    if handle is None:
        return ""
    if told != handle and (not is_alike(handle, told) or view.is_source(told)):
        return f"a snapshot of volume {quoted(told)}"
    other = view.other_volume_of(content, snapshot.snapshot_id)
    return f"a snapshot of volume {quoted(other)}, as another content has it" if other else ""


def spelling(handle: str | None, snapshot: csi.Snapshot) -> str:
    """The warning about another spelling that is taken, "" for none."""
    told, beginning = (
        snapshot.source_volume_id,
        f"the driver names {{}} as the source of snapshot {quoted(snapshot.snapshot_id)}",
    )
    if handle is None or told == handle:
        return ""
    named = beginning.format(quoted(told) if told else "no volume")
    return f"{named}, which was asked for of volume {quoted(handle)}: taken for {'another spelling of it' if told else 'that one'}"


# -- words for users


def refused(content: Content, text: str) -> Failure:
    row = row_of(content)
    if row is not SINGLES and imported_handle(content) is not None:
        return unchecked(content, text)
    shown = quoted(text) if text.startswith("rpc error") else text
    return Failure(
        row.creation_failed, f"{row.creation_text}failed to take {row.noun} of {named_volumes(content)}: {shown}"
    )


def unchecked(content: Content, text: str) -> Failure:
    row = row_of(content)
    return Failure(row.check_failed, f"{row.check_text}{text}")


def named_volumes(content: Content) -> str:
    if row_of(content) is SINGLES:
        return f"the volume {''.join(volumes_of(content))}"
    return f"the volumes [{' '.join(volumes_of(content))}]"


def as_json(status: VolumeSnapshotContentStatus | VolumeGroupSnapshotContentStatus | None) -> dict[str, Any] | None:
    """None where there is no status."""
    found: dict[str, Any] | None = None if status is None else msgspec.to_builtins(status)
    return found


def after_unasked(content: Content, error: DriverError) -> After:
    """The driver did not answer about one that was there before."""
    row = row_of(content)
    return After(
        failure=unchecked(
            content, f"failed to list {row.noun} for {row.noun_of_content} {content.metadata.name}: {error}"
        )
    )


def is_refusal(error: DriverError) -> bool:
    """True for an answer by which this one request has made nothing."""
    return error.final and not error.answered


def after_refused(content: Content, order: CreateOrder, error: DriverError, *, is_first: bool) -> After:
    """The request to make it failed. is_first: no request before this one can have made anything."""
    over, going = is_first and is_refusal(error), is_given_up(content)
    if over and going:
        return After(unmarks=True, nothing_made=True, again=True)
    if going and is_refusal(error):
        return After(failure=_open(content, order, f"the driver refuses to tell: {quoted(str(error))}"))
    return After(unmarks=over, nothing_made=over, failure=refused(content, str(error)))


def after_looked_for(content: Content, order: CreateOrder, unknown: Sequence[str]) -> After:
    """The driver has listed the snapshots of the volume. unknown: the handles of those that no content names."""
    if not unknown:
        return After(unmarks=True, nothing_made=True, again=True)
    more = f" and {len(unknown) - _NAMED_MAX} more" if len(unknown) > _NAMED_MAX else ""
    text = f"no content names {', '.join(map(quoted, unknown[:_NAMED_MAX]))}{more}, which the driver lists"
    return After(failure=_open(content, order, text))


def after_unlisted(content: Content, order: CreateOrder, error: DriverError) -> After:
    """The driver has not listed the snapshots of the volume."""
    return After(failure=_open(content, order, f"the driver does not list its snapshots: {quoted(str(error))}"))


def after_unsaved(content: Content, error: str) -> Failure:
    """The API server does not take what the driver has answered, as an id of megabytes. The mark stays: a deletion has to find it out.

    Differs from csi-snapshotter, where only the log tells of that.
    """
    row, text = row_of(content), f"the API server refused the driver's answer: {error}"
    if imported_handle(content) is None and not handle_of(content):
        return Failure(row.creation_failed, f"{row.creation_text}{text}")
    return unchecked(content, text)


def _open(content: Content, order: CreateOrder, text: str) -> Failure:
    """The failure of a content that can't go, since nobody knows what the driver made."""
    row = row_of(content)
    what = f"{row.noun} {quoted(order.name)} of {named_volumes(content)}"
    way_out = f"where the storage has none, take the annotation {row.being_created} off"
    return Failure(
        row.creation_failed, f"{row.creation_text}an earlier request may have made {what}: {way_out}; {text}"
    )
