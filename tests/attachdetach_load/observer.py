"""The rules that hold at every moment, judged by the versions of the objects that a watch has shown, and by the
driver's journal.

The versions of one etcd order the changes of all kinds. A rule about a deletion is judged by the Node as it was stored
at that version.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from mooring.api.core import Node
from mooring.api.meta import is_deleting
from mooring.api.storage import VolumeAttachment
from mooring.api.volume_names import unique_name
from mooring.kube.cluster import EventType, WatchEvent
from tests.attachdetach_load.kubelets import Mount
from tests.support.builders import DRIVER
from tests.support.unreliable_driver import PUBLISH, Journal


@dataclasses.dataclass(frozen=True, slots=True)
class NodeState:
    """A Node's lists as of a version, by the volumes' names there."""

    version: int
    in_use: frozenset[str] = frozenset()
    attached: frozenset[str] = frozenset()


@dataclasses.dataclass(slots=True)
class Life:
    """An attachment from its creation to its end, in versions; infinite for what has not come. attached: the spans in
    which it was.
    """

    name: str
    node: str
    handle: str
    made: float
    deleted: float = math.inf
    gone: float = math.inf
    attached: list[list[float]] = dataclasses.field(default_factory=list)

    @property
    def ended(self) -> float:
        return min(self.deleted, self.gone)

    def is_attached_at(self, version: float) -> bool:
        return version < self.ended and any(began < version <= ended for began, ended in self.attached)


class Observer:
    """handle_of: of a PersistentVolume. single: the handles of volumes for one node."""

    def __init__(self, single: set[str]) -> None:
        self.single = single
        self.nodes: dict[str, list[NodeState]] = defaultdict(list)
        self.lives: dict[str, Life] = {}
        self.mounts: list[Mount] = []

    # -- what it sees

    def saw_node(self, event: WatchEvent[Node]) -> None:
        node = event.object
        assert node is not None
        in_use = frozenset(node.status.volumes_in_use or ())
        attached = frozenset(one.name for one in node.status.volumes_attached or ())
        self.nodes[node.metadata.name].append(NodeState(int(event.resource_version), in_use, attached))

    def saw_attachment(self, event: WatchEvent[VolumeAttachment]) -> None:
        """The volumes of the load have the names of their handles."""
        one, version = event.object, float(event.resource_version)
        assert one is not None
        life = self.lives.setdefault(
            one.metadata.uid,
            Life(one.metadata.name, one.spec.node_name, one.spec.source.persistent_volume_name or "", version),
        )
        if event.type is EventType.DELETED:
            life.gone = version
        elif is_deleting(one):
            life.deleted = min(life.deleted, version)
        is_open = bool(life.attached) and math.isinf(life.attached[-1][1])
        if one.status.attached and not is_open and event.type is not EventType.DELETED:
            life.attached.append([version, math.inf])
        elif not one.status.attached and is_open:
            life.attached[-1][1] = version

    @property
    def attachments(self) -> int:
        """How many there are."""
        return sum(math.isinf(life.gone) for life in self.lives.values())

    # -- what must not have happened

    def broken(self, journal: Journal) -> list[str]:
        """Empty when every rule held all the time."""
        return [
            *self._on_two_nodes(),
            *(text for life in self.lives.values() for text in self._torn(life)),
            *(text for node in self.nodes for text in self._told_wrongly(node)),
            *journal.on_two_nodes(self.single),
            *_mounted_without(journal, self.mounts),
        ]

    def _on_two_nodes(self) -> Iterator[str]:
        """Attachments of one volume for one node that were there at once, those being deleted included."""
        by_handle: dict[str, list[Life]] = defaultdict(list)
        for life in self.lives.values():
            if life.handle in self.single:
                by_handle[life.handle].append(life)
        for handle, lives in by_handle.items():
            lives.sort(key=lambda life: life.made)
            for number, life in enumerate(lives):
                others = (other for other in lives[:number] if other.gone > life.made and other.node != life.node)
                yield from (
                    f"{handle} had attachments for {other.node} and {life.node} at {life.made:.0f}" for other in others
                )

    def _torn(self, life: Life) -> Iterator[str]:
        """Its deletion found the volume in the report of the node, or in use there ever since the report had let go of
        it.
        """
        if math.isinf(life.ended):
            return
        volume, states = unique_name(DRIVER, life.handle), self.nodes[life.node]
        last = bisect.bisect_left(states, life.ended, key=lambda state: state.version) - 1
        if last < 0:
            return
        if volume in states[last].attached:
            yield f"{life.handle} was deleted at {life.ended:.0f} while {life.node} was told that it is attached"
        if all(volume in state.in_use for state in _since_told(states[: last + 1], volume, life.made)):
            yield f"{life.handle} was deleted at {life.ended:.0f} while {life.node} had it in use"

    def _told_wrongly(self, node: str) -> Iterator[str]:
        """A volume came into the report without an attachment that was attached."""
        by_volume: dict[str, list[Life]] = defaultdict(list)
        for life in self.lives.values():
            if life.node == node:
                by_volume[unique_name(DRIVER, life.handle)].append(life)
        before: frozenset[str] = frozenset()
        for state in self.nodes[node]:
            for volume in state.attached - before:
                if not any(life.is_attached_at(state.version) for life in by_volume[volume]):
                    yield f"{node} was told of {volume} at {state.version}, which was not attached"
            before = state.attached


def _since_told(states: Sequence[NodeState], volume: str, made: float) -> Sequence[NodeState]:
    """The states since the report let go of the volume; since the attachment was made, where the report never had
    it.
    """
    for number in range(len(states) - 1, 0, -1):
        if volume in states[number - 1].attached and volume not in states[number].attached:
            return states[number:]
        if states[number].version < made:
            return states[number:]
    return states


def _mounted_without(journal: Journal, mounts: Sequence[Mount]) -> Iterator[str]:
    """Mounts that began where the driver had not published the volume, or lasted while it was taken away."""
    changes: dict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
    for event in journal.events:
        if event["event"] == "effect":
            changes[event["volume"], event["node"].removeprefix("id-")].append((event["t"], event["method"] == PUBLISH))
    for mount in mounts:
        found = changes[mount.handle, mount.node]
        before = [published for t, published in found if t < mount.began_s]
        if not before or not before[-1]:
            yield f"{mount.handle} was mounted on {mount.node} at {mount.began_s:.3f}, and not published there"
        torn = (t for t, published in found if mount.began_s <= t < mount.ended_s and not published)
        yield from (f"{mount.handle} was taken from {mount.node} at {t:.3f}, and was mounted there" for t in torn)
