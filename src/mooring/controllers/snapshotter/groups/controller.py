"""The snapshotter's controller of group contents: which change wakes one, and when the driver is asked again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from mooring.api.group_snapshot import (
    GROUP_SNAPSHOT_CLASSES,
    GROUP_SNAPSHOT_CONTENTS,
    VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent,
)
from mooring.api.snapshot import VolumeSnapshotContent
from mooring.base.backoff import BackOff
from mooring.base.log import logger
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.control.slim import changed
from mooring.controllers.snapshotter.decision import Failed
from mooring.controllers.snapshotter.groups.decide import decide_group_content
from mooring.controllers.snapshotter.groups.reconcile import Reconciler
from mooring.controllers.snapshotter.groups.view import (
    BY_CLASS,
    BY_MEMBER,
    CONTENT_INDEXES,
    View,
    is_going,
    is_ready,
    keeps_class,
    keeps_content,
)
from mooring.controllers.snapshotter.memory import Memory
from mooring.controllers.snapshotter.options import SnapshotterOptions
from mooring.controllers.snapshotter.polling import poll_s
from mooring.controllers.snapshotter.view import handles_of
from mooring.controllers.snapshotting.names import GROUP_BEING_CREATED
from mooring.controllers.snapshotting.writes import LASTING
from mooring.csi.driver import Driver
from mooring.kube.cache.informer import Cause, Change, Informer
from mooring.kube.cluster import Selection

log = logger(__name__)


class GroupContents:
    """controller: of each group content. contents: their cache. Kinds that the cluster does not have count as kinds without objects."""

    def __init__(
        self,
        runtime: Runtime,
        caches: Caches,
        driver: Driver,
        driver_name: str,
        options: SnapshotterOptions,
        events: EventRecorder,
        back_off: BackOff,
        selection: Selection,
        singles: Informer[VolumeSnapshotContent],
    ) -> None:
        self._options, self._clock, self._memory = options, runtime.clock, Memory()
        self.controller: Controller[str] = Controller(
            runtime,
            "csi-snapshotter-groupsnapshotcontent",
            self._reconcile,
            workers=options.worker_threads,
            backoff=back_off,
            label="VolumeGroupSnapshotContent",
            log=log,
        )
        contents = caches.of(
            GROUP_SNAPSHOT_CONTENTS,
            keeps=keeps_content(driver_name),
            indexes=CONTENT_INDEXES,
            selection=selection,
            resync_s=options.resync_s,
            may_be_missing=True,
        )
        classes = caches.of(GROUP_SNAPSHOT_CLASSES, keeps=keeps_class, may_be_missing=True)
        self.contents = contents.store
        self._view = View(driver_name, contents.store, classes.store, self._memory, options, singles.store)
        self._reconciler = Reconciler(runtime, self._view, contents, driver, events)
        self.controller.watch(contents, self._content_changed)
        self.controller.watch(classes, self._class_changed)
        self.controller.watch(singles, self._single_changed)

    def retry_now(self) -> None:
        """The driver is back."""
        self.controller.retry_now(content.metadata.name for content in self._view.contents.values() if not is_ready(content))

    def _content_changed(self, change: Change[VolumeGroupSnapshotContent]) -> Iterator[str]:
        if change.new is None:
            self.controller.forget(change.key.name)
            self._memory.forget(change.object.metadata.uid)
            self._reconciler.forget(change.object.metadata.uid)
        elif is_news(change):
            yield change.key.name

    def _single_changed(self, change: Change[VolumeSnapshotContent]) -> Iterable[str]:
        """One that stood for a snapshot of a group which is being deleted."""
        handles = {handle for one in (change.old, change.new) if one is not None for handle in handles_of(one)}
        found = [content for handle in sorted(handles) for content in self._view.contents.by(BY_MEMBER, handle)]
        return sorted({content.metadata.name for content in found if is_going(content)})

    def _class_changed(self, change: Change[VolumeGroupSnapshotClass]) -> Iterable[str]:
        if not changed(change.old, change.new):
            return ()
        return [content.metadata.name for content in self._view.contents.by(BY_CLASS, change.key.name)]

    async def _reconcile(self, name: str) -> Result:
        decision = decide_group_content(self._view, name, self._clock.now())  # no await between this and its actions
        self.controller.explain(name, decision.because)
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
        if not after.polls:
            return Result(decision.because, done=decision.done if decision.actions else "", again=after.again)
        waited_s = self._memory.waited_s(decision.uid, self._clock.now(), news=after.status is not None)
        return Result(decision.because, after_s=poll_s(self._options, waited_s))


def is_news(change: Change[VolumeGroupSnapshotContent]) -> bool:
    """True for a change that wakes the content; as for a single one.

    Differs from csi-snapshotter, whose own mark of a creation wakes the group, so that an un-ready one is asked for without a pause.
    """
    old, new = change.old, change.new
    assert new is not None
    if change.cause is Cause.OWN_WRITE:  # its answer may show what others have changed, and no event will any more
        return old is not None and _quiet(old) != _quiet(new)
    if old is None or old.metadata.uid != new.metadata.uid or old.metadata.resource_version == new.metadata.resource_version:
        return True
    return (is_ready(new) and not is_ready(old)) or _quiet(old) != _quiet(new)


def _quiet(content: VolumeGroupSnapshotContent) -> VolumeGroupSnapshotContent:
    """Without what wakes nobody."""
    annotations: dict[str, Any] = {k: v for k, v in (content.metadata.annotations or {}).items() if k != GROUP_BEING_CREATED}
    meta = msgspec.structs.replace(content.metadata, resource_version="", finalizers=None, annotations=annotations or None)
    return msgspec.structs.replace(content, metadata=meta, status=None)
