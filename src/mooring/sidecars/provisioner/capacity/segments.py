"""The places of the driver, from CSINodes and Nodes.

A change of a node costs a look at that node alone: the nodes of each place are counted, and a place changes with its first node and its
last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection

from mooring.api.core import Node
from mooring.api.meta import Key
from mooring.api.storage import CSINode
from mooring.kube.cache.informer import Change
from mooring.kube.cache.reader import Reader
from mooring.sidecars.provisioner.model.topology import Segment, segment_of


class Segments:
    """changed: called with a place that has its first node, and with one that has lost its last."""

    def __init__(self, driver_name: str, csi_nodes: Reader[CSINode], nodes: Reader[Node], changed: Callable[[Segment], None]) -> None:
        self._driver_name, self._csi_nodes, self._nodes, self._changed = driver_name, csi_nodes, nodes, changed
        self._place: dict[str, Segment] = {}
        self._nodes_in: Counter[Segment] = Counter()

    def all(self) -> Collection[Segment]:
        return self._nodes_in.keys()

    def node_changed(self, change: Change[Node] | Change[CSINode]) -> None:
        name = change.key.name
        before, after = self._place.get(name), self._place_of(name)
        if before == after:
            return
        if after is not None:
            self._place[name] = after
            self._nodes_in[after] += 1
            if self._nodes_in[after] == 1:
                self._changed(after)
        if before is not None:
            if after is None:
                del self._place[name]
            self._nodes_in[before] -= 1
            if not self._nodes_in[before]:
                del self._nodes_in[before]
                self._changed(before)

    def _place_of(self, name: str) -> Segment | None:
        """The node's segment; None if the node lacks the driver, or a label that the driver names."""
        csi_node, node = self._csi_nodes.get(Key("", name)), self._nodes.get(Key("", name))
        driver = next((d for d in (csi_node.spec.drivers if csi_node else None) or () if d.name == self._driver_name), None)
        if driver is None or node is None:
            return None
        keys, labels = driver.topology_keys or (), node.metadata.labels or {}
        return segment_of({key: labels[key] for key in keys}) if all(key in labels for key in keys) else None
