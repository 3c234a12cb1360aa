"""The objects, fields and indexes that the provisioner reads.

A `View` shows the caches as they are; a decision reads it between two awaits, when nothing changes. Objects that no cache holds (snapshots,
secrets, a clone's volume) are looked up for one attempt: a decision that needs one raises `NotLookedUp` and is made again with the answer.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from mooring.api.classes import class_of
from mooring.api.core import (
    CSIPersistentVolumeSource,
    Node,
    NodeCondition,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from mooring.api.gateway import ReferenceGrant
from mooring.api.matching import fits_node
from mooring.api.meta import Key, Kind
from mooring.api.migration import UNSPECIFIED, TranslationError, is_migratable, translated
from mooring.api.storage import CSINode, StorageClass, TopologySelectorTerm
from mooring.base.errors import MooringError
from mooring.control.slim import Mask, Named, Part, items, slim, slimmed
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.reader import Reader
from mooring.sidecars.provisioner.claims.claim import source_of
from mooring.sidecars.provisioner.claims.record import ClaimRecords
from mooring.sidecars.provisioner.intents.intent import Intent
from mooring.sidecars.provisioner.options import Rules
from mooring.sidecars.provisioner.topology import Places, Term, cluster_terms, flattened

BY_UID: Final = "claims/uid"
BY_CLASS: Final = "claims/class"
BY_SOURCE: Final = "claims/source"
BY_HANDLE: Final = "volumes/handle"


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


# -- indexes


def source_of_volume(pv: PersistentVolume) -> CSIPersistentVolumeSource | None:
    """As its CSI driver sees it; None for a volume of none."""
    try:
        return translated(pv).csi if is_migratable(pv.spec) else pv.spec.csi
    except TranslationError:
        return None


def _handle_of(pv: PersistentVolume) -> tuple[str, ...]:
    source = source_of_volume(pv)
    return () if source is None else (last_part(source.volume_handle),)


def last_part(handle: str) -> str:
    return handle.rpartition("/")[2]


def is_same_handle(one: str, other: str) -> bool:
    """An in-tree object does not tell all parts of a handle: what is unspecified may be anything."""
    parts, others = one.split("/"), other.split("/")
    return len(parts) == len(others) and all(a == b or UNSPECIFIED in (a, b) for a, b in zip(parts, others, strict=True))


def _class_of_unbound(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    return () if claim.spec.volume_name else (class_of(claim),)


def _sources_of_pending(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    source = source_of(claim) if claim.status.phase in ("", "Pending") else None
    return () if source is None else (source_key(source.kind, source.namespace, source.name),)


def source_key(kind: str, namespace: str, name: str) -> str:
    """The value under which the claims that wait for volumes made from this object are found."""
    return f"{kind}/{namespace}/{name}"


CLAIM_INDEXES: Final[Mapping[str, Callable[[PersistentVolumeClaim], Iterable[str]]]] = {
    BY_UID: lambda claim: (claim.metadata.uid,),
    BY_CLASS: _class_of_unbound,
    BY_SOURCE: _sources_of_pending,
}

VOLUME_INDEXES: Final[Mapping[str, Callable[[PersistentVolume], Iterable[str]]]] = {BY_HANDLE: _handle_of}


# -- the kept parts of objects

_CLAIM: Final = slimmed(metadata=slim("deletion_timestamp", "finalizers", "annotations"), status=slim("phase"))
_BOUND_CLAIM: Final = slimmed(metadata=slim("deletion_timestamp", "finalizers"), status=slim("phase"))

FOR_CLONES: Final = slimmed(metadata=slim("deletion_timestamp"), status=slim("phase"))
"""The part of a claim that can make its clones fail."""

_SPEC: Final = slim(
    *(name for name in PersistentVolumeSpec.__struct_fields__ if name not in ("csi", "mount_options", "capacity")),
    csi=slim("driver", "volume_handle", "read_only", "fs_type"),
)
_VOLUME: Final = slim(metadata=slim("deletion_timestamp", "finalizers", "annotations"), spec=_SPEC, status=slim("phase"))
_IN_TREE_VOLUME: Final = slim(metadata=slim("deletion_timestamp", "finalizers", "annotations", "labels"), spec=_SPEC, status=slim("phase"))


def _is_readiness(condition: NodeCondition) -> bool:
    return condition.type == "Ready"


READINESS: Final = slim(metadata=slim(), status=slim(conditions=items(_is_readiness, slim("type", "status"))))
PLACE: Final = slim(metadata=slim("labels"))
NODE: Final = PLACE | READINESS


def unreadiness(node: Node) -> str:
    """The status of a Ready condition that is not True, "" for a node that is ready or has none."""
    return next((one.status for one in node.status.conditions or () if one.type == "Ready" and one.status != "True"), "")


def keeps_of_claim(claim: PersistentVolumeClaim) -> Part:
    """A bound claim matters as a source only: its annotations are not kept."""
    return _BOUND_CLAIM if claim.spec.volume_name else _CLAIM


def keeps_of_volume(pv: PersistentVolume) -> Part:
    """The part that deletion reads, and the claim."""
    return _IN_TREE_VOLUME if pv.spec.csi is None else _VOLUME


def csi_node_mask(driver_name: str) -> Mask:
    """Of a CSINode only this driver's entry, and of that its keys."""
    return slim(metadata=slim(), spec=slim(drivers=items(Named(driver_name), slim("name", "topology_keys"))))
