"""The objects that the room reads: how claims, volumes and snapshots are understood, found by indexes, and which parts
are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.classes import class_of
from mooring.api.core import (
    Node,
    NodeCondition,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    reference_to,
)
from mooring.api.matching import fits_node
from mooring.api.meta import Key, annotation, finalizers_of
from mooring.api.migration import LEAVES_GAPS, UNSPECIFIED, source_as_csi
from mooring.api.quantity import parse_quantity
from mooring.api.snapshot import VolumeSnapshot
from mooring.api.storage import StorageClass, VolumeAttachment
from mooring.control.slim import Mask, Named, Part, changed, items, slim, slimmed
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.reader import Reader
from mooring.kube.cache.store import Change
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.options import Rules

SNAPSHOT_KIND: Final = "VolumeSnapshot"
CLAIM_KIND: Final = "PersistentVolumeClaim"


class Source(msgspec.Struct, frozen=True):
    """The source of a volume's data."""

    kind: str
    #: "" for the core group, and for none.
    group: str
    namespace: str
    name: str

    @property
    def is_snapshot(self) -> bool:
        return self.kind == SNAPSHOT_KIND

    @property
    def is_claim(self) -> bool:
        return self.kind == CLAIM_KIND


def provisioner_of(claim: PersistentVolumeClaim) -> str:
    """The provisioner that is asked for the volume; the GA annotation hides the beta one, even when it is empty."""
    notes = claim.metadata.annotations or {}
    return notes.get(names.STORAGE_PROVISIONER, notes.get(names.STORAGE_PROVISIONER_BETA, ""))


def is_asked(driver: DriverCapabilities, claim: PersistentVolumeClaim) -> bool:
    """True when this driver's provisioner is asked for the volume."""
    asked = provisioner_of(claim)
    return driver.is_named(asked) and driver.name in (asked, annotation(claim, names.MIGRATED_TO))


def selected_node(claim: PersistentVolumeClaim) -> str:
    """The node that the scheduler chose, "" for none. The alpha key is read here only: it makes no claim due."""
    return annotation(claim, names.SELECTED_NODE) or annotation(claim, names.SELECTED_NODE_ALPHA)


def requested_bytes(claim: PersistentVolumeClaim) -> int:
    """The size asked for, rounded up. Raises ValueError for what is no quantity; the API server takes none of those."""
    text = (claim.spec.resources.requests or {}).get("storage", "0")
    return parse_quantity(text).whole


def source_of(claim: PersistentVolumeClaim) -> Source | None:
    """`dataSource`, or else `dataSourceRef`; None for an empty volume."""
    own, ref = claim.spec.data_source, claim.spec.data_source_ref
    if own is not None:
        return Source(own.kind, own.api_group or "", claim.metadata.namespace, own.name)
    if ref is not None:
        return Source(ref.kind, ref.api_group or "", ref.namespace or claim.metadata.namespace, ref.name)
    return None


BY_UID: Final = "claims/uid"
BY_CLASS: Final = "claims/class"
BY_SOURCE: Final = "claims/source"
BY_HANDLE: Final = "volumes/handle"


def claim_reference(claim: PersistentVolumeClaim) -> ObjectReference:
    """The reference to the claim, for events about it."""
    return reference_to(claim, CLAIM_KIND)


# -- indexes


def _handle_of(pv: PersistentVolume) -> tuple[str, ...]:
    source = source_as_csi(pv)
    return () if source is None else (handle_key(source.driver, source.volume_handle),)


def handle_key(driver: str, handle: str) -> str:
    """The index value that all handles of a driver share for which `is_same_handle` holds."""
    folded = handle.casefold()
    return f"{driver}/{folded.rpartition('/')[2] if driver in LEAVES_GAPS else folded}"


def is_same_handle(one: str, other: str) -> bool:
    """True for two handles of one volume, in whatever letters: for some backends these do not matter (Azure).

    An in-tree object does not tell all parts of a handle: what is unspecified may be anything.
    """
    parts, others = one.split("/"), other.split("/")
    return len(parts) == len(others) and all(
        a.casefold() == b.casefold() or UNSPECIFIED in (a, b) for a, b in zip(parts, others, strict=True)
    )


def _class_of_unbound(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    return () if claim.spec.volume_name else (class_of(claim),)


def _sources_of_pending(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    source = source_of(claim) if claim.status.phase in ("", "Pending") else None
    return () if source is None else (source_key(source.kind, source.namespace, source.name),)


def has_to_do_with_copies(claim: PersistentVolumeClaim) -> bool:
    """True for a claim that waits for the copy of a source, and for one that is held as a source."""
    return bool(_sources_of_pending(claim)) or names.CLONE_FINALIZER in finalizers_of(claim)


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

_VOLUME: Final = slim(
    metadata=slim("deletion_timestamp", "finalizers", "annotations"), spec=_SPEC, status=slim("phase")
)
_IN_TREE_VOLUME: Final = slim(
    metadata=slim("deletion_timestamp", "finalizers", "annotations", "labels"), spec=_SPEC, status=slim("phase")
)


def _is_readiness(condition: NodeCondition) -> bool:
    return condition.type == "Ready"


READINESS: Final = slim(metadata=slim(), status=slim(conditions=items(_is_readiness, slim("type", "status"))))
PLACE: Final = slim(metadata=slim("labels"))
NODE: Final = PLACE | READINESS


def unreadiness(node: Node) -> str:
    """The status of a Ready condition that is not True, "" for a node that is ready or has none."""
    return next(
        (one.status for one in node.status.conditions or () if one.type == "Ready" and one.status != "True"), ""
    )


def keeps_of_claim(claim: PersistentVolumeClaim) -> Part:
    """A bound claim matters as a source only: its annotations are not kept."""
    return _BOUND_CLAIM if claim.spec.volume_name else _CLAIM


def keeps_of_volume(pv: PersistentVolume) -> Part:
    """The part that deletion reads, and the claim."""
    return _IN_TREE_VOLUME if pv.spec.csi is None else _VOLUME


def csi_node_mask(driver_name: str) -> Mask:
    """Keeps this driver's entry of a CSINode, and of that entry its topology keys."""
    return slim(metadata=slim(), spec=slim(drivers=items(Named(driver_name), slim("name", "topology_keys"))))


BY_VOLUME: Final = "deletion/volume"


# -- the cache of attachments


def _volume_of(attachment: VolumeAttachment) -> tuple[str, ...]:
    name = attachment.spec.source.persistent_volume_name
    return (name,) if name else ()


ATTACHMENT_INDEXES: Final[Mapping[str, Callable[[VolumeAttachment], Iterable[str]]]] = {BY_VOLUME: _volume_of}

ATTACHMENT: Final = slim(metadata=slim(), spec=slim("node_name", source=slim("persistent_volume_name")))
"""Which volume is on which node."""


def keeps_attachment(attachment: VolumeAttachment) -> Part | None:
    """Attachments of inline volumes are left out."""
    return ATTACHMENT if attachment.spec.source.persistent_volume_name else None


FOR_CLAIMS: Final = slim(
    metadata=slim("deletion_timestamp"),
    status=slim("bound_volume_snapshot_content_name", "ready_to_use", "restore_size"),
)
"""The part of a snapshot that can make claims of it fail."""

SNAPSHOT: Final = FOR_CLAIMS | slim(metadata=slim("finalizers"))


def concerns_claims(change: Change[VolumeSnapshot]) -> bool:
    """False for a change of finalizers alone."""
    return changed(change.old, change.new, FOR_CLAIMS)


# -- the view


def is_done_with(pv: PersistentVolume) -> bool:
    """True for one that is to be deleted with its volume."""
    return pv.status.phase == "Released" and pv.spec.persistent_volume_reclaim_policy == "Delete"


def is_provisioned_by(driver: DriverCapabilities, pv: PersistentVolume) -> bool:
    """True for volumes that this driver provisioned, and for those that nobody provisioned and the driver serves."""
    migrated = annotation(pv, names.MIGRATED_TO) == driver.name
    if names.PROVISIONED_BY in (pv.metadata.annotations or {}):
        return migrated or driver.is_named(annotation(pv, names.PROVISIONED_BY))
    return pv.spec.csi.driver == driver.name if pv.spec.csi is not None else migrated


class CacheView(msgspec.Struct, frozen=True, kw_only=True):
    """The caches that several judgements read, live."""

    driver: DriverCapabilities
    claims: Reader[PersistentVolumeClaim]
    volumes: Reader[PersistentVolume]
    classes: Reader[StorageClass]
    nodes: Reader[Node]
    rules: Rules = msgspec.field(default_factory=Rules)
    #: The one node that this instance serves; "" for all.
    node_name: str = ""

    @property
    def uses_topology(self) -> bool:
        return self.driver.topology and self.rules.topology

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
        """The PersistentVolumes of other names that name this volume of the driver; on one node, those that it can
        reach.
        """
        return [
            pv.metadata.name
            for pv in self.volumes.by(BY_HANDLE, handle_key(self.driver.name, handle))
            if pv.metadata.name != pv_name and self.means(pv, handle)
        ]

    def means(self, pv: PersistentVolume, handle: str) -> bool:
        """True when it names this volume of the driver. On one node what that can't reach may be another node's volume
        of that handle.
        """
        source = source_as_csi(pv)
        return (
            source is not None
            and source.driver == self.driver.name
            and is_same_handle(source.volume_handle, handle)
            and self.is_here(pv)
        )
