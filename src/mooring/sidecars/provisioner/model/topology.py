"""The accessibility requirements of a claim, and the node affinity of its volume.

A segment set ("term") is a place: topology key -> value. Pure: nodes and driver registrations in, terms out.

A large cluster has thousands of places, and each claim may be in any of them: `Places` are worked out once after each change, and shared.

Volumes are placed by the keys that nodes report. So a driver is upgraded on the nodes before its controller (docs/deployment.md): else
volumes are asked for by the keys of the former version, or there is no node that could have them. `unlike_nodes` sees that at the start.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mooring.api.storage import CSINode
from mooring.base.errors import MooringError
from mooring.csi.proto import csi_pb2 as csi

Term: TypeAlias = Mapping[str, str]
_FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619
_UINT32: Final = 1 << 32


class TopologyError(MooringError):
    """No requirements can be made. str() is the event's text, as external-provisioner has it; tried again."""


class NodeUnknown(TopologyError):
    """The selected node is gone, or the driver is not there: the scheduler must choose anew.

    Differs from external-provisioner, which does so only where the CSINode is gone and else waits, for ever.
    """


class Places:
    """Distinct places in order, those with fewer segments first."""

    def __init__(self, terms: Iterable[Term]) -> None:
        unique = {tuple(sorted(term.items())) for term in terms if term}
        ordered = sorted(unique, key=lambda segments: (len(segments), segments))
        self.terms: tuple[Term, ...] = tuple(map(dict, ordered))
        self._position = {segments: place for place, segments in enumerate(ordered)}
        self._is_uniform = len({len(segments) for segments in ordered}) == 1

    def __len__(self) -> int:
        return len(self.terms)

    def first_within(self, term: Term) -> int | None:
        """The position of the first place all of whose segments the term has; None for no such place."""
        if self._is_uniform and len(term) == len(self.terms[0]):
            return self.position(term)
        return next((place for place, one in enumerate(self.terms) if _is_within(one, term)), None)

    def position(self, term: Term) -> int | None:
        """Of this very place, None where it is not among them."""
        return self._position.get(tuple(sorted(term.items())))

    @functools.cached_property
    def _requisite(self) -> bytes:
        found = csi.TopologyRequirement(requisite=[csi.Topology(segments=term) for term in self.terms])
        return found.SerializeToString(deterministic=True)

    @functools.cached_property
    def _preferred(self) -> list[bytes]:
        one = csi.TopologyRequirement()
        found = []
        for term in self.terms:
            one.Clear()
            one.preferred.add(segments=term)
            found.append(one.SerializeToString(deterministic=True))
        return found

    def encoded(self, start: int) -> bytes:
        """As a TopologyRequirement in protobuf's form: all are requisite, and preferred from this position on."""
        return b"".join((self._requisite, *self._preferred[start:], *self._preferred[:start]))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Requirements:
    """The places that the volume must be reachable from; never empty. start: of the preferred one; the others follow, in a circle."""

    places: Places
    start: int = 0

    @property
    def requisite(self) -> tuple[Term, ...]:
        return self.places.terms

    @property
    def preferred(self) -> tuple[Term, ...]:
        return self.places.terms[self.start :] + self.places.terms[: self.start]

    @property
    def first(self) -> Term:
        """The place that is preferred to all others."""
        return self.places.terms[self.start]

    def message(self) -> csi.TopologyRequirement:
        return csi.TopologyRequirement.FromString(self.places.encoded(self.start))


@dataclasses.dataclass(frozen=True, slots=True)
class SelectedNode:
    """The selected node. keys: the driver's topology keys there; labels: the node's, {} when the node is unknown."""

    node_name: str
    keys: tuple[str, ...]
    labels: Mapping[str, str]

    @property
    def term(self) -> dict[str, str]:
        """The node's own place. Raises NodeUnknown, TopologyError."""
        if not self.keys:
            raise NodeUnknown(f"no topology key found for node {self.node_name}")
        if any(key not in self.labels for key in self.keys):
            labels = " ".join(f"{key}:{self.labels[key]}" for key in sorted(self.labels))
            keys = " ".join(self.keys)
            raise TopologyError(f"topology labels from selected node map[{labels}] does not match topology keys from CSINode [{keys}]")
        return {key: self.labels[key] for key in self.keys}


def flattened(allowed: Iterable[Iterable[tuple[str, Sequence[str]]]]) -> list[Term]:
    """A class's allowedTopologies as terms: within a term the expressions are multiplied out, terms stand side by side.

    allowed: for each term its expressions, a key and its values each.
    """
    terms: list[Term] = []
    for expressions in allowed:
        choices = [[(key, value) for value in values] for key, values in expressions]
        terms += [dict(picked) for picked in itertools.product(*choices)] if choices else []
    return terms


def cluster_terms(keys: Sequence[str], labels_of_nodes: Iterable[Mapping[str, str]]) -> list[Term]:
    """The places of all nodes that carry all keys. Raises TopologyError when there is none."""
    found: list[Term] = [{key: labels[key] for key in keys} for labels in labels_of_nodes if all(key in labels for key in keys)]
    if not found:
        raise TopologyError(f"topologyKeys [{' '.join(keys)}] were not found on any nodes")
    return found


def immediate(claim_name: str, places: Places) -> Requirements | None:
    """For a claim without a node: any of these places, beginning where the claim's name says, so that claims spread. None for no place."""
    if not places:
        return None
    hashed, index = name_hash(claim_name)
    return Requirements(places, (hashed + index) % _UINT32 % len(places))


def strict(place: SelectedNode, allowed: Sequence[Term]) -> Requirements:
    """For a claim whose node was chosen: there and nowhere else. allowed: the class's, empty for everywhere."""
    term = place.term
    if allowed and not any(_is_within(one, term) for one in allowed):
        texts = " ".join(shown(one) for one in allowed)
        raise TopologyError(f"selected node '\"{place.node_name}\"' topology '{shown(term)}' is not in allowed topologies: [{texts}]")
    return Requirements(Places((term,)))


def delayed(place: SelectedNode, places: Places) -> Requirements | None:
    """For a claim whose node was chosen: any of these places, the node's first. None for no place."""
    if not places:
        return None
    term = place.term
    start = places.first_within(term)
    if start is None:
        texts = " ".join(shown(one) for one in places.terms)
        raise TopologyError(f'topology {shown(term)} from selected node "{place.node_name}" is not in requisite: [{texts}]')
    return Requirements(places, start)


def name_hash(claim_name: str) -> tuple[int, int]:
    """Hash and ordinal of a claim's name: claims of one StatefulSet ordinal land together, ordinals spread."""
    head, dash, tail = claim_name.rpartition("-")
    if dash and tail.isascii() and tail.isdigit() and int(tail) < _UINT32:
        return _fnv1(head.rpartition("-")[2]), int(tail)
    return _fnv1(claim_name), 0


def node_affinity(accessible: Iterable[Mapping[str, str]]) -> dict[str, Any] | None:
    """The volume's node affinity from the driver's answer; None when it is reachable from everywhere."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [segments[key]]} for key in sorted(segments)]}
        for segments in accessible
        if segments
    ]
    return {"required": {"nodeSelectorTerms": terms}} if terms else None


def _is_within(part: Term, whole: Term) -> bool:
    return all(whole.get(key) == value for key, value in part.items())


def shown(term: Term) -> str:
    """As Go's maps are printed."""
    return f"map[{' '.join(f'{key}:{term[key]}' for key in sorted(term))}]"


def _fnv1(text: str) -> int:
    value = _FNV_OFFSET
    for byte in text.encode():
        value = value * _FNV_PRIME % _UINT32 ^ byte
    return value


NODES_TOLD_MAX: Final = 5


def unlike_nodes(driver_name: str, csi_nodes: Iterable[CSINode]) -> str:
    """Which keys are reported by which nodes; "" where all that have the driver report the same ones, or where none has it."""
    found: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for node in csi_nodes:
        for driver in node.spec.drivers or ():
            if driver.name == driver_name:
                found[tuple(sorted(driver.topology_keys or ()))].append(node.metadata.name)
    if len(found) == 1 and () not in found:
        return ""
    return "; ".join(f"[{' '.join(keys)}] by {_shown(sorted(found[keys]))}" for keys in sorted(found))


def _shown(nodes: Sequence[str]) -> str:
    more = len(nodes) - NODES_TOLD_MAX
    return ", ".join(nodes[:NODES_TOLD_MAX]) + (f" and {more} more" if more > 0 else "")
