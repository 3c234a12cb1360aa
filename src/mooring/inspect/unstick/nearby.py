"""The traces of a driver that the judgements on one object need: read by name where a name leads to them, in lists only
where none does.

| kind | read by name | listed |
|---|---|---|
| attachment | its volume, its Node and CSINode | |
| volume | its claim | nodes, VolumeAttachments, the pods of its claim's namespace |
| claim | its volume | nodes, once it has a volume; the pods of its namespace are in the scene |
| any | the CSIDriver | CSINodes, if that is gone |
| all of a driver | the CSIDriver | all of these |

A driver that is asked may list its volumes: then the cluster's volumes and attachments, and the CSINodes, are needed to
judge that list.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

from mooring.api.binding import claim_key, claims_of, is_finished
from mooring.api.core import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.api.meta import Key, Kind, finalizers_of, is_deleting, key_of
from mooring.api.migration import driver_of
from mooring.api.names import sanitised
from mooring.api.nodes import is_out_of_service, is_ready
from mooring.api.pods import PODS, Pod
from mooring.api.snapshot_names import MANAGED_BY
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, VOLUME_ATTACHMENTS, CSINode, VolumeAttachment
from mooring.base.clock import Clock, Instant
from mooring.inspect.locks import lock_names
from mooring.inspect.renewals import Renewals
from mooring.inspect.scene import Scene
from mooring.inspect.traces import Traces, finalizer_of
from mooring.kube.cluster import EVERYTHING, Cluster, Selection
from mooring.kube.errors import NotFound
from mooring.kube.list_all import list_all

T = TypeVar("T")

WHOLE: Final = "driver"
"""Stands for the kind of an object where all that a driver has is looked at."""
OF_VOLUMES: Final = ("pv", "volumeattachment")
FRESH_S: Final = 3.0
"""How long one look at all of a driver serves, while its objects are judged one by one."""


class NearbySearch:
    """Looks at what is around one object, as often as it is asked. asks_driver: what the driver says has to be judged,
    too.

    driver: "" for an object of none; then there are only the further Leases. watching: is told how long the first look
    will take because of Leases. also: further Leases to look at.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        driver: str,
        watching: Callable[[str], None],
        also: Collection[str],
        *,
        asks_driver: bool,
    ) -> None:
        self._cluster, self._clock, self._driver, self._asks_driver = cluster, clock, driver, asks_driver
        locks = {*lock_names(driver), sanitised(f"external-health-monitor-leader-{driver}")} if driver else set()
        self._renewals = Renewals(cluster, clock, locks | {*also}, watching)

    async def look(self, kind: str, obj: Any, scene: Scene) -> tuple[Traces, dict[str, str]]:
        """The traces, and the driver's names of the nodes that were read. Raises ApiError. Leases come first: who took
        one since has written nothing by then that the rest would not show.
        """
        leases = await self._renewals.look()
        nodes = await self._nodes(kind, obj)
        csi_nodes, is_installed = await self._csi_nodes(kind, obj)
        volumes = await self._volumes(kind, obj)
        traces = Traces(
            driver=self._driver,
            is_installed=is_installed,
            registered_on=tuple(one.metadata.name for one in csi_nodes if self._node_id(one)),
            in_use={one.metadata.name: frozenset(one.status.volumes_in_use or ()) for one in nodes},
            attachments=await self._attachments(kind, obj),
            volumes=volumes,
            users=await self._users(kind, volumes, scene),
            live_leases=leases.live,
            silent_leases=leases.silent,
            last_renewals=leases.last,
            out_of_service=frozenset(
                one.metadata.name for one in nodes if is_out_of_service(one) and not is_ready(one)
            ),
        )
        return traces, {one.metadata.name: self._node_id(one) for one in csi_nodes if self._node_id(one)}

    async def _nodes(self, kind: str, obj: Any) -> list[Node]:
        """The nodes whose kubelets may report the volume."""
        if kind == "volumeattachment":
            return await self._named(NODES, obj.spec.node_name)
        return await self._all(NODES) if kind in ("pv", WHOLE) or (kind == "pvc" and obj.spec.volume_name) else []

    async def _csi_nodes(self, kind: str, obj: Any) -> tuple[list[CSINode], bool]:
        """The CSINodes that matter, and whether the driver has its CSIDriver."""
        if not self._driver:
            return [], False
        is_installed = bool(await self._named(CSI_DRIVERS, self._driver)) if "/" not in self._driver else False
        if not is_installed or kind == WHOLE or (kind == "volumeattachment" and self._asks_driver):
            return await self._all(CSI_NODES), is_installed
        node = obj.spec.node_name if kind == "volumeattachment" else (obj.metadata.labels or {}).get(MANAGED_BY, "")
        return await self._named(CSI_NODES, node) if node else [], is_installed

    def _node_id(self, csi_node: CSINode) -> str:
        return next((one.node_id for one in csi_node.spec.drivers or () if one.name == self._driver), "")

    async def _volumes(self, kind: str, obj: Any) -> dict[str, PersistentVolume]:
        if kind == "pv" and not self._asks_driver:
            return {obj.metadata.name: obj}
        found: list[PersistentVolume] = []
        if kind == WHOLE or (self._asks_driver and kind in OF_VOLUMES):
            found = await self._all(PERSISTENT_VOLUMES)
        elif kind == "volumeattachment" and obj.spec.source.persistent_volume_name:
            found = await self._named(PERSISTENT_VOLUMES, obj.spec.source.persistent_volume_name)
        return {pv.metadata.name: pv for pv in found if driver_of(pv) == self._driver}

    async def _attachments(self, kind: str, obj: Any) -> tuple[VolumeAttachment, ...]:
        if kind in ("pv", WHOLE) or (kind == "volumeattachment" and self._asks_driver):
            return tuple(one for one in await self._all(VOLUME_ATTACHMENTS) if one.spec.attacher == self._driver)
        return (obj,) if kind == "volumeattachment" else ()

    async def _users(
        self, kind: str, volumes: Mapping[str, PersistentVolume], scene: Scene
    ) -> dict[str, tuple[str, ...]]:
        """Volume → the pods on nodes with its claim."""
        refs = [pv.spec.claim_ref for pv in volumes.values() if pv.spec.claim_ref is not None]
        if kind not in ("pv", WHOLE) or not refs:
            return {}
        claims = await self._all(PERSISTENT_VOLUME_CLAIMS) if kind == WHOLE else scene.claims.values()
        pods = await self._all(PODS, EVERYTHING if kind == WHOLE else Selection(namespace=refs[0].namespace))
        return _users(volumes, pods, claims)

    async def _named(self, kind: Kind[T], name: str) -> list[T]:
        """It, or nothing."""
        with contextlib.suppress(NotFound):
            return [await self._cluster.get(kind, name)]
        return []

    async def _all(self, kind: Kind[T], selection: Selection = EVERYTHING) -> list[T]:
        return [found async for found in list_all(self._cluster, kind, selection)]


class DriverSearch(NearbySearch):
    """Looks at all that one driver has, and judges its objects by that until it is old: two objects of one kind cost
    the same lists.
    """

    _kind = ""
    _at: Instant = 0.0

    async def stuck(self) -> list[tuple[str, Key]]:
        """The attachments, then the volumes, that are being deleted and have the attacher's finalizer."""
        traces, _ = await self.look("volumeattachment", None, Scene(0.0))
        objects = (("volumeattachment", traces.attachments), ("pv", traces.volumes.values()))
        return [
            (kind, key)
            for kind, found in objects
            for key in sorted(
                key_of(one) for one in found if is_deleting(one) and finalizer_of(self._driver) in finalizers_of(one)
            )
        ]

    async def look(self, kind: str, obj: Any, scene: Scene) -> tuple[Traces, dict[str, str]]:
        """A look for volumes is another one than that for attachments: these have gone meanwhile."""
        if kind != self._kind or self._clock.now() - self._at > FRESH_S:
            self._seen = await super().look(WHOLE, None, scene)
            self._kind, self._at = kind, self._clock.now()
        return self._seen


def _users(
    volumes: Mapping[str, PersistentVolume], pods: Iterable[Pod], claims: Iterable[PersistentVolumeClaim]
) -> dict[str, tuple[str, ...]]:
    """A claim that was forced away leaves its pod with the volume."""
    uids = {key_of(claim): claim.metadata.uid for claim in claims}
    by_claim: dict[Key, list[str]] = defaultdict(list)
    for pod in pods:
        if pod.spec.node_name and not is_finished(pod):
            for key in claims_of(pod):
                by_claim[key].append(f"pod {key_of(pod)} on {pod.spec.node_name}")
    bound = ((name, pv.spec.claim_ref) for name, pv in volumes.items() if pv.spec.claim_ref is not None)
    return {
        name: tuple(by_claim[claim_key(ref)])
        for name, ref in bound
        if claim_key(ref) in by_claim and (claim_key(ref) not in uids or ref.uid in ("", uids[claim_key(ref)]))
    }
