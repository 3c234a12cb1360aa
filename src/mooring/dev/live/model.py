"""The view's model: fed by what happens, it gives a board at any moment. No clock of its own, no I/O.

It makes the rows of nodes, and of snapshots that are not ready yet or are being deleted; a ready one waits for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Final

import msgspec

from mooring.api.binding import is_finished
from mooring.api.core import Node, Taint
from mooring.api.meta import is_deleting, key_of
from mooring.api.snapshot import VolumeSnapshot
from mooring.api.storage import CSINode
from mooring.base.clock import Instant
from mooring.control.result import Because
from mooring.dev.live.board import Board, MountBoard, NodeRow, ObjectBoard, ReasonBoard, Since, VolumeRow, state_of
from mooring.dev.live.volumes import VolumeRows
from mooring.driver.guard import CallRecord


class Model:
    """One for all who view the plane. when_changed: called after each event that may change the board."""

    def __init__(self, *when_changed: Callable[[], None]) -> None:
        self._when_changed = when_changed
        self._reasons, self._mounts, self._since = ReasonBoard(), MountBoard(), Since()

    def changed(self) -> None:
        """The board may be another."""
        for act in self._when_changed:
            act()

    def called(self, record: CallRecord, who: str) -> None:
        """A call to the driver has ended. who: the called part, a node's name for its agent's calls."""
        self._mounts.called(record, who)
        self.changed()

    def explained(self, who: str, queue: str, key: Hashable, because: Because, now: Instant) -> None:
        """A controller has decided about a key."""
        self._reasons.note(who, queue, key, because, now)
        self.changed()

    def lost(self, node: str) -> None:
        """The power of a node was cut."""
        self._mounts.lost(node)
        self.changed()

    def board(self, objects: ObjectBoard, now: Instant) -> Board:
        nodes = tuple(node_rows(objects))
        of_volumes = VolumeRows(objects, self._mounts, self._reasons, now).all()
        volumes = (*of_volumes, *snapshot_rows(objects, self._reasons, now))
        states = [*((row.name, row.state) for row in nodes), *((row.key, (row.stage, row.waits)) for row in volumes)]
        ages = self._since.ages(states, now)
        return Board(
            tuple(row if row.is_well else msgspec.structs.replace(row, for_s=ages[row.name]) for row in nodes),
            tuple(msgspec.structs.replace(row, for_s=ages[row.key]) if row.waits else row for row in volumes),
        )


ZONE: Final = "topology.kubernetes.io/zone"
_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")
"""The one that hinders most first."""


def node_rows(objects: ObjectBoard) -> Iterator[NodeRow]:
    """By name."""
    csi_nodes = {one.metadata.name: one for one in objects.csi_nodes}
    attached = Counter(one.spec.node_name for one in objects.attachments if one.status.attached)
    pods = Counter(pod.spec.node_name for pod in objects.pods if not is_finished(pod))
    for node in sorted(objects.nodes, key=lambda one: one.metadata.name):
        name = node.metadata.name
        csi_node = csi_nodes.get(name)
        yield NodeRow(
            name,
            state_of(node),
            _zone(node, csi_node),
            attached[name],
            _limit(csi_node),
            pods[name],
            tuple(_taints(node)),
        )


def _zone(node: Node, csi_node: CSINode | None) -> str:
    """Its zone, or its place in the drivers' own topology."""
    labels = node.metadata.labels or {}
    keys = [
        ZONE,
        *(key for driver in (csi_node.spec.drivers if csi_node else None) or () for key in driver.topology_keys or ()),
    ]
    places = [labels[key] for key in dict.fromkeys(keys) if key in labels and key != "kubernetes.io/hostname"]
    return "/".join(places[:1] if ZONE in labels else dict.fromkeys(places))


def _limit(csi_node: CSINode | None) -> int | None:
    """The limit of all drivers together; None if one has no limit."""
    counts = [
        driver.allocatable.count if driver.allocatable else None
        for driver in (csi_node.spec.drivers if csi_node else None) or ()
    ]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _taints(node: Node) -> Iterator[str]:
    """Each key once, with the effect that hinders most."""
    effects: dict[str, list[str]] = {}
    for taint in node.spec.taints or ():
        effects.setdefault(_short(taint), []).append(taint.effect)
    for name, given in sorted(effects.items()):
        yield f"{name}:{next((one for one in _EFFECTS if one in given), given[0])}"
    if node.spec.unschedulable and "unschedulable" not in effects:
        yield "unschedulable"


def _short(taint: Taint) -> str:
    """Kubernetes' own without their domain."""
    domain, _, name = taint.key.rpartition("/")
    return name if domain == "node.kubernetes.io" else taint.key


CONTROLLER, SNAPSHOTTER = "snapshot-controller", "snapshotter"
"""The parts of the plane whose reasons are shown, by their names in the story."""
_QUEUE: Final = "snapshot-controller-snapshot"
_CONTENTS: Final = "csi-snapshotter-content"


def snapshot_rows(objects: ObjectBoard, reasons: ReasonBoard, now: Instant) -> Iterator[VolumeRow]:
    """By name, in the columns of volumes: the snapshot stands for the claim, its content for the volume."""
    for one in sorted(objects.snapshots, key=key_of):
        stage = "Deleting" if is_deleting(one) else "" if _is_ready(one) else "Creating"
        if stage:
            content = (one.status.bound_volume_snapshot_content_name if one.status else None) or ""
            yield VolumeRow(
                f"snapshot {key_of(one).name}", content, "", stage, _text(one, content, reasons, now), waits=True
            )


def _text(one: VolumeSnapshot, content: str, reasons: ReasonBoard, now: Instant) -> str:
    error = one.status.error if one.status is not None else None
    if error is not None and error.message:
        return error.message
    return reasons.text(SNAPSHOTTER, _CONTENTS, content, now) or reasons.text(CONTROLLER, _QUEUE, key_of(one), now)


def _is_ready(one: VolumeSnapshot) -> bool:
    return one.status is not None and one.status.ready_to_use is True
