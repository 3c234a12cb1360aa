"""The caches that all controllers of the provisioner share: one watch for each kind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.gateway import REFERENCE_GRANTS, ReferenceGrant
from mooring.api.meta import ObjectMeta
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
from mooring.control.caches import Caches
from mooring.control.manager import Loop, Worker
from mooring.control.runtime import Runtime
from mooring.control.slim import always
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.informer import Informer
from mooring.sidecars.provisioner.model.cached import (
    ATTACHMENT_INDEXES,
    CLAIM_INDEXES,
    NODE,
    VOLUME_INDEXES,
    csi_node_mask,
    keeps_attachment,
    keeps_of_claim,
    keeps_of_volume,
)
from mooring.sidecars.provisioner.options import ProvisionerOptions

GRANTS_S_MAX: Final = 5.0
"""How long grants are waited for at the start; one that comes later wakes its claims."""


class ProvisionerCaches:
    """Claims, volumes and classes always; nodes where topology or capacity needs them; attachments where the driver publishes; grants
    behind their gate.

    shared: the caches that run, the program's or our own. A cache that is not in use stays empty. beside: parts that nobody waits for.
    """

    def __init__(
        self, runtime: Runtime, capabilities: DriverCapabilities, options: ProvisionerOptions, caches: Caches | None = None
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
        uses_nodes = options.node is None and ((capabilities.topology and options.rules.topology) or options.capacity is not None)
        of_nodes = self.shared if uses_nodes else Caches(runtime)
        self.csi_nodes: Informer[CSINode] = of_nodes.of(CSI_NODES, keeps=always(csi_node_mask(capabilities.name)))
        self.nodes: Informer[Node] = of_nodes.of(NODES, keeps=always(NODE))
        self.grants: Informer[ReferenceGrant] = Informer(
            runtime.cluster, REFERENCE_GRANTS, clock=runtime.clock, randomness=runtime.randomness
        )
        self.attachments: Informer[VolumeAttachment] | None = None
        if capabilities.publishes:  # only deletion reads them: claims go on where there is no right to
            self.attachments = self.shared.of(VOLUME_ATTACHMENTS, keeps=keeps_attachment, indexes=ATTACHMENT_INDEXES, awaited=False)
        uses_grants = options.rules.cross_namespace_data_source
        self.beside: Mapping[str, Worker] = {"provisioner/referencegrants": Loop(self.grants.run)} if uses_grants else {}

    def pretend_node(self, driver_name: str, node_name: str, segments: Mapping[str, str]) -> None:
        """Fills the caches of nodes, which nobody runs where one node is served, with that node."""
        entry = CSINodeDriver(name=driver_name, topology_keys=tuple(sorted(segments)))
        self.csi_nodes.store.apply(CSINode(ObjectMeta(name=node_name, resource_version="1"), CSINodeSpec(drivers=(entry,))))
        self.nodes.store.apply(Node(ObjectMeta(name=node_name, resource_version="1", labels=dict(segments))))

    async def grants_synced(self) -> None:
        """Returns once grants, if they are in use, are there, or have been waited for long enough: a cluster may lack their kind.

        Differs from external-provisioner, which never begins where the gate is on and the kind is missing: then there are none.
        """
        if self.beside:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRANTS_S_MAX):
                    await self.grants.synced()
