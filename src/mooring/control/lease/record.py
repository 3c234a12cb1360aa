"""Leader election, the pure part: names, durations, reading a Lease and building the next one.

Source: client-go tools/leaderelection and its Lease lock.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final

from mooring.api.names import sanitised
from mooring.base.clock import Instant, rfc3339_micro
from mooring.base.errors import ConfigError
from mooring.base.randomness import Random
from mooring.base.units import format_duration

JITTER: Final = 1.2
"""A standby waits for the retry period times 1 to 1 + JITTER; the renew deadline has to leave room for that."""


def identity_of(host_name: str, randomness: Random) -> str:
    """The identity of a candidate: the host's name and a random end, for two processes on one host are two candidates.

    Differs from the Go sidecars: there both lead.
    """
    return f"{sanitised(host_name)}_{randomness.uid()}"


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a Lease holds, by when it must be renewed, and how often that is tried; seconds."""

    lease_s: float = 15.0
    renew_s: float = 10.0
    retry_s: float = 5.0

    def check(self) -> None:
        """Raises ConfigError (exit code 2) for times under which two could lead at once, or none for long."""
        lease, renew, retry = (format_duration(seconds) for seconds in (self.lease_s, self.renew_s, self.retry_s))
        problem = ""
        if min(self.lease_s, self.renew_s, self.retry_s) <= 0:
            problem = "all three must be greater than zero"
        elif self.lease_s <= self.renew_s:
            problem = "the lease duration must be greater than the renew deadline"
        elif self.renew_s <= JITTER * self.retry_s:
            problem = f"the renew deadline must be greater than {JITTER:g} times the retry period"
        if problem:
            raise ConfigError(
                f"leader election: {problem}; read: leader-election-lease-duration={lease}, "
                f"leader-election-renew-deadline={renew}, leader-election-retry-period={retry}",
                exit_code=2,
            )


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of a Lease. holder: "" is nobody. duration_s: 0 when absent or senseless. Times as the server sent
    them.
    """

    holder: str = ""
    duration_s: int = 0
    acquired: str = ""
    renewed: str = ""
    transitions: int = 0


def record_of(lease: Mapping[str, Any]) -> LeaseRecord:
    """Reads a whole Lease; fields of a wrong type count as absent."""
    spec = lease.get("spec")
    if not isinstance(spec, Mapping):
        return LeaseRecord()

    def text(name: str) -> str:
        value = spec.get(name)
        return value if isinstance(value, str) else ""

    def count(name: str) -> int:
        value = spec.get(name)
        return max(0, value) if isinstance(value, int) else 0

    return LeaseRecord(
        text("holderIdentity"),
        count("leaseDurationSeconds"),
        text("acquireTime"),
        text("renewTime"),
        count("leaseTransitions"),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Sighting:
    """A record, and since when we know it. Expiry is counted from there on our own clock: others' clocks may be
    wrong.
    """

    record: LeaseRecord
    since: Instant

    def expires_at(self, lease_s: float) -> Instant:
        """lease_s: our own lease duration, for a record that has none."""
        return self.since + (self.record.duration_s or lease_s)


def sighted(before: Sighting | None, record: LeaseRecord, now: Instant) -> Sighting:
    """The sighting after a look at the Lease: an unchanged record keeps its time."""
    return before if before is not None and before.record == record else Sighting(record, now)


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate, its Lease and its labels."""

    lock_name: str
    namespace: str
    identity: str
    times: LeaseTimes
    labels: Mapping[str, str]

    def holding(self, lease: Mapping[str, Any] | None, wall_s: float) -> dict[str, Any]:
        """The whole Lease to write so that it is ours from now. lease: as read, None creates it; what we don't know in
        it stays.
        """
        now = rfc3339_micro(wall_s)
        record = record_of(lease or {})
        ours = record.holder == self.identity
        return self._written(
            lease,
            holderIdentity=self.identity,
            leaseDurationSeconds=math.ceil(
                self.times.lease_s
            ),  # whole seconds, rather too many: with fewer, another could lead too
            acquireTime=record.acquired if ours and record.acquired else now,
            renewTime=now,
            leaseTransitions=record.transitions + (lease is not None and not ours),
        )

    def released(self, lease: Mapping[str, Any], wall_s: float) -> dict[str, Any]:
        """The whole Lease to write so that the next candidate takes it at once."""
        now = rfc3339_micro(wall_s)
        return self._written(
            lease,
            holderIdentity="",
            leaseDurationSeconds=1,
            acquireTime=now,
            renewTime=now,
            leaseTransitions=record_of(lease).transitions,
        )

    def _written(self, lease: Mapping[str, Any] | None, **spec: Any) -> dict[str, Any]:
        body: dict[str, Any] = copy.deepcopy(dict(lease)) if lease is not None else {}
        body["apiVersion"], body["kind"] = "coordination.k8s.io/v1", "Lease"
        metadata = body.setdefault("metadata", {"name": self.lock_name, "namespace": self.namespace})
        if self.labels:
            metadata["labels"] = {**(metadata.get("labels") or {}), **self.labels}
        body["spec"] = {**(body.get("spec") or {}), **spec}
        return body
