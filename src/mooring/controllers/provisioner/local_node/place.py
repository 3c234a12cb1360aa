"""The node that is served, as its driver tells it: in place of watching Nodes and CSINodes from every node."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.core import Node
from mooring.api.meta import ObjectMeta
from mooring.api.storage import CSINode, CSINodeDriver, CSINodeSpec
from mooring.controllers.provisioner.caches import ProvisionerCaches
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi


async def learn_place(driver: Driver, timeout_s: float) -> Mapping[str, str]:
    """Where the node is: the segments that its driver says. Raises DriverError."""
    answer = await driver.node_get_info(csi.NodeGetInfoRequest(), Call(timeout_s))
    return dict(answer.accessible_topology.segments)


def pretend_nodes(caches: ProvisionerCaches, driver_name: str, node_name: str, segments: Mapping[str, str]) -> None:
    """Fills the caches of nodes, which nobody runs, with this one node."""
    metadata = ObjectMeta(name=node_name, resource_version="1")
    entry = CSINodeDriver(name=driver_name, topology_keys=tuple(sorted(segments)))
    caches.csi_nodes.store.apply(CSINode(metadata, CSINodeSpec(drivers=(entry,))))
    caches.nodes.store.apply(Node(ObjectMeta(name=node_name, resource_version="1", labels=dict(segments))))
