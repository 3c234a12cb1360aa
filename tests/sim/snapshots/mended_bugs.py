"""Mended defects of snapshot controller and snapshotter, planted again: each mend taken out. Beside those of
`bugs.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final
from unittest import mock

import msgspec

from mooring.api.meta import Key, is_deleting
from mooring.api.snapshot_kinds import GROUPS, SINGLES, is_content_ready, row_of
from mooring.cluster.snapshots import controller as controller_module
from mooring.cluster.snapshots import decide as controller_decide
from mooring.cluster.snapshots import decide_deletion, decide_protection
from mooring.cluster.snapshots import reconcile as controller_reconcile
from mooring.cluster.snapshots import view as controller_view
from mooring.cluster.snapshots.controller import SnapshotQueue
from mooring.cluster.snapshots.decision import BindContent
from mooring.cluster.snapshots.own_writes import UnseenWrites
from mooring.cluster.snapshots.reconcile import Reconciler as ControllerReconciler
from mooring.control.decision import Decision, Failed
from mooring.control.result import Stale
from mooring.kube.cache.informer import Cause
from mooring.kube.cluster import Patch
from mooring.kube.patch import json_patch, merge_patch, replace, test
from mooring.sidecars.snapshotter import controller as snapshotter_controller
from mooring.sidecars.snapshotter import decide, decide_after_group, reconcile
from mooring.sidecars.snapshotter.creation import Event, Memory, Outcome, State
from mooring.sidecars.snapshotter.decide_after_group import Matching
from mooring.sidecars.snapshotter.reconcile import Reconciler
from mooring.sidecars.snapshotter.telling import Telling
from mooring.sidecars.snapshotter.view import View
from tests.sim.planting import Bug, both


def _lost_unmarks_are_forgotten() -> contextlib.AbstractContextManager[Any]:
    """A removal of the mark whose answer was lost counts as not done: the driver is asked, and nothing says so."""
    change = Memory.change

    def forgetful(self: Memory, uid: str, **changes: Any) -> None:
        change(self, uid, **{key: value for key, value in changes.items() if key != "mark_lost"})

    return mock.patch.object(Memory, "change", forgetful)


def _empty_uids_are_tested_as_none() -> contextlib.AbstractContextManager[Any]:
    """A content with `uid: ""` is bound by a patch which tests that there is none, and whose refusal counts as a move
    of the content.
    """

    perform = ControllerReconciler._perform

    async def performed(self: ControllerReconciler, action: Any, claims: Any) -> None:
        if not isinstance(action, BindContent) or row_of(action.content) is GROUPS:
            await perform(self, action, claims)
            return
        content = action.content
        steps = [test("/metadata/uid", content.metadata.uid), test("/spec/volumeSnapshotRef/uid", None)]
        try:
            await self.write(content, json_patch([*steps, replace("/spec/volumeSnapshotRef/uid", action.uid)]))
        except Failed as error:
            raise Stale(str(error)) from error

    return mock.patch.object(ControllerReconciler, "_perform", performed)


def _classes_of_others_are_not_looked_at() -> contextlib.AbstractContextManager[Any]:
    """A content is bound whose class is another driver's: nobody ever looks at it."""
    return mock.patch.object(controller_decide, "_foreign_class", return_value=None)


def _retained_contents_keep_nothing() -> contextlib.AbstractContextManager[Any]:
    """What a group, or a single content, is deleted under is not asked for."""
    other_of = View.other_of

    def other(self: View, content: Any, handle: str) -> str:
        return "" if row_of(content) is GROUPS else other_of(self, content, handle)

    return mock.patch.multiple(View, other_of=other, single_of=lambda self, content: "")


def _bindings_are_not_looked_up() -> contextlib.AbstractContextManager[Any]:
    """A content that is not seen bound is taken for unbound when its snapshot goes."""
    return mock.patch.object(decide_deletion, "_may_be_bound", lambda view, snapshot, name: view.content(name) is None)


def _lost_writes_are_not_waited_for() -> contextlib.AbstractContextManager[Any]:
    """A snapshot is let go while a write of its content may still be carried out."""
    return _waits_for_none_of(str)


def _nothing_is_looked_up() -> contextlib.AbstractContextManager[Any]:
    """A content that the cache lacks is taken for none, though the process before may have made it a moment ago."""
    return mock.patch.object(controller_reconcile, "look_up", mock.AsyncMock())


def _groups_without_volumes_are_taken() -> contextlib.AbstractContextManager[Any]:
    """The snapshots of an imported group get objects by volumes that the driver does not tell."""
    return mock.patch.object(
        decide_after_group, "as_told", lambda some: Matching(tuple(one.source_volume_id for one in some))
    )


def _deletions_by_hand_wait_in_silence() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(
        decide_protection, "_waits_for_snapshot", return_value=Decision(decide_protection.why.ContentDeleting())
    )


def _groups_of_imports_wait_in_silence() -> contextlib.AbstractContextManager[Any]:
    """An imported snapshot of a group that the cluster does not have never says so."""
    return mock.patch.object(controller_decide, "_no_group", return_value=None)


def _members_hold_claims() -> contextlib.AbstractContextManager[Any]:
    """A member that was deleted before it got ready holds its claim as long as its group stays."""
    held = controller_view._claim_in_need

    def in_need(snapshot: Any) -> Any:
        if is_deleting(snapshot) and controller_view.is_member(snapshot) and not controller_view.is_ready(snapshot):
            alone = msgspec.structs.replace(snapshot.metadata, deletion_timestamp=None)
            return held(msgspec.structs.replace(snapshot, metadata=alone))
        return held(snapshot)

    return mock.patch.dict(controller_view.SNAPSHOT_INDEXES, {controller_view.BY_CLAIM: in_need})  # type: ignore[arg-type]


def _refused_statuses_are_silent() -> contextlib.AbstractContextManager[Any]:
    """A status that can't be written keeps the event about it away, too; and so it is with each refused write."""
    show = Telling.show

    async def shown(self: Telling, name: str, uid: str, failure: Any) -> None:
        save, tell, refused = self._save_error, self._once.tell, list[Exception]()

        async def noted(*args: Any) -> None:
            try:
                await save(*args)
            except Exception as error:
                refused.append(error)
                raise

        def told(*args: Any, **options: Any) -> bool:
            return bool(refused) or tell(*args, **options)

        with mock.patch.object(self, "_save_error", noted), mock.patch.object(self._once, "tell", told):
            await show(self, name, uid, failure)

    return both(mock.patch.object(Telling, "show", shown), mock.patch.object(Telling, "refused", mock.Mock()))


def _released_quietly() -> contextlib.AbstractContextManager[Any]:
    """A refused write of the snapshot controller that has no event of its own is only logged."""
    singles = controller_reconcile.REFUSALS[SINGLES.noun]
    kept = {kind: text for kind, text in singles.items() if kind.__name__ not in ("Release", "MarkDeleted")}
    return mock.patch.dict(controller_reconcile.REFUSALS, {SINGLES.noun: kept})  # type: ignore[arg-type]


def _marks_come_late() -> contextlib.AbstractContextManager[Any]:
    """Marks are patched whatever the content is like by then."""

    patch = Reconciler.patch

    def late(content: Any) -> Patch:
        return merge_patch({"metadata": {"annotations": {row_of(content).being_created: "yes"}}}, of=content)

    async def patched(
        self: Reconciler, content: Any, change: Patch, subresource: str = "", *, strictly: bool = False
    ) -> None:
        await patch(self, content, change, subresource, strictly=strictly and bool(subresource))

    return both(mock.patch.object(reconcile, "mark", late), mock.patch.object(Reconciler, "patch", patched))


def _unsaved_groups_are_deleted() -> contextlib.AbstractContextManager[Any]:
    """A group whose handle can't be saved is deleted, whoever else keeps a snapshot of it."""
    kept = Reconciler._is_kept

    def is_kept(self: Reconciler, content: Any, handle: str) -> bool:
        return row_of(content) is not GROUPS and kept(self, content, handle)

    return mock.patch.object(Reconciler, "_is_kept", is_kept)


def _deletions_without_secret_are_silent() -> contextlib.AbstractContextManager[Any]:
    decided = decide.decide_deletion

    def quiet(view: Any, content: Any, now: float) -> Any:
        found = decided(view, content, now)
        loud = "SnapshotDeletedWithoutSecret"
        return msgspec.structs.replace(
            found, actions=tuple(one for one in found.actions if getattr(one, "reason", "") != loud)
        )

    return mock.patch.object(decide, "decide_deletion", quiet)


def _coming_contents_need_no_claims() -> contextlib.AbstractContextManager[Any]:
    """A claim is let go while a content of it is being made, whose snapshot was torn away, or whose group was
    deleted.
    """
    return _waits_for_none_of(Key)


def _waits_for_none_of(kind: type) -> contextlib.AbstractContextManager[Any]:
    wait_s = UnseenWrites.wait_s

    def waited(self: UnseenWrites, needy: Any) -> float | None:
        return None if isinstance(needy, kind) else wait_s(self, needy)

    return mock.patch.object(UnseenWrites, "wait_s", waited)


def _deletions_are_remembered() -> contextlib.AbstractContextManager[Any]:
    """A snapshot that was deleted is made once more, and counts as deleted still."""
    advance, creation = Memory.advance, decide._decide_creation

    def remembering(self: Memory, uid: str, event: Event, *more: Any) -> Outcome:
        before = self.of(uid)
        outcome = advance(self, uid, event, *more)
        if before.state is State.DELETED:
            self.change(uid, state=State.DELETED, deleted_at=before.deleted_at)
        return outcome

    def made_again(view: View, content: Any, now: float) -> Any:
        uid, before = content.metadata.uid, view.memory.of(content.metadata.uid)
        view.memory.change(uid, state=State.PERHAPS)
        decision = creation(view, content, now)
        view.memory.change(uid, state=before.state)
        return decision

    return both(
        mock.patch.object(Memory, "advance", remembering),
        mock.patch.object(decide, "_decide_creation", made_again),
    )


def _releases_are_of_any_status() -> contextlib.AbstractContextManager[Any]:
    """A content is released whose handle was saved meanwhile, by a write whose answer was lost."""
    release = reconcile.release

    def untested(content: Any) -> Patch:
        patch = release(content)
        return Patch(patch.type, [step for step in patch.body if not step["path"].startswith("/status")])

    return mock.patch.object(reconcile, "release", untested)


def _what_is_unready_again_is_quiet() -> contextlib.AbstractContextManager[Any]:
    """A content that a set-back of the server made unready wakes nobody."""
    is_news = snapshotter_controller.is_news

    def quiet(change: Any) -> bool:
        old, new = change.old, change.new
        if (
            old is None
            or old.metadata.uid != new.metadata.uid
            or old.metadata.resource_version == new.metadata.resource_version
        ):
            return is_news(change)
        is_told = change.cause is not Cause.OWN_WRITE and is_content_ready(new) and not is_content_ready(old)
        return is_told or snapshotter_controller._quiet(old) != snapshotter_controller._quiet(new)

    return mock.patch.object(snapshotter_controller, "is_news", quiet)


def _looks_believe_the_cache() -> contextlib.AbstractContextManager[Any]:
    """An object that a cache of before a set-back of the server does not take is taken for none."""
    look_up = controller_reconcile.look_up

    async def believing(cluster: Any, cache: Any, look: Any) -> None:
        try:
            await look_up(cluster, cache, look)
        except Stale:
            if cache.store.get(look.key) is not None:
                raise

    return mock.patch.object(controller_reconcile, "look_up", believing)


def _waits_are_told_once() -> contextlib.AbstractContextManager[Any]:
    """An obstacle that no status shows is told once, and its Event ends."""
    return both(*(mock.patch.object(room, "TELL_S", None) for room in (controller_module, snapshotter_controller)))


def _late_errors_stay() -> contextlib.AbstractContextManager[Any]:
    """An error that came before the ready status, by a write that was given up, is seen by nobody."""
    return mock.patch.object(controller_module, "_has_late_error", return_value=False)


def _ready_groups_are_whole() -> contextlib.AbstractContextManager[Any]:
    """A group that is ready has all its members."""
    return mock.patch.object(controller_decide, "lost_members", return_value=())


def _ends_of_members_wake_no_group() -> contextlib.AbstractContextManager[Any]:
    """A content of a member that has gone wakes its snapshot alone."""
    return mock.patch.object(SnapshotQueue, "_member_content_changed", return_value=())


MENDED: Final[Mapping[str, Bug]] = {
    "late-errors": Bug(_late_errors_stay, {"error-left"}),
    "released-unread": Bug(_releases_are_of_any_status, {"left-behind"}),
    "looks-believe-caches": Bug(_looks_believe_the_cache, {"content-left"}),
    "told-once": Bug(_waits_are_told_once, {"silent"}),
    "member-ends-quiet": Bug(_ends_of_members_wake_no_group, {"members-missing"}),
    "empty-uids": Bug(_empty_uids_are_tested_as_none, {"unready", "silent", "hot-loop", "left"}),
    "groups-without-volumes": Bug(_groups_without_volumes_are_taken, {"members-missing", "left"}),
    "deletions-silent": Bug(_deletions_by_hand_wait_in_silence, {"silent"}),
    "members-hold-claims": Bug(_members_hold_claims, {"claim-held"}),
    "lost-writes": Bug(_lost_writes_are_not_waited_for, {"content-left", "left", "claim-held"}),
    "unready-again": Bug(_what_is_unready_again_is_quiet, {"claim-held"}),
    "ready-groups-whole": Bug(_ready_groups_are_whole, {"members-missing"}),
    "refusals-silent": Bug(_refused_statuses_are_silent, {"silent"}),
    "lost-unmarks": Bug(_lost_unmarks_are_forgotten, {"create-unmarked"}),
    "marks-late": Bug(_marks_come_late, {"mark-left", "create-unmarked", "leaked", "left-behind"}),
    "deletions-remembered": Bug(_deletions_are_remembered, {"left-behind"}),
    "coming-contents": Bug(_coming_contents_need_no_claims, {"claim-let-go"}),
    "foreign-classes": Bug(_classes_of_others_are_not_looked_at, {"silent", "unready"}),
    "groups-keep-nothing": Bug(_retained_contents_keep_nothing, {"deleted-wanted", "deleted-kept"}),
    "nothing-looked-up": Bug(_nothing_is_looked_up, {"content-left"}),
    "bindings-unseen": Bug(_bindings_are_not_looked_up, {"content-left"}),
    "no-group-silent": Bug(_groups_of_imports_wait_in_silence, {"silent"}),
    "releases-silent": Bug(_released_quietly, {"silent"}),
    "unsaved-groups": Bug(_unsaved_groups_are_deleted, {"deleted-wanted", "deleted-kept"}),
    "secretless-silent": Bug(_deletions_without_secret_are_silent, {"left-behind", "leaked"}),
}
