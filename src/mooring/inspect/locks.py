"""Names of the Leases that a driver's sidecars and the controllers of a cluster hold."""

from __future__ import annotations

from typing import Final

from mooring.api.names import sanitised

LOCKS: Final = {
    "csi-attacher": "external-attacher-leader-{}",
    "csi-provisioner": "{}",
    "csi-resizer": "external-resizer-{}",
    "csi-snapshotter": "external-snapshotter-leader-{}",
}
"""Names of the Leases of a driver's sidecars: the Go ones', which Mooring's have, too."""
TOGETHER: Final = "mooring-controller-{}"
"""The Lease of several sidecars in one process."""

CONTROLLER_LOCKS: Final = {"snapshot-controller": "snapshot-controller-leader"}
"""Names of the Leases of controllers that serve all drivers."""

PROTECTION_LOCKS: Final = ("kube-controller-manager", "mooring-binder", "mooring-controller")
"""Of the programs that protect claims and volumes in use."""

SKEW_S: Final = 30.0
"""How far the clock of a cluster may be from ours before a renewal counts as missed."""


def lock_names(driver: str) -> tuple[str, ...]:
    """Of all Leases that a driver's sidecars may hold."""
    return tuple(lock.format(sanitised(driver)) for lock in (*LOCKS.values(), TOGETHER))
