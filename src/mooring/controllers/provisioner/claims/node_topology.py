"""The topology requirements of a claim's volume: the selected node and all nodes of the view, under the rules of `topology.py`."""

from __future__ import annotations

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key
from mooring.api.storage import StorageClass
from mooring.controllers.provisioner import topology
from mooring.controllers.provisioner.claims.claim import selected_node
from mooring.controllers.provisioner.claims.view import View
from mooring.controllers.provisioner.topology import NodeUnknown, Requirements, SelectedNode, TopologyError


def requirements(view: View, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Requirements | None:
    """The requirements for the volume, None for none. Raises TopologyError; NodeUnknown to have another node selected."""
    node_name = selected_node(claim)
    allowed = topology.flattened(
        [(one.key, one.values or ()) for one in term.match_label_expressions or ()] for term in storage_class.allowed_topologies or ()
    )
    if node_name:
        place = _place(view, node_name)
        if view.rules.strict_topology:
            return topology.strict(place, allowed)
        term = place.term
        terms = allowed if storage_class.allowed_topologies else view.places.terms(tuple(term))
        return topology.delayed(place, terms)
    if storage_class.allowed_topologies:
        return topology.immediate(claim.metadata.name, allowed)
    if not view.rules.immediate_topology:
        return None
    keys = view.places.keys()
    if not keys:
        raise TopologyError("no available topology found")
    return topology.immediate(claim.metadata.name, view.places.terms(keys))


def _place(view: View, node_name: str) -> SelectedNode:
    keys = view.topology_keys(node_name)
    if keys is None:
        raise NodeUnknown(f'failed to get selected CSINode {node_name}: csinode.storage.k8s.io "{node_name}" not found')
    node = view.nodes.get(Key("", node_name))
    if node is None and keys:
        raise NodeUnknown(f'failed to get selected node {node_name}: node "{node_name}" not found')
    return SelectedNode(node_name, keys, (node.metadata.labels if node else None) or {})
