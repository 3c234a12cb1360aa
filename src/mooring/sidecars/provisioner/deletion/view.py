"""The input of deletion: the caches, the node that is served, and the progress of deletions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mooring.api.core import PersistentVolume
from mooring.api.matching import fits_node
from mooring.api.meta import Key, annotation, finalizers_of
from mooring.api.storage import StorageClass, VolumeAttachment
from mooring.control.topics import Topic
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.reader import Reader
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.model.cached import BY_HANDLE, BY_VOLUME, is_same_handle, last_part, source_of_volume

# -- topics that a volume waits for while it can't be deleted


def detached(pv_name: str) -> Topic:
    """An attachment of the volume is gone."""
    return f"detached/{pv_name}"


def object_changed(pv_name: str) -> Topic:
    """Another PersistentVolume of the same volume has changed, or is gone."""
    return f"object/{pv_name}"


def class_changed(class_name: str) -> Topic:
    return f"class/{class_name}"


def intent_closed(pv_name: str) -> Topic:
    """The intent of the volume is closed: it no longer keeps the volume from being deleted."""
    return f"intent/{pv_name}"


# -- the view


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a deletion that the cache may not show yet: the backend's volume is gone.

    uid: of the PersistentVolume. object_deleted: its deletion has been asked for, too.
    """

    uid: str
    object_deleted: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Here:
    """The one node that is served. segments: its place, as the driver says."""

    node_name: str
    segments: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The caches and the progress, live. attachments: None for drivers that don't publish. here: None where all nodes are served."""

    driver: DriverCapabilities
    volumes: Reader[PersistentVolume]
    classes: Reader[StorageClass]
    attachments: Reader[VolumeAttachment] | None = None
    here: Here | None = None
    progress: Mapping[str, Progress] = dataclasses.field(default_factory=dict)

    def volume(self, pv_name: str) -> PersistentVolume | None:
        return self.volumes.get(Key("", pv_name))

    def is_ours(self, pv: PersistentVolume) -> bool:
        """True for volumes that this driver provisioned, and for those that nobody provisioned and the driver serves."""
        migrated = annotation(pv, names.MIGRATED_TO) == self.driver.name
        if names.PROVISIONED_BY in (pv.metadata.annotations or {}):
            return migrated or self.driver.is_named(annotation(pv, names.PROVISIONED_BY))
        return pv.spec.csi.driver == self.driver.name if pv.spec.csi is not None else migrated

    def progress_of(self, pv: PersistentVolume) -> Progress | None:
        known = self.progress.get(pv.metadata.name)
        return known if known is not None and known.uid == pv.metadata.uid else None

    def nodes_of(self, pv: PersistentVolume) -> tuple[str, ...]:
        """The nodes that attachments of it name, in whatever state: unknown counts as attached."""
        if self.attachments is None:
            return ()
        return tuple(sorted({one.spec.node_name for one in self.attachments.by(BY_VOLUME, pv.metadata.name)}))

    def keepers_of(self, pv: PersistentVolume, handle: str) -> tuple[str, ...]:
        """The other PersistentVolumes of its volume that are in use, or kept: all but those that are to be deleted with their volume."""
        return tuple(
            sorted(
                other.metadata.name
                for other in self.volumes.by(BY_HANDLE, last_part(handle))
                if other.metadata.name != pv.metadata.name and self._names(other, handle) and not _is_done_with(other)
            )
        )

    def _names(self, pv: PersistentVolume, handle: str) -> bool:
        """On one node what that can't reach may be another node's volume of that handle."""
        source = source_of_volume(pv)
        return (
            source is not None
            and source.driver == self.driver.name
            and is_same_handle(source.volume_handle, handle)
            and self.is_reachable(pv)
        )

    def is_reachable(self, pv: PersistentVolume) -> bool:
        """True when the served node, if it is only one, can reach the volume."""
        return self.here is None or fits_node(pv, self.here.segments, self.here.node_name)


def _is_done_with(pv: PersistentVolume) -> bool:
    return pv.status.phase == "Released" and pv.spec.persistent_volume_reclaim_policy == "Delete"


def holds(pv: PersistentVolume) -> bool:
    """True when the finalizer is on it."""
    return names.VOLUME_FINALIZER in finalizers_of(pv)
