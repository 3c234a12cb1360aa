"""What the provisioner reads, and with which indexes.

A `View` shows the caches as they are; a decision reads it between two awaits, when nothing moves. What no cache holds (snapshots, secrets,
a clone's volume) is looked up for one attempt: a judgement that needs it says so (`NotLookedUp`) and is made again with the answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from mooring.api.classes import class_of
from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus, PersistentVolumeStatus
from mooring.api.gateway import ReferenceGrant
from mooring.api.meta import Key, Kind, ObjectMeta
from mooring.api.storage import CSINode, CSINodeDriver, CSINodeSpec, StorageClass
from mooring.base.errors import MooringError
from mooring.controllers.provisioner.claims.claim import source_of
from mooring.controllers.provisioner.claims.record import ClaimRecords
from mooring.controllers.provisioner.driver_capabilities import DriverFacts, Rules
from mooring.controllers.provisioner.intents.intent import Intent
from mooring.controllers.provisioner.topology import Term

BY_UID: Final = "uid"
BY_CLASS: Final = "class"
BY_SOURCE: Final = "source"

T_co = TypeVar("T_co", covariant=True)
Watched = TypeVar("Watched", bound=msgspec.Struct)


class Reader(Protocol[T_co]):
    """The read side of a cache."""

    def get(self, key: Key) -> T_co | None: ...
    def by(self, index: str, value: str) -> tuple[T_co, ...]: ...
    def values(self) -> tuple[T_co, ...]: ...


class Places(Protocol):
    """Where the driver's volumes can be, over all nodes."""

    def keys(self) -> tuple[str, ...]:
        """The driver's topology keys, () where no node has any."""
        ...

    def terms(self, keys: tuple[str, ...]) -> Sequence[Term]:
        """The distinct places of the nodes that carry all keys. Raises TopologyError when there is none."""
        ...


# -- what is looked up for one attempt


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """One object, to be asked for."""

    kind: Kind[Any]
    name: str
    namespace: str = ""


class NotLookedUp(Exception):
    """A judgement needs this object: look it up and judge again."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted.kind.plural)
        self.wanted = wanted


@dataclasses.dataclass(frozen=True, slots=True)
class Looked:
    """What an attempt has looked up so far. An error is an answer, too. Secrets are here as their values: never shown."""

    found: dict[Wanted, Any] = dataclasses.field(default_factory=dict, repr=False)

    def get(self, wanted: Wanted) -> Any:
        """The object. Raises what asking for it raised, or NotLookedUp."""
        if wanted not in self.found:
            raise NotLookedUp(wanted)
        answer = self.found[wanted]
        if isinstance(answer, MooringError):
            raise answer
        return answer


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The world as the provisioner sees it, live.

    intents: by claim uid, those whose volume may exist. records: what is remembered of claims.
    node_name: the one node that this instance provisions for; "" for all.
    """

    driver: DriverFacts
    rules: Rules
    claims: Reader[PersistentVolumeClaim]
    volumes: Reader[PersistentVolume]
    classes: Reader[StorageClass]
    csi_nodes: Reader[CSINode]
    nodes: Reader[Node]
    grants: Reader[ReferenceGrant]
    places: Places
    intents: Mapping[str, Intent]
    records: ClaimRecords
    node_name: str = ""

    def claim(self, uid: str) -> PersistentVolumeClaim | None:
        return next(iter(self.claims.by(BY_UID, uid)), None)

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.get(Key("", name))

    def volume(self, pv_name: str) -> PersistentVolume | None:
        return self.volumes.get(Key("", pv_name))

    @property
    def uses_topology(self) -> bool:
        return self.driver.topology and self.rules.topology

    def topology_keys(self, node_name: str) -> tuple[str, ...] | None:
        """The driver's keys on that node; None when nothing is known of the node."""
        csi_node = self.csi_nodes.get(Key("", node_name))
        if csi_node is None:
            return None
        return next((d.topology_keys or () for d in csi_node.spec.drivers or () if d.name == self.driver.name), ())


# -- indexes


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


# -- pruning: what is not read is not kept


def prune_claim(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """A bound claim matters as a source only: its annotations are nobody's business any more."""
    meta = claim.metadata
    slim = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        deletion_timestamp=meta.deletion_timestamp,
        finalizers=meta.finalizers,
        annotations=None if claim.spec.volume_name else meta.annotations,
    )
    return msgspec.structs.replace(claim, metadata=slim, status=PersistentVolumeClaimStatus(phase=claim.status.phase))


def prune_volume(pv: PersistentVolume) -> PersistentVolume:
    """Without labels' crowd, attributes, mount options: what deleting needs, and whose volume it is."""
    meta = pv.metadata
    slim = ObjectMeta(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        deletion_timestamp=meta.deletion_timestamp,
        finalizers=meta.finalizers,
        labels=meta.labels if pv.spec.csi is None else None,
        annotations=meta.annotations,
    )
    source = pv.spec.csi and msgspec.structs.replace(
        pv.spec.csi,
        volume_attributes=None,
        controller_publish_secret_ref=None,
        node_stage_secret_ref=None,
        node_publish_secret_ref=None,
        controller_expand_secret_ref=None,
        node_expand_secret_ref=None,
    )
    spec = msgspec.structs.replace(pv.spec, csi=source, mount_options=None, capacity=None)
    return PersistentVolume(slim, spec, PersistentVolumeStatus(phase=pv.status.phase))


def csi_node_pruner(driver_name: str) -> Callable[[CSINode], CSINode]:
    """Of a CSINode only this driver's entry, and of that its keys."""

    def prune(node: CSINode) -> CSINode:
        own = tuple(CSINodeDriver(name=d.name, topology_keys=d.topology_keys) for d in node.spec.drivers or () if d.name == driver_name)
        return CSINode(_bare(node.metadata), CSINodeSpec(drivers=own))

    return prune


def prune_node(node: Node) -> Node:
    """Labels alone."""
    return Node(msgspec.structs.replace(_bare(node.metadata), labels=node.metadata.labels))


def _bare(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(name=meta.name, uid=meta.uid, resource_version=meta.resource_version)


def same_but_for_version(old: Any, new: Any) -> bool:
    """True when nothing that is kept of the object has changed."""
    meta = msgspec.structs.replace(old.metadata, resource_version=new.metadata.resource_version)
    return bool(msgspec.structs.replace(old, metadata=meta) == new)
