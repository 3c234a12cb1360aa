"""The objects and indexes that the attach/detach controller reads, and which volume each of them is about.

A `View` shows the caches and the memory as they are: a decision reads it between two awaits, when nothing changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key
from mooring.api.pods import Pod
from mooring.api.storage import CSIDriver, CSINode, VolumeAttachment
from mooring.api.volume_names import split_unique_name
from mooring.controllers.attachdetach.identity import Identity, identity_of, is_managed
from mooring.controllers.attachdetach.memory import Memory
from mooring.controllers.attachdetach.orphans import Orphans
from mooring.controllers.binding.names import claim_key, claims_of
from mooring.kube.cache.index import IndexFunction
from mooring.kube.cache.reader import Reader

BY_CLAIM: Final = "attachdetach/claim"  # pods by the claims they name; volumes by the claim that they are reserved for
BY_NODE: Final = "attachdetach/node"  # pods and attachments
BY_UNIQUE: Final = "attachdetach/unique"  # volumes by their name in a Node's status
BY_DRIVER: Final = "attachdetach/driver"  # volumes and attachments
BY_VOLUME: Final = "attachdetach/volume"  # attachments by the PersistentVolume they name

ORPHAN: Final = "attachment/"
"""Begins the key of an attachment whose volume can't be told any more: the rest is its name."""


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The caches and the memory, live. csi_nodes: only where an attacher runs in this process."""

    pods: Reader[Pod]
    claims: Reader[PersistentVolumeClaim]
    volumes: Reader[PersistentVolume]
    nodes: Reader[Node]
    drivers: Reader[CSIDriver]
    attachments: Reader[VolumeAttachment]
    csi_nodes: Reader[CSINode]
    memory: Memory
    orphans: Orphans

    def node(self, name: str) -> Node | None:
        return self.nodes.get(Key("", name))

    def is_managed(self, name: str) -> bool:
        """True for a Node that is there, and whose kubelet leaves attaching to controllers, or did so since this process saw it first."""
        node = self.node(name)
        return node is not None and (is_managed(node) or self.memory.node(name).managed)

    def attachment(self, name: str) -> VolumeAttachment | None:
        return self.attachments.get(Key("", name))

    def node_id(self, driver: str, name: str) -> str:
        """The driver's name for the node, "" where it is not known."""
        csi_node = self.csi_nodes.get(Key("", name))
        drivers = csi_node.spec.drivers if csi_node else None
        return next((one.node_id for one in drivers or () if one.name == driver), "")

    # -- which volume

    def key_of(self, attachment: VolumeAttachment) -> str | None:
        """The volume that an attachment is about. None for one that this controller leaves alone: it was made by others."""
        spec, name = attachment.spec, attachment.metadata.name
        pv = self.volumes.get(Key("", spec.source.persistent_volume_name or ""))
        found = None if pv is None else identity_of(pv)
        if found is not None:
            return found.unique
        known = self.orphans.volume_of(name)
        if known is not None:
            return known
        return next(self._named(attachment), f"{ORPHAN}{name}" if _is_hashed(name) else None)

    def _named(self, attachment: VolumeAttachment) -> Iterator[str]:
        """The volume that its name is made of."""
        node = attachment.spec.node_name
        for candidate in self._candidates(node):
            if candidate.attachment_to(node) == attachment.metadata.name:
                yield candidate.unique

    def _candidates(self, node_name: str) -> Iterator[Identity]:
        """The volumes that an attachment to this node may be about when its PersistentVolume is gone."""
        node = self.node(node_name)
        names = () if node is None else (*(node.status.volumes_in_use or ()), *(one.name for one in node.status.volumes_attached or ()))
        for parts in filter(None, map(split_unique_name, (*names, *sorted(self.memory.node(node_name).last_in_use or ())))):
            yield Identity(*parts)
        for pod in self.pods.by(BY_NODE, node_name):
            for key in claims_of(pod):
                yield from filter(None, map(identity_of, self.volumes.by(BY_CLAIM, str(key))))

    def sort(self, attachment: VolumeAttachment) -> None:
        """To be called when the attachment, or the PersistentVolume that it names, comes or goes."""
        name = attachment.spec.source.persistent_volume_name
        gone = self.attachment(attachment.metadata.name) is None
        self.orphans.sort(attachment, has_volume=gone or self.volumes.get(Key("", name or "")) is not None)

    # -- what of a change concerns which volume

    def volumes_of_attachment(self, attachment: VolumeAttachment) -> Iterator[str]:
        """The one that it is about; and where its name is that of another one's attachment, which it is in the way of, that one."""
        key = self.key_of(attachment)
        if key is not None:
            yield key
        parts = split_unique_name(key or "")
        if parts is not None and Identity(*parts).attachment_to(attachment.spec.node_name) != attachment.metadata.name:
            yield from self._named(attachment)

    def volumes_of_pod(self, pod: Pod) -> Iterator[str]:
        for key in claims_of(pod):
            yield from self.volumes_of_claim(key)

    def without_volume_on(self, node: str) -> Iterator[str]:
        """Those that are attached to the node, and whose PersistentVolume is gone."""
        found = self.attachments.by(BY_NODE, node) if node else ()
        gone = (one for one in found if self.volumes.get(Key("", one.spec.source.persistent_volume_name or "")) is None)
        yield from filter(None, map(self.key_of, gone))

    def volumes_of_claim(self, key: Key) -> Iterator[str]:
        """Those that are reserved for it."""
        yield from (found.unique for found in map(identity_of, self.volumes.by(BY_CLAIM, str(key))) if found is not None)

    def pods_that_name(self, pv: PersistentVolume) -> tuple[Pod, ...]:
        """Those with the claim that it is reserved for, as far as names tell."""
        ref = pv.spec.claim_ref
        return () if ref is None else self.pods.by(BY_CLAIM, str(claim_key(ref)))

    def volumes_on(self, node: str) -> Iterator[str]:
        """Those that are attached to the node or wanted there."""
        yield from filter(None, map(self.key_of, self.attachments.by(BY_NODE, node)))
        for pod in self.pods.by(BY_NODE, node):
            yield from self.volumes_of_pod(pod)

    def volumes_of_driver(self, driver: str) -> Iterator[str]:
        yield from (found.unique for found in map(identity_of, self.volumes.by(BY_DRIVER, driver)) if found is not None)


def _is_hashed(name: str) -> bool:
    """True for a name that only a controller like this one gives."""
    digest = name.removeprefix("csi-")
    return name.startswith("csi-") and len(digest) == 64 and all(sign in "0123456789abcdef" for sign in digest)


# -- indexes


def _unique_of(pv: PersistentVolume) -> tuple[str, ...]:
    found = identity_of(pv)
    return () if found is None else (found.unique,)


def _driver_of(pv: PersistentVolume) -> tuple[str, ...]:
    found = identity_of(pv)
    return () if found is None else (found.driver,)


def _reserved_for(pv: PersistentVolume) -> tuple[str, ...]:
    return () if pv.spec.claim_ref is None else (str(claim_key(pv.spec.claim_ref)),)


POD_INDEXES: Final[Mapping[str, IndexFunction[Pod]]] = {
    BY_CLAIM: lambda pod: tuple(str(key) for key in claims_of(pod)),
    BY_NODE: lambda pod: (pod.spec.node_name,),
}
VOLUME_INDEXES: Final[Mapping[str, IndexFunction[PersistentVolume]]] = {
    BY_UNIQUE: _unique_of,
    BY_DRIVER: _driver_of,
    BY_CLAIM: _reserved_for,
}
ATTACHMENT_INDEXES: Final[Mapping[str, IndexFunction[VolumeAttachment]]] = {
    BY_NODE: lambda one: (one.spec.node_name,),
    BY_DRIVER: lambda one: (one.spec.attacher,),
    BY_VOLUME: lambda one: (one.spec.source.persistent_volume_name or "",),
}
