"""What `mooring dev` has made before anybody comes, unless it is there: the driver and its nodes, classes, and volumes if asked for.

As a kubelet and an administrator would, over the network: CSIDriver, StorageClasses, a Node and a CSINode for each node, and for each
volume CreateVolume and a PersistentVolume. Without a kubelet nobody renews the nodes' heartbeats; nobody here looks at them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from mooring.api.core import NODES, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, STORAGE_CLASSES
from mooring.base.errors import ConfigError
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.objects import csi_driver, csi_node, node, persistent_volume, storage_class
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import NotFound

CLASS: Final = "hostpath"
WAITING_CLASS: Final = "hostpath-wait"
"""Its volumes are made when their first pod has a node."""
VOLUME_BYTES: Final = 1 << 30
CAPABILITY: Final = csi.VolumeCapability(mount={}, access_mode={"mode": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER})
_CALL: Final = Call(timeout_s=5.0)


async def register(
    cluster: Cluster,
    driver_name: str,
    node_ids: Collection[str],
    topology: Mapping[str, Mapping[str, str]],
    *,
    default_class: bool = False,
) -> None:
    """Tells the API server of the driver and its classes, of the nodes, and by which id the driver knows each: the node's own name.

    topology: the segments of each node, {} for a driver without topology. A node that is there gets those that it has by now.
    """
    await _make(cluster, CSI_DRIVERS.whole(), csi_driver(driver_name))
    await _make(cluster, STORAGE_CLASSES.whole(), storage_class(driver_name, CLASS, default=default_class))
    await _make(cluster, STORAGE_CLASSES.whole(), storage_class(driver_name, WAITING_CLASS, waits=True))
    for node_id in dict.fromkeys(node_ids):
        await _register_node(cluster, driver_name, node_id, topology.get(node_id, {}))


async def _register_node(cluster: Cluster, driver_name: str, node_id: str, segments: Mapping[str, str]) -> None:
    if await _make(cluster, NODES.whole(), node(node_id, segments)):
        await cluster.patch(NODES, node_id, Patch(PatchType.MERGE, {"spec": {"taints": None}}))  # a new node begins as not ready
    labels = (await cluster.get(NODES.whole(), node_id))["metadata"].get("labels") or {}
    if not segments.items() <= labels.items():
        await cluster.patch(NODES, node_id, Patch(PatchType.MERGE, {"metadata": {"labels": dict(segments)}}))
    wanted = csi_node(driver_name, node_id, segments)
    if not await _make(cluster, CSI_NODES.whole(), wanted):
        there = await cluster.get(CSI_NODES.whole(), node_id)
        if _topology_keys(there, driver_name) != _topology_keys(wanted, driver_name):  # what a driver has said there can't be changed
            await cluster.delete(CSI_NODES, node_id)
            await cluster.create(CSI_NODES.whole(), wanted)


def _topology_keys(node: Mapping[str, Any], driver_name: str) -> Collection[str]:
    return next((one.get("topologyKeys") or [] for one in node["spec"]["drivers"] if one["name"] == driver_name), [])


async def make_volume(cluster: Cluster, driver: Driver, driver_name: str, name: str) -> None:
    """The driver's volume of this name, made unless it is there, and a PersistentVolume of the same name. Raises ConfigError."""
    request = csi.CreateVolumeRequest(name=name, capacity_range={"required_bytes": VOLUME_BYTES}, volume_capabilities=[CAPABILITY])
    try:
        answer = await driver.create_volume(request, _CALL)
    except DriverError as error:
        raise ConfigError(f"volume: the driver can't make {name!r}: {error.message}") from error
    place = next((dict(one.segments) for one in answer.volume.accessible_topology), {})
    await _make(cluster, PERSISTENT_VOLUMES.whole(), persistent_volume(driver_name, name, answer.volume.volume_id, place))


async def _make(cluster: Cluster, kind: Kind[dict[str, Any]], obj: dict[str, Any]) -> bool:
    """True when it was made. A kept state has it from the last time, perhaps as somebody has changed it since."""
    try:
        await cluster.get(kind, obj["metadata"]["name"])
    except NotFound:
        await cluster.create(kind, obj)
        return True
    return False
