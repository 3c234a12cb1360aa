"""Attachments whose PersistentVolume is gone, kept apart so that their volume is found again when it gets another
one.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.storage import VolumeAttachment
from mooring.cluster.attachdetach.identity import Identity


class Orphans:
    """Their names alone say which volume they are about, by the hash of driver, handle and node; what was found once is
    remembered.

    Those whose volume is not known stand by driver and node: so to look whether some are about a volume takes one hash
    for each such node.
    """

    def __init__(self) -> None:
        self._unknown: dict[str, dict[str, set[str]]] = {}
        self._volumes: dict[str, str] = {}
        self._names: dict[str, set[str]] = {}  # by volume
        self._node_of: dict[str, str] = {}  # by name
        self._on: dict[str, dict[str, None]] = {}  # names by node, in the order in which they came

    def sort(self, attachment: VolumeAttachment, *, has_volume: bool) -> None:
        """has_volume: the PersistentVolume that it names is there, or the attachment itself is gone."""
        spec, name = attachment.spec, attachment.metadata.name
        if has_volume:
            self._leave(name)
            self._forget(name)
            self._is_known(spec.attacher, spec.node_name, name)
            return
        if self._node_of.get(name) != spec.node_name:
            self._leave(name)
            self._node_of[name] = spec.node_name
            self._on.setdefault(spec.node_name, {})[name] = None
        if name not in self._volumes:
            self._unknown.setdefault(spec.attacher, {}).setdefault(spec.node_name, set()).add(name)

    def is_about(self, attachment: VolumeAttachment, unique: str) -> None:
        """Its name is the hash of this volume."""
        self._learn(attachment.spec.attacher, attachment.spec.node_name, attachment.metadata.name, unique)

    def of(self, identity: Identity) -> Iterator[str]:
        """The names of those that are about this volume; which one they are about is known from then on."""
        for node in list(self._unknown.get(identity.driver, {})):
            self._look(identity, node)
        yield from sorted(self._names.get(identity.unique, ()))

    def of_node(self, identity: Identity, node: str) -> Iterator[str]:
        """The names of those on this node that are about this volume."""
        self._look(identity, node)
        yield from (name for name in sorted(self._names.get(identity.unique, ())) if self._node_of.get(name) == node)

    def _look(self, identity: Identity, node: str) -> None:
        """Whether one of the unknown ones on the node is about this volume."""
        names = self._unknown.get(identity.driver, {}).get(node)
        if names and (name := identity.attachment_to(node)) in names:
            self._learn(identity.driver, node, name, identity.unique)

    def on(self, node: str) -> tuple[str, ...]:
        """The names of all that are attached to the node, whether or not it is known what they are about."""
        return tuple(self._on.get(node, ()))

    def are_on(self, node: str) -> bool:
        """True when any is attached to the node."""
        return node in self._on

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

    def _leave(self, name: str) -> None:
        node = self._node_of.pop(name, None)
        if node is not None:
            names = self._on[node]
            del names[name]
            if not names:
                del self._on[node]

    def _forget(self, name: str) -> None:
        unique = self._volumes.pop(name, "")
        names = self._names.get(unique, set())
        names.discard(name)
        if not names:
            self._names.pop(unique, None)
