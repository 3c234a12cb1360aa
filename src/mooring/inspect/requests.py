"""The CSI request that a controller, or a node's agent, would send for an object: built by their own functions on objects that are read.

| call | from |
|---|---|
| CreateVolume | a claim |
| DeleteVolume, ControllerPublishVolume, ControllerUnpublishVolume | a PersistentVolume |
| ControllerExpandVolume, ControllerModifyVolume | a PersistentVolume and its claim |
| those to a node's driver: `node_requests.py` | a PersistentVolume, most with a pod that uses its claim |
| those about snapshots: `snapshot_requests.py` | a VolumeSnapshot or VolumeGroupSnapshot, or its content |

The controllers are taken to have no flags but those that are usual. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

import msgspec

from mooring.api.classes import class_of, volume_class_of
from mooring.api.core import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SECRETS,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.api.gateway import ReferenceGrant
from mooring.api.meta import Key, annotation
from mooring.api.migration import TranslationError
from mooring.api.storage import (
    CSI_NODES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_ATTRIBUTES_CLASSES,
    CSINode,
    StorageClass,
)
from mooring.api.volume_names import attachment_name
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.volume_capability import AccessModeError
from mooring.inspect.built import Built, NoRequest, Objects, not_now
from mooring.inspect.node_requests import NODE_BUILDERS, NOWHERE, NodeRequests, Where
from mooring.inspect.scene import Shelf
from mooring.inspect.snapshot_requests import KNOWN as OF_SNAPSHOTS
from mooring.kube.errors import NotFound
from mooring.kube.list_all import list_all
from mooring.node.layout import BadName
from mooring.node.volumes.pods.wishes import UnusableVolume
from mooring.sidecars.attacher.decide import publish_order
from mooring.sidecars.attacher.view import NODE_ID_ANNOTATION, ResolvedVolume, as_csi
from mooring.sidecars.provisioner.claims.decide import decide_claim
from mooring.sidecars.provisioner.claims.decision import Create, Fail, LeaveToPopulator, LookUp
from mooring.sidecars.provisioner.claims.prepare import LeftToPopulator, prepared
from mooring.sidecars.provisioner.claims.reconcile import look_up
from mooring.sidecars.provisioner.claims.view import Looked, NotLookedUp, View, Wanted
from mooring.sidecars.provisioner.deletion.decide import secret_for
from mooring.sidecars.provisioner.environment import delete_request
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords
from mooring.sidecars.provisioner.model.cached import CLAIM_INDEXES, VOLUME_INDEXES, CacheView, source_of
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import AttemptFailed
from mooring.sidecars.provisioner.model.topology import ClusterTopology
from mooring.sidecars.provisioner.model.volumes import ParameterError
from mooring.sidecars.resizer import names as resizing
from mooring.sidecars.resizer.requests import RequestError, expand_order, modify_order, size_to_ask
from mooring.sidecars.resizer.view import is_claim_of, is_true, sizes_of


class Requests:
    """driver: the one that would get the calls. able: the capabilities of its node service."""

    def __init__(self, objects: Objects, driver: DriverCapabilities, able: Collection[int] = ()) -> None:
        self._objects, self._cluster, self._driver, self._clock = objects, objects.cluster, driver, objects.clock
        self._node = NodeRequests(objects, driver.name, able)

    async def from_claim(self, rpc: str, key: Key, where: Where = NOWHERE) -> Built:
        """Raises NoRequest, ApiError, SecretError."""
        claim = await self._cluster.get(PERSISTENT_VOLUME_CLAIMS, key.name, key.namespace)
        if rpc == "CreateVolume":
            return await self._create(claim)
        _check_known(rpc)
        if not claim.spec.volume_name:
            raise NoRequest(f"the claim {key} has no volume yet: there is CreateVolume alone")
        return await self.from_volume(rpc, claim.spec.volume_name, where)

    async def from_volume(self, rpc: str, name: str, where: Where = NOWHERE) -> Built:
        """Raises NoRequest, ApiError, SecretError."""
        _check_known(rpc)
        if rpc == "CreateVolume":
            raise NoRequest("CreateVolume is sent for a claim: give --from-pvc")
        pv = await self._cluster.get(PERSISTENT_VOLUMES, name)
        volume = as_csi(pv)
        if not isinstance(volume, ResolvedVolume):
            raise NoRequest(f"PersistentVolume {name}: {volume.error}")
        assert volume.spec.csi is not None
        if volume.spec.csi.driver != self._driver.name:
            raise NoRequest(
                f"PersistentVolume {name} is of driver {volume.spec.csi.driver}, and {self._driver.name} answers at --csi-address"
            )
        try:
            if rpc in NODE_BUILDERS:
                return await NODE_BUILDERS[rpc](self._node, pv, where)
            return await _BUILDERS[rpc](self, pv, volume, where.node)
        except (AccessModeError, RequestError, ParameterError, BadName, TranslationError, UnusableVolume) as error:
            raise NoRequest(f"PersistentVolume {name}: {error}") from None

    # -- CreateVolume

    async def _create(self, claim: PersistentVolumeClaim) -> Built:
        storage_class = await self._class_of(claim)
        view, looked = await self._view(claim, storage_class), Looked()
        decision = decide_claim(view, claim.metadata.uid, self._clock.now(), looked)
        while decision.again:
            for action in decision.actions:
                if isinstance(action, LookUp):
                    await self._look_up(action.wanted, looked)
            decision = decide_claim(view, claim.metadata.uid, self._clock.now(), looked)
        for action in decision.actions:
            match action:
                case Create(order):
                    return self._ordered(order, looked)
                case Fail(failure):
                    raise NoRequest(failure.error)
                case LeaveToPopulator():
                    raise NoRequest(str(decision.because))
        order = await self._prepared(view, claim, storage_class, looked)
        return msgspec.structs.replace(self._ordered(order, looked), notes=not_now(str(decision.because)))

    async def _prepared(
        self, view: View, claim: PersistentVolumeClaim, storage_class: StorageClass, looked: Looked
    ) -> Order:
        """The order for a claim that is not due. Raises NoRequest."""
        while True:
            try:
                return prepared(view, claim, storage_class, looked)
            except NotLookedUp as missing:
                await self._look_up(missing.wanted, looked)
            except AttemptFailed as failed:
                raise NoRequest(failed.failure.error) from None
            except LeftToPopulator as other:
                raise NoRequest(f"a volume populator fills the claim from its {other.kind}") from None

    def _ordered(self, order: Order, looked: Looked) -> Built:
        ref = order.intent.secret
        return Built(order.whole({} if ref is None else looked.get(Wanted(SECRETS, ref.name, ref.namespace))))

    async def _look_up(self, wanted: Wanted, looked: Looked) -> None:
        if wanted.kind is SECRETS and self._objects.given is not None:
            looked.found[wanted] = self._objects.given
        else:
            await look_up(self._cluster, self._objects.secrets, wanted, looked)

    async def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass:
        """Of this driver. Raises NoRequest."""
        name = class_of(claim)
        if not name:
            raise NoRequest("the claim names no StorageClass, so no volume is made for it")
        try:
            found = await self._cluster.get(STORAGE_CLASSES, name)
        except NotFound:
            raise NoRequest(f"there is no StorageClass {name}, so no volume is made for the claim") from None
        if not self._driver.is_named(found.provisioner):
            raise NoRequest(
                f"the class {name} is of driver {found.provisioner}, and {self._driver.name} answers at --csi-address"
            )
        return found

    async def _view(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> View:
        cached = _Shelves(storage_class)
        cached.claims.put(claim)
        source = source_of(claim)
        origin = None
        if source is not None and source.is_claim:
            origin = await self._objects.find(PERSISTENT_VOLUME_CLAIMS, source.name, source.namespace)
        if origin is not None:
            cached.claims.put(origin)
        if (
            claim.spec.volume_name
            and (pv := await self._objects.find(PERSISTENT_VOLUMES, claim.spec.volume_name)) is not None
        ):
            cached.volumes.put(pv)
        csi_nodes: Shelf[CSINode] = Shelf()
        if self._driver.topology:
            async for node in list_all(self._cluster, NODES):
                cached.nodes.put(node)
            async for one in list_all(self._cluster, CSI_NODES):
                csi_nodes.put(_of_driver(one, self._driver.name))
        grants: Shelf[ReferenceGrant] = Shelf()  # across namespaces only with a gate that is off
        places = ClusterTopology(csi_nodes, cached.nodes)
        return View(
            driver=self._driver,
            claims=cached.claims,
            volumes=cached.volumes,
            classes=cached.classes,
            nodes=cached.nodes,
            csi_nodes=csi_nodes,
            grants=grants,
            places=places,
            intents={},
            records=ClaimRecords(),
        )

    # -- calls about a volume

    async def _delete(self, pv: PersistentVolume, volume: ResolvedVolume, _node: str) -> Built:
        class_name = volume_class_of(pv)
        shelves = _Shelves(await self._objects.find(STORAGE_CLASSES, class_name) if class_name else None)
        view = CacheView(
            driver=self._driver,
            claims=shelves.claims,
            volumes=shelves.volumes,
            classes=shelves.classes,
            nodes=shelves.nodes,
        )
        secrets = await self._objects.secret(secret_for(view, pv, migrated=volume.migrated))
        policy, phase = pv.spec.persistent_volume_reclaim_policy, pv.status.phase
        stays = "" if (policy, phase) == ("Delete", "Released") else f"the volume is {phase}, its policy {policy}"
        return Built(delete_request(volume.handle, secrets), not_now(stays))

    async def _publish(self, _pv: PersistentVolume, volume: ResolvedVolume, node: str) -> Built:
        order = publish_order(self._driver, volume, await self._node_id(node), "")
        return Built(order.request(await self._objects.secret(order.secret)))

    async def _unpublish(self, _pv: PersistentVolume, volume: ResolvedVolume, node: str) -> Built:
        """The node's id is that which the attachment notes: another machine may have the node's name by now."""
        attachment = await self._objects.find(
            VOLUME_ATTACHMENTS, attachment_name(self._driver.name, volume.handle, node)
        )
        noted = annotation(attachment, NODE_ID_ANNOTATION) if attachment is not None else ""
        order = publish_order(self._driver, volume, noted or await self._node_id(node), "")
        return Built(order.undone.request(await self._objects.secret(order.secret)))

    async def _node_id(self, node: str) -> str:
        """Raises NoRequest."""
        if not node:
            raise NoRequest("the call is about a node: give --node, with the name of the Node")
        csi_node = await self._objects.find(CSI_NODES, node)
        for entry in (csi_node.spec.drivers if csi_node is not None else None) or ():
            if entry.name == self._driver.name and entry.node_id:
                return entry.node_id
        raise NoRequest(f"the driver {self._driver.name} is not registered on node {node} (CSINode)")

    async def _expand(self, pv: PersistentVolume, volume: ResolvedVolume, _node: str) -> Built:
        claim = await self._claim_of(pv)
        sizes = sizes_of(claim, pv)
        size = size_to_ask(
            sizes, is_final=False, on_controller=self._driver.expands, node_pending=is_true(claim, resizing.FS_PENDING)
        )
        reason = ""
        if size is None:
            reason = "it is the node's turn"
        elif sizes.has.value >= sizes.wanted.value and not sizes.step:
            reason = "the claim has the size that it wants"
        order = expand_order(
            volume.spec, size or sizes.wanted, self._driver.single_node_multi_writer, migrated=volume.migrated
        )
        return Built(order.request(await self._objects.secret(order.secret)), not_now(reason))

    async def _modify(self, pv: PersistentVolume, _volume: ResolvedVolume, _node: str) -> Built:
        claim = await self._claim_of(pv)
        name = claim.spec.volume_attributes_class_name
        if not name or pv.spec.csi is None:
            raise NoRequest("the claim names no VolumeAttributesClass")
        wanted = await self._cluster.get(VOLUME_ATTRIBUTES_CLASSES, name)
        if wanted.driver_name != self._driver.name:
            raise NoRequest(f"the VolumeAttributesClass {name} is of driver {wanted.driver_name}")
        has_it = claim.status.current_volume_attributes_class_name == name
        order = modify_order(pv, claim, wanted, extra_metadata=False)
        request = order.request(await self._objects.secret(order.secret))
        return Built(request, not_now(f"the volume has the class {name}" if has_it else ""))

    async def _claim_of(self, pv: PersistentVolume) -> PersistentVolumeClaim:
        """Raises NoRequest."""
        ref = pv.spec.claim_ref
        if ref is not None:
            claim = await self._objects.find(PERSISTENT_VOLUME_CLAIMS, ref.name, ref.namespace)
            if claim is not None and is_claim_of(pv, claim):
                return claim
        raise NoRequest(f"PersistentVolume {pv.metadata.name} has no claim, whose wish it would be")


class _Shelves:
    """What caches would hold. storage_class: None where there is none."""

    def __init__(self, storage_class: StorageClass | None) -> None:
        self.claims: Shelf[PersistentVolumeClaim] = Shelf(CLAIM_INDEXES)
        self.volumes: Shelf[PersistentVolume] = Shelf(VOLUME_INDEXES)
        self.classes: Shelf[StorageClass] = Shelf()
        self.nodes: Shelf[Node] = Shelf()
        if storage_class is not None:
            self.classes.put(storage_class)


_BUILDERS: Final[Mapping[str, Callable[[Requests, PersistentVolume, ResolvedVolume, str], Awaitable[Built]]]] = {
    "DeleteVolume": Requests._delete,
    "ControllerPublishVolume": Requests._publish,
    "ControllerUnpublishVolume": Requests._unpublish,
    "ControllerExpandVolume": Requests._expand,
    "ControllerModifyVolume": Requests._modify,
}
KNOWN: Final = ("CreateVolume", *_BUILDERS, *NODE_BUILDERS)


def _check_known(rpc: str) -> None:
    """Raises NoRequest."""
    if rpc in OF_SNAPSHOTS:
        raise NoRequest(f"{rpc} is sent for a snapshot: give --from-snapshot or --from-content")
    if rpc not in KNOWN:
        raise NoRequest(f"{rpc} is not built from objects; these are: {', '.join(KNOWN)}")


def _of_driver(csi_node: CSINode, driver: str) -> CSINode:
    """With this driver's entry alone, as the provisioner's cache has it."""
    entries = tuple(one for one in csi_node.spec.drivers or () if one.name == driver)
    return msgspec.structs.replace(csi_node, spec=msgspec.structs.replace(csi_node.spec, drivers=entries))
