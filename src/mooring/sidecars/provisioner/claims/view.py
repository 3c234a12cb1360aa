"""The objects, fields and indexes that the provisioner reads.

A `View` shows the caches as they are; a decision reads it between two awaits, when nothing changes. Objects that no cache holds (snapshots,
secrets, a clone's volume) are looked up for one attempt: a decision that needs one raises `NotLookedUp` and is made again with the answer.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mooring.api.core import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.api.gateway import ReferenceGrant
from mooring.api.matching import fits_node
from mooring.api.meta import Key, Kind
from mooring.api.storage import CSINode, StorageClass, TopologySelectorTerm
from mooring.base.errors import MooringError
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.reader import Reader
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords
from mooring.sidecars.provisioner.model.cached import BY_HANDLE, BY_UID, is_same_handle, last_part, source_of_volume, unreadiness
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.topology import Places, Term, cluster_terms, flattened
from mooring.sidecars.provisioner.options import Rules


class ClusterTopology:
    """The places of all nodes, and those that classes allow, worked out once after each change of a node.

    Differs from external-provisioner, which takes the keys of a random node: here the keys that most nodes have are taken.
    """

    def __init__(self, csi_nodes: Reader[CSINode], nodes: Reader[Node]) -> None:
        self._csi_nodes, self._nodes = csi_nodes, nodes
        self._keys: tuple[str, ...] | None = None
        self._of_nodes: dict[tuple[str, ...], Places] = {}
        self._allowed: dict[tuple[TopologySelectorTerm, ...], Places] = {}
        self._ready: dict[tuple[str, ...], dict[tuple[str | None, ...], bool]] = {}

    def invalidate(self) -> None:
        """A node, or what is registered there, has changed."""
        self._keys = None
        self._of_nodes.clear()
        self._allowed.clear()
        self._ready.clear()

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
            self._of_nodes[known] = Places(cluster_terms(keys, (node.metadata.labels or {} for node in self._nodes.values())))
        return self._of_nodes[known]

    def allowed(self, terms: tuple[TopologySelectorTerm, ...]) -> Places:
        """Those of a class's allowedTopologies."""
        if terms not in self._allowed:
            self._allowed[terms] = Places(flattened(pairs_of(terms)))
        return self._allowed[terms]


def pairs_of(terms: Iterable[TopologySelectorTerm]) -> Iterator[list[tuple[str, tuple[str, ...]]]]:
    """For each term its expressions, a key and its values each."""
    for term in terms:
        yield [(one.key, one.values or ()) for one in term.match_label_expressions or ()]


# -- objects looked up for one attempt


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
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
    """The objects that an attempt has looked up so far. An error is an answer, too. Secrets are here as their values: never shown."""

    found: dict[Wanted, Any] = dataclasses.field(default_factory=dict, repr=False)

    def get(self, wanted: Wanted) -> Any:
        """The object. Raises the error of its look-up, or NotLookedUp."""
        if wanted not in self.found:
            raise NotLookedUp(wanted)
        answer = self.found[wanted]
        if isinstance(answer, MooringError):
            raise answer
        return answer


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The caches, intents and records, live.

    intents: by claim uid, those whose volume may exist. records: the memory of claims.
    node_name: the one node that this instance provisions for; "" for all.
    """

    driver: DriverCapabilities
    rules: Rules
    claims: Reader[PersistentVolumeClaim]
    volumes: Reader[PersistentVolume]
    classes: Reader[StorageClass]
    csi_nodes: Reader[CSINode]
    nodes: Reader[Node]
    grants: Reader[ReferenceGrant]
    places: ClusterTopology
    intents: Mapping[str, Intent]
    records: ClaimRecords
    node_name: str = ""

    def claim(self, uid: str) -> PersistentVolumeClaim | None:
        return next(iter(self.claims.by(BY_UID, uid)), None)

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.get(Key("", name))

    def volume(self, pv_name: str) -> PersistentVolume | None:
        return self.volumes.get(Key("", pv_name))

    def is_here(self, pv: PersistentVolume) -> bool:
        """True where all nodes are served, or the one that is served can reach the volume."""
        node = self.nodes.get(Key("", self.node_name)) if self.node_name else None
        return node is None or fits_node(pv, node.metadata.labels, self.node_name)

    def others_naming(self, handle: str, pv_name: str) -> list[str]:
        """The PersistentVolumes of other names that name this volume of the driver; on one node, those that it can reach."""
        return [
            pv.metadata.name
            for pv in self.volumes.by(BY_HANDLE, last_part(handle))
            if pv.metadata.name != pv_name and self.means(pv, handle)
        ]

    def means(self, pv: PersistentVolume, handle: str) -> bool:
        """True when it names this volume of the driver. On one node what that can't reach may be another node's volume of that handle."""
        source = source_of_volume(pv)
        return (
            source is not None and source.driver == self.driver.name and is_same_handle(source.volume_handle, handle) and self.is_here(pv)
        )

    def stored_handle(self, pv_name: str) -> str:
        """The handle in the PersistentVolume, "" where there is none."""
        pv = self.volume(pv_name)
        source = None if pv is None else source_of_volume(pv)
        return "" if source is None else source.volume_handle

    @property
    def uses_topology(self) -> bool:
        return self.driver.topology and self.rules.topology

    def topology_keys(self, node_name: str) -> tuple[str, ...] | None:
        """The driver's keys on that node; None when the node has no CSINode."""
        csi_node = self.csi_nodes.get(Key("", node_name))
        if csi_node is None:
            return None
        return next((d.topology_keys or () for d in csi_node.spec.drivers or () if d.name == self.driver.name), ())
