"""Bugs to plant in snapshot controller and snapshotter, each of which the simulation must find."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final
from unittest import mock

import msgspec

from mooring.api import snapshot_names as names
from mooring.api.meta import key_of
from mooring.api.snapshot_kinds import GROUPS, SINGLES, Row, row_of
from mooring.cluster.snapshots import controller, decide_protection
from mooring.cluster.snapshots import reconcile as controller_reconcile
from mooring.cluster.snapshots.decision import UnmarkDeleted
from mooring.cluster.snapshots.reconcile import Reconciler as ControllerReconciler
from mooring.kube.cache.informer import Cause
from mooring.kube.cluster import Patch
from mooring.kube.patch import merge_patch, remove_finalizer
from mooring.sidecars.snapshotter import decide, decide_after, decide_after_group, reconcile, view
from mooring.sidecars.snapshotter.creation import Outcome
from mooring.sidecars.snapshotter.decide_after import After, after_created, after_refused, refused
from mooring.sidecars.snapshotter.decide_after_group import Matching
from mooring.sidecars.snapshotter.reconcile import Reconciler
from mooring.sidecars.snapshotter.view import is_given_up
from tests.sim.planting import Bug, both, no_back_off, set_backs_are_not_noticed
from tests.sim.snapshots.mended_bugs import MENDED


def _creations_are_not_marked() -> contextlib.AbstractContextManager[Any]:
    """The driver is asked before the content says so."""
    mark = Reconciler._mark

    async def unless_single(self: Reconciler, content: Any) -> None:
        if row_of(content) is not SINGLES:
            await mark(self, content)

    return mock.patch.object(Reconciler, "_mark", unless_single)


def _timeouts_are_final() -> contextlib.AbstractContextManager[Any]:
    """A call that was not answered in time is taken for not done."""

    def refused(content: Any, order: Any, error: Any, outcome: Any) -> Any:
        found, going = after_refused(content, order, error, outcome), is_given_up(content)
        if row_of(content) is GROUPS:
            return found
        return msgspec.structs.replace(found, unmarks=True, again=going, failure=None if going else found.failure)

    return mock.patch.object(reconcile, "after_refused", refused)


def _refusals_are_proof() -> contextlib.AbstractContextManager[Any]:
    """A driver that refuses a repeated request is taken to have made nothing by the first."""

    return _proof_of(SINGLES)


def _refusals_of_groups_are_proof() -> contextlib.AbstractContextManager[Any]:
    return _proof_of(GROUPS)


def _proof_of(row: Row) -> contextlib.AbstractContextManager[Any]:
    def refused(content: Any, order: Any, error: Any, outcome: Any) -> Any:
        is_proof = row_of(content) is row and error.final and not error.answered
        return after_refused(content, order, error, Outcome.NOTHING if is_proof else outcome)

    return mock.patch.object(reconcile, "after_refused", refused)


def _spellings_are_strange() -> contextlib.AbstractContextManager[Any]:
    """A volume that the driver names in its own way is taken for another one."""

    def strange(content: Any, snapshot: Any, now_ns: int) -> Any:
        if content.spec.source.volume_handle not in (None, snapshot.source_volume_id):
            return After(failure=refused(content, "a snapshot of another volume"))
        return after_created(content, snapshot, now_ns)

    return mock.patch.object(reconcile, "after_created", strange)


def _groups_are_not_matched() -> contextlib.AbstractContextManager[Any]:
    """The snapshots of a group keep the names that the driver has for their volumes."""

    def unmatched(wanted: Any, snapshots: Any) -> Any:
        return Matching(tuple(one.source_volume_id for one in snapshots))

    return mock.patch.object(decide_after_group, "matched", unmatched)


def _policies_are_not_read() -> contextlib.AbstractContextManager[Any]:
    """A content that goes takes its snapshot along, whatever its policy says."""
    decided = decide.decide_deletion

    def deleting(view: Any, content: Any, now: float) -> Any:
        if row_of(content) is GROUPS:
            return decided(view, content, now)
        return decided(
            view,
            msgspec.structs.replace(content, spec=msgspec.structs.replace(content.spec, deletion_policy="Delete")),
            now,
        )

    return both(
        mock.patch.object(decide, "decide_deletion", deleting), mock.patch.object(reconcile, "DELETE_POLICY", mock.ANY)
    )


def _answers_wake_nobody() -> contextlib.AbstractContextManager[Any]:
    """What the answer to a write of the controller's own shows of others' changes is not noticed."""
    return mock.patch.object(controller, "is_news", lambda change, also=None: change.cause is not Cause.OWN_WRITE)


def _made_is_ready() -> contextlib.AbstractContextManager[Any]:
    """A snapshot that is made counts as ready, though the driver is still cutting it."""
    learnt = decide_after._learnt

    def ready(content: Any, handle: str, snapshot: Any, *more: Any, **fields: Any) -> Any:
        snapshot.ready_to_use = True
        return learnt(content, handle, snapshot, *more, **fields)

    return mock.patch.object(decide_after, "_learnt", ready)


def _claims_are_not_released() -> contextlib.AbstractContextManager[Any]:
    return mock.patch.object(ControllerReconciler, "release_claim", mock.AsyncMock())


def _marks_stay() -> contextlib.AbstractContextManager[Any]:
    """A content that was kept and is bound again is still marked as being deleted."""
    perform, bound = ControllerReconciler._perform, controller_reconcile.bound

    async def performed(self: ControllerReconciler, action: Any, claims: Any) -> None:
        if not isinstance(action, UnmarkDeleted) or row_of(action.content) is GROUPS:
            await perform(self, action, claims)

    def bound_alone(content: Any, uid: str, class_name: str) -> Patch:
        if row_of(content) is GROUPS:
            return bound(content, uid, class_name)
        return merge_patch({"spec": {"volumeSnapshotRef": {"uid": uid}}}, of=content)

    return both(
        mock.patch.object(ControllerReconciler, "_perform", performed),
        mock.patch.object(controller_reconcile, "bound", bound_alone),
    )


def _the_marked_keep_nothing() -> contextlib.AbstractContextManager[Any]:
    """A content that was kept does not stand for its snapshot."""

    kept = view.keeps

    def keeps(content: Any) -> bool:
        if row_of(content) is GROUPS:
            return kept(content)
        return not names.is_marked(content, names.BEING_DELETED) and not view.is_going(content)

    return mock.patch.object(view, "keeps", keeps)


def _only_snapshots_need_claims() -> contextlib.AbstractContextManager[Any]:
    """A claim is let go with the deletion of its last snapshot, whatever the driver is doing."""

    def user(view: Any, claim: Any) -> str:
        return next((one.metadata.name for one in view.unready_of(key_of(claim))), "")

    return both(
        mock.patch.object(decide_protection, "user_of", user), mock.patch.object(controller_reconcile, "user_of", user)
    )


def _removals_are_not_tested() -> contextlib.AbstractContextManager[Any]:
    """Finalizers are removed by their places, whatever stands there by then."""

    def untested(*args: Any) -> Patch:
        patch = remove_finalizer(*args)
        return Patch(patch.type, [step for step in patch.body if step["op"] != "test"])

    return both(*(mock.patch.object(room, "remove_finalizer", untested) for room in (controller_reconcile, reconcile)))


BUGS: Final[Mapping[str, Bug]] = {
    "creations-unmarked": Bug(_creations_are_not_marked, {"create-unmarked"}),
    "timeouts-final": Bug(_timeouts_are_final, {"leaked", "left-behind", "create-unmarked"}),
    "refusals-proof": Bug(_refusals_are_proof, {"leaked", "left-behind", "create-unmarked"}),
    "group-refusals-proof": Bug(_refusals_of_groups_are_proof, {"leaked", "left-behind", "create-unmarked"}),
    "spellings-strange": Bug(_spellings_are_strange, {"unready"}),
    "groups-unmatched": Bug(_groups_are_not_matched, {"members-missing"}),
    "policies-unread": Bug(_policies_are_not_read, {"deleted-kept"}),
    "answers-wake-nobody": Bug(_answers_wake_nobody, {"left"}),
    "made-is-ready": Bug(_made_is_ready, {"ready-lies"}),
    "claims-held": Bug(_claims_are_not_released, {"claim-held"}),
    "marks-stay": Bug(_marks_stay, {"deleted-wanted", "content-left"}),
    "marked-keep-nothing": Bug(_the_marked_keep_nothing, {"deleted-wanted", "deleted-kept"}),
    "only-snapshots-need-claims": Bug(_only_snapshots_need_claims, {"claim-let-go"}),
    "removals-untested": Bug(_removals_are_not_tested, {"foreign-touched"}),
    "set-back-unnoticed": Bug(set_backs_are_not_noticed, {"unready", "left", "content-left", "unsettled"}),
    "no-back-off": Bug(no_back_off, {"hot-loop"}),
    **MENDED,
}
