"""Attachments whose PersistentVolume is gone, kept apart so that their volume is found again when it has got another one."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.storage import VolumeAttachment
from mooring.controllers.attachdetach.identity import Identity


class Orphans:
    """By driver and node. Their names alone say which volume they are about: by the hash of driver, handle and node."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, set[str]]] = {}
        self._volumes: dict[str, str] = {}

    def sort(self, attachment: VolumeAttachment, *, has_volume: bool) -> None:
        """has_volume: the PersistentVolume that it names is there, or the attachment itself is gone."""
        spec, name = attachment.spec, attachment.metadata.name
        if not has_volume:
            self._names.setdefault(spec.attacher, {}).setdefault(spec.node_name, set()).add(name)
            return
        self._volumes.pop(name, None)
        nodes = self._names.get(spec.attacher, {})
        nodes.get(spec.node_name, set()).discard(name)
        if not nodes.get(spec.node_name):
            nodes.pop(spec.node_name, None)

    def of(self, identity: Identity) -> Iterator[str]:
        """The names of those that are about this volume; which one they are about is known from then on."""
        for node, names in self._names.get(identity.driver, {}).items():
            name = identity.attachment_to(node)
            if name in names:
                self._volumes[name] = identity.unique
                yield name

    def volume_of(self, name: str) -> str | None:
        """The volume of one that `of` has found."""
        return self._volumes.get(name)
