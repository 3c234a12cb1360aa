"""Reads an object with its chain. Names lead from one object to the next; it lists a whole kind only where no name
leads on.

Nothing here writes. The scene notes the objects that the API server refuses to show, and the explanation goes on
without them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mooring.api.binding import claims_of, own_volume_name
from mooring.api.classes import class_of
from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE
from mooring.api.core import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.matching import selects
from mooring.api.meta import Key, annotation, finalizers_of, is_deleting, key_of
from mooring.api.migration import MIGRATED_TO, driver_and_handle
from mooring.api.nodes import is_ready
from mooring.api.pods import PODS, Pod
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.snapshot_kinds import SINGLES, Snapshot, class_name_of, row_of
from mooring.api.snapshot_names import CLAIM_FINALIZER
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VOLUME_ATTRIBUTES_CLASSES
from mooring.api.volume_names import attachment_name
from mooring.cluster.attachdetach import view as attachdetach
from mooring.cluster.binder.view import BY_CLAIM, CLAIM_INDEXES, POD_INDEXES, VOLUME_INDEXES
from mooring.cluster.snapshots import view as snapshots_view
from mooring.cluster.snapshots.view import content_key, snapshot_of
from mooring.inspect.locks import CONTROLLER_LOCKS, lock_names
from mooring.inspect.scene import Scene, SeenEvent, Shelf
from mooring.inspect.scene_requests import SEEN_EVENTS, SceneRequests, together
from mooring.kube.cluster import Cluster, Selection
from mooring.kube.errors import Forbidden, ServerError
from mooring.kube.list_all import list_all
from mooring.sidecars.attacher.view import ATTACHMENT_INDEXES, BY_VOLUME
from mooring.sidecars.attacher.view import VOLUME_INDEXES as VOLUME_INDEXES_OF_ATTACHER
from mooring.sidecars.provisioner.model import cached

AFFINITY: Final = re.compile(
    "volume node affinity conflict|didn't match PersistentVolume's node affinity|had no available volume zone"
)
"""What the scheduler says of a volume that no node reaches."""


class Reading(SceneRequests):
    """Fills a scene. now_s: seconds since 1970. shows: gets each object as whole JSON; without it only used fields are
    decoded.
    """

    def __init__(self, cluster: Cluster, now_s: float, shows: Callable[[dict[str, Any]], None] | None = None) -> None:
        indexes: dict[str, Mapping[str, Callable[[Any], Iterable[str]]]] = {
            "pods": {**POD_INDEXES, **attachdetach.POD_INDEXES},
            "claims": {
                **CLAIM_INDEXES,
                **attachdetach.CLAIM_INDEXES,
                **cached.CLAIM_INDEXES,
                **snapshots_view.CLAIM_INDEXES,
                **snapshots_view.NAMESPACE_INDEX,
            },
            "volumes": {
                **VOLUME_INDEXES,
                **attachdetach.VOLUME_INDEXES,
                **cached.VOLUME_INDEXES,
                **VOLUME_INDEXES_OF_ATTACHER,
                **snapshots_view.VOLUME_INDEXES,
            },
            "attachments": {**ATTACHMENT_INDEXES, **attachdetach.ATTACHMENT_INDEXES},
            "snapshots": snapshots_view.SNAPSHOT_INDEXES,
            "contents": snapshots_view.CONTENT_INDEXES,
            "groups": snapshots_view.GROUP_INDEXES,
            "group_contents": snapshots_view.GROUP_CONTENT_INDEXES,
        }
        super().__init__(cluster, Scene(now_s, indexes), shows)
        self._listed: set[str] = set()  # namespaces whose pods were

    # -- the ways from object to object

    async def pod(self, key: Key) -> Pod | None:
        """The pod with its claims, volumes, attachments and node."""
        pod = await self._get(self.scene.pods, PODS, key)
        if pod is None:
            return None
        await self.events(pod)
        if pod.spec.node_name:
            await self.node(pod.spec.node_name)
        for claim in claims_of(pod):
            await self.claim(claim)
            await self._attachment(claim, pod.spec.node_name)
        if not pod.spec.node_name and any(AFFINITY.search(one.message) for one in pod.status.conditions or ()):
            await self._list(
                self.scene.csi_nodes, CSI_NODES, is_vital=False
            )  # for the keys of topology that drivers report
        owner = next((one for one in pod.metadata.owner_references or () if one.controller), None)
        if owner is not None:
            await self._events_of_uid(key.namespace, owner.uid)
        return pod

    async def claim(self, key: Key) -> None:
        """The claim with its class, volume, source and driver; with the pods around it where it may wait for one."""
        if self.scene.claims.get(key) is not None:
            return
        claim = await self._get(self.scene.claims, PERSISTENT_VOLUME_CLAIMS, key)
        if claim is None:
            return
        await self.events(claim)
        class_name, driver = class_of(claim), ""
        if class_name:
            found = await self._get(self.scene.classes, STORAGE_CLASSES, Key("", class_name))
            driver = annotation(claim, MIGRATED_TO) or (found.provisioner if found is not None else "")
        if not driver and claim.spec.storage_class_name != "":
            await self._list(self.scene.classes, STORAGE_CLASSES)  # for advice: one of them may be meant
        if claim.spec.volume_name:
            await self.volume(claim.spec.volume_name)
        elif driver:
            await self._driver(driver)
            # With --volume-name-prefix only the provisioner's Event has the name of a volume that is not bound yet.
            made = (one.message.rpartition(" ")[2] for one in self.scene.events(claim, "ProvisioningSucceeded"))
            for name in (own_volume_name(claim), *made):
                await self._get(self.scene.volumes, PERSISTENT_VOLUMES, Key("", name), is_vital=False)
        source = claim.spec.data_source_ref or claim.spec.data_source
        if source is not None and source.kind == "VolumeSnapshot":
            await self.snapshot(Key(key.namespace, source.name))
        elif source is not None and source.kind == "PersistentVolumeClaim":
            origin = await self._get(self.scene.claims, PERSISTENT_VOLUME_CLAIMS, Key(key.namespace, source.name))
            if origin is not None and origin.spec.volume_name and not claim.spec.volume_name:
                await self._get(self.scene.volumes, PERSISTENT_VOLUMES, Key("", origin.spec.volume_name))
        if is_deleting(claim) and CLAIM_FINALIZER in finalizers_of(claim):
            await self.snapshots_of(key)
        is_shared = bool(claim.spec.volume_name) and "ReadWriteOncePod" not in (claim.spec.access_modes or ())
        if is_deleting(claim) or not is_shared or claim.status.allocated_resource_statuses:
            await self.pods_of(key.namespace)
        await self._changes(claim)

    async def _changes(self, claim: PersistentVolumeClaim) -> None:
        """The VolumeAttributesClasses that it is to get, and the Events of the pods whose nodes are to grow it."""
        modify = claim.status.modify_volume_status
        wanted, has = claim.spec.volume_attributes_class_name, claim.status.current_volume_attributes_class_name
        if modify is not None or wanted != has:
            for name in {wanted, modify.target_volume_attributes_class_name if modify is not None else ""} - {"", None}:
                await self._get(self.scene.attributes_classes, VOLUME_ATTRIBUTES_CLASSES, Key("", name or ""))
        if claim.status.allocated_resource_statuses:
            for pod in self.scene.pods.by(BY_CLAIM, str(key_of(claim))):
                await self.events(pod)

    async def volume(self, name: str) -> None:
        """The PersistentVolume with its driver and class."""
        pv = await self._get(self.scene.volumes, PERSISTENT_VOLUMES, Key("", name))
        if pv is None:
            return
        await self.events(pv)
        driver, _ = driver_and_handle(pv)
        if driver:
            await self._driver(driver)
        if pv.spec.claim_ref is not None:
            ref = Key(pv.spec.claim_ref.namespace, pv.spec.claim_ref.name)
            if self.scene.claims.get(ref) is None:
                await self._get(self.scene.claims, PERSISTENT_VOLUME_CLAIMS, ref)

    async def attachments_of(self, pv_name: str) -> None:
        """All attachments of a volume."""
        await self._attachments("PV", pv_name)

    async def _attachments(self, column: str, name: str) -> None:
        """No name leads to them, so all are listed: as rows, since of 20,000 objects the list takes half a second
        longer.
        """
        rows = await self._rows(VOLUME_ATTACHMENTS)
        if any(column not in row.cells for row in rows):
            raise ServerError(f"the API server's list of volumeattachments has no column {column}")
        found = [Key("", str(row.cells["Name"])) for row in rows if row.cells[column] == name]
        await together(self._get(self.scene.attachments, VOLUME_ATTACHMENTS, key) for key in found)

    async def attachment(self, name: str) -> None:
        """The attachment with its volume and node."""
        attachment = await self._get(self.scene.attachments, VOLUME_ATTACHMENTS, Key("", name))
        if attachment is None:
            return
        await self.events(attachment)
        await self.node(attachment.spec.node_name)
        await self._driver(attachment.spec.attacher)
        if attachment.spec.source.persistent_volume_name:
            await self.volume(attachment.spec.source.persistent_volume_name)

    async def node(self, name: str) -> None:
        """The node with its CSINode and its sign of life."""
        node = await self._get(self.scene.nodes, NODES, Key("", name))
        await self._get(self.scene.csi_nodes, CSI_NODES, Key("", name))
        if node is not None:
            await self.events(node)
        await self._get(self.scene.leases, LEASES, Key(NODE_LEASE_NAMESPACE, name), is_vital=False)

    async def on_node(self, node: Node) -> None:
        """The pods of a node, and the attachments to it with what their volumes are used by; of a silent node, also
        elsewhere.
        """
        name = node.metadata.name
        pods = self._list(self.scene.pods, PODS, Selection(field_selector=f"spec.nodeName={name}"))
        await together((pods, self.attachments_on(name)))
        volumes = [
            one.spec.source.persistent_volume_name for one in self.scene.attachments.values() if one.status.attached
        ]
        await together(self._used_volume(volume) for volume in volumes if volume)
        for driver in dict.fromkeys(driver_and_handle(pv)[0] for pv in self.scene.volumes.values()):
            if driver:
                await self._get(self.scene.drivers, CSI_DRIVERS, Key("", driver))
        if not is_ready(node):
            for pv in self.scene.volumes.values():
                await self._used_elsewhere(pv)

    async def _used_volume(self, name: str) -> None:
        """The volume with its claim."""
        pv = await self._get(self.scene.volumes, PERSISTENT_VOLUMES, Key("", name))
        if pv is not None and pv.spec.claim_ref is not None:
            await self._get(
                self.scene.claims, PERSISTENT_VOLUME_CLAIMS, Key(pv.spec.claim_ref.namespace, pv.spec.claim_ref.name)
            )

    async def _used_elsewhere(self, pv: PersistentVolume) -> None:
        """The volume's class, and the nodes of all pods that use it."""
        if pv.spec.storage_class_name:
            await self._get(self.scene.classes, STORAGE_CLASSES, Key("", pv.spec.storage_class_name), is_vital=False)
        if pv.spec.claim_ref is not None:
            ref = Key(pv.spec.claim_ref.namespace, pv.spec.claim_ref.name)
            await self.pods_of(ref.namespace)
            for other in {pod.spec.node_name for pod in self.scene.pods.by(BY_CLAIM, str(ref))} - {""}:
                await self._get(self.scene.nodes, NODES, Key("", other))

    async def attachments_on(self, name: str) -> None:
        """All attachments to a node."""
        await self._attachments("Node", name)

    async def snapshot(self, key: Key) -> None:
        """The snapshot with its content, class, driver, source and group; for one that is to go, the claims that
        restore from it.
        """
        snapshot = await self._get(self.scene.snapshots, VOLUME_SNAPSHOTS, key)
        if snapshot is None:
            return
        await self._around(snapshot)
        source = snapshot.spec.source.persistent_volume_claim_name
        if source:
            await self.claim(Key(key.namespace, source))
        for owner in snapshot.metadata.owner_references or ():
            if owner.kind == GROUP_SNAPSHOTS.name:
                await self._get(self.scene.groups, GROUP_SNAPSHOTS, Key(key.namespace, owner.name))
        if is_deleting(snapshot):
            await self._list(self.scene.claims, PERSISTENT_VOLUME_CLAIMS, Selection(namespace=key.namespace))

    async def group(self, key: Key) -> None:
        """The group snapshot with its content, class, driver, claims and members."""
        group = await self._get(self.scene.groups, GROUP_SNAPSHOTS, key)
        if group is None:
            return
        await self._around(group)
        here = Selection(namespace=key.namespace)
        await self._list(self.scene.snapshots, VOLUME_SNAPSHOTS, here)
        selector, found = group.spec.source.selector, list[Key]()
        if selector is not None:
            async for claim in self._listed_of(PERSISTENT_VOLUME_CLAIMS, here):
                if selects(selector, claim.metadata.labels):
                    found.append(key_of(claim))
        for one in found:
            await self.claim(one)

    async def content(self, name: str) -> None:
        """The content with its driver and its snapshot."""
        held = await self._get(self.scene.contents, VOLUME_SNAPSHOT_CONTENTS, Key("", name))
        if held is None:
            return
        await self.events(held)
        await self._driver(held.spec.driver)
        await self.snapshot(snapshot_of(held))

    async def group_content(self, name: str) -> None:
        """The content of a group with its driver and its group snapshot."""
        held = await self._get(self.scene.group_contents, GROUP_SNAPSHOT_CONTENTS, Key("", name))
        if held is None:
            return
        await self.events(held)
        await self._driver(held.spec.driver)
        await self.group(snapshot_of(held))

    async def snapshots_of(self, claim: Key) -> None:
        """What may hold a claim for a snapshot that is in the making: those of its namespace, and the contents of its
        volume.
        """
        here = Selection(namespace=claim.namespace)
        await self._list(self.scene.snapshots, VOLUME_SNAPSHOTS, here, is_vital=False)
        await self._list(self.scene.groups, GROUP_SNAPSHOTS, here, is_vital=False)
        await self._list(self.scene.contents, VOLUME_SNAPSHOT_CONTENTS, is_vital=False)
        await self._list(self.scene.group_contents, GROUP_SNAPSHOT_CONTENTS, is_vital=False)
        await self._controller()

    async def _around(self, snapshot: Snapshot) -> None:
        """Its class, or all that may be the default; its content; the driver, and the Lease of the controller."""
        row, scene = row_of(snapshot), self.scene
        await self.events(snapshot)
        await self._controller()
        classes: Shelf[Any] = scene.snapshot_classes if row is SINGLES else scene.group_classes
        contents: Shelf[Any] = scene.contents if row is SINGLES else scene.group_contents
        class_name = class_name_of(snapshot)
        if class_name:
            found = await self._get(classes, row.classes, Key("", class_name))
            if found is not None:
                await self._driver(found.driver)
        else:
            await self._list(classes, row.classes, is_vital=False)
        held = await self._get(contents, row.contents, content_key(snapshot))
        if held is not None:
            await self.events(held)
            await self._driver(held.spec.driver)

    async def _controller(self) -> None:
        for lock in CONTROLLER_LOCKS.values():
            await self._list(
                self.scene.leases, LEASES, Selection(field_selector=f"metadata.name={lock}"), is_vital=False
            )

    async def _driver(self, name: str) -> None:
        """The CSIDriver, and the Leases of its sidecars."""
        if self.scene.drivers.get(Key("", name)) is not None:
            return
        if (
            "/" not in name
        ):  # a provisioner that is no CSI driver, as kubernetes.io/gce-pd, can have no object of its name
            await self._get(self.scene.drivers, CSI_DRIVERS, Key("", name))
        for lock in lock_names(name):
            chosen = Selection(field_selector=f"metadata.name={lock}")
            await self._list(self.scene.leases, LEASES, chosen, is_vital=False)

    async def _attachment(self, claim: Key, node: str) -> None:
        """The attachment of a claim's volume to a node; where there is none, those that may be in its way."""
        held = self.scene.claims.get(claim)
        pv = self.scene.volumes.get(Key("", held.spec.volume_name)) if held is not None else None
        driver, handle = driver_and_handle(pv) if pv is not None else ("", "")
        if not (node and handle) or pv is None:
            return
        found = await self._get(
            self.scene.attachments, VOLUME_ATTACHMENTS, Key("", attachment_name(driver, handle, node))
        )
        if found is not None:
            await self.events(found)
            return
        await self.pods_of(claim.namespace)
        elsewhere = {pod.spec.node_name for pod in self.scene.pods.by(BY_CLAIM, str(claim))} - {"", node}
        for other in sorted(elsewhere):
            await self._get(self.scene.attachments, VOLUME_ATTACHMENTS, Key("", attachment_name(driver, handle, other)))
        if not self.scene.attachments.by(BY_VOLUME, pv.metadata.name):
            await self.attachments_of(pv.metadata.name)
        for one in self.scene.attachments.by(BY_VOLUME, pv.metadata.name):
            await self._get(self.scene.nodes, NODES, Key("", one.spec.node_name))

    async def refused(self, key: Key) -> SeenEvent | None:
        """The newest Event of a controller that could not create an object of this name."""
        chosen = Selection(namespace=key.namespace, field_selector="reason=FailedCreate")
        name = re.compile(rf"(?<![\w.-]){re.escape(key.name)}(?![\w.-])")
        with contextlib.suppress(Forbidden):
            found = [one async for one in list_all(self._cluster, SEEN_EVENTS, chosen) if name.search(one.message)]
            return max(found, key=lambda one: one.last_s, default=None)
        return None

    async def pods_of(self, namespace: str) -> None:
        """All pods of a namespace: no name leads from a claim to them."""
        if namespace not in self._listed:
            self._listed.add(namespace)
            await self._list(self.scene.pods, PODS, Selection(namespace=namespace))
