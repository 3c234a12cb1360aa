"""The controller of group snapshots: which change of which object wakes which group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.group_snapshot import (
    GROUP_SNAPSHOT_CONTENTS,
    GROUP_SNAPSHOTS,
    VolumeGroupSnapshot,
    VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent,
)
from mooring.api.meta import Key, finalizers_of, is_deleting, key_of
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot, VolumeSnapshotContent
from mooring.api.snapshot_names import GROUP_FINALIZER, GROUP_SNAPSHOT_KIND
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.cluster.snapshots.decision import Failure
from mooring.cluster.snapshots.groups.caches import GroupCaches
from mooring.cluster.snapshots.groups.decide import decide_group
from mooring.cluster.snapshots.groups.operations import GroupOperations
from mooring.cluster.snapshots.groups.reconcile import Failed, Reconciler
from mooring.cluster.snapshots.metrics import SnapshotMetrics
from mooring.cluster.snapshots.view import BY_GROUP_CONTENT, BY_NAMESPACE, View
from mooring.cluster.snapshots.writes import Writes
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.own_writes import is_news
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.control.slim import changed
from mooring.kube.cache.informer import Cause, Change, Informer

log = logger(__name__)


class GroupSnapshots:
    """controller: of each group. queues: options that its queue has in common with others."""

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        caches: GroupCaches,
        snapshots: Informer[VolumeSnapshot],
        contents: Informer[VolumeSnapshotContent],
        writes: Writes,
        events: EventRecorder,
        **queues: Any,
    ) -> None:
        self._view, self._clock, self._lost = view, runtime.clock, writes.lost
        self._leaving: dict[str, Instant] = {}
        known: dict[str, Informer[Any]] = {
            GROUP_SNAPSHOTS.plural: caches.groups,
            GROUP_SNAPSHOT_CONTENTS.plural: caches.contents,
            VOLUME_SNAPSHOTS.plural: snapshots,
            VOLUME_SNAPSHOT_CONTENTS.plural: contents,
        }
        self._reconciler = Reconciler(runtime, writes, events, known)
        self._operations = GroupOperations(view, runtime.metrics.once(SnapshotMetrics), runtime.clock)
        self.controller: Controller[Key] = Controller(
            runtime, "snapshot-controller-group-snapshot", self._reconcile, label="VolumeGroupSnapshot", **queues
        )
        self.controller.watch(caches.groups, self._group_changed)
        self.controller.watch(caches.contents, self._content_changed)
        self.controller.watch(caches.classes, self._class_changed)
        self.controller.watch(snapshots, _groups_of)
        self.controller.watch(caches.claims, self._claim_changed)
        self.controller.watch(caches.volumes, self._volume_changed)

    # -- changes

    def _group_changed(self, change: Change[VolumeGroupSnapshot]) -> Iterator[Key]:
        self._operations.changed(change)
        if change.new is None:
            self.controller.forget(change.key)
            self._leaving.pop(change.object.metadata.uid, None)
            self._lost.forget(change.object.metadata.uid)
            self._reconciler.told.forget(change.object.metadata.uid)
        elif is_news(change):
            yield change.key
        if change.new is not None and change.old is None and change.cause is Cause.RELIST and _may_get_content(change.new):
            self._lost.inherit(change.new.metadata.uid)

    def _content_changed(self, change: Change[VolumeGroupSnapshotContent]) -> Iterator[Key]:
        if not is_news(change, lambda content: content.status):
            return
        ref = change.object.spec.volume_group_snapshot_ref
        yield Key(ref.namespace, ref.name)
        yield from map(key_of, self._view.groups.by(BY_GROUP_CONTENT, change.key.name))

    def _class_changed(self, change: Change[VolumeGroupSnapshotClass]) -> Iterable[Key]:
        return map(key_of, self._view.groups.values()) if changed(change.old, change.new) else ()

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> Iterable[Key]:
        """A claim that is chosen now, or that restores from a member no more."""
        if not changed(change.old, change.new):
            return ()
        return map(key_of, self._view.groups.by(BY_NAMESPACE, change.key.namespace))

    def _volume_changed(self, change: Change[PersistentVolume]) -> Iterable[Key]:
        ref = change.object.spec.claim_ref
        if ref is None or not changed(change.old, change.new):
            return ()
        return map(key_of, self._view.groups.by(BY_NAMESPACE, ref.namespace))

    # -- one group

    async def _reconcile(self, key: Key) -> Result:
        decision = decide_group(self._view, key, self._waited_s(key), self._lost_s(key))  # no await between this and its actions
        self.controller.explain(key, decision.because)
        try:
            await self._reconciler.carry_out(decision.actions)
        except Failed as failure:
            await self._show(key, failure.failure)
            raise Retry(str(failure), because=decision.because) from failure
        if decision.failure is not None:
            await self._show(key, decision.failure)
        done = decision.done if decision.actions else ""
        return Result(decision.because, done=done, again=decision.again, after_s=decision.after_s)

    def _waited_s(self, key: Key) -> float:
        """Since this process saw that the group is to go."""
        group, now = self._view.groups.get(key), self._clock.now()
        return 0.0 if group is None or not is_deleting(group) else now - self._leaving.setdefault(group.metadata.uid, now)

    def _lost_s(self, key: Key) -> float | None:
        group = self._view.groups.get(key)
        return None if group is None else self._lost.wait_s(group.metadata.uid)

    async def _show(self, key: Key, failure: Failure) -> None:
        is_new = await self._reconciler.show(key, failure)
        group = self._view.groups.get(key)
        if is_new and group is not None:
            self._operations.failed(group)


def _may_get_content(group: VolumeGroupSnapshot) -> bool:
    """True for one that lives, and that a content may have been made for, or bound to, by a write that does not show yet."""
    bound = group.status.bound_volume_group_snapshot_content_name if group.status else None
    return GROUP_FINALIZER in finalizers_of(group) and not bound and not is_deleting(group)


def _groups_of(change: Change[VolumeSnapshot]) -> Iterable[Key]:
    """The group of a member that came or went."""
    if change.old is not None and change.new is not None:
        return ()
    owners = change.object.metadata.owner_references or ()
    return [Key(change.key.namespace, owner.name) for owner in owners if owner.kind == GROUP_SNAPSHOT_KIND]
