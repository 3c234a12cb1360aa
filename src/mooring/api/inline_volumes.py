"""In-tree volumes that a pod itself defines, as the CSI drivers that took over see them: what csi-translation-lib does.

Such a volume has no PersistentVolume. What is made here stands for one, in memory alone: its spec goes into the VolumeAttachment, its
name into paths on nodes and into messages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from mooring.api.core import CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeSpec
from mooring.api.meta import ObjectMeta
from mooring.api.migration import TranslationError, in_tree_source, is_migratable, translated
from mooring.api.pods import Pod, Volume

_READERS: Final = frozenset({"gce_persistent_disk", "portworx_volume"})
"""Read-only, these may be on many nodes."""

_MODES: Final[Mapping[str, str]] = {"azure_file": "ReadWriteMany"}
"""All others are for one node."""


def translated_inline(volume: Volume, namespace: str) -> PersistentVolume:
    """volume: is migratable. namespace: its pod's. Raises TranslationError."""
    field = in_tree_source(volume)
    source = getattr(volume, field)
    in_tree = PersistentVolumeSpec(claim_ref=ObjectReference(namespace=namespace), **{field: source})
    spec = translated(PersistentVolume(ObjectMeta(name=volume.name), in_tree))
    assert spec.csi is not None
    mode = "ReadOnlyMany" if field in _READERS and source.read_only else _MODES.get(field, "ReadWriteOnce")
    spec = msgspec.structs.replace(spec, claim_ref=None, access_modes=(mode,), volume_mode="Filesystem")
    return PersistentVolume(ObjectMeta(name=_name(volume, spec.csi)), spec)


def _name(volume: Volume, csi: CSIPersistentVolumeSource | None) -> str:
    """The same for all pods that use the disk."""
    assert csi is not None
    if volume.azure_disk is not None or volume.azure_file is not None:
        return csi.volume_handle
    disk = volume.gce_persistent_disk
    return f"{csi.driver}-{csi.volume_handle if disk is None else disk.pd_name}"


def inline_volumes_of(pod: Pod) -> Iterator[PersistentVolume]:
    """The pod's own in-tree volumes; those that can't be translated are left out."""
    for volume in pod.spec.volumes or ():
        if is_migratable(volume):
            with contextlib.suppress(TranslationError):
                yield translated_inline(volume, pod.metadata.namespace)
