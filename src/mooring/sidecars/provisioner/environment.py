"""The parts that every controller of the provisioner is built from, the caches among them, and the calls that several
of them make.

There is one watch for each kind. A node is selected in a claim by PUT, which external-provisioner's rights on claims
allow and a patch would not: of the object as it is now, so with a GET.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.core import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    SecretReference,
)
from mooring.api.gateway import REFERENCE_GRANTS, ReferenceGrant
from mooring.api.meta import ObjectMeta, key_of
from mooring.api.snapshot import VOLUME_SNAPSHOTS, VolumeSnapshot
from mooring.api.storage import (
    CSI_NODES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    StorageClass,
    VolumeAttachment,
)
from mooring.base.log import logger
from mooring.control.caches import Caches
from mooring.control.events import EventRecorder
from mooring.control.manager import Loop, Worker
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache
from mooring.control.slim import always
from mooring.control.topics import Bus
from mooring.csi.driver import Call, Driver
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import NotFound
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.model.cached import (
    ATTACHMENT_INDEXES,
    CLAIM_INDEXES,
    NODE,
    SNAPSHOT,
    VOLUME_INDEXES,
    csi_node_mask,
    keeps_attachment,
    keeps_of_claim,
    keeps_of_volume,
)
from mooring.sidecars.provisioner.options import ProvisionerOptions

log = logger(__name__)

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The buckets of durations in metrics; external-provisioner has the same."""

GRANTS_S_MAX: Final = 5.0
"""How long grants are waited for at the start; one that comes later wakes its claims."""


class ProvisionerCaches:
    """Claims, volumes and classes always; nodes where topology or capacity needs them; attachments where the driver
    publishes; grants behind their gate; snapshots once source protection runs their cache.

    shared: the caches that run, the program's or our own. A cache that is not in use stays empty. beside: parts that
    nobody waits for.
    """

    def __init__(
        self,
        runtime: Runtime,
        capabilities: DriverCapabilities,
        options: ProvisionerOptions,
        caches: Caches | None = None,
    ) -> None:
        resync_s = options.resync_s
        self.shared = caches or Caches(runtime, "provisioner")
        self.claims: Informer[PersistentVolumeClaim] = self.shared.of(
            PERSISTENT_VOLUME_CLAIMS, keeps=keeps_of_claim, indexes=CLAIM_INDEXES, resync_s=resync_s
        )
        self.volumes: Informer[PersistentVolume] = self.shared.of(
            PERSISTENT_VOLUMES, keeps=keeps_of_volume, indexes=VOLUME_INDEXES, resync_s=resync_s
        )
        self.classes: Informer[StorageClass] = self.shared.of(STORAGE_CLASSES)
        uses_nodes = options.node is None and (
            (capabilities.topology and options.rules.topology) or options.capacity is not None
        )
        of_nodes = self.shared if uses_nodes else Caches(runtime)
        self.csi_nodes: Informer[CSINode] = of_nodes.of(CSI_NODES, keeps=always(csi_node_mask(capabilities.name)))
        self.nodes: Informer[Node] = of_nodes.of(NODES, keeps=always(NODE))
        self.grants: Informer[ReferenceGrant] = Informer(
            runtime.cluster, REFERENCE_GRANTS, clock=runtime.clock, randomness=runtime.randomness
        )
        self.snapshots: Informer[VolumeSnapshot] = Informer(
            runtime.cluster,
            VOLUME_SNAPSHOTS,
            clock=runtime.clock,
            randomness=runtime.randomness,
            prune=SNAPSHOT.of,
            resync_s=options.snapshot_orphan_sweep_interval_s,
        )
        self.attachments: Informer[VolumeAttachment] | None = None
        if capabilities.publishes:  # only deletion reads them: claims go on where there is no right to
            self.attachments = self.shared.of(
                VOLUME_ATTACHMENTS, keeps=keeps_attachment, indexes=ATTACHMENT_INDEXES, awaited=False
            )
        uses_grants = options.rules.cross_namespace_data_source
        self.beside: Mapping[str, Worker] = (
            {"provisioner/referencegrants": Loop(self.grants.run)} if uses_grants else {}
        )

    def pretend_node(self, driver_name: str, node_name: str, segments: Mapping[str, str]) -> None:
        """Fills the caches of nodes, which nobody runs where one node is served, with that node."""
        entry = CSINodeDriver(name=driver_name, topology_keys=tuple(sorted(segments)))
        self.csi_nodes.store.apply(
            CSINode(ObjectMeta(name=node_name, resource_version="1"), CSINodeSpec(drivers=(entry,)))
        )
        self.nodes.store.apply(Node(ObjectMeta(name=node_name, resource_version="1", labels=dict(segments))))

    async def grants_synced(self) -> None:
        """Returns once grants, if they are in use, are there, or have been waited for long enough: a cluster may lack
        their kind.

        Differs from external-provisioner, which never begins where the gate is on and the kind is missing: then there
        are none.
        """
        if self.beside:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRANTS_S_MAX):
                    await self.grants.synced()


class Environment(msgspec.Struct, frozen=True):
    """The parts that the controllers of the room share."""

    runtime: Runtime
    driver: Driver
    capabilities: DriverCapabilities
    options: ProvisionerOptions
    #: The shared caches; handlers may be added until they run.
    caches: ProvisionerCaches
    #: The recorder of Events, with the driver as their source.
    events: EventRecorder
    secrets: SecretCache
    #: News from one controller to the others.
    bus: Bus = msgspec.field(default_factory=Bus)
    #: The uids of the claims for which a PersistentVolume is being stored, by the volume's handle: meanwhile the volume
    #: is not deleted. Filled by the creation of volumes, which tells `topics.HANDLE_STORED` at the end.
    storing: dict[str, set[str]] = msgspec.field(default_factory=dict)


def delete_request(volume_id: str, secrets: Mapping[str, str]) -> csi.DeleteVolumeRequest:
    return csi.DeleteVolumeRequest(volume_id=volume_id, secrets=secrets)


async def deletion_secret(secrets: SecretCache, ref: SecretReference, pv_name: str) -> Mapping[str, str]:
    """The values for a deletion; none when the Secret is gone: the volume must not outlive it for ever. Whatever else
    may pass: raises ApiError, SecretError.

    Differs from external-provisioner, which goes on without whatever it is: a driver that looks in its own account
    finds nothing there.
    """
    try:
        return await secrets.get(ref)
    except NotFound as error:
        log.error("the deletion secret is gone, going on without", error=error, PersistentVolume=pv_name)
        return {}


_WHOLE = PERSISTENT_VOLUME_CLAIMS.whole()


async def select_node(
    cluster: Cluster, claims: Informer[PersistentVolumeClaim], claim: PersistentVolumeClaim, node_name: str
) -> bool:
    """Writes the node into the claim; False when that is not free any more. Raises ApiError."""

    def select(body: dict[str, Any]) -> bool:
        notes = body["metadata"].setdefault("annotations", {})
        if notes.get(names.SELECTED_NODE) or body["spec"].get("volumeName"):
            return False
        notes[names.SELECTED_NODE] = node_name
        return True

    return await _edit(cluster, claims, claim, select)


async def deselect_node(
    cluster: Cluster, claims: Informer[PersistentVolumeClaim], claim: PersistentVolumeClaim
) -> None:
    """Takes the selected node off the claim, so that the scheduler chooses anew; nothing to do if somebody has done so.
    Raises ApiError.
    """
    tried = claim.metadata.annotations or {}

    def deselect(body: dict[str, Any]) -> bool:
        notes = body["metadata"].get("annotations") or {}
        chosen = [
            key
            for key in (names.SELECTED_NODE, names.SELECTED_NODE_ALPHA)
            if key in notes and notes[key] == tried.get(key)
        ]
        for key in chosen:
            del notes[key]
        return bool(chosen)

    with contextlib.suppress(NotFound):
        await _edit(cluster, claims, claim, deselect)


async def _edit(
    cluster: Cluster,
    claims: Informer[PersistentVolumeClaim],
    claim: PersistentVolumeClaim,
    edit: Callable[[dict[str, Any]], bool],
) -> bool:
    """False when another claim has the name by now, or the edit finds nothing to do. Raises ApiError."""
    meta = claim.metadata
    body = await cluster.get(_WHOLE, meta.name, meta.namespace)
    if body["metadata"]["uid"] != meta.uid or not edit(body):
        return False
    await claims.write(key_of(claim), cluster.replace(PERSISTENT_VOLUME_CLAIMS, body, meta.namespace))
    return True


async def learn_place(driver: Driver, timeout_s: float) -> Mapping[str, str]:
    """The topology segments of the node, from its driver. Raises DriverError."""
    answer = await driver.node_get_info(csi.NodeGetInfoRequest(), Call(timeout_s))
    return dict(answer.accessible_topology.segments)
