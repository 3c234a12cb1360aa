"""A driver's capabilities: of the methods it overrides, plus the flags that no method shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.csi.driver import RPCS, Rpc
from mooring.csi.proto import csi_pb2 as csi

Capability = csi.ControllerServiceCapability.RPC
GroupCapability = csi.GroupControllerServiceCapability.RPC
NodeCapability = csi.NodeServiceCapability.RPC
Service = csi.PluginCapability.Service
Expansion = csi.PluginCapability.VolumeExpansion

METHODS: Final[Mapping[str, Rpc[Any, Any]]] = RPCS
"""The calls of CSI, by the methods that answer them."""


class Family(msgspec.Struct, frozen=True):
    """The capabilities of one service.

    names: the enumeration that has them. by_methods: those that methods show. by_opting_in: the flags, which an author
    sets by hand, with the methods without which they mean nothing.
    """

    names: Any
    by_methods: Mapping[int, frozenset[str]]
    by_opting_in: Mapping[int, frozenset[str]] = msgspec.field(default_factory=dict)

    def derived(self, methods: Collection[str], flags: Iterable[int]) -> frozenset[int]:
        """The capability numbers. Raises TypeError for a flag that a method should show, or that lacks its methods."""
        derived = {capability for capability, needed in self.by_methods.items() if needed <= set(methods)}
        for flag in flags:
            if flag in self.by_methods:
                raise TypeError(
                    f"{self.names.Name(flag)} is no flag: override {' and '.join(sorted(self.by_methods[flag]))}"
                )
            absent = self.by_opting_in.get(flag, frozenset()) - set(methods)
            if absent:
                raise TypeError(f"{self.names.Name(flag)} needs {' and '.join(sorted(absent))}")
            derived.add(flag)
        return frozenset(derived)


CONTROLLER: Final = Family(
    Capability.Type,
    {
        Capability.CREATE_DELETE_VOLUME: frozenset({"create_volume", "delete_volume"}),
        Capability.PUBLISH_UNPUBLISH_VOLUME: frozenset({"controller_publish_volume", "controller_unpublish_volume"}),
        Capability.LIST_VOLUMES: frozenset({"list_volumes"}),
        Capability.GET_CAPACITY: frozenset({"get_capacity"}),
        Capability.CREATE_DELETE_SNAPSHOT: frozenset({"create_snapshot", "delete_snapshot"}),
        Capability.LIST_SNAPSHOTS: frozenset({"list_snapshots"}),
        Capability.EXPAND_VOLUME: frozenset({"controller_expand_volume"}),
        Capability.GET_VOLUME: frozenset({"controller_get_volume"}),
        Capability.MODIFY_VOLUME: frozenset({"controller_modify_volume"}),
        Capability.GET_SNAPSHOT: frozenset({"get_snapshot"}),
    },
    {
        Capability.CLONE_VOLUME: frozenset({"create_volume"}),
        Capability.PUBLISH_READONLY: frozenset({"controller_publish_volume"}),
        Capability.LIST_VOLUMES_PUBLISHED_NODES: frozenset({"list_volumes", "controller_publish_volume"}),
        Capability.VOLUME_CONDITION: frozenset(),
        Capability.SINGLE_NODE_MULTI_WRITER: frozenset(),
    },
)

GROUP_CONTROLLER: Final = Family(
    GroupCapability.Type,
    {
        GroupCapability.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT: frozenset(
            {"create_volume_group_snapshot", "delete_volume_group_snapshot", "get_volume_group_snapshot"}
        )
    },
)

NODE: Final = Family(
    NodeCapability.Type,
    {
        NodeCapability.STAGE_UNSTAGE_VOLUME: frozenset({"node_stage_volume", "node_unstage_volume"}),
        NodeCapability.GET_VOLUME_STATS: frozenset({"node_get_volume_stats"}),
        NodeCapability.EXPAND_VOLUME: frozenset({"node_expand_volume"}),
    },
    {
        NodeCapability.VOLUME_CONDITION: frozenset({"node_get_volume_stats"}),
        NodeCapability.SINGLE_NODE_MULTI_WRITER: frozenset(),
        NodeCapability.VOLUME_MOUNT_GROUP: frozenset(),
    },
)

_PUBLISHING: Final = frozenset({"node_publish_volume", "node_unpublish_volume"})
"""No node service is without them, and no capability shows them."""

_SERVED_BY: Final[Mapping[int, str]] = {
    Service.CONTROLLER_SERVICE: "Controller",
    Service.GROUP_CONTROLLER_SERVICE: "GroupController",
}


def methods_of(service: str) -> frozenset[str]:
    """The methods of a service, `Node` for instance."""
    return frozenset(name for name, rpc in METHODS.items() if rpc.service == service)


def serves(methods: Collection[str], service: str) -> bool:
    """True for methods that make up this service, or a part of it."""
    return not methods_of(service).isdisjoint(methods)


def missing_partners(methods: Collection[str]) -> list[str]:
    """The methods that CSI wants beside those given, in their order of declaration: no CreateVolume without
    DeleteVolume.
    """
    together = [needed for family in (CONTROLLER, GROUP_CONTROLLER, NODE) for needed in family.by_methods.values()]
    wanted = {name for needed in together if not needed.isdisjoint(methods) for name in needed}
    if serves(methods, "Node"):
        wanted |= _PUBLISHING
    return [name for name in METHODS if name in wanted and name not in methods]


def left_out(
    flags: Collection[int], capabilities: Collection[int], family: Family = CONTROLLER
) -> tuple[frozenset[str], tuple[int, ...]]:
    """The methods to withhold, and the flags that are left, of a driver that is to lack these capabilities of a
    service.
    """
    withheld = frozenset(name for capability in capabilities for name in family.by_methods.get(capability, ()))
    kept = (
        flag for flag in flags if flag not in capabilities and withheld.isdisjoint(family.by_opting_in.get(flag, ()))
    )
    return withheld, tuple(kept)


def plugin_capabilities(methods: Collection[str], flags: Iterable[int]) -> frozenset[int]:
    """The plugin's service numbers; flags: VOLUME_ACCESSIBILITY_CONSTRAINTS and newer ones."""
    return frozenset(flags) | {number for number, service in _SERVED_BY.items() if serves(methods, service)}
