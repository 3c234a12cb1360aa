"""CSI1xx: who the driver is, and what it says that it can do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from mooring.conform.book.exchange import Exchange
from mooring.conform.book.past import Past
from mooring.conform.book.rule import Breach, Rule
from mooring.csi import capabilities
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

_Controller = csi.ControllerServiceCapability.RPC
_Group = csi.GroupControllerServiceCapability.RPC
_Node = csi.NodeServiceCapability.RPC
_Service = csi.PluginCapability.Service
_Expansion = csi.PluginCapability.VolumeExpansion

NAME = Rule(
    "CSI101",
    "the driver's name is not of a domain's form",
    "GetPluginInfo's name MUST be in domain form: at most 63 characters, letters, digits, dots and "
    "dashes, a letter or digit at both ends.",
    "getplugininfo",
    "The kubelet refuses to register the driver; StorageClasses, sockets and labels can't carry the name.",
    "Answer a name like `csi.example.com`.",
)
VERSION = Rule(
    "CSI102",
    "the driver names no version",
    "GetPluginInfo's vendor_version is REQUIRED, so it MUST be set.",
    "getplugininfo",
    "Sidecars go on; nobody can tell which version of the driver runs where.",
    "Answer the version of your build as vendor_version.",
)
ONE_NAME = Rule(
    "CSI103",
    "the driver has several names",
    "The name MUST be that of the plugin: its controller and all its nodes answer the same, always.",
    "getplugininfo",
    "CSINode lists a name that no StorageClass asks for: volumes are made and can be attached to no node.",
    "Read the name from one constant in all parts of the driver.",
)
NO_SERVICE = Rule(
    "CSI104",
    "a service is served and not advertised",
    "All instances MUST answer GetPluginCapabilities with the sum of what the plugin serves: a controller "
    "service is named, and one for groups of snapshots.",
    "getplugincapabilities",
    "Sidecars ask GetPluginCapabilities first: they treat the driver as one without that service, and claims "
    "stay Pending.",
    "Add the service to the answer of GetPluginCapabilities.",
)
NOT_SERVED = Rule(
    "CSI105",
    "a capability is advertised and not served",
    "A call whose capability is advertised MUST be implemented, and the fields that stand for it MUST be filled.",
    "controllergetcapabilities",
    "Kubernetes makes the call because of the capability, and tries again for ever.",
    "Implement the call, or take its capability out of the answer.",
)
NOT_ADVERTISED = Rule(
    "CSI106",
    "a capability is used and not advertised",
    "What is served or answered SHOULD be advertised. CSI lets callers go by the capabilities alone.",
    "controllergetcapabilities",
    "Kubernetes never uses what is not advertised: the sidecar skips the call, and ignores the field.",
    "Add the capability to the answer, or leave the call unimplemented and the field unset.",
)
TOPOLOGY = Rule(
    "CSI107",
    "topology without its capability",
    "A plugin that answers with accessible_topology MUST advertise VOLUME_ACCESSIBILITY_CONSTRAINTS.",
    "getplugincapabilities",
    "The provisioner ignores the topology: the scheduler puts pods on nodes that can't reach the volume.",
    "Advertise VOLUME_ACCESSIBILITY_CONSTRAINTS in GetPluginCapabilities, or answer no topology.",
)
CONTRADICTION = Rule(
    "CSI108",
    "capabilities that contradict each other",
    "VolumeExpansion MUST stand beside EXPAND_VOLUME, and LIST_VOLUMES_PUBLISHED_NODES beside "
    "PUBLISH_UNPUBLISH_VOLUME; UNKNOWN is none.",
    "controllergetcapabilities",
    "The sidecars ignore the lone capability.",
    "Advertise both, or neither.",
)
STEADY = Rule(
    "CSI109",
    "the capabilities change",
    "All instances of one version MUST answer the same capabilities, as long as they run.",
    "getplugincapabilities",
    "Sidecars ask once, when they start: they go on with the first answer, or start again.",
    "Work the capabilities out once, before the driver serves its socket.",
)

NO_TOPOLOGY = Rule(
    "CSI115",
    "topology is advertised, and the node has none",
    "A driver that advertises VOLUME_ACCESSIBILITY_CONSTRAINTS SHOULD answer NodeGetInfo with "
    "accessible_topology, which CSI leaves OPTIONAL.",
    "nodegetinfo",
    "The node gets no labels and no keys in CSINode: the provisioner makes no volume for pods on it.",
    "Answer the node's segments, or advertise no topology.",
)

RULES: Final = (
    NAME,
    VERSION,
    ONE_NAME,
    NO_SERVICE,
    NOT_SERVED,
    NOT_ADVERTISED,
    TOPOLOGY,
    CONTRADICTION,
    STEADY,
    NO_TOPOLOGY,
)


class Need(NamedTuple):
    """The capability that a call needs. names: its enumeration."""

    names: Any
    number: int

    @property
    def text(self) -> str:
        return str(self.names.Type.Name(self.number))


NEEDS: Final[Mapping[str, Need]] = {
    "create_volume": Need(_Controller, _Controller.CREATE_DELETE_VOLUME),
    "delete_volume": Need(_Controller, _Controller.CREATE_DELETE_VOLUME),
    "controller_publish_volume": Need(_Controller, _Controller.PUBLISH_UNPUBLISH_VOLUME),
    "controller_unpublish_volume": Need(_Controller, _Controller.PUBLISH_UNPUBLISH_VOLUME),
    "list_volumes": Need(_Controller, _Controller.LIST_VOLUMES),
    "get_capacity": Need(_Controller, _Controller.GET_CAPACITY),
    "create_snapshot": Need(_Controller, _Controller.CREATE_DELETE_SNAPSHOT),
    "delete_snapshot": Need(_Controller, _Controller.CREATE_DELETE_SNAPSHOT),
    "list_snapshots": Need(_Controller, _Controller.LIST_SNAPSHOTS),
    "get_snapshot": Need(_Controller, _Controller.GET_SNAPSHOT),
    "controller_expand_volume": Need(_Controller, _Controller.EXPAND_VOLUME),
    "controller_get_volume": Need(_Controller, _Controller.GET_VOLUME),
    "controller_modify_volume": Need(_Controller, _Controller.MODIFY_VOLUME),
    "create_volume_group_snapshot": Need(_Group, _Group.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT),
    "delete_volume_group_snapshot": Need(_Group, _Group.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT),
    "get_volume_group_snapshot": Need(_Group, _Group.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT),
    "node_stage_volume": Need(_Node, _Node.STAGE_UNSTAGE_VOLUME),
    "node_unstage_volume": Need(_Node, _Node.STAGE_UNSTAGE_VOLUME),
    "node_get_volume_stats": Need(_Node, _Node.GET_VOLUME_STATS),
    "node_expand_volume": Need(_Node, _Node.EXPAND_VOLUME),
}
"""By the call's method. ValidateVolumeCapabilities, NodePublishVolume, NodeUnpublishVolume and the questions come
with their service.
"""

_SERVICES: Final[Mapping[str, int]] = {
    "Controller": _Service.CONTROLLER_SERVICE,
    "GroupController": _Service.GROUP_CONTROLLER_SERVICE,
}


def judge(exchange: Exchange, past: Past) -> Iterator[Breach]:
    yield from _plugin_info(exchange, past)
    yield from _told_capabilities(exchange, past)
    yield from _served(exchange, past)
    yield from _topology(exchange, past)


def _plugin_info(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if not exchange.ok or not exchange.is_of("get_plugin_info"):
        return
    info = exchange.response
    if not capabilities.DRIVER_NAME.fullmatch(info.name):
        yield exchange.breaks(NAME, f"the name is {info.name!r}")
    if not info.vendor_version:
        yield exchange.breaks(VERSION, "vendor_version is empty")
    for where, name in past.names.items():
        if name != info.name:
            yield exchange.breaks(ONE_NAME, f"the name is {info.name!r}, and {name!r} {_at(where)}")
            return


def _at(where: str) -> str:
    return f"on {where}" if where else "at the controller"


def _told_capabilities(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if not exchange.ok:
        return
    if exchange.is_of("get_plugin_capabilities"):
        yield from _changed(exchange, past.plugin, capabilities.services(exchange.response), _Service)
    elif exchange.is_of("controller_get_capabilities"):
        now = capabilities.rpcs(exchange.response)
        yield from _changed(exchange, past.controller, now, _Controller)
        yield from _alone(exchange, past, now)
        yield from _unnamed(exchange, past, now, _Controller)
    elif exchange.is_of("group_controller_get_capabilities"):
        now = capabilities.rpcs(exchange.response)
        yield from _changed(exchange, past.group, now, _Group)
        yield from _unnamed(exchange, past, now, _Group)
    elif exchange.is_of("node_get_capabilities"):
        now = capabilities.rpcs(exchange.response)
        yield from _changed(exchange, past.node.get(exchange.where), now, _Node)
        if _Expansion.ONLINE in (past.expansions or ()) and not _grows(past, now):
            yield exchange.breaks(
                CONTRADICTION, "VolumeExpansion ONLINE without EXPAND_VOLUME of the controller or the node"
            )


def _grows(past: Past, node: Collection[int]) -> bool:
    return past.controller is None or _Controller.EXPAND_VOLUME in past.controller or _Node.EXPAND_VOLUME in node


def _changed(exchange: Exchange, before: frozenset[int] | None, now: frozenset[int], names: Any) -> Iterator[Breach]:
    if 0 in now:
        yield exchange.breaks(CONTRADICTION, "UNKNOWN is among the capabilities")
    if before is not None and before != now:
        yield exchange.breaks(STEADY, f"it was {_names(before, names)}, and is {_names(now, names)}")


def _alone(exchange: Exchange, past: Past, now: Collection[int]) -> Iterator[Breach]:
    if _Controller.LIST_VOLUMES_PUBLISHED_NODES in now and _Controller.PUBLISH_UNPUBLISH_VOLUME not in now:
        yield exchange.breaks(CONTRADICTION, "LIST_VOLUMES_PUBLISHED_NODES without PUBLISH_UNPUBLISH_VOLUME")
    if _Expansion.OFFLINE in (past.expansions or ()) and _Controller.EXPAND_VOLUME not in now:
        yield exchange.breaks(CONTRADICTION, "VolumeExpansion OFFLINE without EXPAND_VOLUME of the controller")


def _unnamed(exchange: Exchange, past: Past, now: Collection[int], names: Any) -> Iterator[Breach]:
    """A service that has something to offer, and which the driver did not name."""
    service = _SERVICES[exchange.rpc.service]
    if now and past.plugin is not None and service not in past.plugin:
        yield exchange.breaks(
            NO_SERVICE, f"it offers {_names(now, names)}, and GetPluginCapabilities lacks {_name(service, _Service)}"
        )


def _names(numbers: Collection[int], names: Any) -> str:
    return ", ".join(_name(number, names) for number in sorted(numbers)) or "none"


def _name(number: int, names: Any) -> str:
    return str(names.Type.Name(number)) if number in names.Type.values() else str(number)


def _served(exchange: Exchange, past: Past) -> Iterator[Breach]:
    """Whether what the driver says that it can do is what it does."""
    if (need := NEEDS.get(exchange.rpc.attribute)) is None or (has := _advertised(need, exchange, past)) is None:
        return
    if exchange.code == Code.UNIMPLEMENTED and need.number in has:
        yield exchange.breaks(NOT_SERVED, f"the driver advertises {need.text}, and answers Unimplemented")
    conditions_alone = exchange.is_of("node_get_volume_stats") and _Node.VOLUME_CONDITION in has
    if exchange.ok and need.number not in has and not conditions_alone:
        yield exchange.breaks(NOT_ADVERTISED, f"the driver answers OK, and does not advertise {need.text}")
    if exchange.ok and need.names is not _Group:
        yield from _filled(exchange, has)


def _advertised(need: Need, exchange: Exchange, past: Past) -> frozenset[int] | None:
    if need.names is _Node:
        return past.node.get(exchange.where)
    return past.controller if need.names is _Controller else past.group


def _filled(exchange: Exchange, has: frozenset[int]) -> Iterator[Breach]:
    """Fields that stand for a capability."""
    if exchange.is_of("node_get_volume_stats"):
        if _Node.VOLUME_CONDITION in has and not exchange.response.HasField("volume_condition"):
            yield exchange.breaks(NOT_SERVED, "the driver advertises VOLUME_CONDITION, and volume_condition is not set")
        return
    entries = exchange.response.entries if exchange.is_of("list_volumes") else ()
    told = [exchange.response] if exchange.is_of("controller_get_volume") else entries
    if _Controller.VOLUME_CONDITION in has and not all(one.status.HasField("volume_condition") for one in told):
        yield exchange.breaks(NOT_SERVED, "the driver advertises VOLUME_CONDITION, and volume_condition is not set")
    if _Controller.LIST_VOLUMES_PUBLISHED_NODES in has:
        if not all(one.HasField("status") for one in entries):
            yield exchange.breaks(
                NOT_SERVED, "the driver advertises LIST_VOLUMES_PUBLISHED_NODES, and an entry has no status"
            )
    elif any(entry.status.published_node_ids for entry in entries):
        yield exchange.breaks(
            NOT_ADVERTISED, "published_node_ids are filled, and LIST_VOLUMES_PUBLISHED_NODES is not advertised"
        )


def _topology(exchange: Exchange, past: Past) -> Iterator[Breach]:
    if not exchange.ok or past.plugin is None:
        return
    if _Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in past.plugin:
        if exchange.is_of("node_get_info") and not exchange.response.accessible_topology.segments:
            yield exchange.breaks(
                NO_TOPOLOGY, "accessible_topology is not set, and VOLUME_ACCESSIBILITY_CONSTRAINTS is advertised"
            )
        return
    if exchange.is_of("create_volume") and exchange.response.volume.accessible_topology:
        yield exchange.breaks(
            TOPOLOGY, "the volume has accessible_topology, and VOLUME_ACCESSIBILITY_CONSTRAINTS is not advertised"
        )
    if exchange.is_of("node_get_info") and exchange.response.accessible_topology.segments:
        yield exchange.breaks(
            TOPOLOGY, "the node has accessible_topology, and VOLUME_ACCESSIBILITY_CONSTRAINTS is not advertised"
        )
