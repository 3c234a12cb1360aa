"""The actions of a decision about a volume, as values: its steps, each on one node with actions of its own."""

from __future__ import annotations

import dataclasses
from typing import Final, TypeAlias

from mooring.api.core import ObjectReference, PersistentVolumeSpec
from mooring.cluster.attachdetach.facts import Volume
from mooring.control.decision import Changing
from mooring.control.result import Because
from mooring.control.topics import Topic


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    """POST of the volume's attachment to this node. inline: the volume's spec, for one that a pod itself defines."""

    node: str
    pv_name: str
    inline: PersistentVolumeSpec | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    """forced: "" for a volume that its node does not have mounted, else `timeout` or `out-of-service`."""

    node: str
    name: str
    uid: str
    forced: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class LookUpAttachment:
    """A POST was sent and its answer was lost: is the attachment there?"""

    node: str


@dataclasses.dataclass(frozen=True, slots=True)
class CheckNode:
    """Whether the node has the volume mounted is asked anew before an attachment is deleted."""

    node: str


@dataclasses.dataclass(frozen=True, slots=True)
class LookUpClass:
    """The StorageClass may say how long to wait before a detach is forced."""

    node: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """One event about one pod."""

    ref: ObjectReference
    type: str
    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Tell:
    """Events, and what is remembered of having told them. ends_wait: the pods wait no longer."""

    node: str
    subject: str
    mark: str
    notes: tuple[Note, ...]
    ends_wait: bool = False


Action: TypeAlias = Create | Delete | LookUpAttachment | CheckNode | LookUpClass | Tell


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
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


@dataclasses.dataclass(frozen=True, slots=True)
class MarkReports:
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
