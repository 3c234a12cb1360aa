"""Attachments whose PersistentVolume is gone, kept apart so that their volume is found again when it has got another one."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.storage import VolumeAttachment
from mooring.cluster.attachdetach.identity import Identity


class Orphans:
    """Their names alone say which volume they are about, by the hash of driver, handle and node; what was found once is remembered.

    Those whose volume is not known stand by driver and node: so to look whether some are about a volume takes one hash for each such node.
    """

    def __init__(self) -> None:
        self._unknown: dict[str, dict[str, set[str]]] = {}
        self._volumes: dict[str, str] = {}
        self._names: dict[str, set[str]] = {}  # by volume

    def sort(self, attachment: VolumeAttachment, *, has_volume: bool) -> None:
        """has_volume: the PersistentVolume that it names is there, or the attachment itself is gone."""
        spec, name = attachment.spec, attachment.metadata.name
        if has_volume:
            self._forget(name)
            self._is_known(spec.attacher, spec.node_name, name)
        elif name not in self._volumes:
            self._unknown.setdefault(spec.attacher, {}).setdefault(spec.node_name, set()).add(name)

    def is_about(self, attachment: VolumeAttachment, unique: str) -> None:
        """Its name is the hash of this volume."""
        self._learn(attachment.spec.attacher, attachment.spec.node_name, attachment.metadata.name, unique)

    def of(self, identity: Identity) -> Iterator[str]:
        """The names of those that are about this volume; which one they are about is known from then on."""
        for node, names in list(self._unknown.get(identity.driver, {}).items()):
            name = identity.attachment_to(node)
            if name in names:
                self._learn(identity.driver, node, name, identity.unique)
        yield from sorted(self._names.get(identity.unique, ()))

    def volume_of(self, name: str) -> str | None:
        """The volume of one that is known."""
        return self._volumes.get(name)

    def _learn(self, driver: str, node: str, name: str, unique: str) -> None:
        self._is_known(driver, node, name)
        self._volumes[name] = unique
        self._names.setdefault(unique, set()).add(name)

    def _is_known(self, driver: str, node: str, name: str) -> None:
        nodes = self._unknown.get(driver, {})
        nodes.get(node, set()).discard(name)
        if not nodes.get(node):
            nodes.pop(node, None)

    def _forget(self, name: str) -> None:
        unique = self._volumes.pop(name, "")
        names = self._names.get(unique, set())
        names.discard(name)
        if not names:
            self._names.pop(unique, None)
