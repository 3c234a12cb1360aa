"""Worse parts of the controllers of snapshots and groups: by name the fields of `bugs.Bug`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final
from unittest import mock

import msgspec

from mooring.api.snapshot_kinds import GROUPS, row_of
from mooring.cluster.snapshots import decide as snapshot_decide
from mooring.cluster.snapshots import decide_deletion, decide_protection, members
from mooring.cluster.snapshots.reasons import ContentDeleting
from mooring.control.decision import Decision
from mooring.kube.cluster import Patch
from mooring.kube.patch import merge_patch
from mooring.sidecars.snapshotter import decide as snapshotter_decide
from mooring.sidecars.snapshotter import reconcile as snapshotter_reconcile
from mooring.sidecars.snapshotter.decision import Unmark
from mooring.sidecars.snapshotter.reasons import Foreign
from mooring.sidecars.snapshotter.reconcile import Reconciler
from mooring.sidecars.snapshotter.requests import Made
from tests.sim.planting import both
from tests.sim.snapshots.bugs import BUGS as SNAPSHOTS
from tests.sim.snapshots.mended_bugs import MENDED

Planted = contextlib.AbstractContextManager[Any]


def _contents_forsaken_in_silence() -> Planted:
    """A content whose snapshot is gone waits for a word that nobody will say."""
    return mock.patch.object(decide_protection, "_waits_for_snapshot", return_value=Decision(ContentDeleting()))


def _group_contents_forsaken_in_silence() -> Planted:
    rooms = (snapshot_decide, decide_deletion)
    return both(*(mock.patch.object(room, "tell_forsaken", return_value=()) for room in rooms))


def _deletions_wait_in_silence() -> Planted:
    """A snapshot that is to go never says that it waits for its content."""
    return mock.patch.object(decide_deletion, "WAITS_S", 1e9)


def _foreign_classes_are_not_told() -> Planted:
    """A content whose class is another driver's is looked at by nobody, and nobody says so."""

    foreign = snapshotter_decide._decide_foreign

    def decide(view: Any, content: Any, now: float) -> Any:
        if row_of(content) is GROUPS:
            return foreign(view, content, now)
        return Decision(Foreign(view.class_of(content).metadata.name))

    return mock.patch.object(snapshotter_decide, "_decide_foreign", decide)


def _marks_hold_nothing() -> Planted:
    """A content may vanish from under the call that makes its snapshots."""
    judged, patch = snapshotter_reconcile.mark, Reconciler.patch

    def marked(content: Any) -> Patch:
        if row_of(content) is not GROUPS:
            return judged(content)
        return merge_patch({"metadata": {"annotations": {GROUPS.being_created: "yes"}}}, of=content)

    async def patched(
        self: Reconciler, content: Any, change: Patch, subresource: str = "", *, strictly: bool = False
    ) -> None:
        is_loose = row_of(content) is GROUPS and not subresource
        await patch(self, content, change, subresource, strictly=strictly and not is_loose)

    return both(
        mock.patch.object(snapshotter_reconcile, "mark", marked), mock.patch.object(Reconciler, "patch", patched)
    )


def _classes_are_not_compared() -> Planted:
    """A snapshot binds a content whose class is another driver's."""
    return mock.patch.object(snapshot_decide, "_foreign_class", return_value=None)


def _members_are_free() -> Planted:
    """One snapshot of a group can be deleted alone."""
    return mock.patch.object(members, "IN_GROUP_FINALIZER", members.AS_SOURCE_FINALIZER)


def _groups_go_without_secret() -> Planted:
    real = Made.delete_group_request
    return mock.patch.object(Made, "delete_group_request", lambda self, secrets: real(self, {}))


def _groups_are_made_again() -> Planted:
    """A content keeps the mark of its creation when its group is deleted."""
    decide = snapshotter_decide.decide_deletion

    def marked(view: Any, content: Any, now: float) -> Any:
        decision = decide(view, content, now)
        if row_of(content) is not GROUPS:
            return decision
        return msgspec.structs.replace(
            decision, actions=tuple(one for one in decision.actions if not isinstance(one, Unmark))
        )

    return both(
        mock.patch.object(snapshotter_decide, "decide_deletion", marked), MENDED["deletions-remembered"].plant()
    )


BUGS: Final[Mapping[str, tuple[str, Callable[[], Planted], AbstractSet[str]]]] = {
    "empty-uids-tested": (
        "snapshots",
        SNAPSHOTS["empty-uids"].plant,
        {"silence"},
    ),
    "classes-uncompared": ("snapshots", _classes_are_not_compared, {"silence"}),
    "contents-forsaken": ("snapshots", _contents_forsaken_in_silence, {"silence"}),
    "deletions-wait": (
        "snapshots",
        _deletions_wait_in_silence,
        {"silence"},
    ),
    "foreign-classes-untold": ("snapshots", _foreign_classes_are_not_told, {"silence"}),
    "creations-unmarked": ("snapshots", SNAPSHOTS["creations-unmarked"].plant, {"create-unmarked"}),
    "policies-unread": ("snapshots", SNAPSHOTS["policies-unread"].plant, {"deleted-kept"}),
    "marks-stay": ("snapshots", SNAPSHOTS["marks-stay"].plant, {"mark-left"}),
    "group-contents-forsaken": ("groups", _group_contents_forsaken_in_silence, {"silence"}),
    "members-free": ("groups", _members_are_free, {"member-free"}),
    "groups-without-secret": ("groups", _groups_go_without_secret, {"secret-left-out"}),
    "groups-made-again": ("groups", _groups_are_made_again, {"made-again"}),
    "marks-hold-nothing": (
        "groups",
        _marks_hold_nothing,
        {"leaked"},
    ),
}
