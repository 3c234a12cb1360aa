"""The caches that the controllers of node health share, and the writes on them."""

from __future__ import annotations

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE, Lease
from mooring.api.core import NODES, Node
from mooring.api.pods import PODS, Pod
from mooring.cluster.nodehealth.view import LEASE, NODE, POD, POD_INDEXES, View
from mooring.cluster.nodehealth.writes import Writes
from mooring.control.caches import Caches
from mooring.control.runtime import Runtime
from mooring.control.slim import always
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Selection


class HealthCaches:
    """Nodes, their Leases, and Pods."""

    def __init__(self, runtime: Runtime, shared: Caches) -> None:
        self.nodes: Informer[Node] = shared.of(NODES, keeps=always(NODE))
        self.leases: Informer[Lease] = shared.of(LEASES, keeps=always(LEASE), selection=Selection(namespace=NODE_LEASE_NAMESPACE))
        self.pods: Informer[Pod] = shared.of(PODS, keeps=always(POD), indexes=POD_INDEXES)
        self.view = View(self.nodes.store, self.leases.store, self.pods.store)
        self.writes = Writes(runtime.cluster, self.nodes, runtime.clock)
