"""The Leases that a driver's sidecars and the controllers of a cluster hold: their names, and who holds them. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.coordination import Lease
from mooring.api.names import sanitised
from mooring.base.clock import seconds_of

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
"""The Leases of the programs that protect claims and volumes in use."""

SKEW_S: Final = 30.0
"""How far the clock of a cluster may be from ours before a renewal counts as missed."""

RENEWED_TWICE: Final = 2 / 3
"""The part of a Lease's duration in which its holder renews it twice, by client-go's defaults: every 5 s of 15."""


def lock_names(driver: str) -> tuple[str, ...]:
    """The names of all Leases that a driver's sidecars may hold."""
    return tuple(lock.format(sanitised(driver)) for lock in (*LOCKS.values(), TOGETHER))


class Leader(msgspec.Struct, frozen=True):
    """The program's Lease. key: namespace and name. renewed_s: seconds since 1970. is_late: two renewals are missing,
    by clocks that may differ.
    """

    key: str
    holder: str
    renewed_s: float
    is_live: bool
    is_late: bool


def leader_of(lease: Lease, now_s: float) -> Leader:
    """now_s: seconds since 1970."""
    spec = lease.spec
    renewed_s = seconds_of(spec.renew_time)
    age_s, holds_s = now_s - renewed_s, spec.lease_duration_seconds or 15
    is_live = bool(spec.holder_identity) and age_s < holds_s + SKEW_S
    key = f"{lease.metadata.namespace}/{lease.metadata.name}"
    return Leader(key, spec.holder_identity or "", renewed_s, is_live, age_s > holds_s * RENEWED_TWICE)
