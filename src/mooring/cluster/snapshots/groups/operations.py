"""Which operation of which group snapshot begins and ends, for the metrics: as for single ones."""

from __future__ import annotations

from mooring.api.group_snapshot import VolumeGroupSnapshot
from mooring.api.meta import Key, is_deleting
from mooring.base.clock import Clock
from mooring.cluster.snapshots.metrics import GROUP, Labels, SnapshotMetrics, Stage
from mooring.cluster.snapshots.operations import DYNAMIC, STATIC
from mooring.cluster.snapshots.view import View, wanted_group_content
from mooring.kube.cache.informer import Change


class GroupOperations:
    """Follows group snapshots; a life that began before this process is not counted."""

    def __init__(self, view: View, metrics: SnapshotMetrics, clock: Clock) -> None:
        self._view, self._metrics, self._clock = view, metrics, clock
        self._drivers: dict[str, str] = {}

    def changed(self, change: Change[VolumeGroupSnapshot]) -> None:
        """Told of each change of a group snapshot."""
        group, status = change.object, change.object.status
        created = status is not None and status.creation_time is not None
        ready = status is not None and status.ready_to_use is True
        stage = Stage(change.new is None, is_deleting(group), created, ready)
        self._metrics.reached(group.metadata.uid, self._clock.now(), self._labels_of(group), GROUP, stage)
        if stage.gone:
            self._drivers.pop(group.metadata.uid, None)

    def failed(self, group: VolumeGroupSnapshot) -> None:
        """The user was told of a failure."""
        operation = GROUP.delete if is_deleting(group) else GROUP.create
        self._metrics.failed(group.metadata.uid, self._clock.now(), self._labels_of(group), operation)

    def _labels_of(self, group: VolumeGroupSnapshot) -> Labels:
        """The driver of the content, remembered for the time when that is gone; else that of the class."""
        uid, kind = group.metadata.uid, DYNAMIC if group.spec.source.selector is not None else STATIC
        content = self._view.group_content(wanted_group_content(group))
        if content is not None:
            self._drivers[uid] = content.spec.driver
        if uid in self._drivers:
            return Labels(self._drivers[uid], kind)
        named = self._view.group_classes.get(Key("", group.spec.volume_group_snapshot_class_name or ""))
        return Labels(named.driver if named is not None else "", kind)
