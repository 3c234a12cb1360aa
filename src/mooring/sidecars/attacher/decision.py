"""The actions of the attacher's decisions, as values; `reconcile.py` carries them out, in order, and the first failure stops the rest."""

from __future__ import annotations

import msgspec

from mooring.api.core import SecretReference
from mooring.sidecars.attacher.requests import PublishOrder, UnpublishOrder


class AddVolumeFinalizer(msgspec.Struct, frozen=True):
    """Add the finalizer to the PersistentVolume, so that it stays for the detach."""

    pv_name: str


class LookUpVolume(msgspec.Struct, frozen=True):
    """Ask the API server for a PersistentVolume that the cache lacks: the watches of attachments and volumes are not in step."""

    pv_name: str


class LookUpNode(msgspec.Struct, frozen=True):
    """Ask the API server for a CSINode whose entry for the driver the cache lacks."""

    node_name: str


class LoadSecret(msgspec.Struct, frozen=True):
    """Read the Secret that the next call needs; what comes of it is shared by all that wait for it."""

    ref: SecretReference


class ShareSecret(msgspec.Struct, frozen=True):
    """Wait for what comes of the reading of this Secret, which somebody has begun."""

    ref: SecretReference


class WaitForCall(msgspec.Struct, frozen=True):
    """Wait until a call has ended: the one about this volume, or any for None."""

    volume_handle: str | None = None


class AddFinalizer(msgspec.Struct, frozen=True):
    """Add finalizer and node id to the attachment: from now on it can't vanish without a detach."""

    node_id: str


class Publish(msgspec.Struct, frozen=True):
    """Call ControllerPublishVolume and save the answer."""

    order: PublishOrder


class ConfirmStatus(msgspec.Struct, frozen=True):
    """Save that the status is that of the machine whose node id it carries, after it was that of one which was replaced."""


class Unpublish(msgspec.Struct, frozen=True):
    """Call ControllerUnpublishVolume."""

    order: UnpublishOrder


class RemoveFinalizer(msgspec.Struct, frozen=True):
    """Remove the finalizer from the attachment, then, if it is still there, mark it detached. mark: False leaves the status alone."""

    mark: bool = True


class MarkAttached(msgspec.Struct, frozen=True):
    """Mark it attached without a call (drivers that don't publish)."""


class RemoveVolumeFinalizer(msgspec.Struct, frozen=True):
    """Remove the finalizer from the PersistentVolume."""

    pv_name: str


class ClearError(msgspec.Struct, frozen=True):
    """Remove the attachError from an attachment that is attached."""


class SettlePublish(msgspec.Struct, frozen=True):
    """The attachment tells of the publish that was unconfirmed: its end is a detach from now on."""


class MarkDetached(msgspec.Struct, frozen=True):
    """Save that it is detached, where an earlier try could not."""


class EndUndo(msgspec.Struct, frozen=True):
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
