"""The accessibility requirements of a claim, and the node affinity of its volume.

A segment set ("term") is a place: topology key -> value. Pure: nodes and driver registrations in, terms out.

A large cluster has thousands of places, and each claim may be in any of them: `Places` are worked out once after each
change, and shared.

Volumes are placed by the keys that nodes report. So a driver is upgraded on the nodes before its controller
(docs/deployment.md): else volumes are asked for by the keys of the former version, or there is no node that could have
them. `unlike_nodes` sees that at the start.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from mooring.api.core import (
    Node,
    PersistentVolume,
)
from mooring.api.storage import CSINode, TopologySelectorTerm
from mooring.base.errors import MooringError
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.reader import Reader
from mooring.sidecars.provisioner.model.cached import unreadiness

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


class NodeMissing(NodeUnknown):
    """The node, or its CSINode, does not exist."""


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
        """The index of this very place, None where it is not among them."""
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
        """The places as an encoded TopologyRequirement: all are requisite, and preferred in a circle from `start`."""
        return b"".join((self._requisite, *self._preferred[start:], *self._preferred[:start]))


class Requirements(msgspec.Struct, frozen=True, eq=False):
    """The places that the volume must be reachable from; never empty."""

    places: Places
    #: The position of the preferred one; the others follow, in a circle.
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


class SelectedNode(msgspec.Struct, frozen=True):
    """The selected node."""

    node_name: str
    #: The driver's topology keys there.
    keys: tuple[str, ...]
    #: {} when the node is unknown.
    labels: Mapping[str, str]

    @property
    def term(self) -> dict[str, str]:
        """The node's own place. Raises NodeUnknown, TopologyError."""
        if not self.keys:
            raise NodeUnknown(f"no topology key found for node {self.node_name}")
        if any(key not in self.labels for key in self.keys):
            labels = " ".join(f"{key}:{self.labels[key]}" for key in sorted(self.labels))
            keys = " ".join(self.keys)
            raise TopologyError(
                f"topology labels from selected node map[{labels}] does not match topology keys from CSINode [{keys}]"
            )
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
    found: list[Term] = [
        {key: labels[key] for key in keys} for labels in labels_of_nodes if all(key in labels for key in keys)
    ]
    if not found:
        raise TopologyError(f"topologyKeys [{' '.join(keys)}] were not found on any nodes")
    return found


def immediate(claim_name: str, places: Places) -> Requirements | None:
    """Any of these places, for a claim without a node. The claim's name says which is the first, so that claims
    spread. None for no place.
    """
    if not places:
        return None
    hashed, index = name_hash(claim_name)
    return Requirements(places, (hashed + index) % _UINT32 % len(places))


def strict(place: SelectedNode, allowed: Sequence[Term]) -> Requirements:
    """The selected node's place, and no other one. allowed: the class's places, empty for everywhere."""
    term = place.term
    if allowed and not any(_is_within(one, term) for one in allowed):
        texts = " ".join(shown(one) for one in allowed)
        raise TopologyError(
            f"selected node '\"{place.node_name}\"' topology '{shown(term)}' is not in allowed topologies: [{texts}]"
        )
    return Requirements(Places((term,)))


def delayed(place: SelectedNode, places: Places) -> Requirements | None:
    """Any of these places, the selected node's first. None for no place."""
    if not places:
        return None
    term = place.term
    start = places.first_within(term)
    if start is None:
        texts = " ".join(shown(one) for one in places.terms)
        raise TopologyError(
            f'topology {shown(term)} from selected node "{place.node_name}" is not in requisite: [{texts}]'
        )
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
    """The term as Go prints a map."""
    return f"map[{' '.join(f'{key}:{term[key]}' for key in sorted(term))}]"


def _fnv1(text: str) -> int:
    value = _FNV_OFFSET
    for byte in text.encode():
        value = value * _FNV_PRIME % _UINT32 ^ byte
    return value


NODES_TOLD_MAX: Final = 5


def unlike_nodes(driver_name: str, csi_nodes: Iterable[CSINode]) -> str:
    """Which keys are reported by which nodes; "" where all that have the driver report the same ones, or where none has
    it.
    """
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


Segment: TypeAlias = tuple[tuple[str, str], ...]
"""A place: topology keys with their values, sorted. An empty one means all nodes."""


def segment_of(labels: Mapping[str, str] | None) -> Segment:
    return tuple(sorted((labels or {}).items()))


def places_of(pv: PersistentVolume) -> tuple[Segment, ...]:
    """The places of a volume, from its node affinity; () where it has none, or none in the form of places."""
    affinity = pv.spec.node_affinity
    if affinity is None or affinity.required is None:
        return ()
    found = []
    for term in affinity.required.node_selector_terms or ():
        expressions = term.match_expressions or ()
        if expressions and all(one.operator == "In" and len(one.values or ()) == 1 for one in expressions):
            found.append(segment_of({one.key: (one.values or ("",))[0] for one in expressions}))
    return tuple(found)


class ClusterTopology:
    """The places of all nodes, and those that classes allow, worked out once after each change of a node.

    Differs from external-provisioner, which takes the keys of a random node: here the keys that most nodes have are
    taken.
    """

    def __init__(self, csi_nodes: Reader[CSINode], nodes: Reader[Node]) -> None:
        self._csi_nodes, self._nodes = csi_nodes, nodes
        self._keys: tuple[str, ...] | None = None
        self._registered: frozenset[str] | None = None
        self._of_nodes: dict[tuple[str, ...], Places] = {}
        self._allowed: dict[tuple[TopologySelectorTerm, ...], Places] = {}
        self._ready: dict[tuple[str, ...], dict[tuple[str | None, ...], bool]] = {}

    def invalidate(self) -> None:
        """A node, or what is registered there, has changed."""
        self._keys = self._registered = None
        self._of_nodes.clear()
        self._allowed.clear()
        self._ready.clear()

    def tells_places(self, key: str) -> bool:
        """True for a label by which the driver tells places on any node: no other one matters."""
        if self._registered is None:
            drivers = (driver for node in self._csi_nodes.values() for driver in node.spec.drivers or ())
            self._registered = frozenset(key for driver in drivers for key in driver.topology_keys or ())
        return key in self._registered

    def readiness_changed(self) -> None:
        """A node has become ready, or is so no more."""
        self._ready.clear()

    def is_silent(self, term: Term) -> bool:
        """True where there are nodes in this place, and each of them is said not to be ready."""
        keys = tuple(sorted(term))
        if keys not in self._ready:
            found = self._ready[keys] = {}
            for node in self._nodes.values():
                place = tuple(map((node.metadata.labels or {}).get, keys))
                found[place] = found.get(place, False) or not unreadiness(node)
        return not self._ready[keys].get(tuple(term[key] for key in keys), True)

    def keys(self) -> tuple[str, ...]:
        """The driver's topology keys, () where no node has any."""
        if self._keys is None:
            counts = Counter(
                tuple(sorted(driver.topology_keys))
                for node in self._csi_nodes.values()
                for driver in node.spec.drivers or ()  # the cache holds this driver's alone
                if driver.topology_keys
            )
            self._keys = min(counts, key=lambda keys: (-counts[keys], keys)) if counts else ()
        return self._keys

    def of_nodes(self, keys: Sequence[str]) -> Places:
        """The distinct places of the nodes that carry all keys. Raises TopologyError when there is none."""
        known = tuple(sorted(keys))
        if known not in self._of_nodes:
            self._of_nodes[known] = Places(
                cluster_terms(keys, (node.metadata.labels or {} for node in self._nodes.values()))
            )
        return self._of_nodes[known]

    def allowed(self, terms: tuple[TopologySelectorTerm, ...]) -> Places:
        """The places of a class's allowedTopologies."""
        if terms not in self._allowed:
            self._allowed[terms] = Places(flattened(pairs_of(terms)))
        return self._allowed[terms]


def pairs_of(terms: Iterable[TopologySelectorTerm]) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
    """The expressions of each term, as pairs of a key and its values."""
    for term in terms:
        yield [(one.key, one.values or ()) for one in term.match_label_expressions or ()]
