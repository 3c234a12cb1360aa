"""What the host-path driver knows: its volumes, and where they are published. Values, no files.

A `State` is never changed; each change gives a new one, so that one can be on its way to the disk while the next is made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

FORMAT: Final = 1
_VOLUME_ID: Final = re.compile(r"vol-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_volume_id(text: str) -> bool:
    """True for an id of the form we give; nothing else ever becomes the name of a folder."""
    return _VOLUME_ID.fullmatch(text) is not None


class Publication(msgspec.Struct, frozen=True):
    """A volume's place on one node. mode: number of the CSI access mode; number: counts publications from 1, never reused."""

    node_id: str
    mode: int
    readonly: bool
    number: int


class Volume(msgspec.Struct, frozen=True):
    """parameters: those it was created with; they are its volume_context. published: sorted by node_id."""

    id: str
    name: str
    capacity_bytes: int
    parameters: Mapping[str, str]
    published: tuple[Publication, ...] = ()

    def on(self, node_id: str) -> Publication | None:
        """Its publication on this node."""
        return next((one for one in self.published if one.node_id == node_id), None)

    def published_on(self, publication: Publication) -> Volume:
        """The volume with one publication more, or a newer one for the same node."""
        others = (one for one in self.published if one.node_id != publication.node_id)
        return msgspec.structs.replace(self, published=tuple(sorted((*others, publication), key=lambda one: one.node_id)))

    def unpublished_from(self, node_id: str) -> Volume:
        """The volume without this node; "" is all nodes."""
        kept = tuple(one for one in self.published if node_id and one.node_id != node_id)
        return msgspec.structs.replace(self, published=kept)


class State(msgspec.Struct, frozen=True):
    """All of it. deleting: ids whose records are gone while their folders may still be there.

    Lookups scan: each change copies, encodes and writes all volumes anyway.
    """

    volumes: Mapping[str, Volume] = msgspec.field(default_factory=dict)
    deleting: tuple[str, ...] = ()
    publication_count: int = 0

    @property
    def used_bytes(self) -> int:
        return sum(volume.capacity_bytes for volume in self.volumes.values())

    def named(self, name: str) -> Volume | None:
        """The volume that was created under this name."""
        return next((volume for volume in self.volumes.values() if volume.name == name), None)

    def published_count(self, node_id: str) -> int:
        """How many volumes are published on this node."""
        return sum(volume.on(node_id) is not None for volume in self.volumes.values())

    def with_volume(self, volume: Volume) -> State:
        """The volume added, or put in the place of its former record."""
        return msgspec.structs.replace(self, volumes={**self.volumes, volume.id: volume})

    def with_publication(self, volume: Volume, node_id: str, mode: int, *, readonly: bool) -> State:
        """The volume published on one node more, under the next number."""
        number = self.publication_count + 1
        published = volume.published_on(Publication(node_id, mode, readonly, number))
        return msgspec.structs.replace(self.with_volume(published), publication_count=number)

    def without_volume(self, volume_id: str) -> State:
        """The volume's record gone, its folder still to go."""
        kept = {key: volume for key, volume in self.volumes.items() if key != volume_id}
        return msgspec.structs.replace(self, volumes=kept, deleting=(*self.deleting, volume_id))

    def forgotten(self, volume_id: str) -> State:
        """The folder is gone too."""
        return msgspec.structs.replace(self, deleting=tuple(one for one in self.deleting if one != volume_id))


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal[1]
    state: State


class _Head(msgspec.Struct, frozen=True):
    format: int


def encoded(state: State) -> bytes:
    """The state as it stands in the file: JSON, indented, for people."""
    return msgspec.json.format(msgspec.json.encode(_Document(FORMAT, state))) + b"\n"


def decoded(text: bytes) -> State:
    """The state of a file. Raises ValueError, saying what is wrong, for anything that this code did not write."""
    try:
        head = msgspec.json.decode(text, type=_Head)
        if head.format != FORMAT:
            raise ValueError(f"it has format {head.format}, and this version reads format {FORMAT}")
        state = msgspec.json.decode(text, type=_Document).state
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    _check(state)
    return state


def _check(state: State) -> None:
    for key, volume in state.volumes.items():
        if key != volume.id or not is_volume_id(key):
            raise ValueError(f"{key!r} is no volume id of this driver")
        if volume.capacity_bytes < 0:
            raise ValueError(f"volume {key!r} has a negative size")
        if len({one.node_id for one in volume.published}) < len(volume.published):
            raise ValueError(f"volume {key!r} is published twice on one node")
    names = [volume.name for volume in state.volumes.values()]
    if len(set(names)) < len(names):
        raise ValueError("two volumes have one name")
    for one in state.deleting:
        if not is_volume_id(one) or one in state.volumes:
            raise ValueError(f"{one!r} is no volume that could be on its way out")
