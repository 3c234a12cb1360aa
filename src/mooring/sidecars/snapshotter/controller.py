"""The snapshotter of one driver: which change of a content wakes it, and when the driver is asked again.

The snapshotter asks at steady intervals for a snapshot that is made and not ready; when the driver says something new,
they begin anew. Failures have the back-off of the flags. Differs from csi-snapshotter, which has one doubling back-off
for both, so that a snapshot that took three minutes may be seen five minutes later.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api.meta import Key
from mooring.api.snapshot import VolumeSnapshotContent
from mooring.api.snapshot_kinds import GROUPS, SINGLES, Content, Row, handle_of, is_content_ready, row_of
from mooring.api.snapshot_names import MANAGED_BY
from mooring.base.backoff import retry_backoff
from mooring.base.log import logger
from mooring.control.backlog import newest_keys
from mooring.control.caches import Caches
from mooring.control.call_slots import CallSlots
from mooring.control.controller import Controller
from mooring.control.decision import TELL_S, Deciding, Decision, Failed, Read
from mooring.control.events import EventRecorder
from mooring.control.manager import Manager
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.control.slim import changed
from mooring.control.topics import PARKED
from mooring.csi.capabilities import DriverInfo
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.kube.cache.informer import Cause, Change, FreshCache, Informer
from mooring.kube.cache.store import Store
from mooring.kube.cluster import EVERYTHING, Selection, compare_versions
from mooring.sidecars.snapshotter.creation import Event, Memory
from mooring.sidecars.snapshotter.decide import decide_content
from mooring.sidecars.snapshotter.decision import Action, Delete, Failure, Release
from mooring.sidecars.snapshotter.options import SnapshotterOptions
from mooring.sidecars.snapshotter.reconcile import OfKind, Reconciler
from mooring.sidecars.snapshotter.view import (
    BY_CLASS,
    BY_MEMBER,
    CONTENT_INDEXES,
    View,
    handles_of,
    is_born,
    is_going,
    keeps_class,
    keeps_content,
)

log = logger(__name__)

POLL_S_MAX: Final = 300.0
SHARE: Final = 0.25
"""The share of the time that a snapshot has taken so far: it may be seen ready this much later."""


class Snapshotter(Manager):
    """The controllers for one driver. caches: not those of another manager, which would run them, too."""

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        info: DriverInfo,
        options: SnapshotterOptions,
        caches: Caches | None = None,
    ) -> None:
        shared, capabilities = caches or Caches(runtime, "snapshotter"), capabilities_of(info)
        self.events = EventRecorder(
            runtime.cluster, f"csi-snapshotter {info.name}", clock=runtime.clock, randomness=runtime.randomness
        )
        rows = (SINGLES, GROUPS) if options.groups and _has_groups(info) else (SINGLES,)
        caches_of = {row.noun: _caches_of(row, shared, runtime, capabilities.name, options) for row in rows}
        singles, groups = caches_of[SINGLES.noun], caches_of.get(GROUPS.noun)
        group_contents = Store(CONTENT_INDEXES) if groups is None else groups.contents.store
        group_classes = Store() if groups is None else groups.classes.store
        view = View(
            capabilities,
            singles.contents.store,
            singles.classes.store,
            Memory(),
            options,
            group_contents,
            group_classes,
        )
        self._parts = [ContentController(runtime, row, view, caches_of, driver, self.events) for row in rows]
        super().__init__(shared, *(part.controller for part in self._parts), first_looks=[self._look])
        self.beside("snapshotter/events", self.events)
        for part in self._parts:
            part.watch(singles.contents)

    async def _look(self) -> None:
        for part in self._parts:
            part.look_at_all()

    def driver_returned(self) -> None:
        """The driver was away and is back."""
        for part in self._parts:
            part.controller.driver_returned()


def _caches_of(row: Row, caches: Caches, runtime: Runtime, driver_name: str, options: SnapshotterOptions) -> OfKind:
    """Group kinds that the cluster does not have count as kinds without objects."""
    selection = Selection(label_selector=f"{MANAGED_BY}={options.node_name}") if options.node_name else EVERYTHING
    keeps, resync_s, may_be_missing = keeps_content(driver_name), options.resync_s, row is GROUPS
    contents = caches.of(
        row.contents,
        keeps=keeps,
        indexes=CONTENT_INDEXES,
        selection=selection,
        resync_s=resync_s,
        may_be_missing=may_be_missing,
    )
    return OfKind(
        row,
        contents,
        caches.of(row.classes, keeps=keeps_class, may_be_missing=may_be_missing),
        FreshCache(runtime.cluster, runtime.clock, contents),
        ObjectWriter(runtime.cluster, row.contents, contents),
    )


class ContentController:
    """controller: of each content of one kind. caches_of: by the noun of each kind that is taken care of."""

    def __init__(
        self,
        runtime: Runtime,
        row: Row,
        view: View,
        caches_of: Mapping[str, OfKind],
        driver: Driver,
        events: EventRecorder,
    ) -> None:
        self._row, self._clock, self._view, self._memory = row, runtime.clock, view, view.memory
        self._caches = caches_of[row.noun]
        back_off = retry_backoff(view.options.retry_interval_start_s, view.options.retry_interval_max_s)
        deciding = Deciding(self._decide, self._perform, self._show, reads=self._reads)
        workers = view.options.worker_threads
        queue = f"csi-snapshotter-{'content' if row is SINGLES else 'groupsnapshotcontent'}"
        self.controller: Controller[str] = Controller(
            runtime, queue, deciding, workers=workers, backoff=back_off, label=row.contents.name, log=log
        )
        self._reconciler = Reconciler(runtime, row, view, caches_of, driver, CallSlots(self.controller.tell), events)

    def watch(self, singles: Informer[VolumeSnapshotContent]) -> None:
        """The caches of this kind, and that of single contents."""
        self.controller.watch(self._caches.contents, self._content_changed)
        self.controller.watch(self._caches.classes, self._class_changed)
        if self._row is GROUPS:
            self.controller.watch(singles, self._single_changed)

    # -- changes

    def look_at_all(self) -> None:
        """A term begins."""
        self.controller.add_later(newest_keys(self._view.contents_of(self._row), lambda content: content.metadata.name))

    def _content_changed(self, change: Change[Any]) -> Iterator[str]:
        if change.new is None:
            self.controller.forget(change.key.name)
            self._memory.forget(change.object.metadata.uid)
            self._reconciler.telling.forget(change.object.metadata.uid)
            return
        if change.old is None and change.cause is Cause.WATCH and is_born(change.new, self._clock.wall_s()):
            self._memory.advance(change.new.metadata.uid, Event.MARKED, self._clock.now())
        if is_news(change):
            yield change.key.name

    def _class_changed(self, change: Change[Any]) -> Iterable[str]:
        if not changed(change.old, change.new):
            return ()
        return [content.metadata.name for content in self._view.contents_of(self._row).by(BY_CLASS, change.key.name)]

    def _single_changed(self, change: Change[VolumeSnapshotContent]) -> Iterable[str]:
        """The group contents in deletion, a snapshot of which the content stood for."""
        handles = {handle for one in (change.old, change.new) if one is not None for handle in handles_of(one)}
        found = [content for handle in sorted(handles) for content in self._view.group_contents.by(BY_MEMBER, handle)]
        return sorted({content.metadata.name for content in found if is_going(content)})

    # -- one content

    def _decide(self, name: str) -> Decision[Action]:
        """Differs from other rooms: a problem waits for the change that wakes its key, and is not looked at meanwhile;
        but one that no status shows is told again before its Event is over.
        """
        decision = decide_content(self._view, self._row, name, self._clock.now())
        return decision if decision.problem is None else msgspec.structs.replace(decision, waits_for=PARKED)

    def _reads(self, name: str, decision: Decision[Action]) -> Sequence[Read]:
        """The reads before a snapshot goes, or is left to another content: it may be kept by now, or not any more."""
        content = self._view.contents_of(self._row).get(Key("", name))
        depends = (isinstance(one, Delete) or (isinstance(one, Release) and one.left_to) for one in decision.actions)
        if content is None or not any(depends):
            return ()
        return (functools.partial(self._reconciler.look_at_all_of, content),)

    async def _perform(self, name: str, decision: Decision[Action]) -> Result:
        after = await self._reconciler.carry_out(name, decision)
        if decision.problem is not None:
            await self._show(name, decision, Failed(decision.problem.error, problem=decision.problem))
            is_shown = isinstance(decision.problem, Failure) and decision.problem.saved
            return Result(
                decision.because, after_s=decision.after_s if is_shown or decision.after_s is not None else TELL_S
            )
        if not after.polls:
            done = decision.done if decision.actions else ""
            return Result(
                decision.because, done=done, again=after.again, waits_for=after.waits_for, after_s=decision.after_s
            )
        waited_s = self._memory.waited_s(decision.uid, self._clock.now(), news=after.news)
        return Result(decision.because, after_s=poll_s(self._view.options, waited_s))

    async def _show(self, name: str, decision: Decision[Action], failed: Failed) -> None:
        telling, problem = self._reconciler.telling, failed.problem
        if not isinstance(problem, Failure):
            telling.refused(name, decision.uid, failed.__cause__ or failed)
            return
        await telling.show(name, decision.uid, problem)
        if problem is decision.problem:
            log.error(problem.error, None, **{self._row.contents.name: name})


def poll_s(options: SnapshotterOptions, waited_s: float) -> float:
    """When the driver is asked again for a snapshot that is made and not ready.

    A share of the time waited, from --retry-interval-start up to POLL_S_MAX, and never above --retry-interval-max.
    """
    return min(max(waited_s * SHARE, options.retry_interval_start_s), POLL_S_MAX, options.retry_interval_max_s)


def _has_groups(info: DriverInfo) -> bool:
    """True for a driver with the group service; the others' single snapshots go on."""
    found = capabilities_of(info).group_snapshots
    if not found:
        log.warning("the driver has no group controller service: group snapshots are passed over", driver=info.name)
    return found


def is_news(change: Change[Any]) -> bool:
    """True for a change that wakes the content: none of our own, and none of status, finalizers or the mark of a
    creation alone.

    As csi-snapshotter 8.6; a snapshot that turned ready by another hand is news all the same, and so is one that is no
    more ready, or whose handle has gone: no hand does that, but a set-back of the API server. Differs from
    csi-snapshotter, whose own mark of a creation wakes a group, so that an un-ready one is asked for without a pause.
    """
    old, new = change.old, change.new
    assert new is not None
    if old is not None and compare_versions(new.metadata.resource_version, old.metadata.resource_version) < 0:
        return True
    if (
        change.cause is Cause.OWN_WRITE
    ):  # its answer may show what others have changed or made, and no event will any more
        return old is None or _quiet(old) != _quiet(new)
    if (
        old is None
        or old.metadata.uid != new.metadata.uid
        or old.metadata.resource_version == new.metadata.resource_version
    ):
        return True
    is_back = bool(handle_of(old)) and not handle_of(new)
    return is_back or is_content_ready(new) != is_content_ready(old) or _quiet(old) != _quiet(new)


def _quiet(content: Content) -> Content:
    """The content without the parts whose changes wake no key."""
    mark = row_of(content).being_created
    annotations: dict[str, Any] = {k: v for k, v in (content.metadata.annotations or {}).items() if k != mark}
    meta = msgspec.structs.replace(
        content.metadata,
        resource_version="",
        finalizers=None,
        annotations=annotations or None,
        labels=content.metadata.labels or None,
    )
    return msgspec.structs.replace(content, metadata=meta, status=None)
