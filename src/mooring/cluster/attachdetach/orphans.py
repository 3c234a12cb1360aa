"""Attachments whose PersistentVolume is gone, kept apart so that their volume is found again when it gets another
one.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.storage import VolumeAttachment
from mooring.cluster.attachdetach.identity import Identity


class Orphans:
    """The attachments whose PersistentVolume is gone. Their names alone say which volume they are about, by the hash of
    driver, handle and node; a volume that was found once is remembered.

    Attachments whose volume is not known are kept by node: to look whether some are about a volume takes one hash for
    each such node.
    """

    def __init__(self) -> None:
        #: The attachments' volumes, "" where not known, by node and attachment, in the order in which these came.
        self._on: dict[str, dict[str, str]] = {}
        self._unknown: dict[str, set[str]] = {}  # names by node
        self._nodes: dict[str, set[str]] = {}  # by volume

    def sort(self, attachment: VolumeAttachment, *, is_orphan: bool) -> None:
        node, name = attachment.spec.node_name, attachment.metadata.name
        if not is_orphan:
            _take(self._nodes, self._on.get(node, {}).pop(name, ""), node)
            _take(self._unknown, node, name)
            if not self._on.get(node):
                self._on.pop(node, None)
        elif not self._on.setdefault(node, {}).setdefault(name, ""):
            self._unknown.setdefault(node, set()).add(name)

    def is_about(self, node: str, name: str, unique: str) -> None:
        """The name of the attachment to the node is the hash of this volume."""
        self._on.setdefault(node, {})[name] = unique
        self._nodes.setdefault(unique, set()).add(node)
        _take(self._unknown, node, name)

    def nodes_of(self, identity: Identity) -> Iterator[str]:
        """The nodes to which the volume is attached; it is known from then on that these attachments are about it."""
        for node in list(self._unknown):
            if (name := identity.attachment_to(node)) in self._unknown[node]:
                self.is_about(node, name, identity.unique)
        yield from sorted(self._nodes.get(identity.unique, ()))

    def on(self, node: str) -> tuple[str, ...]:
        """The names of all orphans on the node, whether or not it is known which volumes they are about."""
        return tuple(self._on.get(node, ()))

    def volume_of(self, attachment: VolumeAttachment) -> str:
        """The attachment's volume, "" where that is not known."""
        return self._on.get(attachment.spec.node_name, {}).get(attachment.metadata.name, "")


def _take(sets: dict[str, set[str]], of: str, one: str) -> None:
    found = sets.get(of, set())
    found.discard(one)
    if not found:
        sets.pop(of, None)
