"""The actions of a decision about a snapshot, a content or a claim, as values. Most are for single snapshots and groups
alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, Kind
from mooring.api.snapshot import VolumeSnapshot, VolumeSnapshotContent
from mooring.api.snapshot_kinds import Content, Snapshot


class LookUp(msgspec.Struct, frozen=True):
    """Ask the API server for what the cache lacks, or has in a state that may be an old one, before an error is shown.

    strictly: a read without an answer is an error, since what follows can't be taken back.
    """

    kind: Kind[Any]
    key: Key
    strictly: bool = False


class Protect(msgspec.Struct, frozen=True):
    """Add finalizers to the snapshot, and the class that is chosen for it, in one write."""

    snapshot: Snapshot
    finalizers: tuple[str, ...]
    class_name: str = ""


class JoinGroup(msgspec.Struct, frozen=True):
    """Make the group snapshot an owner of the snapshot that says it belongs to it."""

    snapshot: VolumeSnapshot
    owner: Mapping[str, Any]


class HoldClaim(msgspec.Struct, frozen=True):
    """Add our finalizer to the claim, unless it is there."""

    claim: PersistentVolumeClaim


class ReleaseClaim(msgspec.Struct, frozen=True):
    """Remove our finalizer from the claim, unless a snapshot needs it by now."""

    key: Key


class CreateContent(msgspec.Struct, frozen=True):
    """Create this content. One of its name that is there already is as good."""

    body: Mapping[str, Any]


class BindContent(msgspec.Struct, frozen=True):
    """Write the snapshot's uid, and its class, into the content, with our finalizer and unmarked. "" leaves the class
    alone.
    """

    content: Content
    uid: str
    class_name: str


class ProtectContent(msgspec.Struct, frozen=True):
    """Add our finalizer to the content."""

    content: VolumeSnapshotContent


class MarkDeleted(msgspec.Struct, frozen=True):
    """Tell the driver's side, by an annotation, that the snapshot of this content is being deleted."""

    content: Content


class UnmarkDeleted(msgspec.Struct, frozen=True):
    """Take the mark of a deletion off the content: a former snapshot left it, and this one lives."""

    content: Content


class Touch(msgspec.Struct, frozen=True):
    """Change an annotation of the content, for a sidecar that sleeps over it.

    Upstream's csi-snapshotter is not woken by its own last write of a creation, after which a deletion that waited for
    it may go on.
    """

    content: VolumeSnapshotContent


class DeleteContent(msgspec.Struct, frozen=True):
    content: Content


class Release(msgspec.Struct, frozen=True):
    """Remove these finalizers from the snapshot."""

    snapshot: Snapshot
    finalizers: tuple[str, ...]


class SaveStatus(msgspec.Struct, frozen=True):
    """Write this status of the snapshot."""

    snapshot: Snapshot
    status: Mapping[str, Any]


class CreateMember(msgspec.Struct, frozen=True):
    """Create the snapshot that a group has of one volume."""

    body: Mapping[str, Any]


class CreateMemberContent(msgspec.Struct, frozen=True):
    """Create the content of a group's snapshot of one volume."""

    body: Mapping[str, Any]


class SaveMemberStatus(msgspec.Struct, frozen=True):
    """Write this status of the content of a group's snapshot of one volume."""

    content: VolumeSnapshotContent
    status: Mapping[str, Any]


class DeleteMember(msgspec.Struct, frozen=True):
    snapshot: VolumeSnapshot


class Tell(msgspec.Struct, frozen=True):
    """An Event on the object."""

    obj: Snapshot | Content
    type: str
    reason: str
    message: str


Action = (
    LookUp
    | Protect
    | JoinGroup
    | HoldClaim
    | ReleaseClaim
    | CreateContent
    | BindContent
    | ProtectContent
    | MarkDeleted
    | UnmarkDeleted
    | Touch
    | DeleteContent
    | Release
    | SaveStatus
    | CreateMember
    | CreateMemberContent
    | SaveMemberStatus
    | DeleteMember
    | Tell
)


class Failure(msgspec.Struct, frozen=True):
    """A problem that lasts until a change wakes the key; a failed action is tried again.

    event: the reason of the Warning. error: its text, and that of the status. saved: whether it goes to the status.
    unready: whether `readyToUse` turns false with it. also: a second Warning, with its text.
    """

    event: str
    error: str
    saved: bool = True
    unready: bool = True
    also: tuple[str, str] | None = None

    def __str__(self) -> str:
        return self.error
