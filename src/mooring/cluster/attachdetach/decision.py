"""The actions of a decision about a volume on a node, as values."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from mooring.api.core import ObjectReference
from mooring.api.storage import VolumeAttachment
from mooring.cluster.attachdetach.facts import Wish
from mooring.control.decision import Destroys
from mooring.control.topics import Topic


class Note(msgspec.Struct, frozen=True):
    """One event about one pod, or a claim."""

    ref: ObjectReference
    type: str
    reason: str
    message: str


class Create(msgspec.Struct, frozen=True):
    """POST of the volume's attachment to this node."""

    #: The pods that want it. The first one says what the attachment is of, and all of them hear of a failure.
    wishes: tuple[Wish, ...]


class Delete(Destroys, msgspec.Struct, frozen=True):
    """DELETE of this version of the attachment."""

    attachment: VolumeAttachment
    #: "" for a volume that its node does not have mounted, else `timeout` or `out-of-service`.
    forced: str = ""

    @property
    def destroys(self) -> bool:
        """True for a forced detach: the node may still write to the volume."""
        return bool(self.forced)


class Fence(msgspec.Struct, frozen=True):
    """A write to the attachment, after which a DELETE of an earlier version is refused."""

    attachment: VolumeAttachment
    #: The pods that hear of a failure.
    wishes: tuple[Wish, ...] = ()


class MarkWait(msgspec.Struct, frozen=True):
    """The attachment says since when it waits on a node that is not ready, or (begins: False) no longer."""

    attachment: VolumeAttachment
    begins: bool


class LookUpAttachment(msgspec.Struct, frozen=True):
    """A POST was sent and its answer was lost: is the attachment there?"""


class CheckNode(msgspec.Struct, frozen=True):
    """Read the Node anew before an attachment is deleted: it may have the volume mounted by now."""


class LookUpClass(msgspec.Struct, frozen=True):
    """The StorageClass may say how long to wait before a detach is forced."""

    name: str


class Tell(msgspec.Struct, frozen=True):
    """Events, each of which goes out once for a mark, and again after a while."""

    #: What they are about: each pod hears of each subject for itself.
    subject: str
    mark: str
    notes: tuple[Note, ...]
    #: The least time between two of different marks.
    apart_s: float = 0.0


class EndWait(msgspec.Struct, frozen=True):
    """The volume is attached: the pods hear of it, and wait no longer."""

    notes: tuple[Note, ...]


class NoteBlock(msgspec.Struct, frozen=True):
    """The kind of holder that the pods wait for, "" for none any more."""

    kind: str


class MarkReport(msgspec.Struct, frozen=True):
    """The Node's status should list the volume as attached and does not, or lists it and should not."""


Action: TypeAlias = (
    Create
    | Delete
    | Fence
    | MarkWait
    | LookUpAttachment
    | CheckNode
    | LookUpClass
    | Tell
    | EndWait
    | NoteBlock
    | MarkReport
)


def report_written(node: str) -> Topic:
    """The topic that a write of the node's report has ended, one way or another."""
    return f"report/{node}"


def let_go(unique: str) -> Topic:
    """The topic that something has happened to a volume where it is, or may be, attached: other nodes may wait."""
    return f"held/{unique}"
