"""The snapshot controller: which change of which object wakes which snapshot, content or claim.

A queue for single snapshots, one for groups, one for contents, one for claims. Snapshots wait for nothing but changes:
each object that one may lack is in a cache, with an index that finds the snapshots which need it. A failed write comes
again after its back-off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.group_snapshot import VolumeGroupSnapshot, VolumeGroupSnapshotContent
from mooring.api.meta import Key, annotation, finalizers_of, is_deleting, key_of
from mooring.api.snapshot import VolumeSnapshot, VolumeSnapshotContent
from mooring.api.snapshot_kinds import GROUPS, SINGLES, Content, Row, Snapshot, is_content_ready, ref_of, volumes_of
from mooring.api.snapshot_names import BEING_CREATED, BEING_DELETED, GROUP_HANDLE, GROUP_SNAPSHOT_KIND, is_marked
from mooring.base.backoff import retry_backoff
from mooring.base.clock import Instant, in_turns
from mooring.base.log import logger
from mooring.cluster.snapshots import view as v
from mooring.cluster.snapshots.caches import SnapshotCaches
from mooring.cluster.snapshots.decide import decide_snapshot
from mooring.cluster.snapshots.decide_protection import decide_claim, decide_content
from mooring.cluster.snapshots.decision import Action, Failure
from mooring.cluster.snapshots.metrics import OperationMetrics, SnapshotMetrics
from mooring.cluster.snapshots.objects import reference_of
from mooring.cluster.snapshots.options import SnapshotControllerOptions
from mooring.cluster.snapshots.own_writes import is_news
from mooring.cluster.snapshots.reconcile import Reconciler
from mooring.cluster.snapshots.telling import Telling
from mooring.control.backlog import newest_keys
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.decision import TELL_S, Deciding, Decision, Failed
from mooring.control.events import EventRecorder
from mooring.control.manager import Manager
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.control.slim import changed
from mooring.control.topics import PARKED
from mooring.kube.cache.informer import Cause, Change
from mooring.kube.cache.store import newest_first

log = logger(__name__)

COMPONENT: Final = "snapshot-controller"
CLAIM_TEXT: Final = "Error check and remove PVC Finalizer for VolumeSnapshot"
MOMENTS_MAX: Final = 20_000
"""Snapshots whose moment of deletion is remembered; one beyond that never says that it waits."""


class SnapshotController(Manager):
    """run() until cancelled or drained. caches: not those of another manager, which would run them, too."""

    def __init__(
        self, runtime: Runtime, options: SnapshotControllerOptions | None = None, caches: Caches | None = None
    ) -> None:
        given, shared = options or SnapshotControllerOptions(), caches or Caches(runtime, "snapshot-controller")
        back_off = retry_backoff(given.retry_interval_start_s, given.retry_interval_max_s)
        queues: dict[str, Any] = {"workers": given.worker_threads, "backoff": back_off, "log": log}
        self.events = EventRecorder(runtime.cluster, COMPONENT, clock=runtime.clock, randomness=runtime.randomness)
        own, rows = SnapshotCaches(shared, given), (SINGLES, GROUPS) if given.groups else (SINGLES,)
        reconciler = Reconciler(runtime.cluster, own.view, own.by_plural(), self.events, runtime.clock)
        parts = [SnapshotQueue(runtime, row, own, reconciler, self.events, queues) for row in rows]
        protection = Protection(runtime, own, reconciler, self.events, queues)
        looks = [*(part.look_at_all for part in parts), protection.look_at_all]
        super().__init__(
            shared, *(part.controller for part in parts), protection.contents, protection.claims, first_looks=looks
        )
        self.beside("snapshot-controller/events", self.events)


class SnapshotQueue:
    """controller: the one for snapshots of one kind. queues: options that all queues have in common."""

    def __init__(
        self,
        runtime: Runtime,
        row: Row,
        caches: SnapshotCaches,
        reconciler: Reconciler,
        events: EventRecorder,
        queues: Mapping[str, Any],
    ) -> None:
        self._row, self._caches, self._view, self._clock, self._reconciler = (
            row,
            caches,
            caches.view,
            runtime.clock,
            reconciler,
        )
        self._telling = Telling(row, caches.view, reconciler, events, runtime.clock)
        self._leaving: dict[str, Instant] = {}
        self._has_looked = False
        self._operations = OperationMetrics(row, caches.view, runtime.metrics.once(SnapshotMetrics), runtime.clock)
        deciding = Deciding(self._decide, self._perform, self._show)
        queue = f"snapshot-controller-{row.noun.replace(' ', '-')}"
        self.controller: Controller[Key] = Controller(runtime, queue, deciding, label=row.snapshots.name, **queues)
        self._watch()

    def _watch(self) -> None:
        caches, watch = self._caches, self.controller.watch
        own = caches.of(self._row)
        watch(own.snapshots, self._snapshot_changed)
        watch(own.contents, self._content_changed)
        watch(own.classes, self._class_changed)
        watch(caches.claims, self._claim_changed)
        watch(caches.volumes, self._volume_changed)
        if self._row is GROUPS:
            watch(caches.singles.snapshots, groups_of)
            watch(caches.singles.contents, self._member_content_changed)
        elif caches.groups is not None:
            watch(caches.groups.snapshots, self._group_changed)
            watch(caches.groups.contents, self._group_content_changed)

    async def look_at_all(self) -> None:
        """A term begins: a former process may have sent writes for unready snapshots that do not show yet."""
        own, row = self._caches.of(self._row), self._view.of(self._row)
        async for key in in_turns([key_of(one) for one in row.values() if not v.is_ready(one) or is_deleting(one)]):
            if (snapshot := row.get(key)) is not None:
                self._operations.changed(Change(None, snapshot, Cause.RELIST))
                if self._may_get_content(snapshot):
                    self._reconciler.unseen.note(snapshot.metadata.uid)
        self._has_looked = True

        def without_snapshot(content: Content) -> Key | None:
            key = v.snapshot_of(content)
            return key if row.get(key) is None else None

        self.controller.add_later(newest_keys(row, key_of), newest_keys(own.contents.store, without_snapshot))

    # -- which snapshots a change concerns

    def _snapshot_changed(self, change: Change[Any]) -> Iterator[Key]:
        self._operations.changed(change)
        uid, new = change.object.metadata.uid, change.new
        if new is None:
            self._leaving.pop(uid, None)
            self._reconciler.unseen.forget(uid)
            self.controller.forget(change.key)
            self._telling.forget(uid)
        elif is_news(change, _has_late_error):
            yield change.key
        # A snapshot may be deleted before the first look, while the other caches are filled.
        if new is not None and not self._has_looked and change.old is not None and self._may_get_content(change.old):
            self._reconciler.unseen.note(uid)

    def _may_get_content(self, snapshot: Snapshot) -> bool:
        """True for a living snapshot for which a former process may have sent a write of its content."""
        is_held = self._row.source_finalizer in finalizers_of(snapshot)
        return is_held and not v.bound_name(snapshot) and not is_deleting(snapshot)

    def _content_changed(self, change: Change[Any]) -> Iterator[Key]:
        """The snapshot that the content points to, and those that name the content, or would."""
        yield v.snapshot_of(change.object)
        yield from map(key_of, self._view.of(self._row).by(v.BY_CONTENT, change.key.name))

    def _class_changed(self, change: Change[Any]) -> Iterator[Key]:
        if changed(change.old, change.new):
            for name in (change.key.name, ""):
                yield from map(key_of, self._view.of(self._row).by(v.BY_CLASS, name))

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> Iterator[Key]:
        """The snapshots of the claim, and the snapshot that it was to be filled from. A group chooses its claims, or
        has a member that a claim restores from.
        """
        if not changed(change.old, change.new) or not is_news(change, lambda claim: claim.status.phase):
            return
        yield from self._of_claim(change.key)
        source = change.object.spec.data_source
        if source is not None and self._row is SINGLES:
            yield Key(change.key.namespace, source.name)

    def _volume_changed(self, change: Change[PersistentVolume]) -> Iterable[Key]:
        ref = change.object.spec.claim_ref
        return (
            () if ref is None or not changed(change.old, change.new) else self._of_claim(Key(ref.namespace, ref.name))
        )

    def _of_claim(self, claim: Key) -> Iterable[Key]:
        if self._row is GROUPS:
            return map(key_of, self._view.groups.by(v.BY_NAMESPACE, claim.namespace))
        return map(key_of, self._view.unready_of(claim))

    def _group_changed(self, change: Change[VolumeGroupSnapshot]) -> Iterator[Key]:
        yield from map(key_of, self._view.members_of(change.object))
        if change.old is None or change.new is None:
            yield from map(key_of, self._view.snapshots.by(v.BY_GROUP, str(change.key)))

    def _group_content_changed(self, change: Change[VolumeGroupSnapshotContent]) -> Iterator[Key]:
        yield from map(key_of, self._view.snapshots.by(v.BY_OWNER, ref_of(change.object).uid))
        handle = v.group_handle_of(change.object)
        if handle and changed(change.old, change.new):
            yield from map(v.snapshot_of, self._view.contents.by(v.BY_GROUP_HANDLE, handle))

    def _member_content_changed(self, change: Change[VolumeSnapshotContent]) -> Iterable[Key]:
        """The group of a content that has gone, or is not ready any more."""
        old, new, handle = change.old, change.new, annotation(change.object, GROUP_HANDLE)
        if not handle or old is None or (new is not None and (is_content_ready(new) or not is_content_ready(old))):
            return ()
        return map(v.snapshot_of, self._view.group_contents.by(v.BY_GROUP_HANDLE, handle))

    # -- one snapshot

    def _decide(self, key: Key) -> Decision[Action]:
        """Decide about the snapshot. Differs from other rooms: a problem waits for the change that wakes its key. Each
        thing that may be missing is in a cache; a look now and then would hide a change that wakes nobody. A problem
        that no status shows is told again before its Event is over, no sooner.
        """
        snapshot: Snapshot | None = self._view.of(self._row).get(key)
        lost_s = None if snapshot is None else self._reconciler.unseen.wait_s(snapshot.metadata.uid)
        decision = decide_snapshot(self._view, self._row, key, self._waited_s(snapshot), lost_s)
        return decision if decision.problem is None else msgspec.structs.replace(decision, waits_for=PARKED)

    async def _perform(self, key: Key, decision: Decision[Action]) -> Result | None:
        await self._reconciler.carry_out(self._row, key, decision.actions)
        if decision.problem is None:
            return None
        await self._show(key, decision, Failed(decision.problem.error, problem=decision.problem))
        is_shown = isinstance(decision.problem, Failure) and decision.problem.saved
        after_s = decision.after_s if is_shown or decision.after_s is not None else TELL_S
        return Result(decision.because, done=decision.done, after_s=after_s)

    async def _show(self, key: Key, decision: Decision[Action], failed: Failed) -> None:
        if not isinstance(failed.problem, Failure):
            return
        is_new = await self._telling.show(key, failed.problem)
        snapshot: Snapshot | None = self._view.of(self._row).get(key)
        if is_new and snapshot is not None:
            self._operations.failed(snapshot)
        if is_new and failed.problem is decision.problem:
            log.error(failed.problem.error, None, **{self._row.snapshots.name: str(key)})

    def _waited_s(self, snapshot: Snapshot | None) -> float:
        """Seconds since this process saw that the snapshot is to go; 0 for others."""
        if snapshot is None or not is_deleting(snapshot):
            return 0.0
        uid, now = snapshot.metadata.uid, self._clock.now()
        return now - (
            self._leaving.setdefault(uid, now) if len(self._leaving) < MOMENTS_MAX else self._leaving.get(uid, now)
        )


def groups_of(change: Change[VolumeSnapshot]) -> Iterable[Key]:
    """The group of a member that came or went."""
    if change.old is not None and change.new is not None:
        return ()
    owners = change.object.metadata.owner_references or ()
    return [Key(change.key.namespace, owner.name) for owner in owners if owner.kind == GROUP_SNAPSHOT_KIND]


def _has_late_error(snapshot: Snapshot) -> bool:
    """True for a ready snapshot whose status shows an error: the error's write was given up, and was carried out before
    that of the ready status.
    """
    return v.is_ready(snapshot) and snapshot.status is not None and snapshot.status.error is not None


class Protection:
    """The protection of single snapshots' contents, and of the claims that snapshots are made from."""

    def __init__(
        self,
        runtime: Runtime,
        caches: SnapshotCaches,
        reconciler: Reconciler,
        events: EventRecorder,
        queues: Mapping[str, Any],
    ) -> None:
        self._view, self._clock, self._reconciler, self._events = caches.view, runtime.clock, reconciler, events
        self._unmarked: dict[str, Instant] = {}
        self._idle: dict[Key, Instant] = {}
        of_contents = Deciding(self._decide_content, self._perform_content, self._keep_quiet)
        of_claims = Deciding(self._decide_claim, self._perform_claim, self._show_claim)
        self.contents: Controller[str] = Controller(
            runtime, "snapshot-controller-content", of_contents, label="VolumeSnapshotContent", **queues
        )
        self.claims: Controller[Key] = Controller(
            runtime, "snapshot-controller-claim", of_claims, label="PersistentVolumeClaim", **queues
        )
        self.contents.watch(caches.singles.contents, self._content_changed)
        self.claims.watch(caches.singles.snapshots, self._source_claim)
        self.claims.watch(caches.claims, self._held_claim)
        self.claims.watch(caches.singles.contents, self._claims_of_content)
        if caches.groups is not None:
            self.claims.watch(caches.groups.snapshots, self._claims_near_group)
            self.claims.watch(caches.groups.contents, self._claims_of_content)

    async def look_at_all(self) -> None:
        """A term begins: held claims are taken for idle from now on, until a change of a snapshot says more."""
        view, now = self._view, self._clock.now()
        held = [
            key_of(claim) for claim in newest_first(claim for claim in view.claims.values() if v.holds_claim(claim))
        ]
        async for key in in_turns(held):
            if view.claims.get(key) is not None:
                self._idle.setdefault(key, now)
        self.contents.add_later(newest_keys(view.contents, lambda content: content.metadata.name))
        self.claims.add_later(held)

    def _decide_content(self, name: str) -> Decision[Action]:
        return decide_content(self._view, name, self._since_s(self._unmarked.get(name)))

    async def _perform_content(self, name: str, decision: Decision[Action]) -> None:
        await self._reconciler.carry_out(SINGLES, Key("", name), decision.actions)
        if decision.after_s is None:
            self._unmarked.pop(name, None)

    async def _keep_quiet(self, name: str, decision: Decision[Action], failed: Failed) -> None:
        """The log alone tells of a content that could not be protected."""

    def _decide_claim(self, key: Key) -> Decision[Action]:
        return decide_claim(
            self._view, key, self._since_s(self._idle.get(key)), self._reconciler.unseen.wait_s(key) or None
        )

    async def _perform_claim(self, key: Key, decision: Decision[Action]) -> None:
        await self._reconciler.carry_out(SINGLES, key, decision.actions)
        if decision.after_s is None:
            self._idle.pop(key, None)

    async def _show_claim(self, key: Key, decision: Decision[Action], failed: Failed) -> None:
        for snapshot in self._view.snapshots_of(key):
            self._events.event(reference_of(snapshot), "Warning", "ErrorPVCFinalizer", CLAIM_TEXT)

    def _since_s(self, moment: Instant | None) -> float | None:
        return None if moment is None else self._clock.now() - moment

    def _content_changed(self, change: Change[VolumeSnapshotContent]) -> Iterable[str]:
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

    def _claims_of_content(self, change: Change[Any]) -> Iterator[Key]:
        """The held claims of the content's volumes."""
        driver, handles = change.object.spec.driver, volumes_of(change.object)
        for volume in (
            one for handle in handles for one in self._view.volumes.by(v.BY_HANDLE, v.handle_key(driver, handle))
        ):
            ref = volume.spec.claim_ref
            claim = None if ref is None else self._view.claims.get(Key(ref.namespace, ref.name))
            if claim is not None and v.holds_claim(claim):
                yield key_of(claim)

    def _claims_near_group(self, change: Change[VolumeGroupSnapshot]) -> Iterable[Key]:
        """The held claims of the group's namespace."""
        return [
            key_of(claim)
            for claim in self._view.claims.by(v.BY_NAMESPACE, change.key.namespace)
            if v.holds_claim(claim)
        ]

    def _held_claim(self, change: Change[PersistentVolumeClaim]) -> Iterable[Key]:
        """The claim, if it is held. From its first sight it counts as held for no snapshot, until one of it changes."""
        if not v.holds_claim(change.object):
            return ()
        if change.old is None or not v.holds_claim(change.old):
            self._idle[change.key] = self._clock.now()
        return (change.key,)
