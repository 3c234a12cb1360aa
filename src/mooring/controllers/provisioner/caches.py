"""The caches that all parts of the provisioner share: one watch for each kind, whoever reads it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.gateway import REFERENCE_GRANTS, ReferenceGrant
from mooring.api.storage import CSI_NODES, STORAGE_CLASSES, CSINode, StorageClass
from mooring.base.clock import Clock
from mooring.base.randomness import Chance
from mooring.controllers.provisioner.claims.view import CLAIM_INDEXES, csi_node_pruner, prune_claim, prune_node, prune_volume
from mooring.controllers.provisioner.driver_capabilities import DriverFacts
from mooring.controllers.provisioner.options import ProvisionerOptions
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster

GRANTS_S_MAX: Final = 5.0
"""How long grants are waited for at the start; one that comes later wakes its claims."""


class Caches:
    """Claims, volumes and classes always; nodes where topology or capacity needs them; grants behind their gate.

    A cache that is not in use stays empty and is not in `running`.
    """

    def __init__(self, cluster: Cluster, facts: DriverFacts, options: ProvisionerOptions, clock: Clock, chance: Chance) -> None:
        resync_s = options.resync_s
        self.claims: Informer[PersistentVolumeClaim] = Informer(
            cluster, PERSISTENT_VOLUME_CLAIMS, clock=clock, chance=chance, indexes=CLAIM_INDEXES, prune=prune_claim, resync_s=resync_s
        )
        self.volumes: Informer[PersistentVolume] = Informer(
            cluster, PERSISTENT_VOLUMES, clock=clock, chance=chance, prune=prune_volume, resync_s=resync_s
        )
        self.classes: Informer[StorageClass] = Informer(cluster, STORAGE_CLASSES, clock=clock, chance=chance)
        self.csi_nodes: Informer[CSINode] = Informer(cluster, CSI_NODES, clock=clock, chance=chance, prune=csi_node_pruner(facts.name))
        self.nodes: Informer[Node] = Informer(cluster, NODES, clock=clock, chance=chance, prune=prune_node)
        self.grants: Informer[ReferenceGrant] = Informer(cluster, REFERENCE_GRANTS, clock=clock, chance=chance)
        self.running: list[Informer[Any]] = [self.claims, self.volumes, self.classes]
        if options.node is None and ((facts.topology and options.rules.topology) or options.capacity is not None):
            self.running += [self.csi_nodes, self.nodes]
        if options.rules.cross_namespace_data_source:
            self.running.append(self.grants)

    @property
    def have_synced(self) -> bool:
        """True while all that are in use follow the API server. Not so the grants: a cluster may lack their kind."""
        return all(informer.has_synced for informer in self.needed)

    @property
    def needed(self) -> list[Informer[Any]]:
        """Those without which there is no work."""
        return [informer for informer in self.running if informer is not self.grants]

    async def synced(self) -> None:
        """Returns once all that are in use have been filled.

        Differs from external-provisioner, which never begins where the gate is on and the kind of grants is missing: then there are none.
        """
        for informer in self.running:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRANTS_S_MAX if informer is self.grants else None):
                    await informer.synced()
