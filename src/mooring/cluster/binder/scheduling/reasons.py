"""Every reason why a pod has no node yet, byte for byte as kube-scheduler words it where it has a text for it."""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

import msgspec

from mooring.cluster.binder.reasons import EventText
from mooring.control.reasons import reason
from mooring.control.result import Because

BOUND_TO_NOTHING: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
AFFINITY: Final = "node(s) didn't match PersistentVolume's node affinity"
CONFLICT: Final = "node(s) didn't find available persistent volumes to bind"
FULL: Final = "node(s) did not have enough free storage"
DISK: Final = "node(s) had no available disk"
LIMIT: Final = "node(s) exceed max volume count"
RWOP: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
ZONE: Final = "node(s) had no available volume zone"
UNSCHEDULABLE: Final = "node(s) were unschedulable"
TAINTED: Final = "node(s) had untolerated taint(s)"
SELECTOR: Final = "node(s) didn't match Pod's node affinity/selector"
NOT_READY: Final = "node(s) were not ready"
VOLUME_BINDING: Final = 'PreBind plugin "VolumeBinding"'
BINDER: Final = 'Bind plugin "DefaultBinder"'
NO_NODES: Final = "no nodes available to schedule pods"


class Refusal(Because, Protocol):
    """The reason that a pod gets no node now. condition: the reason of its condition PodScheduled."""

    @property
    def condition(self) -> str: ...
    @property
    def event(self) -> EventText: ...


class NothingToDo(msgspec.Struct, frozen=True):
    why: str

    def __str__(self) -> str:
        return self.why


class Rejected(msgspec.Struct, frozen=True):
    """No node is suitable. nodes: how many there are. pod: the problem on any node; else reasons: of each node."""

    nodes: int
    pod: str = ""
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.nodes:
            return NO_NODES
        causes = self.pod or ", ".join(sorted(f"{count} {reason}" for reason, count in Counter(self.reasons).items()))
        return f"0/{self.nodes} nodes are available: {causes}."

    @property
    def condition(self) -> str:
        return "Unschedulable"

    @property
    def event(self) -> EventText:
        return EventText("Warning", "FailedScheduling", str(self))


@reason("running {plugin}: {why}")
class BindingFailed:
    """A node was chosen, and the pod was not bound to it; it is tried again, perhaps with another node.

    plugin: the one of kube-scheduler that would have failed.
    """

    why: str
    plugin: str = VOLUME_BINDING

    @property
    def condition(self) -> str:
        return "SchedulerError"

    @property
    def event(self) -> EventText:
        return EventText("Warning", "FailedScheduling", str(self))

    @property
    def error(self) -> str:
        return str(self)


@reason('it goes to node "{node_name}"')
class GoesTo:
    node_name: str


class WaitsForVolumes(msgspec.Struct, frozen=True):
    node_name: str
    claims: tuple[str, ...]

    def __str__(self) -> str:
        return f'it goes to node "{self.node_name}" as soon as its claims are bound: {", ".join(self.claims)}'
