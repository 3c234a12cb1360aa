"""How long Kubernetes waits for a call at least: a caller with less patience can't hold its own deadline against the driver."""

from __future__ import annotations

from typing import Any, Final

from mooring.csi.driver import Driver, Rpc

AT_ONCE_S: Final = 1.0
"""For what a driver knows without asking anybody, as csi-node-driver-registrar and livenessprobe wait by default."""
SIDECAR_S: Final = 10.0
"""external-provisioner's --timeout, the shortest of the sidecars'."""

_KNOWN_AT_ONCE: Final[frozenset[Rpc[Any, Any]]] = frozenset(
    {
        Driver.probe,
        Driver.get_plugin_info,
        Driver.get_plugin_capabilities,
        Driver.controller_get_capabilities,
        Driver.group_controller_get_capabilities,
        Driver.node_get_capabilities,
        Driver.node_get_info,
    }
)


def patience_s(rpc: Rpc[Any, Any]) -> float:
    return AT_ONCE_S if rpc in _KNOWN_AT_ONCE else SIDECAR_S
