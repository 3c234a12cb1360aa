"""The objects and indexes that the attach/detach controller reads, and which volume each of them is about.

A `View` shows the caches and the memory as they are: a decision reads it between two awaits, when nothing changes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from mooring.api.binding import claim_key, claims_of
from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.inline_volumes import inline_volumes_of
from mooring.api.meta import Key, is_deleting, key_of
from mooring.api.pods import Pod
from mooring.api.storage import CSIDriver, VolumeAttachment
from mooring.api.volume_names import is_node_attached, name_of_node_attached, split_unique_name
from mooring.cluster.attachdetach.identity import (
    Identity,
    identity_of,
    inline_identity_of,
    is_managed,
    is_single_node,
    pod_wants_volumes,
    uniques_of,
)
from mooring.cluster.attachdetach.memory import Memory
from mooring.cluster.attachdetach.orphans import Orphans
from mooring.kube.cache.reader import Reader
from mooring.kube.cache.store import IndexFunction

BY_CLAIM: Final = "attachdetach/claim"  # pods by the claims they name; volumes by the claim that they are reserved for
BY_NODE: Final = "attachdetach/node"  # pods and attachments
# Volumes by their name in a Node's status; pods and attachments by those of the volumes that they define themselves;
# nodes by those of the node-attached volumes that they have.
BY_UNIQUE: Final = "attachdetach/unique"
BY_SINGLE: Final = "attachdetach/single"  # pods and attachments by the single-node volumes that pods define themselves
BY_DRIVER: Final = "attachdetach/driver"  # pods by the drivers of the volumes that they define themselves
BY_VOLUME: Final = "attachdetach/volume"  # attachments and claims by the PersistentVolume they name

ORPHAN: Final = "attachment/"
"""Begins the key of an attachment whose volume can't be told any more: the rest is its name."""


class View(msgspec.Struct, frozen=True):
    """The caches and the memory, live."""

    pods: Reader[Pod]
    claims: Reader[PersistentVolumeClaim]
    volumes: Reader[PersistentVolume]
    nodes: Reader[Node]
    drivers: Reader[CSIDriver]
    attachments: Reader[VolumeAttachment]
    memory: Memory
    orphans: Orphans

    def node(self, name: str) -> Node | None:
        return self.nodes.get(Key("", name))

    def is_managed(self, name: str) -> bool:
        """True for a Node that is there, and whose kubelet leaves attaching to controllers, or did so since this
        process saw it first.
        """
        node = self.node(name)
        return node is not None and (is_managed(node) or self.memory.node(name).managed)

    def attachment(self, name: str) -> VolumeAttachment | None:
        return self.attachments.get(Key("", name))

    def lists_what_is_attached(self, name: str) -> bool:
        """True for a Node whose report has one entry for each volume that is attached there, and that has nothing to do
        with node-attached ones.
        """
        node = self.node(name)
        if node is None or self.node_attached_on(node):
            return False
        listed = [one.name for one in node.status.volumes_attached or () if split_unique_name(one.name) is not None]
        attached = [
            _by_its_name(one, key) for one, key in self.keys_on(name) if one.status.attached and not is_deleting(one)
        ]
        return sorted(listed) == sorted(attached)

    # -- which volume

    def key_of(self, attachment: VolumeAttachment) -> str | None:
        """The volume that an attachment is about. None for one that this controller leaves alone: it was made by
        others.
        """
        return self._key_of(attachment, self._named_by_pods)

    def keys_on(self, node: str) -> Iterator[tuple[VolumeAttachment, str | None]]:
        """The attachments to the node, each with its `key_of`. The volumes that they may be about are looked at once
        for all of them.
        """
        named_by_pods = functools.cache(self._named_by_pods)
        return ((one, self._key_of(one, named_by_pods)) for one in self.attachments.by(BY_NODE, node))

    def _key_of(self, attachment: VolumeAttachment, named_by_pods: Callable[[str], Mapping[str, str]]) -> str | None:
        found, name, node = self._volume_of(attachment), attachment.metadata.name, attachment.spec.node_name
        unique = self.orphans.volume_of(attachment) if found is None else found.unique
        if not unique and (unique := self._named_by_node(node).get(name) or named_by_pods(node).get(name) or ""):
            self.orphans.is_about(node, name, unique)
        return unique or (f"{ORPHAN}{name}" if is_hashed(attachment) else None)

    def _volume_of(self, attachment: VolumeAttachment) -> Identity | None:
        """The volume that the attachment describes itself, or that its PersistentVolume means; None where that is gone,
        or no CSI driver attaches it.
        """
        pv = self.volumes.get(Key("", attachment.spec.source.persistent_volume_name or ""))
        return inline_identity_of(attachment) if pv is None else identity_of(pv)

    # The volumes that an attachment whose PersistentVolume is gone may be about, by the name of a volume's attachment
    # to the node.

    def _named_by_node(self, name: str) -> Mapping[str, str]:
        """The volumes that the node has, or had, in use or listed as attached. Worked out once for each Node as it
        stands there.
        """
        node, record = self.node(name), self.memory.node(name)
        if record.named is None or record.named[0] is not node:
            listed = () if node is None else _listed_by(node)
            record.named = node, _by_name(name, map(split_unique_name, (*listed, *sorted(record.last_in_use or ()))))
        return record.named[1]

    def _named_by_pods(self, name: str) -> Mapping[str, str]:
        """The volumes of the claims of the node's pods, and those that the pods define themselves."""
        found = (identity_of(pv) for pod in self.pods.by(BY_NODE, name) for pv in self.objects_of_pod(pod))
        return _by_name(name, (None if one is None else (one.driver, one.handle) for one in found))

    def is_name_unused(self, attachment: VolumeAttachment) -> bool:
        """True where the node neither has in use nor lists the volume that gives the attachment its name."""
        name, node = attachment.metadata.name, self.node(attachment.spec.node_name)
        if node is None:
            return not self.had_volume_of_name(attachment)
        return name not in _by_name(node.metadata.name, map(split_unique_name, _listed_by(node)))

    def had_volume_of_name(self, attachment: VolumeAttachment) -> bool:
        """True where the node, or one before it, has had in use or listed as attached the volume that gives the
        attachment its name.
        """
        return attachment.metadata.name in self._named_by_node(attachment.spec.node_name)

    def sort(self, attachment: VolumeAttachment) -> None:
        """Note whether the attachment is an orphan: called when it, or the PersistentVolume that it names, comes or
        goes.
        """
        node, found = attachment.spec.node_name, self.attachment(attachment.metadata.name)
        is_there = found is not None and found.metadata.uid == attachment.metadata.uid
        self.orphans.sort(attachment, is_orphan=is_there and self._volume_of(attachment) is None)
        if not self.orphans.on(node):
            self.memory.node(node).named = None

    # -- what of a change concerns which volume

    def volumes_of_attachment(self, attachment: VolumeAttachment) -> Iterator[str]:
        """The volume that the attachment is about; and another volume whose attachment has its name, since it is in the
        way of that.
        """
        key, name, node = self.key_of(attachment), attachment.metadata.name, attachment.spec.node_name
        if key is not None:
            yield key
        parts = split_unique_name(key or "")
        if parts is not None and Identity(*parts).attachment_to(node) != name:
            yield from filter(None, (self._named_by_node(node).get(name) or self._named_by_pods(node).get(name),))

    def volumes_in_the_way_of(self, unique: str, node: str) -> Iterator[str]:
        """The volumes of the attachment that has the name of this volume's attachment to the node."""
        parts = split_unique_name(unique)
        attachment = None if parts is None else self.attachment(Identity(*parts).attachment_to(node))
        yield from () if attachment is None else self.volumes_of_attachment(attachment)

    def objects_of_pod(self, pod: Pod) -> Iterator[PersistentVolume]:
        """The PersistentVolumes of the pod's claims, and those that stand for volumes that it defines itself."""
        yield from inline_volumes_of(pod)
        for key in claims_of(pod):
            yield from self._objects_of_claim(key)

    def volumes_of_pod(self, pod: Pod) -> Iterator[str]:
        return uniques_of(self.objects_of_pod(pod))

    # -- volumes that nodes attach themselves

    def node_attached_of_pod(self, pod: Pod) -> set[str]:
        """The names, in a Node's status, of the pod's node-attached volumes."""
        own = map(name_of_node_attached, pod.spec.volumes or ())
        claimed = (name_of_node_attached(pv.spec) for key in claims_of(pod) for pv in self._objects_of_claim(key))
        return {*own, *claimed} - {""}

    def node_attached_on(self, node: Node) -> set[str]:
        """The node-attached volumes that the node's pods name, and those that it lists or has in use and that a
        PersistentVolume means.
        """
        named = (name for pod in self.pods.by(BY_NODE, node.metadata.name) for name in self.node_attached_of_pod(pod))
        return {*named, *(name for name in _node_attached_of(node) if self.volumes.by(BY_UNIQUE, name))}

    def is_node_attached_to_one(self, name: str) -> bool:
        """True for a node-attached volume that only a single node may have."""
        return any(is_single_node(pv.spec) for pv in self.volumes.by(BY_UNIQUE, name))

    def pods_of_node_attached(self, name: str) -> tuple[Pod, ...]:
        """The pods that may want the node-attached volume, on any node."""
        claimed = (pod for pv in self.volumes.by(BY_UNIQUE, name) for pod in self.pods_that_name(pv))
        return (*claimed, *self.pods.by(BY_UNIQUE, name))

    def without_volume_on(self, node: str) -> Iterator[str]:
        """The volumes that are attached to the node, and whose PersistentVolume is gone."""
        named_by_pods = functools.cache(self._named_by_pods)
        found = filter(None, map(self.attachment, self.orphans.on(node)))
        yield from (key for one in found if node and (key := self._key_of(one, named_by_pods)) is not None)

    def volumes_of_claim(self, key: Key) -> Iterator[str]:
        """The volumes that are reserved for the claim, and the one that it names."""
        return uniques_of(self._objects_of_claim(key))

    def volumes_named_by(self, claim: PersistentVolumeClaim | None) -> Iterator[str]:
        return uniques_of(self._objects_named_by(claim))

    def _objects_of_claim(self, key: Key) -> Iterator[PersistentVolume]:
        yield from self.volumes.by(BY_CLAIM, str(key))
        yield from self._objects_named_by(self.claims.get(key))

    def _objects_named_by(self, claim: PersistentVolumeClaim | None) -> Iterator[PersistentVolume]:
        pv = None if claim is None else self.volumes.get(Key("", claim.spec.volume_name))
        yield from () if pv is None else (pv,)

    def nodes_of(self, unique: str) -> set[str]:
        """The nodes that have, or may have, anything to do with the volume."""
        pvs, parts = self.volumes.by(BY_UNIQUE, unique), split_unique_name(unique)
        pods = (*(pod for pv in pvs for pod in self.pods_that_name(pv)), *self.pods.by(BY_UNIQUE, unique))
        used_on = {pod.spec.node_name for pod in pods if pod.spec.node_name}
        attached_to = () if parts is None else self.nodes_attached(Identity(*parts))
        return {*self.memory.nodes_of(unique), *used_on, *attached_to}

    def nodes_attached(self, identity: Identity) -> tuple[str, ...]:
        """The nodes that have an attachment of the volume."""
        pvs = self.volumes.by(BY_UNIQUE, identity.unique)
        named = (one for pv in pvs for one in self.attachments.by(BY_VOLUME, pv.metadata.name))
        inline = self.attachments.by(BY_UNIQUE, identity.unique)
        return (*(one.spec.node_name for one in (*named, *inline)), *self.orphans.nodes_of(identity))

    def is_inline_for_one_node(self, unique: str) -> bool:
        """True where pods that want the volume define it so themselves, or did so when its attachment was made."""
        return bool(self.pods.count(BY_SINGLE, unique) or self.attachments.count(BY_SINGLE, unique))

    def is_held(self, unique: str, node: str) -> bool:
        """True where the volume has an attachment to the node, or is about to get one."""
        record, parts = self.memory.find(unique, node), split_unique_name(unique)
        if record is not None and (record.creating or record.seen_uid):
            return True
        return parts is not None and self.attachment(Identity(*parts).attachment_to(node)) is not None

    def claims_of_volume(self, pv: PersistentVolume) -> Iterable[Key]:
        """The claim that the PersistentVolume is reserved for by name, and those that name it, but for the claims of a
        uid that it is not reserved for.
        """
        ref, named = pv.spec.claim_ref, self.claims.by(BY_VOLUME, pv.metadata.name)
        reserved = () if ref is None else (claim_key(ref),)
        may_be = (key_of(claim) for claim in named if ref is None or ref.uid in ("", claim.metadata.uid))
        return dict.fromkeys((*reserved, *may_be))

    def pods_that_name(self, pv: PersistentVolume) -> tuple[Pod, ...]:
        """The pods with a claim that may be the PersistentVolume's own."""
        return tuple(pod for key in self.claims_of_volume(pv) for pod in self.pods.by(BY_CLAIM, str(key)))

    def volumes_on(self, node: str) -> Iterator[str]:
        """The volumes that are attached to the node or wanted there."""
        yield from (key for _, key in self.keys_on(node) if key is not None)
        for pod in self.pods.by(BY_NODE, node):
            yield from self.volumes_of_pod(pod)

    def volumes_of_driver(self, driver: str) -> Iterator[str]:
        """The driver's volumes, found among all: a CSIDriver seldom changes."""
        objects = (
            *self.volumes.values(),
            *(pv for pod in self.pods.by(BY_DRIVER, driver) for pv in inline_volumes_of(pod)),
        )
        yield from (found.unique for found in map(identity_of, objects) if found is not None and found.driver == driver)


def _by_name(node: str, volumes: Iterable[tuple[str, str] | None]) -> Mapping[str, str]:
    """The volumes' names in a Node's status, by the names of their attachments. volumes: driver and handle of each."""
    found = (Identity(*parts) for parts in volumes if parts is not None)
    return {one.attachment_to(node): one.unique for one in found}


def _listed_by(node: Node) -> tuple[str, ...]:
    """The volumes that the node has in use, and those that its report lists."""
    return (*(node.status.volumes_in_use or ()), *(one.name for one in node.status.volumes_attached or ()))


def _by_its_name(attachment: VolumeAttachment, key: str | None) -> str:
    """The key where the attachment has the name and the driver that its volume gives it, else ""."""
    parts = split_unique_name(key or "")
    if key is None or parts is None or parts[0] != attachment.spec.attacher:
        return ""
    return key if Identity(*parts).attachment_to(attachment.spec.node_name) == attachment.metadata.name else ""


def is_hashed(attachment: VolumeAttachment) -> bool:
    """True for an attachment under a name that only a controller like this one gives."""
    name = attachment.metadata.name
    digest = name.removeprefix("csi-")
    return name.startswith("csi-") and len(digest) == 64 and all(sign in "0123456789abcdef" for sign in digest)


# -- indexes


def _unique_of(pv: PersistentVolume) -> tuple[str, ...]:
    found = identity_of(pv)
    return tuple(filter(None, (name_of_node_attached(pv.spec) if found is None else found.unique,)))


def _node_attached_of(node: Node) -> tuple[str, ...]:
    return tuple({name: None for name in _listed_by(node) if is_node_attached(name)})


def _inline(pod: Pod) -> Iterator[Identity]:
    """The volumes that the pod defines itself."""
    return (Identity(*parts) for parts in inline_volumes_of(pod).by_handle)


def _inline_for_one_node(pod: Pod) -> tuple[str, ...]:
    found = [parts for parts, pv in inline_volumes_of(pod).by_handle.items() if is_single_node(pv.spec)]
    return tuple(Identity(*parts).unique for parts in found) if pod.spec.node_name and pod_wants_volumes(pod) else ()


def _inline_unique_of(attachment: VolumeAttachment) -> tuple[str, ...]:
    found = inline_identity_of(attachment)
    return () if found is None else (found.unique,)


def _single_unique_of(attachment: VolumeAttachment) -> tuple[str, ...]:
    spec = attachment.spec.source.inline_volume_spec
    return _inline_unique_of(attachment) if spec is not None and is_single_node(spec) else ()


def _reserved_for(pv: PersistentVolume) -> tuple[str, ...]:
    return () if pv.spec.claim_ref is None else (str(claim_key(pv.spec.claim_ref)),)


CLAIM_INDEXES: Final[Mapping[str, IndexFunction[PersistentVolumeClaim]]] = {
    BY_VOLUME: lambda claim: (claim.spec.volume_name,) if claim.spec.volume_name else (),
}
POD_INDEXES: Final[Mapping[str, IndexFunction[Pod]]] = {
    BY_CLAIM: lambda pod: tuple(str(key) for key in claims_of(pod)),
    BY_NODE: lambda pod: (pod.spec.node_name,),
    BY_UNIQUE: lambda pod: tuple(
        {
            **{found.unique: None for found in _inline(pod)},
            **{name: None for name in map(name_of_node_attached, pod.spec.volumes or ()) if name},
        }
    ),
    BY_SINGLE: _inline_for_one_node,
    BY_DRIVER: lambda pod: tuple({found.driver: None for found in _inline(pod)}),
}
NODE_INDEXES: Final[Mapping[str, IndexFunction[Node]]] = {BY_UNIQUE: _node_attached_of}
VOLUME_INDEXES: Final[Mapping[str, IndexFunction[PersistentVolume]]] = {
    BY_UNIQUE: _unique_of,
    BY_CLAIM: _reserved_for,
}
ATTACHMENT_INDEXES: Final[Mapping[str, IndexFunction[VolumeAttachment]]] = {
    BY_NODE: lambda one: (one.spec.node_name,),
    BY_VOLUME: lambda one: (one.spec.source.persistent_volume_name or "",),
    BY_UNIQUE: _inline_unique_of,
    BY_SINGLE: _single_unique_of,
}
