"""The objects, fields and indexes that the attacher reads, and the volume of an attachment as CSI sees it.

A `View` is the input of a decision: three caches, the memory beside them, and the calls that are running. It holds
nothing of its own and shows the caches as they are: a decision reads it between two awaits, when nothing changes, and a
later write reads it again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from mooring.api.core import CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec
from mooring.api.driver_versions import DRIVER_VERSIONS
from mooring.api.meta import Key, Object, annotation, finalizers_of, is_deleting
from mooring.api.migration import (
    AZURE_RESOURCE_GROUP,
    IN_TREE_SOURCES,
    MIGRATED_TO,
    PORTWORX_SECRET_NAME,
    PORTWORX_SECRET_NAMESPACE,
    ZONE_LABELS,
    TranslationError,
    driver_and_handle,
    is_migratable,
    translated,
)
from mooring.api.names import attacher_finalizer
from mooring.api.storage import CSINode, VolumeAttachment
from mooring.control.result import Problem
from mooring.control.slim import WHOLE, Mask, Named, Part, items, only, slim
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.reader import Reader
from mooring.sidecars.attacher import reasons as why
from mooring.sidecars.attacher.memory import Memory, UnconfirmedPublish

NODE_ID_ANNOTATION: Final = "csi.alpha.kubernetes.io/node-id"
STATUS_OF_ANNOTATION: Final = "mooring.dev/status-of"
"""The annotation of an attached attachment whose node has become another machine: the former machine's node id, which
the status is still about.
"""

BY_VOLUME: Final = "attacher/volume"
BY_NODE: Final = "attacher/node"
BY_HANDLE: Final = "attacher/handle"
INLINE: Final = "inline "
"""Precedes the handle of an inline volume in the index by volume; no PersistentVolume has such a name."""

NEITHER_SOURCE: Final = "neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source"
BOTH_SOURCES: Final = "both InlineCSIVolumeSource and PersistentVolumeName specified in VA source"
INLINE_WITHOUT_CSI: Final = "inline volume spec contains nil CSI source"
NOT_MIGRATED: Final = "pv spec contained non-csi source that was not migrated"


class Calls(Protocol):
    """The calls to the driver that are running."""

    @property
    def in_flight(self) -> Mapping[str, str]:
        """Return, by volume handle, the name of the attachment that the call is for."""
        ...

    @property
    def is_full(self) -> bool:
        """Return True when no more may begin."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The caches, the calls and the memory, live."""

    driver: DriverCapabilities
    attachments: Reader[VolumeAttachment]
    volumes: Reader[PersistentVolume]
    nodes: Reader[CSINode]
    calls: Calls
    memory: Memory
    default_fs_type: str = ""
    #: The finalizer that this driver's attacher keeps on attachments and volumes.
    finalizer: str = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "finalizer", attacher_finalizer(self.driver.name))

    def attachment(self, name: str, uid: str | None = None) -> VolumeAttachment | None:
        """Return the attachment; with a uid only the one that has it, not another that took its name."""
        found = self.attachments.get(Key("", name))
        return found if found is not None and uid in (None, found.metadata.uid) else None

    def volume(self, pv_name: str) -> PersistentVolume | None:
        return self.volumes.get(Key("", pv_name))

    def node_id(self, node_name: str) -> str:
        """Return the driver's name for the node, from its CSINode, "" without. To CSI an empty id means all nodes."""
        csi_node = self.nodes.get(Key("", node_name))
        return id_on(csi_node, self.driver.name) if csi_node else ""

    def holds(self, obj: Object) -> bool:
        """Return True when this driver's finalizer is on the object."""
        return self.finalizer in finalizers_of(obj)

    def may_hold(self, attachment: VolumeAttachment) -> bool:
        """Return True when the finalizer is on it, or may be: then its volume may be published."""
        return self.holds(attachment) or attachment.metadata.uid in self.memory.finalizers_unknown

    def releasable(self, pv: PersistentVolume) -> bool:
        """Return True when the finalizer has no future on this volume: it is deleted, or its migration from the
        in-tree driver was rolled back.
        """
        rolled_back = is_migratable(pv.spec) and annotation(pv, MIGRATED_TO) != self.driver.name
        return self.holds(pv) and (is_deleting(pv) or rolled_back)

    # -- machines: a node's name may stand for another machine than before

    def claimed_id(self, attachment: VolumeAttachment) -> str:
        """Return the node id in the attachment's annotation, or else that of the machine that has its node's name."""
        return annotation(attachment, NODE_ID_ANNOTATION) or self.node_id(attachment.spec.node_name)

    def former_ids(self, attachment: VolumeAttachment) -> tuple[str, ...]:
        """Return the node ids of the machines on which the attachment may have its volume published, without the one
        that has its node's name now.
        """
        unconfirmed = self.memory.unconfirmed_of(attachment.metadata.name)
        claimed = annotation(attachment, NODE_ID_ANNOTATION), unconfirmed.order.node_id if unconfirmed else ""
        return tuple(one for one in dict.fromkeys(claimed) if one not in ("", self.node_id(attachment.spec.node_name)))

    # -- a volume's other attachments

    def of_same_volume(self, attachment: VolumeAttachment) -> Iterator[VolumeAttachment]:
        """Yield all attachments of this one's volume, itself too: by any PersistentVolume with that handle, or inline.
        Only its attacher's, since another driver may have another volume of the same handle.
        """
        named, inline = self.volume(named_volume(attachment)), attachment.spec.source.inline_volume_spec
        handle = driver_and_handle(named)[1] if named else inline.csi.volume_handle if inline and inline.csi else ""
        same = [one.metadata.name for one in self.volumes.by(BY_HANDLE, handle)] if handle else []
        for name in dict.fromkeys((volume_of(attachment), *same, f"{INLINE}{handle}")):
            yield from (
                one for one in self.attachments.by(BY_VOLUME, name) if one.spec.attacher == attachment.spec.attacher
            )

    def twins(self, attachment: VolumeAttachment, node_id: str) -> Iterator[VolumeAttachment]:
        """Yield the other attachments that have the same volume on this machine and are to stay.

        node_id: "" for the same node, whatever machine that is.
        """
        for one in self.of_same_volume(attachment):
            is_other = one.metadata.name != attachment.metadata.name and self.holds(one) and not is_deleting(one)
            if is_other and (
                self.claimed_id(one) == node_id if node_id else one.spec.node_name == attachment.spec.node_name
            ):
                yield one

    def unconfirmed_about(self, volume_handle: str) -> Collection[UnconfirmedPublish]:
        """Return the publishes of this volume that may have happened and that no attachment shows."""
        return self.memory.unconfirmed_about(volume_handle)

    def caller_for(self, volume_handle: str) -> str | None:
        """Return the attachment for which the driver is called about this volume, or may have to be, to undo a
        publish.
        """
        publishing = (unconfirmed.attachment.metadata.name for unconfirmed in self.unconfirmed_about(volume_handle))
        return self.calls.in_flight.get(volume_handle) or next(publishing, None)


def id_on(csi_node: CSINode, driver_name: str) -> str:
    """Return the driver's name for this node, "" where the driver is not registered."""
    return next((one.node_id for one in csi_node.spec.drivers or () if one.name == driver_name), "")


# -- volumes


class ResolvedVolume(msgspec.Struct, frozen=True):
    """A volume whose spec has a csi source."""

    spec: PersistentVolumeSpec
    #: The csi source was translated from an in-tree one.
    migrated: bool
    #: The spec stands in the attachment itself.
    inline: bool = False

    @property
    def source(self) -> CSIPersistentVolumeSource:
        assert self.spec.csi is not None
        return self.spec.csi


def resolve_volume(view: View, attachment: VolumeAttachment) -> ResolvedVolume | Problem:
    """Return the volume that the attachment names, as CSI sees it, or what is wrong with it."""
    source = attachment.spec.source
    inline = source.inline_volume_spec
    if inline is not None and source.persistent_volume_name is not None:
        return why.BadSpec(BOTH_SOURCES)
    if inline is not None:
        return ResolvedVolume(inline, migrated=False, inline=True) if inline.csi else why.BadSpec(INLINE_WITHOUT_CSI)
    if source.persistent_volume_name is None:
        return why.BadSpec(NEITHER_SOURCE)
    pv = view.volume(source.persistent_volume_name)
    if pv is None:
        return why.VolumeMissing(source.persistent_volume_name)
    return as_csi(pv)


def as_csi(pv: PersistentVolume) -> ResolvedVolume | Problem:
    """Return the volume as CSI sees it, or what is wrong with it."""
    if is_migratable(pv.spec):
        try:
            return ResolvedVolume(translated(pv), migrated=True)
        except TranslationError as error:
            return why.BadSpec(f"failed to translate in tree pv to CSI: {error}")
    return ResolvedVolume(pv.spec, migrated=False) if pv.spec.csi else why.BadSpec(NOT_MIGRATED)


def named_volume(attachment: VolumeAttachment) -> str:
    """Return the PersistentVolume that the attachment names, "" for an inline volume, and for a bad source."""
    source = attachment.spec.source
    return source.persistent_volume_name or "" if source.inline_volume_spec is None else ""


def volume_of(attachment: VolumeAttachment) -> str:
    """Name the volume among attachments: the PersistentVolume's name, or the handle of an inline volume; "" for
    none.
    """
    source = attachment.spec.source
    inline = source.inline_volume_spec
    return source.persistent_volume_name or (f"{INLINE}{inline.csi.volume_handle}" if inline and inline.csi else "")


# -- indexes

VOLUME_INDEXES: Final[Mapping[str, Callable[[PersistentVolume], Iterable[str]]]] = {
    BY_HANDLE: lambda pv: filter(None, driver_and_handle(pv)[1:]),
}
ATTACHMENT_INDEXES: Final[Mapping[str, Callable[[VolumeAttachment], Iterable[str]]]] = {
    BY_VOLUME: lambda attachment: (volume_of(attachment),),
    BY_NODE: lambda attachment: (attachment.spec.node_name,),
}


# -- the kept parts of objects


_FOREIGN: Final = slim("spec", metadata=slim())

_SOURCE: Final = slim(
    "driver", "volume_handle", "read_only", "fs_type", "volume_attributes", "controller_publish_secret_ref"
)

VOLUME: Final = slim(
    metadata=slim(
        "deletion_timestamp",
        "finalizers",
        labels=only(*ZONE_LABELS),
        annotations=only(MIGRATED_TO, AZURE_RESOURCE_GROUP, PORTWORX_SECRET_NAME, PORTWORX_SECRET_NAMESPACE),
    ),
    spec=slim("access_modes", "volume_mode", "mount_options", *IN_TREE_SOURCES, csi=_SOURCE),
)
"""The part of a PersistentVolume that attaching reads; labels and annotations where translation reads them."""

_VOLUME_OF_AZURE_FILE: Final = VOLUME | slim(spec=slim("claim_ref"))


@functools.cache
def keeps_of_attachment(driver_name: str) -> Callable[[VolumeAttachment], Part]:
    """Keep all of this driver's attachments, and only the spec of others'."""
    return lambda attachment: WHOLE if attachment.spec.attacher == driver_name else _FOREIGN


def keeps_of_volume(pv: PersistentVolume) -> Part:
    """Keep the claim where translation reads its namespace."""
    return _VOLUME_OF_AZURE_FILE if pv.spec.azure_file else VOLUME


def node_mask(driver_name: str) -> Mask:
    """Keep only this driver's entry of a CSINode: other drivers' registrations wake no attachment."""
    return slim(metadata=slim(), spec=slim(drivers=items(Named(driver_name))))


def keeps_of_node(driver_name: str) -> Part:
    """Keep the driver's entry, and the note of versions, whose changes wake no attachment."""
    return node_mask(driver_name) | slim(metadata=slim(annotations=only(DRIVER_VERSIONS)))
