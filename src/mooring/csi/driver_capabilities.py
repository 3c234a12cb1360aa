"""The abilities of a driver by name, for every controller."""

from __future__ import annotations

import dataclasses

from mooring.api.migration import in_tree_name
from mooring.csi.capabilities import DriverInfo
from mooring.csi.proto import csi_pb2 as csi


@dataclasses.dataclass(frozen=True, slots=True)
class DriverCapabilities:
    """in_tree_name: of the plugin inside Kubernetes that the driver took over from, "" for none. topology: volumes are
    not everywhere. version: the vendor's.

    expands: on the controller. expands_online, expands_offline: while the volume is in use, while it is not; a driver
    may report neither.
    """

    name: str
    in_tree_name: str = ""
    version: str = ""
    has_controller: bool = True
    creates: bool = True
    snapshots: bool = False
    lists_snapshots: bool = False
    gets_snapshots: bool = False
    group_snapshots: bool = False
    clones: bool = False
    modifies: bool = False
    expands: bool = False
    expands_online: bool = False
    expands_offline: bool = False
    publishes: bool = False
    publishes_readonly: bool = False
    single_node_multi_writer: bool = False
    has_capacity: bool = False
    lists_published_nodes: bool = False
    topology: bool = False

    def is_named(self, provisioner: str) -> bool:
        """True for the driver's name, and for its in-tree one."""
        return provisioner in (self.name, self.in_tree_name) and provisioner != ""


def capabilities_of(info: DriverInfo) -> DriverCapabilities:
    """The capabilities that the driver reported; without a controller service none of that service."""
    rpc, service = csi.ControllerServiceCapability.RPC, csi.PluginCapability.Service
    expansion = csi.PluginCapability.VolumeExpansion
    has_controller = service.CONTROLLER_SERVICE in info.plugin
    controller = info.controller if has_controller else frozenset()
    return DriverCapabilities(
        name=info.name,
        in_tree_name=in_tree_name(info.name),
        version=info.vendor_version,
        has_controller=has_controller,
        creates=rpc.CREATE_DELETE_VOLUME in controller,
        snapshots=rpc.CREATE_DELETE_SNAPSHOT in controller,
        lists_snapshots=rpc.LIST_SNAPSHOTS in controller,
        gets_snapshots=rpc.GET_SNAPSHOT in controller,
        group_snapshots=service.GROUP_CONTROLLER_SERVICE in info.plugin,
        clones=rpc.CLONE_VOLUME in controller,
        modifies=rpc.MODIFY_VOLUME in controller,
        expands=rpc.EXPAND_VOLUME in controller,
        expands_online=expansion.ONLINE in info.volume_expansion,
        expands_offline=expansion.OFFLINE in info.volume_expansion,
        publishes=rpc.PUBLISH_UNPUBLISH_VOLUME in controller,
        publishes_readonly=rpc.PUBLISH_READONLY in controller,
        single_node_multi_writer=rpc.SINGLE_NODE_MULTI_WRITER in controller,
        has_capacity=rpc.GET_CAPACITY in controller,
        lists_published_nodes={rpc.LIST_VOLUMES, rpc.LIST_VOLUMES_PUBLISHED_NODES} <= controller,
        topology=service.VOLUME_ACCESSIBILITY_CONSTRAINTS in info.plugin,
    )
