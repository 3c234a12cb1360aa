"""The snapshotter of one driver: which change of a content wakes it, and when the driver is asked again.

A snapshot that is made and not ready is asked for at steady intervals (`polling.py`); news begin anew. Failures have the back-off of the
flags. Differs from csi-snapshotter, which has one doubling back-off for both, so that a snapshot that took three minutes may be seen
five minutes later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOT_CONTENTS, VolumeSnapshotClass, VolumeSnapshotContent
from mooring.base.backoff import retry_backoff
from mooring.base.log import logger
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.manager import Manager
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.control.slim import changed
from mooring.controllers.snapshotter.decide import decide_content
from mooring.controllers.snapshotter.decide_after import After
from mooring.controllers.snapshotter.decision import Decision, Failed
from mooring.controllers.snapshotter.groups.controller import GroupContents
from mooring.controllers.snapshotter.groups.view import CONTENT_INDEXES as GROUP_CONTENT_INDEXES
from mooring.controllers.snapshotter.memory import Memory
from mooring.controllers.snapshotter.options import SnapshotterOptions
from mooring.controllers.snapshotter.polling import poll_s
from mooring.controllers.snapshotter.reconcile import Reconciler
from mooring.controllers.snapshotter.view import BY_CLASS, CONTENT_INDEXES, View, is_born, is_ready, keeps_class, keeps_content
from mooring.controllers.snapshotting.names import BEING_CREATED, MANAGED_BY, is_marked
from mooring.controllers.snapshotting.writes import LASTING
from mooring.csi.capabilities import DriverInfo
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.kube.cache.informer import Cause, Change
from mooring.kube.cache.store import Store
from mooring.kube.cluster import EVERYTHING, Selection

log = logger(__name__)


class Snapshotter(Manager):
    """The controllers for one driver. caches: not those of another manager, which would run them, too."""

    def __init__(
        self, runtime: Runtime, driver: Driver, info: DriverInfo, options: SnapshotterOptions, caches: Caches | None = None
    ) -> None:
        shared = caches or Caches(runtime, "snapshotter")
        self._options, self._clock, self._memory = options, runtime.clock, Memory()
        self._back_off = retry_backoff(options.retry_interval_start_s, options.retry_interval_max_s)
        self._contents: Controller[str] = Controller(
            runtime,
            "csi-snapshotter-content",
            self._reconcile,
            workers=options.worker_threads,
            backoff=self._back_off,
            label="VolumeSnapshotContent",
            log=log,
        )
        self.events = EventRecorder(runtime.cluster, f"csi-snapshotter {info.name}", clock=runtime.clock, randomness=runtime.randomness)
        self._groups: GroupContents | None = None
        selection = Selection(label_selector=f"{MANAGED_BY}={options.node_name}") if options.node_name else EVERYTHING
        capabilities = capabilities_of(info)
        contents = shared.of(
            VOLUME_SNAPSHOT_CONTENTS,
            keeps=keeps_content(capabilities.name),
            indexes=CONTENT_INDEXES,
            selection=selection,
            resync_s=options.resync_s,
        )
        if options.groups and has_groups(info):
            self._groups = GroupContents(runtime, shared, driver, info.name, options, self.events, self._back_off, selection, contents)
        super().__init__(shared, self._contents, *((self._groups.controller,) if self._groups is not None else ()))
        self.beside("snapshotter/events", self.events)
        classes = shared.of(VOLUME_SNAPSHOT_CLASSES, keeps=keeps_class)
        group_contents = self._groups.contents if self._groups is not None else Store(GROUP_CONTENT_INDEXES)
        self._view = View(capabilities, contents.store, classes.store, self._memory, options, group_contents)
        self._reconciler = Reconciler(runtime, self._view, contents, classes, driver, self.events)
        self._contents.watch(contents, self._content_changed)
        self._contents.watch(classes, self._class_changed)

    def driver_returned(self) -> None:
        """The driver was away and is back: any failure may have been due to that."""
        self._contents.retry_now(content.metadata.name for content in self._view.contents.values() if not is_ready(content))
        if self._groups is not None:
            self._groups.retry_now()

    # -- changes

    def _content_changed(self, change: Change[VolumeSnapshotContent]) -> Iterator[str]:
        if change.new is None:
            self._contents.forget(change.key.name)
            self._memory.forget(change.object.metadata.uid)
            self._reconciler.forget(change.object.metadata.uid)
            return
        if change.old is None and change.cause is Cause.WATCH and is_born(change.new, self._clock.wall_s()):
            self._memory.change(change.new.metadata.uid, nothing_made=is_marked(change.new, BEING_CREATED))
        if is_news(change):
            yield change.key.name

    def _class_changed(self, change: Change[VolumeSnapshotClass]) -> Iterable[str]:
        if not changed(change.old, change.new):
            return ()
        return [content.metadata.name for content in self._view.contents.by(BY_CLASS, change.key.name)]

    # -- one content

    async def _reconcile(self, name: str) -> Result:
        decision = decide_content(self._view, name, self._clock.now())  # no await between this and its actions
        self._contents.explain(name, decision.because)
        self._memory.note_class(decision.uid, self._clock.now(), is_foreign=decision.is_foreign)
        try:
            after = await self._reconciler.carry_out(name, decision)
        except Failed as failure:
            await self._reconciler.show(name, decision.uid, failure.failure)
            raise Retry(str(failure), because=decision.because) from failure
        except LASTING as error:
            self._reconciler.tell_refusal(name, decision.uid, error)
            raise
        if decision.failure is not None:
            await self._reconciler.show(name, decision.uid, decision.failure)
            log.error(decision.failure.error, VolumeSnapshotContent=name)
        return self._result(decision, after)

    def _result(self, decision: Decision, after: After) -> Result:
        if not after.polls:
            done = decision.done if decision.actions and decision.failure is None else ""
            return Result(decision.because, done=done, again=after.again, after_s=decision.after_s)
        waited_s = self._memory.waited_s(decision.uid, self._clock.now(), news=after.news)
        return Result(decision.because, after_s=poll_s(self._options, waited_s))


def has_groups(info: DriverInfo) -> bool:
    """True for a driver with the group service; the others' single snapshots go on."""
    found = capabilities_of(info).group_snapshots
    if not found:
        log.warning("the driver has no group controller service: group snapshots are passed over", driver=info.name)
    return found


def is_news(change: Change[VolumeSnapshotContent]) -> bool:
    """True for a change that wakes the content: none of our own, and none of status, finalizers or the mark of a creation alone.

    As csi-snapshotter 8.6; a snapshot that turned ready by another hand is news all the same.
    """
    old, new = change.old, change.new
    assert new is not None
    if change.cause is Cause.OWN_WRITE:  # its answer may show what others have changed, and no event will any more
        return old is not None and _quiet(old) != _quiet(new)
    if old is None or old.metadata.uid != new.metadata.uid or old.metadata.resource_version == new.metadata.resource_version:
        return True
    return (is_ready(new) and not is_ready(old)) or _quiet(old) != _quiet(new)


def _quiet(content: VolumeSnapshotContent) -> VolumeSnapshotContent:
    """Without what wakes nobody."""
    annotations: dict[str, Any] = {k: v for k, v in (content.metadata.annotations or {}).items() if k != BEING_CREATED}
    meta = msgspec.structs.replace(
        content.metadata, resource_version="", finalizers=None, annotations=annotations or None, labels=content.metadata.labels or None
    )
    return msgspec.structs.replace(content, metadata=meta, status=None)
