"""What the driver said of itself at start, and what the flags say: the ground on which every claim is judged."""

from __future__ import annotations

import dataclasses

from mooring.api.migration import in_tree_name
from mooring.csi.capabilities import DriverInfo
from mooring.csi.proto import csi_pb2 as csi


@dataclasses.dataclass(frozen=True, slots=True)
class DriverFacts:
    """in_tree_name: of the plugin inside Kubernetes that the driver took over from, "" for none. topology: volumes are not everywhere."""

    name: str
    in_tree_name: str = ""
    has_controller: bool = True
    creates: bool = True
    snapshots: bool = False
    clones: bool = False
    modifies: bool = False
    publishes: bool = False
    single_node_multi_writer: bool = False
    has_capacity: bool = False
    lists: bool = False
    topology: bool = False

    def is_named(self, provisioner: str) -> bool:
        """True for the driver's name, and for its in-tree one."""
        return provisioner in (self.name, self.in_tree_name) and provisioner != ""


def facts_of(info: DriverInfo) -> DriverFacts:
    """What the provisioner needs of what the driver said of itself."""
    rpc, service = csi.ControllerServiceCapability.RPC, csi.PluginCapability.Service
    return DriverFacts(
        name=info.name,
        in_tree_name=in_tree_name(info.name),
        has_controller=service.CONTROLLER_SERVICE in info.plugin,
        creates=rpc.CREATE_DELETE_VOLUME in info.controller,
        snapshots=rpc.CREATE_DELETE_SNAPSHOT in info.controller,
        clones=rpc.CLONE_VOLUME in info.controller,
        modifies=rpc.MODIFY_VOLUME in info.controller,
        publishes=rpc.PUBLISH_UNPUBLISH_VOLUME in info.controller,
        single_node_multi_writer=rpc.SINGLE_NODE_MULTI_WRITER in info.controller,
        has_capacity=rpc.GET_CAPACITY in info.controller,
        lists=rpc.LIST_VOLUMES in info.controller,
        topology=service.VOLUME_ACCESSIBILITY_CONSTRAINTS in info.plugin,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The flags and gates that judgements depend on, under their names."""

    volume_name_prefix: str = "pvc"
    volume_name_uuid_length: int = -1
    default_fstype: str = ""
    extra_create_metadata: bool = False
    strict_topology: bool = False
    immediate_topology: bool = True
    controller_publish_readonly: bool = False
    prevent_volume_mode_conversion: bool = True
    topology: bool = True
    volume_attributes_class: bool = True
    cross_namespace_data_source: bool = False
