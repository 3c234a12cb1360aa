"""The identity and capabilities of a driver, read from its answers."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from mooring.csi.proto import csi_pb2 as csi

NAME_MAX: Final = 63
DRIVER_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]{0,61}[A-Za-z0-9])?")
"""CSI's rule for names of drivers, of at most 63 characters (GetPluginInfo). Names of labels, files and sockets are
made of them.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class DriverInfo:
    """A driver as it introduced itself. Two that are equal can stand in for each other.

    plugin, volume_expansion, controller: numbers of csi.PluginCapability.Service, csi.PluginCapability.VolumeExpansion
    and csi.ControllerServiceCapability.RPC; numbers that this version does not know are among them.
    """

    name: str
    vendor_version: str
    plugin: frozenset[int]
    volume_expansion: frozenset[int]
    controller: frozenset[int]


def services(answer: csi.GetPluginCapabilitiesResponse) -> frozenset[int]:
    """The services and traits of a plugin; entries of other kinds, or of none, are skipped."""
    return frozenset(entry.service.type for entry in answer.capabilities if entry.HasField("service"))


def volume_expansions(answer: csi.GetPluginCapabilitiesResponse) -> frozenset[int]:
    """When volumes can grow; entries of other kinds, or of none, are skipped."""
    return frozenset(entry.volume_expansion.type for entry in answer.capabilities if entry.HasField("volume_expansion"))


def rpcs(
    answer: csi.ControllerGetCapabilitiesResponse
    | csi.GroupControllerGetCapabilitiesResponse
    | csi.NodeGetCapabilitiesResponse,
) -> frozenset[int]:
    """The RPCs of a service, as numbers of its own enumeration; entries without rpc are skipped."""
    return frozenset(entry.rpc.type for entry in answer.capabilities if entry.HasField("rpc"))
