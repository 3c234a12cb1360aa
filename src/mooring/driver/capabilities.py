"""A driver's capabilities: of the methods it overrides, plus the flags that no method shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from mooring.csi.driver import RPCS, Rpc
from mooring.csi.proto import csi_pb2 as csi

Capability = csi.ControllerServiceCapability.RPC
Service = csi.PluginCapability.Service
Expansion = csi.PluginCapability.VolumeExpansion

SERVICES: Final = ("Identity", "Controller")
"""The services that a driver can have so far."""

METHODS: Final[Mapping[str, Rpc[Any, Any]]] = {name: rpc for name, rpc in RPCS.items() if rpc.service in SERVICES}
"""Their calls, by the methods that answer them."""

_BY_METHODS: Final[Mapping[int, frozenset[str]]] = {
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
}

_BY_OPTING_IN: Final[Mapping[int, frozenset[str]]] = {
    Capability.CLONE_VOLUME: frozenset({"create_volume"}),
    Capability.PUBLISH_READONLY: frozenset({"controller_publish_volume"}),
    Capability.LIST_VOLUMES_PUBLISHED_NODES: frozenset({"list_volumes", "controller_publish_volume"}),
    Capability.VOLUME_CONDITION: frozenset(),
    Capability.SINGLE_NODE_MULTI_WRITER: frozenset(),
}
"""Flags an author sets by hand, with the methods without which they mean nothing."""


def missing_partners(methods: Collection[str]) -> list[str]:
    """The methods that CSI wants beside those given, in their order of declaration: no CreateVolume without DeleteVolume."""
    wanted = {name for needed in _BY_METHODS.values() if not needed.isdisjoint(methods) for name in needed}
    return [name for name in METHODS if name in wanted and name not in methods]


def controller_capabilities(methods: Collection[str], flags: Iterable[int]) -> frozenset[int]:
    """The controller's capability numbers. Raises TypeError for a flag that a method should show, or that lacks its methods."""
    derived = {capability for capability, needed in _BY_METHODS.items() if needed <= set(methods)}
    for flag in flags:
        if flag in _BY_METHODS:
            raise TypeError(f"{Capability.Type.Name(flag)} is no flag: override {' and '.join(sorted(_BY_METHODS[flag]))}")
        absent = _BY_OPTING_IN.get(flag, frozenset()) - set(methods)
        if absent:
            raise TypeError(f"{Capability.Type.Name(flag)} needs {' and '.join(sorted(absent))}")
        derived.add(flag)
    return frozenset(derived)


def left_out(flags: Collection[int], capabilities: Collection[int]) -> tuple[frozenset[str], tuple[int, ...]]:
    """The methods to withhold, and the flags that are left, of a driver that is to lack these controller capabilities."""
    withheld = frozenset(name for capability in capabilities for name in _BY_METHODS.get(capability, ()))
    kept = (flag for flag in flags if flag not in capabilities and withheld.isdisjoint(_BY_OPTING_IN.get(flag, ())))
    return withheld, tuple(kept)


def plugin_capabilities(methods: Collection[str], flags: Iterable[int]) -> frozenset[int]:
    """The plugin's service numbers; flags: VOLUME_ACCESSIBILITY_CONSTRAINTS and newer ones."""
    has_controller = any(METHODS[name].service == "Controller" for name in methods)
    return frozenset(flags) | ({Service.CONTROLLER_SERVICE} if has_controller else frozenset())
