"""The reports of a leader election: log, metrics and events."""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge

from mooring.api.core import ObjectReference
from mooring.base.log import Logger
from mooring.control.lease.record import Candidate


class Recorder(Protocol):
    """Takes events; `control/events.py` has one."""

    def event(self, ref: ObjectReference, type: str, reason: str, message: str) -> object: ...


class LeaseMetrics:
    """Upstream's names, whose label `name` is empty there too; and one of our own, for processes with several
    Leases.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        master = Gauge(
            "leader_election_master_status", "1 while this process leads, else 0.", ["name"], registry=registry
        )
        slow = Counter(
            "leader_election_slowpath_total", "Renewals that had to read the Lease first.", ["name"], registry=registry
        )
        self.master_status = master.labels("")
        self.slowpath = slow.labels("")
        self.leader = Gauge(
            "mooring_leader",
            "1 while this process holds the Lease, 0 while it stands by.",
            ["lease"],
            registry=registry,
        )


class LeadershipReporter:
    """candidate: whose leadership is reported."""

    def __init__(
        self, candidate: Candidate, log: Logger, events: Recorder | None, metrics: LeaseMetrics | None
    ) -> None:
        self._identity, self._lease = candidate.identity, f"{candidate.namespace}/{candidate.lock_name}"
        self._log, self._events, self._metrics = log, events, metrics
        self._leads = False
        if metrics is not None:
            metrics.leader.labels(self._lease).set(0)

    def leads(self, leads: bool, lease: ObjectReference) -> None:
        """Reports a change; one that was reported is not repeated."""
        if leads == self._leads:
            return
        self._leads = leads
        self._log.info(0, "Became leader" if leads else "Stopped leading")
        if self._metrics is not None:
            self._metrics.master_status.set(int(leads))
            self._metrics.leader.labels(self._lease).set(int(leads))
        if self._events is not None:
            self._events.event(
                lease, "Normal", "LeaderElection", f"{self._identity} {'became leader' if leads else 'stopped leading'}"
            )

    def renewed_slowly(self) -> None:
        if self._metrics is not None:
            self._metrics.slowpath.inc()
