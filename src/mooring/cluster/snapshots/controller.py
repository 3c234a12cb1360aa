"""The snapshot controller: which change of which object wakes which snapshot, content or claim.

Three queues. Snapshots wait for nothing but changes: each object that one may lack is in a cache, with an index that finds the snapshots
which need it. A failed write comes again after its back-off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.group_snapshot import VolumeGroupSnapshot, VolumeGroupSnapshotContent
from mooring.api.meta import Key, is_deleting, key_of
from mooring.api.snapshot import (
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOT_CONTENTS,
    VOLUME_SNAPSHOTS,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from mooring.api.snapshot_names import BEING_CREATED, BEING_DELETED, is_marked
from mooring.base.backoff import retry_backoff
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.cluster.snapshots import view as v
from mooring.cluster.snapshots.decide import STATUS_DELAY_S, decide_snapshot
from mooring.cluster.snapshots.decide_claim import decide_claim
from mooring.cluster.snapshots.decide_content import decide_content
from mooring.cluster.snapshots.decision import CreateContent, Decision, Failure
from mooring.cluster.snapshots.groups.caches import GroupCaches
from mooring.cluster.snapshots.groups.controller import GroupSnapshots
from mooring.cluster.snapshots.metrics import SnapshotMetrics
from mooring.cluster.snapshots.operations import Operations
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from mooring.cluster.snapshots.questions import may_get_content
from mooring.cluster.snapshots.reconcile import Failed, Reconciler
from mooring.cluster.snapshots.view import View
from mooring.cluster.snapshots.writes import Writes
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.manager import Manager
from mooring.control.own_writes import is_news
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.control.slim import always, changed
from mooring.kube.cache.informer import Cause, Change, Informer
from mooring.kube.cache.store import Store
from mooring.kube.errors import ApiError

log = logger(__name__)

COMPONENT: Final = "snapshot-controller"
CLAIM_TEXT: Final = "Error check and remove PVC Finalizer for VolumeSnapshot"
MADE_MAX: Final = 20_000
"""Contents whose creation is remembered; the status of a forgotten one is written at once."""


class SnapshotController(Manager):
    """run() until cancelled or drained. caches: not those of another manager, which would run them, too."""

    def __init__(self, runtime: Runtime, options: SnapshotControllerOptions | None = None, caches: Caches | None = None) -> None:
        given = self._options = options or SnapshotControllerOptions()
        shared = caches or Caches(runtime, "snapshot-controller")
        self._clock = runtime.clock
        self._made: dict[str, Instant] = {}
        self._leaving: dict[str, Instant] = {}
        self._unmarked: dict[str, Instant] = {}
        self._idle: dict[Key, Instant] = {}
        back_off = retry_backoff(given.retry_interval_start_s, given.retry_interval_max_s)
        queues: dict[str, Any] = {"workers": given.worker_threads, "backoff": back_off, "log": log}
        self._snapshots: Controller[Key] = Controller(
            runtime, "snapshot-controller-snapshot", self._reconcile_snapshot, label="VolumeSnapshot", **queues
        )
        self._contents: Controller[str] = Controller(
            runtime, "snapshot-controller-content", self._reconcile_content, label="VolumeSnapshotContent", **queues
        )
        self._claims: Controller[Key] = Controller(
            runtime, "snapshot-controller-claim", self._reconcile_claim, label="PersistentVolumeClaim", **queues
        )
        self.events = EventRecorder(runtime.cluster, COMPONENT, clock=runtime.clock, randomness=runtime.randomness)
        self._groups: GroupSnapshots | None = None
        self._wire(runtime, shared, given, queues)
        parts = (self._snapshots, self._contents, self._claims)
        super().__init__(shared, *parts, *((self._groups.controller,) if self._groups is not None else ()))
        self.beside("snapshot-controller/events", self.events)

    def _wire(self, runtime: Runtime, caches: Caches, options: SnapshotControllerOptions, queues: Mapping[str, Any]) -> None:
        resync_s = options.resync_s
        snapshots = caches.of(VOLUME_SNAPSHOTS, keeps=v.keeps_snapshot, indexes=v.SNAPSHOT_INDEXES, resync_s=resync_s)
        contents = caches.of(VOLUME_SNAPSHOT_CONTENTS, keeps=v.keeps_content, indexes=v.CONTENT_INDEXES, resync_s=resync_s)
        classes = caches.of(VOLUME_SNAPSHOT_CLASSES, keeps=v.keeps_class)
        claims = caches.of(PERSISTENT_VOLUME_CLAIMS, keeps=v.keeps_claim, indexes=v.CLAIM_INDEXES, resync_s=resync_s)
        volumes = caches.of(
            PERSISTENT_VOLUMES, keeps=always(v.PLACED_VOLUME if options.distributed else v.VOLUME), indexes=v.VOLUME_INDEXES
        )
        nodes: Store[Node] = caches.of(NODES, keeps=always(v.NODE)).store if options.distributed else Store()
        groups = GroupCaches(caches, resync_s) if options.groups else None
        self._view = View(
            snapshots.store,
            contents.store,
            classes.store,
            claims.store,
            volumes.store,
            nodes,
            Store(v.GROUP_INDEXES) if groups is None else groups.groups.store,
            Store(v.GROUP_CONTENT_INDEXES) if groups is None else groups.contents.store,
            Store() if groups is None else groups.classes.store,
            keeps_mode=options.prevent_volume_mode_conversion,
            distributed=options.distributed,
            has_groups=options.groups,
        )
        known: tuple[tuple[str, Informer[Any]], ...] = (
            (VOLUME_SNAPSHOTS.plural, snapshots),
            (VOLUME_SNAPSHOT_CONTENTS.plural, contents),
            (VOLUME_SNAPSHOT_CLASSES.plural, classes),
            (PERSISTENT_VOLUME_CLAIMS.plural, claims),
            (PERSISTENT_VOLUMES.plural, volumes),
        )
        writes = Writes(runtime.cluster, snapshots, contents, claims, runtime.clock)
        self._lost = writes.lost
        self._reconciler = Reconciler(runtime, self._view, writes, self.events, dict(known))
        self._operations = Operations(self._view, runtime.metrics.once(SnapshotMetrics), runtime.clock)
        self._snapshots.watch(snapshots, self._snapshot_changed)
        self._snapshots.watch(contents, self._content_changed)
        self._snapshots.watch(classes, self._class_changed)
        self._snapshots.watch(claims, self._claim_changed)
        self._snapshots.watch(volumes, self._volume_changed)
        if groups is not None:
            self._groups = GroupSnapshots(runtime, self._view, groups, snapshots, contents, writes, self.events, **queues)
            self._snapshots.watch(groups.groups, self._group_changed)
            self._snapshots.watch(groups.contents, self._group_content_changed)
        self._contents.watch(contents, self._own_content)
        self._claims.watch(snapshots, self._source_claim)
        self._claims.watch(claims, self._held_claim)
        self._claims.watch(contents, self._claim_of_content)
        if groups is not None:
            self._claims.watch(groups.groups, self._claims_near_group)
            self._claims.watch(groups.contents, self._claims_of_group_content)

    # -- which snapshots a change concerns

    def _snapshot_changed(self, change: Change[VolumeSnapshot]) -> Iterator[Key]:
        self._operations.changed(change)
        if change.new is None or v.is_ready(change.new):
            self._made.pop(change.object.metadata.uid, None)
        if change.new is None:
            self._leaving.pop(change.object.metadata.uid, None)
            self._lost.forget(change.object.metadata.uid)
            self._snapshots.forget(change.key)
            self._reconciler.told.forget(change.object.metadata.uid)
        elif is_news(change):
            yield change.key
        if change.new is not None and change.old is None and change.cause is Cause.RELIST and may_get_content(change.new):
            self._lost.inherit(change.new.metadata.uid)

    def _content_changed(self, change: Change[VolumeSnapshotContent]) -> Iterator[Key]:
        """The snapshot that it points to, and those that name it, or would."""
        yield v.snapshot_of(change.object)
        for snapshot in self._view.snapshots.by(v.BY_CONTENT, change.key.name):
            yield key_of(snapshot)

    def _class_changed(self, change: Change[VolumeSnapshotClass]) -> Iterator[Key]:
        if changed(change.old, change.new):
            for name in (change.key.name, ""):
                yield from map(key_of, self._view.snapshots.by(v.BY_CLASS, name))

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> Iterator[Key]:
        """The snapshots of the claim, and the snapshot that it was to be filled from."""
        if not changed(change.old, change.new) or not is_news(change, lambda claim: claim.status.phase):
            return
        yield from map(key_of, self._view.unready_of(change.key))
        source = change.object.spec.data_source
        if source is not None:
            yield Key(change.key.namespace, source.name)

    def _volume_changed(self, change: Change[PersistentVolume]) -> Iterable[Key]:
        ref = change.object.spec.claim_ref
        if ref is None or not changed(change.old, change.new):
            return ()
        return map(key_of, self._view.unready_of(Key(ref.namespace, ref.name)))

    def _group_changed(self, change: Change[VolumeGroupSnapshot]) -> Iterator[Key]:
        yield from map(key_of, self._view.members_of(change.object.metadata.uid))
        if change.old is None or change.new is None:
            yield from map(key_of, self._view.snapshots.by(v.BY_GROUP, str(change.key)))

    def _group_content_changed(self, change: Change[VolumeGroupSnapshotContent]) -> Iterator[Key]:
        yield from map(key_of, self._view.members_of(change.object.spec.volume_group_snapshot_ref.uid))
        status = change.object.status
        handle = status.volume_group_snapshot_handle if status is not None else None
        if handle and changed(change.old, change.new):
            yield from map(v.snapshot_of, self._view.contents.by(v.BY_MEMBERSHIP, handle))

    # -- one snapshot

    async def _reconcile_snapshot(self, key: Key) -> Result:
        decision = decide_snapshot(self._view, key, self._waited_s(key), self._lost_s(key))  # no await between this and its actions
        self._snapshots.explain(key, decision.because)
        try:
            await self._reconciler.carry_out(decision.actions)
        except Failed as failure:
            await self._show(key, failure.failure)
            raise Retry(str(failure), because=decision.because) from failure
        self._remember(key, decision)
        if decision.failure is not None and await self._show(key, decision.failure):
            log.error(decision.failure.error, VolumeSnapshot=str(key))
        done = decision.done if decision.actions else ""
        return Result(decision.because, done=done, again=decision.again, after_s=decision.after_s)

    def _waited_s(self, key: Key) -> float:
        snapshot, now = self._view.snapshots.get(key), self._clock.now()
        if snapshot is None:
            return STATUS_DELAY_S
        uid = snapshot.metadata.uid
        if is_deleting(snapshot):
            return now - (self._leaving.setdefault(uid, now) if len(self._leaving) < MADE_MAX else self._leaving.get(uid, now))
        return now - self._made[uid] if uid in self._made else STATUS_DELAY_S

    def _lost_s(self, key: Key) -> float | None:
        snapshot = self._view.snapshots.get(key)
        return None if snapshot is None else self._lost.wait_s(snapshot.metadata.uid)

    def _remember(self, key: Key, decision: Decision) -> None:
        snapshot = self._view.snapshots.get(key)
        made = any(isinstance(action, CreateContent) for action in decision.actions)
        if snapshot is not None and made and len(self._made) < MADE_MAX:
            self._made[snapshot.metadata.uid] = self._clock.now()

    async def _show(self, key: Key, failure: Failure) -> bool:
        is_new = await self._reconciler.show(key, failure)
        snapshot = self._view.snapshots.get(key)
        if is_new and snapshot is not None:
            self._operations.failed(snapshot)
        return is_new

    # -- contents and claims

    async def _reconcile_content(self, name: str) -> Result:
        decision = decide_content(self._view, name, self._since_s(self._unmarked.get(name)))
        self._contents.explain(name, decision.because)
        await self._reconciler.carry_out(decision.actions)
        if decision.after_s is None:
            self._unmarked.pop(name, None)
        return Result(decision.because, after_s=decision.after_s)

    async def _reconcile_claim(self, key: Key) -> Result:
        decision = decide_claim(self._view, key, self._since_s(self._idle.get(key)))
        self._claims.explain(key, decision.because)
        try:
            await self._reconciler.carry_out(decision.actions)
        except ApiError:
            for snapshot in self._view.snapshots_of(key):
                self._reconciler.tell(snapshot, VOLUME_SNAPSHOTS, "Warning", "ErrorPVCFinalizer", CLAIM_TEXT)
            raise
        if decision.after_s is None:
            self._idle.pop(key, None)
        return Result(decision.because, done=decision.done, after_s=decision.after_s)

    def _since_s(self, moment: Instant | None) -> float | None:
        return None if moment is None else self._clock.now() - moment

    def _own_content(self, change: Change[VolumeSnapshotContent]) -> Iterable[str]:
        old, new, name = change.old, change.new, change.key.name
        if new is None:
            self._unmarked.pop(name, None)
            return ()
        ended = old is not None and is_marked(old, BEING_CREATED) and not is_marked(new, BEING_CREATED)
        if ended and is_deleting(new) and is_marked(new, BEING_DELETED):
            self._unmarked[name] = self._clock.now()
        return (name,) if is_news(change) else ()

    def _source_claim(self, change: Change[VolumeSnapshot]) -> Iterable[Key]:
        claim = v.claim_of(change.object)
        if claim is None:
            return ()
        self._idle.pop(claim, None)
        return (claim,)

    def _claim_of_content(self, change: Change[VolumeSnapshotContent]) -> Iterable[Key]:
        handle = change.object.spec.source.volume_handle
        return self._held_for(change.object.spec.driver, (handle,) if handle else ())

    def _claims_of_group_content(self, change: Change[VolumeGroupSnapshotContent]) -> Iterable[Key]:
        return self._held_for(change.object.spec.driver, change.object.spec.source.volume_handles or ())

    def _held_for(self, driver: str, handles: Iterable[str]) -> Iterator[Key]:
        """The claims of these volumes, as far as they are held."""
        for volume in (one for handle in handles for one in self._view.volumes.by(v.BY_HANDLE, v.handle_key(driver, handle))):
            ref = volume.spec.claim_ref
            claim = None if ref is None else self._view.claims.get(Key(ref.namespace, ref.name))
            if claim is not None and v.holds_claim(claim):
                yield key_of(claim)

    def _claims_near_group(self, change: Change[VolumeGroupSnapshot]) -> Iterable[Key]:
        """The held claims of its namespace."""
        return [key_of(claim) for claim in self._view.claims.by(v.BY_NAMESPACE, change.key.namespace) if v.holds_claim(claim)]

    def _held_claim(self, change: Change[PersistentVolumeClaim]) -> Iterable[Key]:
        """A claim that is held for no snapshot that we have seen to get ready, or to go."""
        if not v.holds_claim(change.object):
            return ()
        if change.old is None or not v.holds_claim(change.old):
            self._idle[change.key] = self._clock.now()
        return (change.key,)
