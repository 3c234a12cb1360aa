"""The objects that were read for one explanation, and what could not be seen. Everything that judges reads a `Scene`,
and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from mooring.api.coordination import Lease
from mooring.api.core import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim
from mooring.api.group_snapshot import VolumeGroupSnapshot, VolumeGroupSnapshotClass, VolumeGroupSnapshotContent
from mooring.api.meta import ApiStruct, Key, Kind, Object, ObjectMeta, key_of
from mooring.api.pods import Pod
from mooring.api.snapshot import VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent
from mooring.api.storage import CSIDriver, CSINode, StorageClass, VolumeAttachment, VolumeAttributesClass
from mooring.base.clock import seconds_of

T = TypeVar("T", bound=Object)


class EventSource(ApiStruct, frozen=True):
    component: str = ""


class EventSeries(ApiStruct, frozen=True):
    count: int = 0
    last_observed_time: str | None = None


class SeenEvent(ApiStruct, frozen=True):
    """An Event with its times and its author, which controllers have no use for."""

    metadata: ObjectMeta
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""

    @property
    def last_s(self) -> float:
        """When it was last seen, in seconds since 1970; 0 where it does not say."""
        series = self.series.last_observed_time if self.series else None
        return seconds_of(series or self.last_timestamp or self.event_time or self.metadata.creation_timestamp)

    @property
    def first_s(self) -> float:
        return seconds_of(self.first_timestamp or self.event_time or self.metadata.creation_timestamp)


class Shelf(Generic[T]):
    """Objects of one kind that were read, as a cache shows them to a judgement. indexes: as of a Store."""

    def __init__(self, indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._indexes = indexes or {}
        self._built: dict[str, dict[str, tuple[T, ...]]] = {}  # until another object comes

    def put(self, obj: T) -> None:
        self._objects[key_of(obj)] = obj
        self._built.clear()

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def count(self, index: str, value: str) -> int:
        return len(self.by(index, value))

    def by(self, index: str, value: str) -> tuple[T, ...]:
        if index not in self._built:
            found: dict[str, list[T]] = {}
            for one in self._objects.values():
                for about in dict.fromkeys(self._indexes[index](one)):
                    found.setdefault(about, []).append(one)
            self._built[index] = {about: tuple(ones) for about, ones in found.items()}
        return self._built[index].get(value, ())

    def values(self) -> tuple[T, ...]:
        return tuple(self._objects.values())


class Unseen(msgspec.Struct, frozen=True):
    """what: `persistentvolume "pv-1"`. why: the API server's refusal."""

    what: str
    why: str


class Scene:
    """now_s: seconds since 1970. indexes: those that the judgements of other rooms ask for, by kind."""

    def __init__(
        self, now_s: float, indexes: Mapping[str, Mapping[str, Callable[[Any], Iterable[str]]]] | None = None
    ) -> None:
        wanted = indexes or {}
        self.now_s = now_s
        self.pods: Shelf[Pod] = Shelf(wanted.get("pods"))
        self.claims: Shelf[PersistentVolumeClaim] = Shelf(wanted.get("claims"))
        self.volumes: Shelf[PersistentVolume] = Shelf(wanted.get("volumes"))
        self.attachments: Shelf[VolumeAttachment] = Shelf(wanted.get("attachments"))
        self.classes: Shelf[StorageClass] = Shelf()
        self.attributes_classes: Shelf[VolumeAttributesClass] = Shelf()
        self.drivers: Shelf[CSIDriver] = Shelf()
        self.nodes: Shelf[Node] = Shelf()
        self.csi_nodes: Shelf[CSINode] = Shelf()
        self.leases: Shelf[Lease] = Shelf()
        self.snapshots: Shelf[VolumeSnapshot] = Shelf(wanted.get("snapshots"))
        self.contents: Shelf[VolumeSnapshotContent] = Shelf(wanted.get("contents"))
        self.snapshot_classes: Shelf[VolumeSnapshotClass] = Shelf()
        self.groups: Shelf[VolumeGroupSnapshot] = Shelf(wanted.get("groups"))
        self.group_contents: Shelf[VolumeGroupSnapshotContent] = Shelf(wanted.get("group_contents"))
        self.group_classes: Shelf[VolumeGroupSnapshotClass] = Shelf()
        self.unseen: list[Unseen] = []
        self.not_served: set[str] = set()  # plural names
        self.group_version: Callable[[], str] = lambda: "v1"
        """The version of the kinds of group snapshots that the cluster serves."""
        self._hidden: set[tuple[str, Key]] = set()
        self._events: dict[str, tuple[SeenEvent, ...]] = {}

    def hide(self, kind: Kind[Any], key: Key, why: str) -> None:
        """Notes that an object may be there, and could not be seen."""
        self._hidden.add((kind.plural, key))
        self.unseen.append(Unseen(f'{kind.name.lower()} "{key}"', why))

    def is_hidden(self, kind: Kind[Any], key: Key) -> bool:
        return (kind.plural, key) in self._hidden

    def put_events(self, uid: str, events: Iterable[SeenEvent]) -> None:
        self._events[uid] = tuple(sorted(events, key=lambda one: one.last_s, reverse=True))

    def events(self, obj: Object, *reasons: str) -> tuple[SeenEvent, ...]:
        """The Events of an object with one of the reasons (any, for none), the newest first."""
        return self.events_of(obj.metadata.uid, *reasons)

    def events_of(self, uid: str, *reasons: str) -> tuple[SeenEvent, ...]:
        return tuple(one for one in self._events.get(uid, ()) if not reasons or one.reason in reasons)

    def age_s(self, obj: Object) -> float:
        return max(0.0, self.now_s - seconds_of(obj.metadata.creation_timestamp))
