"""The actions of the attacher's decisions, as values; `reconcile.py` carries them out, in order, and the first failure stops the rest."""

from __future__ import annotations

import dataclasses

from mooring.api.core import SecretReference
from mooring.sidecars.attacher.requests import PublishOrder, UnpublishOrder


@dataclasses.dataclass(frozen=True, slots=True)
class AddVolumeFinalizer:
    """Add the finalizer to the PersistentVolume, so that it stays for the detach."""

    pv_name: str


@dataclasses.dataclass(frozen=True, slots=True)
class LookUpVolume:
    """Ask the API server for a PersistentVolume that the cache lacks: the watches of attachments and volumes are not in step."""

    pv_name: str


@dataclasses.dataclass(frozen=True, slots=True)
class LookUpNode:
    """Ask the API server for a CSINode whose entry for the driver the cache lacks."""

    node_name: str


@dataclasses.dataclass(frozen=True, slots=True)
class LoadSecret:
    """Read the Secret that the next call needs; what comes of it is shared by all that wait for it."""

    ref: SecretReference


@dataclasses.dataclass(frozen=True, slots=True)
class ShareSecret:
    """Wait for what comes of the reading of this Secret, which somebody has begun."""

    ref: SecretReference


@dataclasses.dataclass(frozen=True, slots=True)
class WaitForCall:
    """Wait until a call has ended: the one about this volume, or any for None."""

    volume_handle: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Add finalizer and node id to the attachment: from now on it can't vanish without a detach."""

    node_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Publish:
    """Call ControllerPublishVolume and save the answer."""

    order: PublishOrder


@dataclasses.dataclass(frozen=True, slots=True)
class ConfirmStatus:
    """Save that the status is that of the machine whose node id it carries, after it was that of one which was replaced."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unpublish:
    """Call ControllerUnpublishVolume."""

    order: UnpublishOrder


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove the finalizer from the attachment, then, if it is still there, mark it detached. mark: False leaves the status alone."""

    mark: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class MarkAttached:
    """Mark it attached without a call (drivers that don't publish)."""


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveVolumeFinalizer:
    """Remove the finalizer from the PersistentVolume."""

    pv_name: str


@dataclasses.dataclass(frozen=True, slots=True)
class ClearError:
    """Remove the attachError from an attachment that is attached."""


@dataclasses.dataclass(frozen=True, slots=True)
class SettlePublish:
    """The attachment tells of the publish that was unconfirmed: its end is a detach from now on."""


@dataclasses.dataclass(frozen=True, slots=True)
class MarkDetached:
    """Save that it is detached, where an earlier try could not."""


@dataclasses.dataclass(frozen=True, slots=True)
class EndUndo:
    """The orphaned publish has been undone, or is another attachment's."""


Action = (
    AddVolumeFinalizer
    | LookUpVolume
    | LookUpNode
    | LoadSecret
    | ShareSecret
    | WaitForCall
    | AddFinalizer
    | Publish
    | ConfirmStatus
    | Unpublish
    | RemoveFinalizer
    | MarkAttached
    | RemoveVolumeFinalizer
    | ClearError
    | SettlePublish
    | MarkDetached
    | EndUndo
)
