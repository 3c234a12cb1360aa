"""The driver's state: volumes, snapshots, publications. A `State` never changes: one can be written to disk while the
next is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

_ID: Final = re.compile(r"(vol|snap|group)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_volume_id(text: str) -> bool:
    """True for an id of the form we give; nothing else ever becomes the name of a folder."""
    return text.startswith("vol-") and _ID.fullmatch(text) is not None


def is_snapshot_id(text: str) -> bool:
    return text.startswith("snap-") and _ID.fullmatch(text) is not None


def is_group_id(text: str) -> bool:
    return text.startswith("group-") and _ID.fullmatch(text) is not None


class Publication(msgspec.Struct, frozen=True):
    """A volume's place on one node. mode: number of the CSI access mode; number: counts publications from 1, never
    reused.
    """

    node_id: str
    mode: int
    readonly: bool
    number: int


class Target(msgspec.Struct, frozen=True):
    """A path that a volume is published at on a node. mode: number of the CSI access mode."""

    path: str
    mode: int
    readonly: bool


class Use(msgspec.Struct, frozen=True):
    """A volume on one node: what may be mounted there. staging_path: "" where nothing is staged. Written before
    anything is mounted.
    """

    node_id: str
    staging_path: str = ""
    targets: tuple[Target, ...] = ()

    def at(self, path: str) -> Target | None:
        return next((one for one in self.targets if one.path == path), None)

    def with_target(self, target: Target) -> Use:
        return msgspec.structs.replace(self, targets=(*self.without_target(target.path).targets, target))

    def without_target(self, path: str) -> Use:
        return msgspec.structs.replace(self, targets=tuple(one for one in self.targets if one.path != path))


class Volume(msgspec.Struct, frozen=True):
    """A folder, or a file when it is a block volume or the image of a file system.

    parameters: those it was created with; they are its volume_context. kind: of the storage that it takes room from, ""
    where there is one kind only. segments: the topology it can be reached in, none for everywhere. source_id: the
    volume or snapshot whose data it began with. is_filling: that data is still on its way, and nobody was told the id.
    published: sorted by node_id. is_image: a file with a file system in it. uses: what nodes have of it, sorted by
    node_id. inline_id: a pod's own volume, as its caller knows it.
    """

    id: str
    name: str
    capacity_bytes: int
    parameters: Mapping[str, str]
    published: tuple[Publication, ...] = ()
    is_block: bool = False
    kind: str = ""
    segments: Mapping[str, str] = msgspec.field(default_factory=dict)
    mutable_parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    source_id: str = ""
    is_filling: bool = False
    is_image: bool = False
    uses: tuple[Use, ...] = ()
    inline_id: str = ""

    @property
    def is_file(self) -> bool:
        return self.is_block or self.is_image

    @property
    def size_bytes(self) -> int:
        """The same as a snapshot's."""
        return self.capacity_bytes

    def use_on(self, node_id: str) -> Use | None:
        """The node's use of the volume."""
        return next((one for one in self.uses if one.node_id == node_id), None)

    def used(self, use: Use) -> Volume:
        """The volume with this use in place of the node's former one; a use of nothing is left out."""
        others = [one for one in self.uses if one.node_id != use.node_id]
        kept = [*others, use] if use.staging_path or use.targets else others
        return msgspec.structs.replace(self, uses=tuple(sorted(kept, key=lambda one: one.node_id)))

    def on(self, node_id: str) -> Publication | None:
        """Its publication on this node."""
        return next((one for one in self.published if one.node_id == node_id), None)

    def published_on(self, publication: Publication) -> Volume:
        """The volume with one publication more, or a newer one for the same node."""
        others = (one for one in self.published if one.node_id != publication.node_id)
        return msgspec.structs.replace(
            self, published=tuple(sorted((*others, publication), key=lambda one: one.node_id))
        )

    def unpublished_from(self, node_id: str) -> Volume:
        kept = tuple(one for one in self.published if node_id and one.node_id != node_id)
        return msgspec.structs.replace(self, published=kept)

    def grown_to(self, capacity_bytes: int) -> Volume:
        return msgspec.structs.replace(self, capacity_bytes=capacity_bytes)

    def modified(self, mutable_parameters: Mapping[str, str]) -> Volume:
        """The volume with these parameters set; others stay as they are."""
        return msgspec.structs.replace(self, mutable_parameters={**self.mutable_parameters, **mutable_parameters})


class Snapshot(msgspec.Struct, frozen=True):
    """A copy of a volume's data.

    source_id: the volume. taken_ns, ready_ns: since the epoch. is_filling, is_image: as with volumes. group_id: "" for
    one of its own.
    """

    id: str
    name: str
    source_id: str
    size_bytes: int
    is_block: bool
    taken_ns: int
    ready_ns: int
    is_filling: bool = False
    is_image: bool = False
    group_id: str = ""

    @property
    def is_file(self) -> bool:
        return self.is_block or self.is_image


class Group(msgspec.Struct, frozen=True):
    """Snapshots of several volumes, taken together. source_ids, snapshot_ids: sorted by source."""

    id: str
    name: str
    source_ids: tuple[str, ...]
    snapshot_ids: tuple[str, ...]
    taken_ns: int


class State(msgspec.Struct, frozen=True):
    """deleting: ids without record whose data may still exist. Lookups scan: each change copies, encodes and writes all
    volumes anyway.
    """

    volumes: Mapping[str, Volume] = msgspec.field(default_factory=dict)
    deleting: tuple[str, ...] = ()
    publication_count: int = 0
    snapshots: Mapping[str, Snapshot] = msgspec.field(default_factory=dict)
    groups: Mapping[str, Group] = msgspec.field(default_factory=dict)

    def named(self, name: str) -> Volume | None:
        return next((volume for volume in self.volumes.values() if volume.name == name), None)

    def snapshot_named(self, name: str) -> Snapshot | None:
        return next((snapshot for snapshot in self.snapshots.values() if snapshot.name == name), None)

    def group_named(self, name: str) -> Group | None:
        return next((group for group in self.groups.values() if group.name == name), None)

    def inline(self, inline_id: str) -> Volume | None:
        """A pod's own volume, by its caller's id."""
        return next((volume for volume in self.volumes.values() if inline_id and volume.inline_id == inline_id), None)

    def owner(self, record_id: str) -> Volume | Snapshot | None:
        """The record that this id belongs to."""
        return self.volumes.get(record_id) or self.snapshots.get(record_id)

    def filling(self) -> Iterator[Volume | Snapshot]:
        """The volumes and snapshots whose data is still on its way."""
        yield from (one for one in self.volumes.values() if one.is_filling)
        yield from (one for one in self.snapshots.values() if one.is_filling)

    def published_count(self, node_id: str) -> int:
        return sum(volume.on(node_id) is not None for volume in self.volumes.values())

    def with_volume(self, volume: Volume) -> State:
        """The volume added, or put in the place of its former record."""
        return msgspec.structs.replace(self, volumes={**self.volumes, volume.id: volume})

    def with_snapshot(self, snapshot: Snapshot) -> State:
        return msgspec.structs.replace(self, snapshots={**self.snapshots, snapshot.id: snapshot})

    def with_group(self, group: Group) -> State:
        return msgspec.structs.replace(self, groups={**self.groups, group.id: group})

    def without_group(self, group_id: str) -> State:
        """The group's record is gone; its snapshots stay."""
        return msgspec.structs.replace(
            self, groups={key: group for key, group in self.groups.items() if key != group_id}
        )

    def dissolved(self, group_id: str) -> State:
        """Group and snapshots gone, the snapshots' data still to go."""
        state = self.without_group(group_id)
        for snapshot_id in self.groups[group_id].snapshot_ids:
            state = state.without(snapshot_id) if snapshot_id in state.snapshots else state
        return state

    def broken_groups(self) -> Iterator[str]:
        """The groups that lack a snapshot: one of their copies failed, or was cut off."""
        yield from (one.id for one in self.groups.values() if not self.snapshots.keys() >= set(one.snapshot_ids))

    def with_publication(self, volume: Volume, node_id: str, mode: int, *, readonly: bool) -> State:
        """The volume published on one node more, under the next number."""
        number = self.publication_count + 1
        published = volume.published_on(Publication(node_id, mode, readonly, number))
        return msgspec.structs.replace(self.with_volume(published), publication_count=number)

    def filled(self, record_id: str) -> State:
        """The volume or snapshot has its data."""
        record = self.owner(record_id)
        assert record is not None
        assert record.is_filling
        whole = msgspec.structs.replace(record, is_filling=False)
        return self.with_volume(whole) if isinstance(whole, Volume) else self.with_snapshot(whole)

    def without(self, record_id: str) -> State:
        """The record of a volume or snapshot gone, its data still to go."""
        volumes = {key: volume for key, volume in self.volumes.items() if key != record_id}
        snapshots = {key: snapshot for key, snapshot in self.snapshots.items() if key != record_id}
        return msgspec.structs.replace(self, volumes=volumes, snapshots=snapshots, deleting=(*self.deleting, record_id))

    def forgotten(self, record_id: str) -> State:
        """The data is gone too."""
        return msgspec.structs.replace(self, deleting=tuple(one for one in self.deleting if one != record_id))
