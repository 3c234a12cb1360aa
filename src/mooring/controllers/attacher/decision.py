"""What can be decided: actions, and a decision of them with its reason.

Actions are values; `actions.py` and `writes.py` carry them out, in order, and the first failure stops the rest.
"""

from __future__ import annotations

import dataclasses

from mooring.api.core import SecretReference
from mooring.controllers.attacher import reasons as why
from mooring.controllers.attacher.requests import PublishOrder, UnpublishOrder


@dataclasses.dataclass(frozen=True, slots=True)
class HoldVolume:
    """Put the finalizer on the PersistentVolume, so that what a detach needs to know stays."""

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
    """Fetch the Secret that the next call needs."""

    ref: SecretReference


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """Write finalizer and node id to the attachment: from here on it can't vanish without a detach."""

    node_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class Publish:
    """Call ControllerPublishVolume and save what it answers."""

    order: PublishOrder


@dataclasses.dataclass(frozen=True, slots=True)
class ConfirmStatus:
    """Save that the status tells of the machine that is claimed, after it told of one that was replaced."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unpublish:
    """Call ControllerUnpublishVolume."""

    order: UnpublishOrder


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """Take the finalizer off the attachment, then, if it is still there, mark it detached. mark: False leaves the status alone."""

    mark: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class MarkAttached:
    """Mark it attached without a call (drivers that don't publish)."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReleaseVolume:
    """Take the finalizer off the PersistentVolume."""

    pv_name: str


@dataclasses.dataclass(frozen=True, slots=True)
class ClearError:
    """Take the attachError off an attachment that is attached."""


@dataclasses.dataclass(frozen=True, slots=True)
class MarkDetached:
    """Save that it is detached, where an earlier try could not."""


Action = (
    HoldVolume
    | LookUpVolume
    | LookUpNode
    | LoadSecret
    | Claim
    | Publish
    | ConfirmStatus
    | Unpublish
    | Release
    | MarkAttached
    | ReleaseVolume
    | ClearError
    | MarkDetached
)


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """actions: in order. problem: what keeps the work from being done after them, for the object's status; it is tried again.

    again: after these actions there is more to decide at once.
    volume_handle: the volume that the driver is called for, which the actions have for themselves alone; None for none.
    uid: of the object that was looked at: another one under its name is none of this decision's business.
    """

    because: why.Because
    actions: tuple[Action, ...] = ()
    problem: why.Problem | None = None
    again: bool = False
    volume_handle: str | None = None
    detaching: bool = False
    uid: str = ""
