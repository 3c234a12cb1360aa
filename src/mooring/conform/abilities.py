"""What a driver says that it can do, as words: `Controller.LIST_VOLUMES`, `Node.EXPAND_VOLUME`, `Expansion.ONLINE`."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.csi import capabilities
from mooring.csi.proto import csi_pb2 as csi


class Abilities(msgspec.Struct, frozen=True):
    """node_id: of the node that answers, "" for a driver without a node service. volumes_max: 0 for no limit."""

    words: frozenset[str]
    node_id: str = ""
    volumes_max: int = 0
    topology: csi.Topology | None = None

    def __contains__(self, word: str) -> bool:
        return word in self.words

    def lacking(self, *needs: str) -> str:
        """The first that the driver does not have; "" for none."""
        return next((need for need in needs if need not in self.words), "")


def of_plugin(answer: csi.GetPluginCapabilitiesResponse) -> set[str]:
    return _named("Plugin", capabilities.services(answer), csi.PluginCapability.Service) | _named(
        "Expansion", capabilities.volume_expansions(answer), csi.PluginCapability.VolumeExpansion
    )


def of_service(service: str, answer: Any, names: Any) -> set[str]:
    """service: `Controller`, `Group` or `Node`. names: the enumeration of its capabilities."""
    return _named(service, frozenset(entry.rpc.type for entry in answer.capabilities if entry.HasField("rpc")), names)


def _named(service: str, numbers: frozenset[int], names: Any) -> set[str]:
    return {f"{service}.{names.Type.Name(number)}" for number in numbers if number in names.Type.values()}
