"""Views made of objects, for tables of (situation, decision). Snapshot `snap` is of claim `claim`, whose volume `pv`
has handle `vol`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mooring.api.meta import Key
from mooring.api.snapshot_kinds import SINGLES
from mooring.cluster.snapshots.decide import decide_snapshot
from mooring.cluster.snapshots.decision import Action, Failure
from mooring.cluster.snapshots.view import (
    CLAIM_INDEXES,
    CONTENT_INDEXES,
    GROUP_CONTENT_INDEXES,
    GROUP_INDEXES,
    NAMESPACE_INDEX,
    SNAPSHOT_INDEXES,
    VOLUME_INDEXES,
    View,
)
from mooring.control.decision import Decision
from tests.support.builders import NS, Json, a_bound_claim, a_new_content, a_new_snapshot, a_pv, a_snapshot_class, typed
from tests.support.constant_store import ConstantStore

SNAP = Key(NS, "snap")
CLAIM = Key(NS, "claim")
CONTENT = "snapcontent-uid-snap"
OWNER = {
    "apiVersion": "groupsnapshot.storage.k8s.io/v1",
    "kind": "VolumeGroupSnapshot",
    "name": "group",
    "uid": "uid-group",
}
"""The group, as its members name it."""


def a_view(
    *,
    snapshots: Iterable[Json] = (),
    contents: Iterable[Json] = (),
    classes: Iterable[Json] | None = None,
    claims: Iterable[Json] | None = None,
    volumes: Iterable[Json] | None = None,
    nodes: Iterable[Json] = (),
    groups: Iterable[Json] = (),
    group_contents: Iterable[Json] = (),
    group_classes: Iterable[Json] = (),
    **options: bool,
) -> View:
    """Class, claim and volume are those of the base unless given."""
    return View(
        ConstantStore(map(typed, snapshots), SNAPSHOT_INDEXES),
        ConstantStore(map(typed, contents), CONTENT_INDEXES),
        ConstantStore(map(typed, [a_snapshot_class()] if classes is None else classes)),
        ConstantStore(
            map(typed, [a_bound_claim()] if claims is None else claims), {**CLAIM_INDEXES, **NAMESPACE_INDEX}
        ),
        ConstantStore(map(typed, [a_volume()] if volumes is None else volumes), VOLUME_INDEXES),
        ConstantStore(map(typed, nodes)),
        ConstantStore(map(typed, groups), GROUP_INDEXES),
        ConstantStore(map(typed, group_contents), GROUP_CONTENT_INDEXES),
        ConstantStore(map(typed, group_classes)),
        **options,
    )


def a_volume(handle: str = "vol", **more: Any) -> Json:
    return a_pv("pv", handle, **{"claim": a_bound_claim(), **more})


def a_snap(**more: Any) -> Json:
    return a_new_snapshot(**{"uid": "uid-snap", **more})


def its_content(**more: Any) -> Json:
    return a_new_content(CONTENT, **more)


def decided(
    snapshot: Json, *contents: Json, waited_s: float = 10.0, others: Iterable[Json] = (), **view: Any
) -> Decision[Action]:
    """The decision for the snapshot `snap`."""
    return decide_snapshot(a_view(snapshots=[snapshot, *others], contents=contents, **view), SINGLES, SNAP, waited_s)


def steps(decision: Decision[Action]) -> list[type]:
    return [type(action) for action in decision.actions]


def the(decision: Decision[Action], kind: type) -> Any:
    """The one action of this kind."""
    [found] = [action for action in decision.actions if isinstance(action, kind)]
    return found


def failure(decision: Decision[Action]) -> Failure:
    assert isinstance(decision.problem, Failure)
    return decision.problem


def refusal(decision: Decision[Action]) -> tuple[str, str]:
    return failure(decision).event, failure(decision).error


def also(decision: Decision[Action]) -> tuple[str, str] | None:
    """Reason and text of the second event."""
    return failure(decision).also


def with_status(snapshot: Json, status: Mapping[str, Any]) -> Json:
    return {**snapshot, "status": dict(status)}
