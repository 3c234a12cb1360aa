"""Worse parts of the controllers of snapshots, which do not hear what they wait for: the resync alone tells them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final
from unittest import mock

from mooring.cluster.snapshots import controller, decide
from mooring.sidecars.snapshotter.controller import ContentController

Planted = contextlib.AbstractContextManager[Any]


def _members_go_unheard() -> Planted:
    """A group hears of members that come, and not of those that go."""
    groups_of = controller.groups_of
    return mock.patch.object(controller, "groups_of", lambda change: () if change.new is None else groups_of(change))


def _singles_go_unheard() -> Planted:
    """A group that is kept by the content of a single snapshot does not hear that this content is gone."""
    heard = ContentController._single_changed
    return mock.patch.object(
        ContentController, "_single_changed", lambda self, change: () if change.new is None else heard(self, change)
    )


def _lost_contents_protect_nothing() -> Planted:
    """A ready snapshot whose content is gone gets its torn finalizer back only when it is looked at again."""
    missing = decide._missing
    ready = decide._decide_ready

    def unprotected(*args: Any) -> Any:
        with mock.patch.object(decide, "_missing", lambda row, name, before=(): missing(row, name)):
            return ready(*args)

    return mock.patch.object(decide, "_decide_ready", unprotected)


BUGS: Final[Mapping[str, tuple[str, Callable[[], Planted], AbstractSet[str]]]] = {
    "members-go-unheard": ("groups", _members_go_unheard, {"late"}),
    "singles-go-unheard": ("groups", _singles_go_unheard, {"late"}),
    "lost-contents-protect-nothing": (
        "snapshots",
        _lost_contents_protect_nothing,
        {"late"},
    ),
}
