"""What the attacher reads, and with which indexes.

A `View` is what the attacher's judgement needs of the world: three caches, what the backend last reported, and which calls are running.
It holds nothing of its own and shows the caches as they are: a decision reads it between two awaits, when nothing moves, and a write that
comes later reads it again.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeVar

import msgspec

from mooring.api.core import PersistentVolume
from mooring.api.meta import Key, Object, ObjectMeta, annotation, finalizers_of, is_deleting
from mooring.api.migration import (
    AZURE_RESOURCE_GROUP,
    MIGRATED_TO,
    PORTWORX_SECRET_NAME,
    PORTWORX_SECRET_NAMESPACE,
    ZONE_LABELS,
    is_migratable,
)
from mooring.api.names import sanitised
from mooring.api.storage import CSINode, CSINodeSpec, VolumeAttachment, VolumeAttachmentStatus
from mooring.csi.capabilities import DriverInfo
from mooring.csi.proto import csi_pb2 as csi

NODE_ID_ANNOTATION: Final = "csi.alpha.kubernetes.io/node-id"
STATUS_OF_ANNOTATION: Final = "mooring.dev/status-of"
"""On an attached attachment whose node has become another machine: the former machine's node id, which the status still tells of."""

BY_VOLUME: Final = "volume"
BY_NODE: Final = "node"

T_co = TypeVar("T_co", covariant=True)
Watched = TypeVar("Watched", PersistentVolume, CSINode)


class Reader(Protocol[T_co]):
    """The read side of a cache."""

    def get(self, key: Key) -> T_co | None: ...
    def by(self, index: str, value: str) -> tuple[T_co, ...]: ...


@dataclasses.dataclass(frozen=True, slots=True)
class DriverFacts:
    """What the driver said of itself at start."""

    name: str
    publishes: bool = True
    publishes_readonly: bool = False
    single_node_multi_writer: bool = False
    lists_published_nodes: bool = False

    finalizer: str = dataclasses.field(init=False)
    """What this driver's attacher keeps on attachments and volumes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "finalizer", "external-attacher/" + sanitised(self.name))


def facts_of(info: DriverInfo) -> DriverFacts:
    """What the attacher needs of what the driver said of itself."""
    rpc = csi.ControllerServiceCapability.RPC
    has_controller = csi.PluginCapability.Service.CONTROLLER_SERVICE in info.plugin
    controller = info.controller if has_controller else frozenset()
    return DriverFacts(
        name=info.name,
        publishes=rpc.PUBLISH_UNPUBLISH_VOLUME in controller,
        publishes_readonly=rpc.PUBLISH_READONLY in controller,
        single_node_multi_writer=rpc.SINGLE_NODE_MULTI_WRITER in controller,
        lists_published_nodes={rpc.LIST_VOLUMES, rpc.LIST_VOLUMES_PUBLISHED_NODES} <= controller,
    )


class Drift(enum.Enum):
    """How the backend's last report contradicts an attachment's status."""

    MISSING = "attached here, not published in the backend"
    EXTRA = "not attached here, but published in the backend"


class Calls(Protocol):
    """The calls to the driver that are running."""

    @property
    def in_flight(self) -> Mapping[str, str]:
        """Volume handle → name of the attachment that it is for."""
        ...

    @property
    def calls_full(self) -> bool:
        """True when as many are running as may."""
        ...


class Doubt(Protocol):
    """A publish that may have happened, or is to be taken back. attachment: for which it was made, as it was."""

    @property
    def volume_handle(self) -> str: ...
    @property
    def attachment(self) -> VolumeAttachment: ...


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The world as the attacher sees it, live.

    drift: by attachment name, only those that differ. maybe_claimed: attachment name → uid, where the answer to our claim was lost.
    doubts: publishes by attachment name: those to be taken back, and those that no attachment tells of yet.
    """

    driver: DriverFacts
    attachments: Reader[VolumeAttachment]
    volumes: Reader[PersistentVolume]
    nodes: Reader[CSINode]
    drift: Mapping[str, Drift]
    calls: Calls
    default_fs_type: str = ""
    maybe_claimed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    doubts: tuple[Mapping[str, Doubt], ...] = ()

    def attachment(self, name: str) -> VolumeAttachment | None:
        return self.attachments.get(Key("", name))

    def is_there(self, attachment: VolumeAttachment) -> bool:
        """True while it exists; another one of its name is not it."""
        found = self.attachment(attachment.metadata.name)
        return found is not None and found.metadata.uid == attachment.metadata.uid

    def volume(self, pv_name: str) -> PersistentVolume | None:
        return self.volumes.get(Key("", pv_name))

    def node_id(self, node_name: str) -> str:
        """The driver's name for the node as CSINode tells it, "" when it doesn't. An empty id is no id: to CSI it means all nodes."""
        csi_node = self.nodes.get(Key("", node_name))
        drivers = csi_node.spec.drivers if csi_node else None
        return next((d.node_id for d in drivers or () if d.name == self.driver.name), "")

    def holds(self, obj: Object) -> bool:
        """True when this driver's finalizer is on the object."""
        return self.driver.finalizer in finalizers_of(obj)

    def may_hold(self, attachment: VolumeAttachment) -> bool:
        """True when the finalizer is on it, or may be: what is not known counts as attached."""
        return self.holds(attachment) or self.maybe_claimed.get(attachment.metadata.name) == attachment.metadata.uid

    def tells_of_another(self, attachment: VolumeAttachment, node_id: str) -> bool:
        """True when the status, with the device in it, is that of a machine which this one has replaced."""
        if annotation(attachment, STATUS_OF_ANNOTATION):
            return True
        return attachment.status.attached and annotation(attachment, NODE_ID_ANNOTATION) not in ("", node_id)

    def holder_beside(self, attachment: VolumeAttachment) -> str | None:
        """The name of another attachment that holds the same volume on the same node and is to stay."""
        for other in self.attachments.by(BY_VOLUME, volume_of(attachment)):
            same_place = other.spec.node_name == attachment.spec.node_name and other.metadata.name != attachment.metadata.name
            if same_place and self.holds(other) and not is_deleting(other):
                return other.metadata.name
        return None

    def worked_for(self, volume_handle: str) -> str | None:
        """The attachment for which the driver is called about this volume, or may still have to be, to take a publish back."""
        doubted = (doubt.attachment.metadata.name for doubt in self.doubts_about(volume_handle))
        return self.calls.in_flight.get(volume_handle) or next(doubted, None)

    def doubts_about(self, volume_handle: str) -> Iterator[Doubt]:
        """The publishes of this volume that may have happened and that no attachment tells of."""
        return (doubt for doubts in self.doubts for doubt in doubts.values() if doubt.volume_handle == volume_handle)

    def releasable(self, pv: PersistentVolume) -> bool:
        """True when the finalizer on this volume has no future: deleted, or an in-tree volume that is not migrated any more."""
        rolled_back = is_migratable(pv.spec) and annotation(pv, MIGRATED_TO) != self.driver.name
        return self.holds(pv) and (is_deleting(pv) or rolled_back)


# -- indexes


def volume_of(attachment: VolumeAttachment) -> str:
    """Names the volume among attachments: the PersistentVolume's name, or the handle of an inline volume; "" for none."""
    source = attachment.spec.source
    if source.persistent_volume_name:
        return source.persistent_volume_name
    inline = source.inline_volume_spec
    return f"inline {inline.csi.volume_handle}" if inline and inline.csi else ""


ATTACHMENT_INDEXES: Final[Mapping[str, Callable[[VolumeAttachment], Iterable[str]]]] = {
    BY_VOLUME: lambda attachment: (volume_of(attachment),),
    BY_NODE: lambda attachment: (attachment.spec.node_name,),
}


# -- pruning: what is not read is not kept


def _only(mapping: Mapping[str, str] | None, names: Iterable[str]) -> dict[str, str] | None:
    return {name: mapping[name] for name in names if name in mapping} or None if mapping else None


def attachment_pruner(driver_name: str) -> Callable[[VolumeAttachment], VolumeAttachment]:
    """Of a foreign attachment only that it exists is kept, and which volume it holds."""

    def prune(attachment: VolumeAttachment) -> VolumeAttachment:
        if attachment.spec.attacher == driver_name:
            return attachment
        meta = attachment.metadata
        bare = ObjectMeta(name=meta.name, uid=meta.uid, resource_version=meta.resource_version)
        return msgspec.structs.replace(attachment, metadata=bare, status=VolumeAttachmentStatus())

    return prune


def prune_volume(pv: PersistentVolume) -> PersistentVolume:
    """Labels and annotations are kept where translation reads them, the claim for its namespace; of the spec what attaching reads."""
    meta = pv.metadata
    slim = ObjectMeta(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        deletion_timestamp=meta.deletion_timestamp,
        finalizers=meta.finalizers,
        labels=_only(meta.labels, ZONE_LABELS),
        annotations=_only(meta.annotations, (MIGRATED_TO, AZURE_RESOURCE_GROUP, PORTWORX_SECRET_NAME, PORTWORX_SECRET_NAMESPACE)),
    )
    source = pv.spec.csi and msgspec.structs.replace(
        pv.spec.csi, node_publish_secret_ref=None, controller_expand_secret_ref=None, node_expand_secret_ref=None
    )
    spec = msgspec.structs.replace(
        pv.spec,
        csi=source,
        claim_ref=pv.spec.claim_ref if pv.spec.azure_file else None,
        capacity=None,
        persistent_volume_reclaim_policy="",
        storage_class_name="",
        volume_attributes_class_name=None,
        node_affinity=None,
    )
    return PersistentVolume(slim, spec)


def node_pruner(driver_name: str) -> Callable[[CSINode], CSINode]:
    """Of a CSINode only this driver's entry is kept, so that other drivers' registrations wake nobody."""

    def prune(node: CSINode) -> CSINode:
        meta = node.metadata
        bare = ObjectMeta(name=meta.name, uid=meta.uid, resource_version=meta.resource_version)
        own = tuple(d for d in node.spec.drivers or () if d.name == driver_name)
        return msgspec.structs.replace(node, metadata=bare, spec=CSINodeSpec(drivers=own))

    return prune


def worth_a_look(old: VolumeAttachment | None, new: VolumeAttachment) -> bool:
    """False for an update that only tells of errors or of field managers, so that error reports don't defeat the back-off.

    As external-attacher 4.12, which ignores such updates; managedFields are not decoded at all.
    """
    if old is None or old.metadata.resource_version == new.metadata.resource_version:
        return True
    has_errors = any((va.status.attach_error, va.status.detach_error) != (None, None) for va in (old, new))
    return not has_errors or _without_errors(old) != _without_errors(new)


def _without_errors(attachment: VolumeAttachment) -> VolumeAttachment:
    status = msgspec.structs.replace(attachment.status, attach_error=None, detach_error=None)
    meta = msgspec.structs.replace(
        attachment.metadata,
        resource_version="",
        finalizers=attachment.metadata.finalizers or None,
        labels=attachment.metadata.labels or None,
        annotations=attachment.metadata.annotations or None,
    )
    return msgspec.structs.replace(attachment, metadata=meta, status=status)


def same_but_for_version(old: Watched, new: Watched) -> bool:
    """True when nothing that is kept of the object has changed."""
    meta = msgspec.structs.replace(old.metadata, resource_version=new.metadata.resource_version)
    return msgspec.structs.replace(old, metadata=meta) == new
