"""Bugs of the classic kinds, in rooms that a seed chose: what a life of seeds was not built to find.

The kinds: a write without a test of the uid; memory that is not made again after a restart; the absence of an event
that nobody notices; a lost answer that is taken for a failure.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from unittest import mock

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.group_snapshot import VolumeGroupSnapshotContent
from mooring.api.meta import key_of
from mooring.api.snapshot_kinds import SINGLES
from mooring.base.clock import parse_rfc3339
from mooring.cluster.attachdetach import assemble as attachdetach_assemble
from mooring.cluster.attachdetach import reconcile as attachdetach_reconcile
from mooring.cluster.attachdetach.silence import UNSAID_S
from mooring.cluster.snapshots.reconcile import Reconciler as SnapshotReconciler
from mooring.control.lease.reporter import LeadershipReporter
from mooring.control.object_writer import ObjectWriter
from mooring.mounts import fs_group
from mooring.mounts.fs_group import ON_ROOT_MISMATCH, Walk
from mooring.node.volumes.state.actual import VolumeState
from mooring.node.volumes.state.in_use import UnreadPlaces
from mooring.sidecars.attacher.controller import EventHandlers as AttacherEvents
from mooring.sidecars.provisioner.claims import provision
from mooring.sidecars.provisioner.model.outcomes import Save
from mooring.sidecars.provisioner.source_protection import controller as source_protection
from mooring.sidecars.snapshotter import decide as snapshotter_decide
from tests.sim.plane.harm_bugs import HARM_BUGS
from tests.sim.planting import Bug


def _sources_are_strangers() -> contextlib.AbstractContextManager[Any]:
    """Memory: a finalizer that the process before put on a snapshot, for a volume that the journal names, counts as
    somebody else's.
    """
    real = source_protection.SourceProtection.adopt

    def adopt(self: source_protection.SourceProtection, source: Any, uid: str) -> None:
        known = set(self._ours)
        real(self, source, uid)
        self._ours.intersection_update(known)

    return mock.patch.object(source_protection.SourceProtection, "adopt", adopt)


def _doubts_end_with_the_process() -> contextlib.AbstractContextManager[Any]:
    """Memory: places on the disk whose record can't be read are forgotten by the next agent."""
    return mock.patch.object(UnreadPlaces, "begin", return_value=None)


def _lost_posts_failed() -> contextlib.AbstractContextManager[Any]:
    """Lost answer: an attachment whose POST had no answer was not made."""
    create = attachdetach_reconcile.Reconciler._create

    async def hopeless(self: attachdetach_reconcile.Reconciler, volume: Any, action: Any) -> None:
        try:
            await create(self, volume, action)
        finally:
            volume.place.record.creating = False

    return mock.patch.object(attachdetach_reconcile.Reconciler, "_create", hopeless)


def _lost_deletes_failed() -> contextlib.AbstractContextManager[Any]:
    """Lost answer: an attachment whose DELETE had no answer is still there, and counts as attached."""
    return HARM_BUGS["lost-deletes-failed"].plant()


def _ends_wake_nobody() -> contextlib.AbstractContextManager[Any]:
    """Absence: the end of an attachment is no event."""
    return mock.patch.object(AttacherEvents, "_attachment_ended", return_value=None)


def _places_free_nobody() -> contextlib.AbstractContextManager[Any]:
    """Absence: who waits for a volume's end elsewhere hears of it only when its back-off is over. Slower, and no
    harm.
    """
    return mock.patch.object(AttacherEvents, "_place_freed", return_value=None)


def _namesakes_are_others() -> contextlib.AbstractContextManager[Any]:
    """Memory: a PersistentVolume that the process before has stored for the claim is somebody else's."""
    return mock.patch.object(provision, "owner_of", return_value=(Save.TAKEN, "it is there already"))


def _made_contents_are_failures() -> contextlib.AbstractContextManager[Any]:
    """Lost answer: a content that is there already is an error, and nobody looks at it."""

    real = SnapshotReconciler._create

    async def create(self: SnapshotReconciler, body: Mapping[str, Any]) -> None:
        if body["kind"] == SINGLES.contents.name:
            await self._cluster.create(SINGLES.contents, body)
        else:
            await real(self, body)

    return mock.patch.object(SnapshotReconciler, "_create", create)


def _claims_are_let_go_by_name() -> contextlib.AbstractContextManager[Any]:
    """Uid: a claim's finalizers are put as they were read, without its version."""
    hold, release = SnapshotReconciler.hold_claim, SnapshotReconciler.release_claim

    async def put(self: SnapshotReconciler, write: Callable[..., Awaitable[None]], claim: Any) -> None:
        replace = self._cluster.replace

        async def without_version(kind: Any, body: Any, namespace: str = "", **options: Any) -> Any:
            if kind.plural == PERSISTENT_VOLUME_CLAIMS.plural:
                meta = {
                    name: value for name, value in body["metadata"].items() if name not in ("resourceVersion", "uid")
                }
                body = {**body, "metadata": meta}
            return await replace(kind, body, namespace, **options)

        with mock.patch.object(self._cluster, "replace", without_version):
            await write(self, claim)

    async def held(self: SnapshotReconciler, claim: Any) -> None:
        await put(self, hold, claim)

    async def released(self: SnapshotReconciler, key: Any) -> None:
        await put(self, release, key)

    return mock.patch.multiple(SnapshotReconciler, hold_claim=held, release_claim=released)


def _marks_of_groups_are_believed() -> contextlib.AbstractContextManager[Any]:
    """Memory: a group whose content has no mark was never asked for, and a marked one is not marked again."""
    is_marked = snapshotter_decide.is_marked

    def believed(obj: Any, mark: str) -> bool:
        return isinstance(obj, VolumeGroupSnapshotContent) or is_marked(obj, mark)

    return mock.patch.object(snapshotter_decide, "is_marked", believed)


def _claims_grow_by_name() -> contextlib.AbstractContextManager[Any]:
    """Uid: a write of the resizer is for whatever claim has the name."""

    def current(self: ObjectWriter[Any], obj: Any) -> Any:
        found = self._cache.store.get(key_of(obj))
        return obj if found is None else found

    return mock.patch.object(ObjectWriter, "current", current)


def _ends_are_untold() -> contextlib.AbstractContextManager[Any]:
    """Memory: who has told that it leads never tells that it leads no more."""
    real = LeadershipReporter.leads

    def leads(self: LeadershipReporter, leads: bool, lease: Any) -> None:
        if leads:
            real(self, leads, lease)

    return mock.patch.object(LeadershipReporter, "leads", leads)


def _folders_come_first() -> contextlib.AbstractContextManager[Any]:
    """Memory: the folder itself gets the group before what is in it. A walk that ends in between is not made again: it
    is right already.
    """
    run = Walk.run

    def hasty(self: Any) -> None:
        with contextlib.suppress(OSError), fs_group._opened(self._folder) as root:
            if self._policy == ON_ROOT_MISMATCH and fs_group._is_right(os.fstat(root), self._group):
                return
            fs_group._change(root, "", self._group)
        with mock.patch.object(self, "_policy", "Always"):
            run(self)

    return mock.patch.object(Walk, "run", hasty)


def _attachments_are_read_once() -> contextlib.AbstractContextManager[Any]:
    """Memory: what was read for an earlier pod holds for the next one, also where nothing of the volume was mounted in
    between.
    """
    return mock.patch.object(VolumeState, "is_mounted", property(lambda self: True))


def _silent_nodes_have_looked() -> contextlib.AbstractContextManager[Any]:
    """A Node that was made anew says what is mounted there within a minute, though its kubelet is silent."""
    real = attachdetach_assemble.unsaid_s

    def unsaid_s(node: Any, attachment: Any, record: Any, moment: Any, **facts: Any) -> float:
        left_s = real(node, attachment, record, moment, **facts)
        made_s = 0.0 if node is None else parse_rfc3339(node.metadata.creation_timestamp)
        return left_s if left_s < math.inf else max(0.0, made_s + UNSAID_S - moment.wall_s)

    return mock.patch.object(attachdetach_assemble, "unsaid_s", unsaid_s)


BUGS: Final[Mapping[str, Bug]] = {
    "provisioner/sources-are-strangers": Bug(_sources_are_strangers, {"source-held"}),
    "node/doubts-end-with-the-process": Bug(_doubts_end_with_the_process, set()),
    "node/attachments-read-once": Bug(_attachments_are_read_once, {"context-wrong"}),
    "node/folders-first": Bug(_folders_come_first, set()),
    "plane/lost-posts-failed": Bug(_lost_posts_failed, set()),
    "plane/lost-deletes-failed": Bug(_lost_deletes_failed, set()),
    "plane/silent-nodes-looked": Bug(_silent_nodes_have_looked, {"I6"}),
    "attacher/ends-are-untold": Bug(_ends_are_untold, {"leads-told-wrong"}),
    "attacher/ends-wake-nobody": Bug(_ends_wake_nobody, {"published-unwanted", "volume-left"}),
    "attacher/places-free-nobody": Bug(_places_free_nobody, set()),
    "provisioner/namesakes-are-others": Bug(_namesakes_are_others, {"intent-left", "leaked"}),
    "snapshots/made-contents-are-failures": Bug(_made_contents_are_failures, {"unready"}),
    "snapshots/claims-are-let-go-by-name": Bug(_claims_are_let_go_by_name, set()),
    "snapshots/marks-of-groups-believed": Bug(_marks_of_groups_are_believed, {"create-unmarked"}),
    "resizer/claims-grow-by-name": Bug(_claims_grow_by_name, set()),
}
