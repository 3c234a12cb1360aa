"""coordination.k8s.io/v1: Lease."""

from __future__ import annotations

from typing import Final

from mooring.api.meta import ApiStruct, Kind, ObjectMeta


class LeaseSpec(ApiStruct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()


LEASES: Final = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, Lease)
NODE_LEASE_NAMESPACE: Final = "kube-node-lease"
"""These are the Leases by which nodes show that they are alive: each has the name of its node."""
