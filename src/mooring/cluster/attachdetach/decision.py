"""The actions of a decision about a volume, as values: its steps, each on one node with actions of its own."""

from __future__ import annotations

import dataclasses
from typing import Final, TypeAlias

import msgspec

from mooring.api.core import ObjectReference, PersistentVolumeSpec
from mooring.cluster.attachdetach.facts import Volume
from mooring.control.decision import Changing
from mooring.control.result import Because
from mooring.control.topics import Topic


class Create(msgspec.Struct, frozen=True):
    """POST of the volume's attachment to this node. inline: the volume's spec, for one that a pod itself defines."""

    node: str
    pv_name: str
    inline: PersistentVolumeSpec | None = None


class Delete(msgspec.Struct, frozen=True):
    """forced: "" for a volume that its node does not have mounted, else `timeout` or `out-of-service`."""

    node: str
    name: str
    uid: str
    forced: str = ""


class LookUpAttachment(msgspec.Struct, frozen=True):
    """A POST was sent and its answer was lost: is the attachment there?"""

    node: str


class CheckNode(msgspec.Struct, frozen=True):
    """Whether the node has the volume mounted is asked anew before an attachment is deleted."""

    node: str


class LookUpClass(msgspec.Struct, frozen=True):
    """The StorageClass may say how long to wait before a detach is forced."""

    node: str
    name: str


class Note(msgspec.Struct, frozen=True):
    """One event about one pod."""

    ref: ObjectReference
    type: str
    reason: str
    message: str


class Tell(msgspec.Struct, frozen=True):
    """Events, and what is remembered of having told them. ends_wait: the pods wait no longer."""

    node: str
    subject: str
    mark: str
    notes: tuple[Note, ...]
    ends_wait: bool = False


Action: TypeAlias = Create | Delete | LookUpAttachment | CheckNode | LookUpClass | Tell


class Step(msgspec.Struct, frozen=True):
    """What to do about a volume on one node.

    again: the actions only ask: decide anew with what they found. wake_s: seconds until it is looked at again. waits_for: topics.
    blocked_by: the kind of holder that a pod waits for, "" for none.
    """

    node: str
    because: Because
    actions: tuple[Action, ...] = ()
    again: bool = False
    wake_s: float | None = None
    waits_for: frozenset[Topic] = frozenset()
    blocked_by: str = ""


class MarkReports(msgspec.Struct, frozen=True):
    """The status of these nodes tells something else of the volume than it should."""

    nodes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class TakeSteps(Changing):
    """The steps of the volume on all its nodes, side by side: a failure holds up its own node alone."""

    volume: Volume = dataclasses.field(repr=False)
    steps: tuple[Step, ...]

    def kept(self) -> TakeSteps:
        """Without the volume, whose records change; the steps say what was decided."""
        return TakeSteps(_NO_VOLUME, self.steps)


_NO_VOLUME: Final = Volume("", "", "")

VolumeAction: TypeAlias = MarkReports | TakeSteps


def report_written(node: str) -> Topic:
    """Told when a write of the node's report has ended, one way or another."""
    return f"report/{node}"
