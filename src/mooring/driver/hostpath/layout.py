"""The places of the host-path driver's volumes: nodes, their topology, and capacity. Pure.

A place is a set of topology segments that some nodes share. A volume lives in one place, and each place has its own
capacity, as if it had its own storage system. Without topology there is one place, which every node reaches.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from mooring.base.errors import ConfigError
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.state import State, Volume
from mooring.wire.grpc.codes import Code

Segments = Mapping[str, str]

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class StorageLimits(msgspec.Struct, frozen=True):
    """capacity_bytes: of all volumes of one place; kinds: per kind of storage, instead. attach_max: volumes per node, 0
    for no limit.
    """

    capacity_bytes: int = 1 << 40
    kinds: Mapping[str, int] = msgspec.field(default_factory=dict)
    volume_bytes_max: int = 1 << 40
    volume_bytes_default: int = 1 << 30
    attach_max: int = 0

    def of(self, kind: str) -> int:
        """The capacity for one kind in one place; 0 for a kind that there isn't."""
        return self.kinds.get(kind, 0) if self.kinds else self.capacity_bytes


class NodeTopology:
    """The nodes, by id, with their segments. Raises ConfigError for topology that makes no sense."""

    def __init__(self, node_ids: Collection[str], topology: Mapping[str, Segments]) -> None:
        check_topology(node_ids, topology)
        self.nodes: Mapping[str, Segments] = {node_id: dict(topology.get(node_id, {})) for node_id in node_ids}
        self.has_topology = bool(topology)
        self.places: tuple[Segments, ...] = _distinct(self.nodes.values())

    def matching(self, term: Segments) -> Iterator[Segments]:
        """The places that have all segments of the term."""
        return (place for place in self.places if place.items() >= term.items())

    def reaches(self, volume: Volume, node_id: str) -> bool:
        """Whether the volume can be published on the node. A driver without topology doesn't know where volumes are."""
        return not self.has_topology or volume.segments.items() <= self.nodes[node_id].items()

    def wanted(self, requirements: csi.TopologyRequirement) -> tuple[Segments, ...]:
        """The places that a volume may be in, the best first: as preferred, then as required, then all others if none
        is required.
        """
        required = [place for term in requirements.requisite for place in self.matching(term.segments)]
        preferred = [place for term in requirements.preferred for place in self.matching(term.segments)]
        if requirements.requisite:
            return _distinct([*(place for place in preferred if place in required), *required])
        return _distinct([*preferred, *self.places])


def shown(segments: Segments) -> str:
    """`zone=a, rack=2`."""
    return ", ".join(f"{key}={value}" for key, value in sorted(segments.items()))


def left_bytes(state: State, limits: StorageLimits, place: Segments, kind: str) -> int:
    """The rest of a kind's capacity in a place; not negative, also when the limit was lowered below the used amount."""
    used = sum(
        one.capacity_bytes
        for one in state.volumes.values()
        if one.kind == kind and place.items() <= one.segments.items()
    )
    return max(0, limits.of(kind) - used)


def room(state: State, limits: StorageLimits, places: Iterable[Segments], kind: str) -> list[tuple[Segments, str, int]]:
    """The rest in each of the places, with the kind: this one, or every kind when none is named."""
    kinds = [kind] if kind or not limits.kinds else list(limits.kinds)
    return [(place, one, left_bytes(state, limits, place, one)) for place in places for one in kinds]


def chosen(
    state: State, limits: StorageLimits, layout: NodeTopology, request: csi.CreateVolumeRequest, size: int
) -> tuple[Segments, str]:
    """The place and the kind of storage for a new volume. Raises ResourceExhausted."""
    places = layout.wanted(request.accessibility_requirements)
    if not places:
        terms = "; ".join(shown(term.segments) for term in request.accessibility_requirements.requisite)
        there = "; ".join(shown(place) for place in layout.places)
        raise DriverError(Code.RESOURCE_EXHAUSTED, f"no node of this driver is in {terms}: ask for one of {there}")
    kind = request.parameters.get("kind", "")
    found = room(state, limits, places, kind)
    for place, one, left in found:
        if size <= left:
            return place, one
    left = max(left for _, _, left in found)
    of = f" of kind {kind!r}" if kind else ""
    where = f" in {'; '.join(shown(place) for place in places)}" if layout.has_topology else ""
    what = (
        f"{size} bytes{of} asked for{where}, {left} of {limits.of(found[0][1])} are left: delete volumes, or ask "
        "for less"
    )
    raise DriverError(Code.RESOURCE_EXHAUSTED, what)


def _distinct(places: Iterable[Segments]) -> tuple[Segments, ...]:
    return tuple({tuple(sorted(place.items())): place for place in places}.values())


def check_topology(node_ids: Collection[str], topology: Mapping[str, Segments]) -> None:
    """Raises ConfigError."""
    for node_id, segments in topology.items():
        if node_id not in node_ids:
            raise ConfigError(f"topology: there is no node {node_id!r}: name it with node-id too")
        for key, value in segments.items():
            prefix, slash, name = key.rpartition("/")
            if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
                raise ConfigError(
                    f"topology: {key!r} of node {node_id!r} is no key: take one as in topology.kubernetes.io/zone"
                )
            if not _NAME.fullmatch(value):
                raise ConfigError(
                    f"topology: {value!r} of node {node_id!r} is no value: take up to 63 letters, digits, -, _ and ."
                )
    keys = {node_id: set(topology.get(node_id, {})) for node_id in node_ids}
    for node_id in keys if topology else ():
        if not keys[node_id] or keys[node_id] != keys[next(iter(topology))]:
            raise ConfigError(
                f"topology: node {node_id!r} has other keys than node {next(iter(topology))!r}: all nodes need the same"
            )
