"""The volume of an attachment as CSI sees it, or the reason why there is none."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.api.core import PersistentVolumeSpec, SecretReference
from mooring.api.migration import TranslationError, is_migratable, translated
from mooring.api.storage import VolumeAttachment
from mooring.control.result import Problem
from mooring.controllers.attacher import reasons as why
from mooring.controllers.attacher.view import View

NEITHER_SOURCE: Final = "neither InlineCSIVolumeSource nor PersistentVolumeName specified in VA source"
BOTH_SOURCES: Final = "both InlineCSIVolumeSource and PersistentVolumeName specified in VA source"
INLINE_WITHOUT_CSI: Final = "inline volume spec contains nil CSI source"
NOT_MIGRATED: Final = "pv spec contained non-csi source that was not migrated"


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
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


def resolve_volume(view: View, attachment: VolumeAttachment) -> Volume | Problem:
    """The volume that the attachment names, as CSI sees it, or what is wrong with it."""
    source = attachment.spec.source
    inline = source.inline_volume_spec
    if inline is not None and source.persistent_volume_name is not None:
        return why.BadSpec(BOTH_SOURCES)
    if inline is not None:
        return Volume(inline, migrated=False, inline=True) if inline.csi else why.BadSpec(INLINE_WITHOUT_CSI)
    if source.persistent_volume_name is None:
        return why.BadSpec(NEITHER_SOURCE)
    pv = view.volume(source.persistent_volume_name)
    if pv is None:
        return why.VolumeMissing(source.persistent_volume_name)
    if is_migratable(pv.spec):
        try:
            return Volume(translated(pv), migrated=True)
        except TranslationError as error:
            return why.BadSpec(f"failed to translate in tree pv to CSI: {error}")
    return Volume(pv.spec, migrated=False) if pv.spec.csi else why.BadSpec(NOT_MIGRATED)


def named_volume(attachment: VolumeAttachment) -> str:
    """The PersistentVolume that the attachment's volume is from, "" for an inline volume, and for a bad source."""
    source = attachment.spec.source
    return source.persistent_volume_name or "" if source.inline_volume_spec is None else ""
