"""The metrics of snapshots, under snapshot-controller's names: how long each took, and how many are under way.

Differs from snapshot-controller: a failure is counted, with the status `failure`, once for each failure that users are
told of.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, Gauge, Histogram

from mooring.api.meta import is_deleting
from mooring.api.snapshot_kinds import Row, Snapshot, class_name_of
from mooring.base.clock import Clock, Instant
from mooring.cluster.snapshots.view import View, is_dynamic, is_ready, wanted_content, was_made
from mooring.kube.cache.informer import Change

BUCKETS_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300, 600)
RUNNING_MAX: Final = 50_000

DYNAMIC, STATIC = "dynamic", "pre-provisioned"
SUCCESS, CANCEL, FAILURE = "success", "cancel", "failure"
UNKNOWN: Final = "unknown"


class OperationNames(msgspec.Struct, frozen=True):
    """The names of one kind's operations in metrics."""

    create: str
    create_and_ready: str
    delete: str


class SnapshotStage(msgspec.Struct, frozen=True):
    """How far a snapshot is. gone: no object is left. going: it is being deleted. created: it has a creation time."""

    gone: bool
    going: bool
    created: bool
    ready: bool


class Labels(msgspec.Struct, frozen=True):
    """driver: "" where it is not known. snapshot_type: dynamic or pre-provisioned."""

    driver: str
    snapshot_type: str


class SnapshotMetrics:
    """Operations by the snapshot's uid and the operation's name; of too many the oldest are given up."""

    def __init__(self, registry: CollectorRegistry) -> None:
        names = ["driver_name", "operation_name", "snapshot_type", "operation_status"]
        self._seconds = Histogram(
            "snapshot_controller_operation_total_seconds",
            "Total number of seconds spent by the controller on an operation",
            names,
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._running: OrderedDict[tuple[str, str], Instant] = OrderedDict()
        gauge = Gauge(
            "snapshot_controller_operations_in_flight",
            "Total number of operations in flight for snapshot controller",
            registry=registry,
        )
        gauge.set_function(lambda: len(self._running))
        self._oldest = Gauge(
            "mooring_snapshot_oldest_seconds",
            "How long the oldest operation of this name is under way, as far as this process has seen it.",
            ["operation_name"],
            registry=registry,
        )

    def show_ages(self, names: OperationNames, clock: Clock) -> None:
        """Show the age of the oldest of these operations."""
        for name in (names.create, names.create_and_ready, names.delete):
            self._oldest.labels(name).set_function(functools.partial(self._oldest_s, name, clock))

    def _oldest_s(self, name: str, clock: Clock) -> float:
        return clock.now() - min(
            (since for (_, operation), since in self._running.items() if operation == name), default=clock.now()
        )

    def reached(self, uid: str, now: Instant, labels: Labels, names: OperationNames, stage: SnapshotStage) -> None:
        """Begin and end the snapshot's operations by its stage, at each change of it."""
        if stage.gone:
            self.ended(uid, now, labels, names.delete)
            return
        if stage.going:
            for operation in (names.create, names.create_and_ready):
                self.ended(uid, now, labels, operation, CANCEL)
            self.began(uid, now, names.delete)
            return
        for operation, is_over in ((names.create, stage.created), (names.create_and_ready, stage.ready)):
            if is_over:
                self.ended(uid, now, labels, operation)
            else:
                self.began(uid, now, operation)

    def began(self, uid: str, now: Instant, *operations: str) -> None:
        """Begin these operations, unless they have begun: the first sight of each counts."""
        for operation in operations:
            self._running.setdefault((uid, operation), now)
        while len(self._running) > RUNNING_MAX:
            self._running.popitem(last=False)

    def ended(self, uid: str, now: Instant, labels: Labels, operation: str, status: str = SUCCESS) -> None:
        """End the operation, and count it if this process saw its beginning."""
        since = self._running.pop((uid, operation), None)
        if since is not None:
            self._count(labels, operation, status, now - since)

    def failed(self, uid: str, now: Instant, labels: Labels, operation: str) -> None:
        """Count a failure of the operation, which goes on."""
        self._count(labels, operation, FAILURE, now - self._running.get((uid, operation), now))

    def _count(self, labels: Labels, operation: str, status: str, seconds: float) -> None:
        self._seconds.labels(labels.driver or UNKNOWN, operation, labels.snapshot_type, status).observe(seconds)


class OperationMetrics:
    """Follows snapshots of one kind, from the first look on; a life that began before this process is not counted."""

    def __init__(self, row: Row, view: View, metrics: SnapshotMetrics, clock: Clock) -> None:
        self._operations = OperationNames(f"Create{row.title}", f"Create{row.title}AndReady", f"Delete{row.title}")
        self._row, self._view, self._metrics, self._clock = row, view, metrics, clock
        self._drivers: dict[str, str] = {}
        metrics.show_ages(self._operations, clock)

    def changed(self, change: Change[Any]) -> None:
        """Follow a change of a snapshot."""
        snapshot: Snapshot = change.object
        uid, labels = snapshot.metadata.uid, self._labels_of(snapshot)
        stage = SnapshotStage(change.new is None, is_deleting(snapshot), was_made(snapshot), is_ready(snapshot))
        self._metrics.reached(uid, self._clock.now(), labels, self._operations, stage)
        if stage.gone:
            self._drivers.pop(uid, None)

    def failed(self, snapshot: Snapshot) -> None:
        """Count a failure that the user was told of."""
        names = self._operations
        operation = names.delete if is_deleting(snapshot) else names.create
        self._metrics.failed(snapshot.metadata.uid, self._clock.now(), self._labels_of(snapshot), operation)

    def _labels_of(self, snapshot: Snapshot) -> Labels:
        """The driver of the content, remembered for the time when that is gone; else that of the class."""
        uid, kind = snapshot.metadata.uid, DYNAMIC if is_dynamic(snapshot) else STATIC
        content = self._view.content(self._row, wanted_content(snapshot))
        if content is not None:
            self._drivers[uid] = content.spec.driver
        if uid in self._drivers:
            return Labels(self._drivers[uid], kind)
        named = self._view.class_named(self._row, class_name_of(snapshot))
        return Labels(named.driver if named is not None else "", kind)
