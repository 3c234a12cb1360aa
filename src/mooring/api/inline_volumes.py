"""In-tree volumes that a pod itself defines, as the CSI drivers that took over see them: what csi-translation-lib does.

Such a volume has no PersistentVolume. The objects made here stand for one, in memory alone: its spec goes into the
VolumeAttachment, its name into paths on nodes and into messages.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from mooring.api.core import CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeSpec
from mooring.api.meta import ObjectMeta
from mooring.api.migration import TranslationError, csi_source, in_tree_source, is_migratable
from mooring.api.pods import Pod, Volume

_READERS: Final = frozenset({"gce_persistent_disk", "portworx_volume"})
"""Read-only, these may be on many nodes."""

_MODES: Final[Mapping[str, str]] = {"azure_file": "ReadWriteMany"}
"""The access modes of kinds for many nodes; all others are for one node."""


def translated_inline(volume: Volume, namespace: str) -> PersistentVolume:
    """volume: is migratable. namespace: its pod's. Raises TranslationError."""
    return _inline(volume, in_tree_source(volume), namespace)


def _inline(volume: Volume, field: str, namespace: str) -> PersistentVolume:
    source = getattr(volume, field)
    in_tree = PersistentVolumeSpec(claim_ref=ObjectReference(namespace=namespace), **{field: source})
    csi = csi_source(PersistentVolume(ObjectMeta(name=volume.name), in_tree), field)
    mode = "ReadOnlyMany" if field in _READERS and source.read_only else _MODES.get(field, "ReadWriteOnce")
    spec = PersistentVolumeSpec(csi=csi, access_modes=(mode,), volume_mode="Filesystem")
    return PersistentVolume(ObjectMeta(name=_name(volume, csi)), spec)


def _name(volume: Volume, csi: CSIPersistentVolumeSource) -> str:
    """The volume's name, the same for all pods that use the disk."""
    if volume.azure_disk is not None or volume.azure_file is not None:
        return csi.volume_handle
    disk = volume.gce_persistent_disk
    return f"{csi.driver}-{csi.volume_handle if disk is None else disk.pd_name}"


class InlineVolumes(msgspec.Struct, frozen=True):
    """A pod's own in-tree volumes. by_handle: by driver and handle. problems: by the volume's name why it can't be
    translated.
    """

    by_handle: Mapping[tuple[str, str], PersistentVolume] = msgspec.field(default_factory=dict)
    problems: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __iter__(self) -> Iterator[PersistentVolume]:
        return iter(self.by_handle.values())


_NONE: Final = InlineVolumes()


def inline_volumes_of(pod: Pod) -> InlineVolumes:
    """Translated once, whoever asks about a pod of now: it may have thousands."""
    volumes = pod.spec.volumes or ()
    return _translated(_Key(volumes, pod.metadata.namespace)) if any(map(is_migratable, volumes)) else _NONE


class _Key:
    """These very volumes, and no others that are equal: to compare them would cost more than to translate them."""

    def __init__(self, volumes: tuple[Volume, ...], namespace: str) -> None:
        self.volumes, self.namespace = volumes, namespace

    def __hash__(self) -> int:
        return id(self.volumes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.volumes is other.volumes and self.namespace == other.namespace


@functools.lru_cache(maxsize=256)
def _translated(of: _Key) -> InlineVolumes:
    found: dict[tuple[str, str], PersistentVolume] = {}
    problems: dict[str, str] = {}
    for volume, field in zip(of.volumes, map(in_tree_source, of.volumes), strict=True):
        if not field:
            continue
        try:
            pv = _inline(volume, field, of.namespace)
        except TranslationError as error:
            problems[volume.name] = str(error)
        else:
            assert pv.spec.csi is not None
            found.setdefault((pv.spec.csi.driver, pv.spec.csi.volume_handle), pv)
    return InlineVolumes(found, problems)
