"""The actions of a decision about a snapshot, a content or a claim, as values. Most are for single snapshots and groups alike."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, Kind
from mooring.api.snapshot import VolumeSnapshot, VolumeSnapshotContent
from mooring.cluster.snapshots.kinds import Content, Snapshot


@dataclasses.dataclass(frozen=True, slots=True)
class LookUp:
    """Ask the API server for what the cache lacks, or has in a state that may be an old one, before an error is shown.

    strictly: no answer is an error, too: what follows can't be taken back.
    """

    kind: Kind[Any]
    key: Key
    strictly: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Protect:
    """Add finalizers to the snapshot, and the class that is chosen for it, in one write."""

    snapshot: Snapshot
    finalizers: tuple[str, ...]
    class_name: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class JoinGroup:
    """Make the group snapshot an owner of the snapshot that says it belongs to it."""

    snapshot: VolumeSnapshot
    owner: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class HoldClaim:
    """Add our finalizer to the claim, unless it is there."""

    claim: PersistentVolumeClaim


@dataclasses.dataclass(frozen=True, slots=True)
class ReleaseClaim:
    """Remove our finalizer from the claim, unless a snapshot needs it by now."""

    key: Key


@dataclasses.dataclass(frozen=True, slots=True)
class CreateContent:
    """Create this content. One of its name that is there already is as good."""

    body: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class BindContent:
    """Write the snapshot's uid, and its class, into the content, with our finalizer and unmarked. "" leaves the class alone."""

    content: Content
    uid: str
    class_name: str


@dataclasses.dataclass(frozen=True, slots=True)
class ProtectContent:
    """Add our finalizer to the content."""

    content: VolumeSnapshotContent


@dataclasses.dataclass(frozen=True, slots=True)
class MarkDeleted:
    """Tell the driver's side, by an annotation, that the snapshot of this content is being deleted."""

    content: Content


@dataclasses.dataclass(frozen=True, slots=True)
class UnmarkDeleted:
    """Take that mark off again: it is a former snapshot's, and this one lives."""

    content: Content


@dataclasses.dataclass(frozen=True, slots=True)
class Touch:
    """Change an annotation of the content, for a sidecar that sleeps over it.

    Upstream's csi-snapshotter is not woken by its own last write of a creation, after which a deletion that waited for it may go on.
    """

    content: VolumeSnapshotContent


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteContent:
    content: Content


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """Remove these finalizers from the snapshot."""

    snapshot: Snapshot
    finalizers: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SaveStatus:
    """Write this status of the snapshot."""

    snapshot: Snapshot
    status: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class CreateMember:
    """Create the snapshot that a group has of one volume."""

    body: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class CreateMemberContent:
    """Create the content of a group's snapshot of one volume."""

    body: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class SaveMemberStatus:
    """Write this status of the content of a group's snapshot of one volume."""

    content: VolumeSnapshotContent
    status: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteMember:
    snapshot: VolumeSnapshot


@dataclasses.dataclass(frozen=True, slots=True)
class Tell:
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


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """Keeps the work from being done until something changes, which wakes the key; of an action: it is tried again.

    event: the reason of the Warning. error: its text, and that of the status. saved: whether it goes to the status. unready: whether
    `readyToUse` turns false with it. also: a second Warning, with its text.
    """

    event: str
    error: str
    saved: bool = True
    unready: bool = True
    also: tuple[str, str] | None = None

    def __str__(self) -> str:
        return self.error
