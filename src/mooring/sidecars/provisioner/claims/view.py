"""Everything that a claim is decided from: the caches, objects that are looked up, and the places that its volume may
have.

A `View` shows the caches as they are; a decision reads it between two awaits, when nothing changes. Objects that no
cache holds (snapshots, secrets, a clone's volume) are looked up for one attempt: a decision that needs one raises
`NotLookedUp` and is made again with the answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.api.core import PersistentVolumeClaim
from mooring.api.gateway import ReferenceGrant
from mooring.api.meta import Key, Kind
from mooring.api.storage import CSINode, StorageClass
from mooring.base.errors import MooringError
from mooring.kube.cache.reader import Reader
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords
from mooring.sidecars.provisioner.model import topology
from mooring.sidecars.provisioner.model.cached import CacheView, selected_node, unreadiness
from mooring.sidecars.provisioner.model.intent import ClaimIntents
from mooring.sidecars.provisioner.model.topology import (
    ClusterTopology,
    NodeMissing,
    Places,
    Requirements,
    SelectedNode,
    Term,
    TopologyError,
    pairs_of,
)

# -- objects looked up for one attempt


class Wanted(msgspec.Struct, frozen=True):
    """One object, to be looked up."""

    kind: Kind[Any]
    name: str
    namespace: str = ""


class NotLookedUp(Exception):
    """A decision needs this object: look it up and decide again."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted.kind.plural)
        self.wanted = wanted


@dataclasses.dataclass(frozen=True, slots=True)
class Looked:
    """The objects that an attempt has looked up so far. An error is an answer, too. Secrets are here as their values:
    never shown.
    """

    found: dict[Wanted, Any] = dataclasses.field(default_factory=dict, repr=False)

    def get(self, wanted: Wanted) -> Any:
        """The object. Raises the error of its look-up, or NotLookedUp."""
        if wanted not in self.found:
            raise NotLookedUp(wanted)
        answer = self.found[wanted]
        if isinstance(answer, MooringError):
            raise answer
        return answer


class View(CacheView, frozen=True, kw_only=True):
    """The caches, intents and records, live."""

    csi_nodes: Reader[CSINode]
    grants: Reader[ReferenceGrant]
    places: ClusterTopology
    #: The open intents, by the claim's uid.
    intents: Mapping[str, ClaimIntents]
    records: ClaimRecords

    def topology_keys(self, node_name: str) -> tuple[str, ...] | None:
        """The driver's keys on that node; None when the node has no CSINode."""
        csi_node = self.csi_nodes.get(Key("", node_name))
        if csi_node is None:
            return None
        return next((d.topology_keys or () for d in csi_node.spec.drivers or () if d.name == self.driver.name), ())


# -- the places that a claim's volume may have


def requirements(view: View, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Requirements | None:
    """The requirements for the volume, None for none. Raises TopologyError; NodeUnknown to have another node
    selected.
    """
    node_name, allowed = selected_node(claim), storage_class.allowed_topologies or ()
    if node_name:
        place = _place(view, node_name)
        if view.rules.strict_topology:
            return topology.strict(place, topology.flattened(pairs_of(allowed)))
        term = place.term
        return topology.delayed(place, view.places.allowed(allowed) if allowed else view.places.of_nodes(tuple(term)))
    if allowed:
        return topology.immediate(claim.metadata.name, view.places.allowed(allowed))
    if not view.rules.immediate_topology:
        return None
    keys = view.places.keys()
    if not keys:
        raise TopologyError("no available topology found")
    return topology.immediate(claim.metadata.name, view.places.of_nodes(keys))


def requirements_again(view: View, storage_class: StorageClass | None, first: Term) -> Requirements:
    """The requirements of a former request, of which only the preferred place was stored. storage_class: None where it
    is gone.
    """
    allowed = storage_class.allowed_topologies if storage_class is not None else None
    try:
        places = view.places.allowed(allowed) if allowed else view.places.of_nodes(tuple(first))
    except TopologyError:  # all those nodes are gone
        return Requirements(Places((first,)))
    start = places.position(first)
    if start is None:
        places = Places((first, *places.terms))
        start = places.position(first)
        assert start is not None, "it is among them"
    return Requirements(places, start)


def placement_doubt(view: View, node_name: str, where: Requirements) -> str:
    """Why the place of a volume may be none that its pod can reach, "" for no reason: nobody has kept what was
    registered there up to date.

    node_name: the selected node, "" for none. where: the places that the driver is told of.
    """
    node = view.nodes.get(Key("", node_name)) if node_name else None
    if node is not None and (status := unreadiness(node)):
        return (
            f'the selected node "{node_name}" is not ready (Ready is {status}): what its CSINode tells of '
            f"driver {view.driver.name} "
            "may be out of date, and the volume may be made where its pod can't reach it"
        )
    if not node_name and view.places.is_silent(where.first):
        return (
            f"no node in {topology.shown(where.first)}, which is preferred for the volume, is ready: what "
            "their CSINodes tell of driver "
            f"{view.driver.name} may be out of date, and no pod may reach the volume"
        )
    return ""


def _place(view: View, node_name: str) -> SelectedNode:
    keys = view.topology_keys(node_name)
    if keys is None:
        raise NodeMissing(f'failed to get selected CSINode {node_name}: csinode.storage.k8s.io "{node_name}" not found')
    node = view.nodes.get(Key("", node_name))
    if node is None and keys:
        raise NodeMissing(f'failed to get selected node {node_name}: node "{node_name}" not found')
    return SelectedNode(node_name, keys, (node.metadata.labels if node else None) or {})
