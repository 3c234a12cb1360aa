"""Views made of objects, for tables of (situation, decision) of one driver's snapshotter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mooring.api.snapshot_kinds import GROUPS, SINGLES
from mooring.api.snapshot_names import CONTENT_FINALIZER
from mooring.control.decision import Decision
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.sidecars.snapshotter.creation import Memory
from mooring.sidecars.snapshotter.decide import decide_content
from mooring.sidecars.snapshotter.decision import Action, NoteClass
from mooring.sidecars.snapshotter.options import SnapshotterOptions
from mooring.sidecars.snapshotter.view import CONTENT_INDEXES, View
from tests.support.builders import DRIVER, Json, a_new_content, a_snapshot_class, typed
from tests.support.constant_store import ConstantStore

CREATED_NS = 1_700_000_000 * 10**9
CUT = {"snapshotHandle": "h", "readyToUse": True, "creationTime": CREATED_NS, "restoreSize": 1 << 30}
UNREADY = {**CUT, "readyToUse": False}


def a_made_content(**more: Any) -> Json:
    """As the snapshot controller leaves it: with class, finalizer and uid."""
    return a_new_content(
        **{"volumeSnapshotClassName": "snapclass", "finalizers": [CONTENT_FINALIZER], "uid": "content-uid", **more}
    )


def a_view(
    *contents: Json,
    classes: Iterable[Json] | None = None,
    memory: Memory | None = None,
    group_contents: Iterable[Json] = (),
    group_classes: Iterable[Json] = (),
    **more: Any,
) -> View:
    """more: capabilities of the driver, and options."""
    capable = {key: more.pop(key) for key in ("lists_snapshots", "gets_snapshots") if key in more}
    return View(
        DriverCapabilities(name=DRIVER, snapshots=True, **capable),
        ConstantStore(map(typed, contents), CONTENT_INDEXES),
        ConstantStore(map(typed, [a_snapshot_class()] if classes is None else classes)),
        memory or Memory(),
        SnapshotterOptions(**more),
        ConstantStore(map(typed, group_contents), CONTENT_INDEXES),
        ConstantStore(map(typed, group_classes)),
    )


def decided(content: Json, *, now: float = 0.0, **view: Any) -> Decision[Action]:
    """The decision for one content."""
    return decide_content(a_view(content, **view), SINGLES, content["metadata"]["name"], now)


def group_decided(content: Json, **view: Any) -> Decision[Action]:
    """The decision for the content of a group."""
    return decide_content(
        a_view(group_contents=[content], groups=True, **view), GROUPS, content["metadata"]["name"], 0.0
    )


def steps(decision: Decision[Action]) -> list[type]:
    return [type(action) for action in decision.actions if not isinstance(action, NoteClass)]


def the(decision: Decision[Action], kind: type) -> Any:
    """The one action of this kind."""
    [found] = [action for action in decision.actions if isinstance(action, kind)]
    return found
