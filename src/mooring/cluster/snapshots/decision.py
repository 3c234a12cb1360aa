"""The decision about a snapshot, a content or a claim: actions as values."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, Kind, Object
from mooring.api.snapshot import VolumeSnapshot, VolumeSnapshotContent
from mooring.control.result import Because


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

    snapshot: VolumeSnapshot
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

    content: VolumeSnapshotContent
    uid: str
    class_name: str


@dataclasses.dataclass(frozen=True, slots=True)
class ProtectContent:
    """Add our finalizer to the content."""

    content: VolumeSnapshotContent


@dataclasses.dataclass(frozen=True, slots=True)
class MarkDeleted:
    """Tell the driver's side, by an annotation, that the snapshot of this content is being deleted."""

    content: VolumeSnapshotContent


@dataclasses.dataclass(frozen=True, slots=True)
class UnmarkDeleted:
    """Take that mark off again: it is a former snapshot's, and this one lives."""

    content: VolumeSnapshotContent


@dataclasses.dataclass(frozen=True, slots=True)
class Touch:
    """Change an annotation of the content, for a sidecar that sleeps over it.

    Upstream's csi-snapshotter is not woken by its own last write of a creation, after which a deletion that waited for it may go on.
    """

    content: VolumeSnapshotContent


@dataclasses.dataclass(frozen=True, slots=True)
class DeleteContent:
    content: VolumeSnapshotContent


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """Remove these finalizers from the snapshot."""

    snapshot: VolumeSnapshot
    finalizers: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SaveStatus:
    """Write this status of the snapshot."""

    snapshot: VolumeSnapshot
    status: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Tell:
    """An Event on the object. kind: of the object."""

    obj: Object
    kind: Kind[Any]
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
    | Tell
)


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """Keeps the work from being done until something changes, which wakes the key.

    event: the reason of the Warning. error: its text, and that of the status. saved: whether it goes to the status. unready: whether
    `readyToUse` turns false with it. also: a second Warning, with its text.
    """

    event: str
    error: str
    saved: bool = True
    unready: bool = True
    also: tuple[str, str] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """actions: in order; the first failure of one stops the rest. failure: told after them.

    again: after these actions there is more to decide at once. after_s: until the next look, None for the next change.
    done: one line for the log.
    """

    because: Because
    actions: tuple[Action, ...] = ()
    failure: Failure | None = None
    again: bool = False
    after_s: float | None = None
    done: str = ""
