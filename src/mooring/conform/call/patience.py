"""How long Kubernetes waits for a call: a caller with less patience can't hold its own deadline against the driver, and
an answer that comes later than a sidecar waits by default needs a flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.csi.driver import Driver, Rpc

AT_ONCE_S: Final = 1.0
"""For what a driver knows without asking anybody, as csi-node-driver-registrar and livenessprobe wait by default."""
SIDECAR_S: Final = 10.0
"""external-provisioner's --timeout, the shortest of the sidecars'."""

SIDECARS: Final[Mapping[Rpc[Any, Any], tuple[str, float]]] = {
    Driver.create_volume: ("csi-provisioner", 10.0),
    Driver.delete_volume: ("csi-provisioner", 10.0),
    Driver.controller_publish_volume: ("csi-attacher", 15.0),
    Driver.controller_unpublish_volume: ("csi-attacher", 15.0),
    Driver.controller_expand_volume: ("csi-resizer", 10.0),
    Driver.controller_modify_volume: ("csi-resizer", 10.0),
    Driver.create_snapshot: ("csi-snapshotter", 60.0),
    Driver.delete_snapshot: ("csi-snapshotter", 60.0),
}
"""Who makes the calls that change something, and the default of its --timeout in seconds, as that of the Go program."""

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
