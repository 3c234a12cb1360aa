"""What can be decided: actions, and a decision of them with its reason.

Actions are values; `reconcile.py` carries them out, in order, and the first failure stops the rest.
"""

from __future__ import annotations

import dataclasses

from mooring.api.core import SecretReference
from mooring.control.result import Because
from mooring.control.topics import Topic
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


@dataclasses.dataclass(frozen=True, slots=True)
class EndUndo:
    """The publish that was left behind has been taken back, or is another attachment's business."""


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
    | EndUndo
)


def idle(volume_handle: str) -> Topic:
    """Told when the driver's call about a volume is over."""
    return f"idle/{volume_handle}"


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """actions: in order. problem: what keeps the work from being done after them, for the object's status; it is tried again.

    again: after these actions there is more to decide at once.
    volume_handle: the volume that the driver is called for, which the actions have for themselves alone; None for none.
    waits: a call has to end first, the one about volume_handle, or any for None.
    waits_for: topics, one of which has to be told first.
    detaching: the attachment is being deleted. undoing: it is another one's publish that is taken back.
    uid: of the object that was looked at: another one under its name is none of this decision's business.
    done: one line once it is done, with node_id beside it; "" for the reason's own words.
    """

    because: Because
    actions: tuple[Action, ...] = ()
    problem: why.Problem | None = None
    again: bool = False
    volume_handle: str | None = None
    waits: bool = False
    waits_for: frozenset[Topic] = frozenset()
    detaching: bool = False
    undoing: bool = False
    uid: str = ""
    done: str = ""
    node_id: str = ""
