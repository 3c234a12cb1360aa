"""Attaches the volumes of pods and detaches them afterwards, in `mooring dev` alone: stands in for the attach/detach controller.

All of that is in this file, and it goes when Mooring has the controller itself. It does what the node agent waits for, and no more: a
VolumeAttachment while a pod wants a volume on its node, and volumesAttached of the Node while that is attached. It knows neither nodes
that died nor forced detaching. A node is judged as a whole, by a look at all pods of the cache: enough for a handful of nodes.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Node, PersistentVolume
from mooring.api.meta import Key
from mooring.api.pods import PODS, Pod
from mooring.api.storage import CSI_DRIVERS, VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.manager import Manager
from mooring.control.reasons import reason
from mooring.control.result import Result, Stale
from mooring.control.runtime import Runtime
from mooring.controllers.binding.names import claims_of, is_finished
from mooring.dev.seed_objects import volume_attachment
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import AlreadyExists, Conflict, NotFound
from mooring.node.layout import attachment_name, unique_name

SHARED: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})
"""Access modes of volumes that may be on several nodes at once."""


class Step(enum.Enum):
    NOTHING = "nothing"
    CREATE = "create"
    LIST = "list"
    UNLIST = "unlist"
    DELETE = "delete"


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """One volume on one node.

    wanted: by a pod. elsewhere: attached to another node, and may be on one alone. attachment: "" for none, else `attaching`, `attached`
    or `leaving`. listed: in the Node's volumesAttached; in_use: in its volumesInUse.
    """

    wanted: bool
    elsewhere: bool
    attachment: str
    listed: bool
    in_use: bool


def decide(one: Standing) -> Step:
    """The next step for one volume on one node. What the node has in use is never taken from it."""
    if one.attachment == "leaving" or not one.attachment:
        if one.listed and not one.in_use:
            return Step.UNLIST
        return Step.CREATE if one.wanted and not one.attachment and not one.elsewhere else Step.NOTHING
    if one.wanted:
        return Step.LIST if one.attachment == "attached" and not one.listed else Step.NOTHING
    if one.in_use:
        return Step.NOTHING
    return Step.UNLIST if one.listed else Step.DELETE


@reason("the volumes of node {node} are where its pods want them, or on the way")
class Settled:
    node: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Volume:
    """A volume that the driver attaches. unique: its name in the Node's status."""

    pv_name: str
    driver: str
    handle: str
    may_be_shared: bool

    @property
    def unique(self) -> str:
        return unique_name(self.driver, self.handle)

    def attachment(self, node: str) -> str:
        return attachment_name(self.driver, self.handle, node)


class AttachDetach(Manager):
    """run() until cancelled or drained."""

    def __init__(self, runtime: Runtime) -> None:
        self._cluster = runtime.cluster
        caches = Caches(runtime, "attach-detach")
        self._pods, self._nodes = caches.of(PODS), caches.of(NODES)
        self._claims, self._volumes = caches.of(PERSISTENT_VOLUME_CLAIMS), caches.of(PERSISTENT_VOLUMES)
        self._attachments, self._drivers = caches.of(VOLUME_ATTACHMENTS), caches.of(CSI_DRIVERS)
        controller: Controller[str] = Controller(runtime, "attach-detach", self._reconcile, workers=1, label="node")
        controller.watch(self._nodes, lambda change: [change.key.name])
        controller.watch(self._pods, lambda change: filter(None, [change.object.spec.node_name]))
        all_nodes: tuple[Informer[Any], ...] = (self._claims, self._volumes, self._attachments, self._drivers)
        for others in all_nodes:
            controller.watch(others, lambda _: [node.metadata.name for node in self._nodes.store.values()])
        super().__init__(caches, controller)

    async def _reconcile(self, name: str) -> Result:
        node = self._nodes.store.get(Key("", name))
        if node is None:
            return Result(Settled(name))
        wanted = {volume.unique: volume for volume in self._wanted(name)}
        here = {volume.unique: volume for volume in self._attached(name)}
        for volume in {**here, **wanted}.values():
            await self._step(node, volume, volume.unique in wanted)
        return Result(Settled(name))

    async def _step(self, node: Node, volume: _Volume, wanted: bool) -> None:
        """One step, and the change that it makes wakes the node for the next."""
        step = decide(self._standing(node, volume, wanted))
        name = volume.attachment(node.metadata.name)
        match step:
            case Step.CREATE:
                await self._create(name, volume, node.metadata.name)
            case Step.LIST | Step.UNLIST:
                await self._write_attached(node.metadata.name, volume.unique, attached=step is Step.LIST)
            case Step.DELETE:
                await self._delete(name)

    # -- what is so

    def _wanted(self, node: str) -> Iterator[_Volume]:
        """The volumes of the node's pods, deleted ones included: they keep theirs until they are gone."""
        for pod in self._pods.store.values():
            if pod.spec.node_name == node and not is_finished(pod):
                yield from self._volumes_of(pod)

    def _volumes_of(self, pod: Pod) -> Iterator[_Volume]:
        for key in claims_of(pod):
            claim = self._claims.store.get(key)
            pv = self._volumes.store.get(Key("", claim.spec.volume_name)) if claim is not None else None
            if claim is not None and pv is not None and pv.spec.claim_ref is not None and pv.spec.claim_ref.uid == claim.metadata.uid:
                yield from self._attachable(pv)

    def _attachable(self, pv: PersistentVolume) -> Iterator[_Volume]:
        """Nothing for a volume of a driver that does not attach."""
        if (source := pv.spec.csi) is None:
            return
        driver = self._drivers.store.get(Key("", source.driver))
        if driver is None or driver.spec.attach_required is not False:
            shared = not SHARED.isdisjoint(pv.spec.access_modes or ())
            yield _Volume(pv.metadata.name, source.driver, source.volume_handle, shared)

    def _attached(self, node: str) -> Iterator[_Volume]:
        """The volumes whose attachment to this node is one of ours; those that people made under other names are left alone."""
        for attachment in self._attachments.store.values():
            pv = self._volumes.store.get(Key("", attachment.spec.source.persistent_volume_name or ""))
            if attachment.spec.node_name == node and pv is not None and pv.spec.csi is not None:
                source = pv.spec.csi
                volume = _Volume(pv.metadata.name, source.driver, source.volume_handle, may_be_shared=True)
                if attachment.metadata.name == volume.attachment(node):
                    yield volume

    def _standing(self, node: Node, volume: _Volume, wanted: bool) -> Standing:
        name, status = node.metadata.name, node.status
        attachment = self._attachments.store.get(Key("", volume.attachment(name)))
        return Standing(
            wanted=wanted,
            elsewhere=not volume.may_be_shared and _is_elsewhere(self._attachments.store.values(), volume.pv_name, name),
            attachment=_state(attachment),
            listed=volume.unique in _listed(node),
            in_use=volume.unique in (status.volumes_in_use or ()),
        )

    # -- what is done

    async def _create(self, name: str, volume: _Volume, node: str) -> None:
        body = volume_attachment(volume.driver, name, volume.pv_name, node)
        try:
            await self._attachments.write(Key("", name), self._cluster.create(VOLUME_ATTACHMENTS, body))
        except AlreadyExists:
            pass

    async def _delete(self, name: str) -> None:
        try:
            await self._cluster.delete(VOLUME_ATTACHMENTS, name)
        except NotFound:
            pass

    async def _write_attached(self, name: str, unique: str, *, attached: bool) -> None:
        """On the Node as it is now. Raises Stale when it changes meanwhile."""
        node = await self._cluster.get(NODES, name)
        names: Collection[str] = sorted({*_listed(node), unique} if attached else {*_listed(node)} - {unique})
        status: Mapping[str, Any] = {"volumesAttached": [{"name": one, "devicePath": ""} for one in names]}
        body = {"metadata": {"resourceVersion": node.metadata.resource_version}, "status": status}
        patch = self._cluster.patch(NODES, name, Patch(PatchType.MERGE, body), subresource="status")
        try:
            await self._nodes.write(Key("", name), patch)
        except Conflict:
            raise Stale("the Node has changed meanwhile") from None


def _listed(node: Node) -> Iterable[str]:
    return [volume.name for volume in node.status.volumes_attached or ()]


def _state(attachment: VolumeAttachment | None) -> str:
    if attachment is None:
        return ""
    if attachment.metadata.deletion_timestamp is not None:
        return "leaving"
    return "attached" if attachment.status.attached else "attaching"


def _is_elsewhere(attachments: Iterable[VolumeAttachment], pv_name: str, node: str) -> bool:
    return any(one.spec.source.persistent_volume_name == pv_name and one.spec.node_name != node for one in attachments)
