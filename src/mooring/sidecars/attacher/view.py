"""The objects, fields and indexes that the attacher reads, and the volume of an attachment as CSI sees it.

A `View` is the input of a decision: three caches, the memory beside them, and the calls that are running. It holds nothing of its own and
shows the caches as they are: a decision reads it between two awaits, when nothing changes, and a later write reads it again.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from mooring.api.core import PersistentVolume, PersistentVolumeSpec, SecretReference
from mooring.api.driver_versions import DRIVER_VERSIONS, versions_on
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
from mooring.sidecars.attacher.memory import Drift, Memory, UnconfirmedPublish

NODE_ID_ANNOTATION: Final = "csi.alpha.kubernetes.io/node-id"
STATUS_OF_ANNOTATION: Final = "mooring.dev/status-of"
"""On an attached attachment whose node has become another machine: the former machine's node id, which the status is still about."""

BY_VOLUME: Final = "attacher/volume"
BY_NODE: Final = "attacher/node"
BY_HANDLE: Final = "attacher/handle"


NEITHER_SOURCE: Final = "neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source"
BOTH_SOURCES: Final = "both InlineCSIVolumeSource and PersistentVolumeName specified in VA source"
INLINE_WITHOUT_CSI: Final = "inline volume spec contains nil CSI source"
NOT_MIGRATED: Final = "pv spec contained non-csi source that was not migrated"


class Calls(Protocol):
    """The calls to the driver that are running."""

    @property
    def in_flight(self) -> Mapping[str, str]:
        """Volume handle → name of the attachment that it is for."""
        ...

    @property
    def is_full(self) -> bool:
        """True when no more may begin."""
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

    finalizer: str = dataclasses.field(init=False)
    """This driver's attacher keeps it on attachments and volumes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "finalizer", attacher_finalizer(self.driver.name))

    def attachment(self, name: str) -> VolumeAttachment | None:
        return self.attachments.get(Key("", name))

    def is_there(self, attachment: VolumeAttachment) -> bool:
        """True while it exists; another one of its name is not it."""
        found = self.attachment(attachment.metadata.name)
        return found is not None and found.metadata.uid == attachment.metadata.uid

    def volume(self, pv_name: str) -> PersistentVolume | None:
        return self.volumes.get(Key("", pv_name))

    def node_id(self, node_name: str) -> str:
        """The driver's name for the node, from its CSINode, "" without. An empty id is no id: to CSI it means all nodes."""
        csi_node = self.nodes.get(Key("", node_name))
        drivers = csi_node.spec.drivers if csi_node else None
        return next((d.node_id for d in drivers or () if d.name == self.driver.name), "")

    def version_on(self, node_name: str) -> str:
        """The version of the driver that is registered on the node, "" where nobody has noted it."""
        csi_node = self.nodes.get(Key("", node_name))
        return versions_on(csi_node).get(self.driver.name, "") if csi_node else ""

    def holds(self, obj: Object) -> bool:
        """True when this driver's finalizer is on the object."""
        return self.finalizer in finalizers_of(obj)

    def may_hold(self, attachment: VolumeAttachment) -> bool:
        """True when the finalizer is on it, or may be: unknown counts as attached."""
        return self.holds(attachment) or self.memory.finalizer_unknown(attachment)

    def tells_of_another(self, attachment: VolumeAttachment, node_id: str) -> bool:
        """True when the status, with its device, is that of a machine which this one has replaced."""
        if annotation(attachment, STATUS_OF_ANNOTATION):
            return True
        return attachment.status.attached and annotation(attachment, NODE_ID_ANNOTATION) not in ("", node_id)

    def former_node_ids(self, attachment: VolumeAttachment, node_id: str) -> tuple[str, ...]:
        """The machines, beside the one that has its node's name now, on which this attachment may have its volume published."""
        unconfirmed = self.memory.unconfirmed_of(attachment.metadata.name)
        claimed = (
            annotation(attachment, NODE_ID_ANNOTATION),
            unconfirmed.order.node_id if unconfirmed is not None else "",
        )
        return tuple(one for one in dict.fromkeys(claimed) if one not in ("", node_id))

    def other_attachment_on(self, attachment: VolumeAttachment, node_id: str) -> str | None:
        """The name of another attachment that holds the same volume on this machine and is to stay. node_id: "" for the same node."""
        for other in self._others_to_stay(attachment):
            if self.claimed_id(other) == node_id if node_id else other.spec.node_name == attachment.spec.node_name:
                return other.metadata.name
        return None

    def stays_in_use(self, attachment: VolumeAttachment, node_id: str) -> bool:
        """True where another attachment keeps the same volume on a machine that this one leaves, and does not leave it, too. Nobody uses it
        by an attachment that does not tell of it: that one is published anew.
        """
        same = (other for other in self._others_to_stay(attachment) if self.claimed_id(other) == node_id)
        others = (other for other in same if other.status.attached)
        return any(self.memory.drift(other.metadata.name) is not Drift.MOVED for other in others)

    def _others_to_stay(self, attachment: VolumeAttachment) -> Iterator[VolumeAttachment]:
        """The other attachments that hold the same volume."""
        name = attachment.metadata.name
        return (
            one
            for one in self.of_same_volume(attachment)
            if one.metadata.name != name and self.holds(one) and not is_deleting(one)
        )

    def claimed_id(self, attachment: VolumeAttachment) -> str:
        """The machine that it names as its own, or else the one that has its node's name."""
        return annotation(attachment, NODE_ID_ANNOTATION) or self.node_id(attachment.spec.node_name)

    def of_same_volume(self, attachment: VolumeAttachment) -> Iterator[VolumeAttachment]:
        """The attachments of its volume, itself too, whichever PersistentVolume with that handle they name, or inline.

        Another driver may have another volume of the same handle.
        """
        handle = self._handle(attachment)
        same = [one.metadata.name for one in self.volumes.by(BY_HANDLE, handle)] if handle else []
        for name in dict.fromkeys((volume_of(attachment), *same, inline_name(handle))):
            yield from (
                one for one in self.attachments.by(BY_VOLUME, name) if one.spec.attacher == attachment.spec.attacher
            )

    def _handle(self, attachment: VolumeAttachment) -> str:
        """The handle of its volume, "" where that is not known."""
        source = attachment.spec.source
        if source.persistent_volume_name:
            pv = self.volume(source.persistent_volume_name)
            return "" if pv is None else driver_and_handle(pv)[1]
        inline = source.inline_volume_spec
        return inline.csi.volume_handle if inline and inline.csi else ""

    def caller_for(self, volume_handle: str) -> str | None:
        """The attachment for which the driver is called about this volume, or may have to be, to undo a publish."""
        publishing = (unconfirmed.name for unconfirmed in self.unconfirmed_about(volume_handle))
        return self.calls.in_flight.get(volume_handle) or next(publishing, None)

    def unconfirmed_about(self, volume_handle: str) -> tuple[UnconfirmedPublish, ...]:
        """The publishes of this volume that may have happened and that no attachment shows."""
        return self.memory.unconfirmed_about(volume_handle)

    def releasable(self, pv: PersistentVolume) -> bool:
        """True when the finalizer on this volume has no future: deleted, or an in-tree volume that is not migrated any more."""
        rolled_back = is_migratable(pv.spec) and annotation(pv, MIGRATED_TO) != self.driver.name
        return self.holds(pv) and (is_deleting(pv) or rolled_back)


# -- indexes


class ResolvedVolume(msgspec.Struct, frozen=True):
    """A volume whose spec has a csi source. migrated: translated from an in-tree source. inline: from the attachment itself."""

    spec: PersistentVolumeSpec
    migrated: bool
    inline: bool = False

    @property
    def may_be_incomplete(self) -> bool:
        """True for handles made by translation, which may lack what only the backend knows."""
        return self.migrated or self.inline

    @property
    def handle(self) -> str:
        assert self.spec.csi is not None
        return self.spec.csi.volume_handle

    @property
    def secret(self) -> SecretReference | None:
        assert self.spec.csi is not None
        return self.spec.csi.controller_publish_secret_ref


def resolve_volume(view: View, attachment: VolumeAttachment) -> ResolvedVolume | Problem:
    """The volume that the attachment names, as CSI sees it, or what is wrong with it."""
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
    """The volume as CSI sees it, or what is wrong with it."""
    if is_migratable(pv.spec):
        try:
            return ResolvedVolume(translated(pv), migrated=True)
        except TranslationError as error:
            return why.BadSpec(f"failed to translate in tree pv to CSI: {error}")
    return ResolvedVolume(pv.spec, migrated=False) if pv.spec.csi else why.BadSpec(NOT_MIGRATED)


def named_volume(attachment: VolumeAttachment) -> str:
    """The PersistentVolume that the attachment's volume is from, "" for an inline volume, and for a bad source."""
    source = attachment.spec.source
    return source.persistent_volume_name or "" if source.inline_volume_spec is None else ""


def volume_of(attachment: VolumeAttachment) -> str:
    """Names the volume among attachments: the PersistentVolume's name, or the handle of an inline volume; "" for none."""
    source = attachment.spec.source
    if source.persistent_volume_name:
        return source.persistent_volume_name
    inline = source.inline_volume_spec
    return inline_name(inline.csi.volume_handle) if inline and inline.csi else ""


def inline_name(volume_handle: str) -> str:
    """Names an inline volume among attachments; no PersistentVolume has such a name."""
    return f"inline {volume_handle}"


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
    """A foreign attachment is kept with its volume only."""
    return lambda attachment: WHOLE if attachment.spec.attacher == driver_name else _FOREIGN


def keeps_of_volume(pv: PersistentVolume) -> Part:
    """The claim is kept where translation reads its namespace."""
    return _VOLUME_OF_AZURE_FILE if pv.spec.azure_file else VOLUME


def node_mask(driver_name: str) -> Mask:
    """It keeps only this driver's entry of a CSINode, so that other drivers' registrations wake nobody."""
    return slim(metadata=slim(), spec=slim(drivers=items(Named(driver_name))))


def keeps_of_node(driver_name: str) -> Part:
    """The driver's entry, and the note of versions, whose changes wake nobody."""
    return node_mask(driver_name) | slim(metadata=slim(annotations=only(DRIVER_VERSIONS)))
