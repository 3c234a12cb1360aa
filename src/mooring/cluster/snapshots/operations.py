"""Which operation of which snapshot begins and ends, for the metrics; read from what the cache tells."""

from __future__ import annotations

from mooring.api.meta import is_deleting
from mooring.api.snapshot import VolumeSnapshot
from mooring.base.clock import Clock
from mooring.cluster.snapshots.metrics import SINGLE, Labels, SnapshotMetrics, Stage
from mooring.cluster.snapshots.view import View, is_dynamic, is_ready, wanted_content
from mooring.kube.cache.informer import Change

DYNAMIC, STATIC = "dynamic", "pre-provisioned"


class Operations:
    """Follows snapshots; a life that began before this process is not counted."""

    def __init__(self, view: View, metrics: SnapshotMetrics, clock: Clock) -> None:
        self._view, self._metrics, self._clock = view, metrics, clock
        self._drivers: dict[str, str] = {}

    def changed(self, change: Change[VolumeSnapshot]) -> None:
        """Told of each change of a snapshot."""
        snapshot, status = change.object, change.object.status
        uid, labels = snapshot.metadata.uid, self.labels_of(snapshot)
        created = status is not None and status.creation_time is not None
        stage = Stage(change.new is None, is_deleting(snapshot), created, is_ready(snapshot))
        self._metrics.reached(uid, self._clock.now(), labels, SINGLE, stage)
        if stage.gone:
            self._drivers.pop(uid, None)

    def failed(self, snapshot: VolumeSnapshot) -> None:
        """The user was told of a failure."""
        operation = SINGLE.delete if is_deleting(snapshot) else SINGLE.create
        self._metrics.failed(snapshot.metadata.uid, self._clock.now(), self.labels_of(snapshot), operation)

    def labels_of(self, snapshot: VolumeSnapshot) -> Labels:
        """The driver of the content, remembered for the time when that is gone; else that of the class."""
        uid = snapshot.metadata.uid
        content = self._view.content(wanted_content(snapshot))
        if content is not None:
            driver = self._drivers[uid] = content.spec.driver
        elif uid in self._drivers:
            driver = self._drivers[uid]
        else:
            named = self._view.class_named(snapshot.spec.volume_snapshot_class_name or "")
            driver = named.driver if named is not None else ""
        return Labels(driver, DYNAMIC if is_dynamic(snapshot) else STATIC)
