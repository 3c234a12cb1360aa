"""The accessibility requirements of a claim, and the node affinity of its volume.

A segment set ("term") is a place: topology key -> value. Pure: nodes and driver registrations in, terms out.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mooring.base.errors import MooringError

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


@dataclasses.dataclass(frozen=True, slots=True)
class Requirements:
    """The places that the volume must, and those that it should be reachable from. Never empty."""

    requisite: tuple[Term, ...]
    preferred: tuple[Term, ...]


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


def immediate(claim_name: str, terms: Iterable[Term]) -> Requirements | None:
    """For a claim without a node: any of these places, beginning where the claim's name says, so that claims spread. None for no place."""
    requisite = _canonical(terms)
    if not requisite:
        return None
    hashed, index = name_hash(claim_name)
    start = (hashed + index) % _UINT32 % len(requisite)
    return Requirements(requisite, requisite[start:] + requisite[:start])


def strict(place: SelectedNode, allowed: Sequence[Term]) -> Requirements:
    """For a claim whose node was chosen: there and nowhere else. allowed: the class's, empty for everywhere."""
    term = place.term
    if allowed and not any(_is_within(one, term) for one in allowed):
        shown = " ".join(_shown(one) for one in allowed)
        raise TopologyError(f"selected node '\"{place.node_name}\"' topology '{_shown(term)}' is not in allowed topologies: [{shown}]")
    return Requirements((term,), (term,))


def delayed(place: SelectedNode, terms: Iterable[Term]) -> Requirements | None:
    """For a claim whose node was chosen: any of these places, the node's first. None for no place."""
    requisite = _canonical(terms)
    if not requisite:
        return None
    term = place.term
    for start, one in enumerate(requisite):
        if _is_within(one, term):
            return Requirements(requisite, requisite[start:] + requisite[:start])
    shown = " ".join(_shown(one) for one in requisite)
    raise TopologyError(f'topology {_shown(term)} from selected node "{place.node_name}" is not in requisite: [{shown}]')


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


def _canonical(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Sorted (fewer segments first), each once."""
    unique = {tuple(sorted(term.items())): term for term in terms if term}
    return tuple(dict(segments) for segments in sorted(unique, key=lambda segments: (len(segments), segments)))


def _is_within(part: Term, whole: Term) -> bool:
    return all(whole.get(key) == value for key, value in part.items())


def _shown(term: Term) -> str:
    return f"map[{' '.join(f'{key}:{term[key]}' for key in sorted(term))}]"


def _fnv1(text: str) -> int:
    value = _FNV_OFFSET
    for byte in text.encode():
        value = value * _FNV_PRIME % _UINT32 ^ byte
    return value
