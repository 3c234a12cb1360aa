"""Actions, and a decision: actions with a reason.

Actions are values; `reconcile.py` carries them out, in order, and the first failure stops the rest.
"""

from __future__ import annotations

import dataclasses

from mooring.api.core import SecretReference
from mooring.control.result import Because, Problem
from mooring.control.topics import Topic
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


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """actions: in order. problem: it keeps the work from being done after them, and goes to the object's status; it is tried again.

    again: after these actions there is more to decide at once.
    volume_handle: the volume of the driver's call, for which the actions have a slot; None for no call.
    needs_slot: a call has to end first, the one about volume_handle, or any for None.
    waits_for: topics, one of which has to be told first. shares: the Secret that somebody reads already; it waits for that.
    detaching: the attachment is being deleted. undoing: an orphaned publish is undone.
    uid: of the object that was decided on; the decision is not about another one under its name.
    done: one line once it is done, with node_id beside it; "" for the reason's own words.
    """

    because: Because
    actions: tuple[Action, ...] = ()
    problem: Problem | None = None
    again: bool = False
    volume_handle: str | None = None
    needs_slot: bool = False
    waits_for: frozenset[Topic] = frozenset()
    shares: SecretReference | None = None
    detaching: bool = False
    undoing: bool = False
    uid: str = ""
    done: str = ""
    node_id: str = ""
