"""Which changes wake a content. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.snapshot_names import BEING_CREATED, BEING_DELETED
from mooring.kube.cache.informer import Cause, Change
from mooring.sidecars.snapshotter.controller import is_news
from tests.support.builders import DELETED, typed
from tests.support.rows import each_row
from tests.unit.snapshotter.situations import CUT, UNREADY, a_made_content

BEFORE = {"resourceVersion": "1", "status": UNREADY}


def news(before: dict[str, Any] | None = None, cause: Cause = Cause.WATCH, **after: Any) -> bool:
    old = typed(a_made_content(**{**BEFORE, **(before or {})}))
    new = typed(a_made_content(**{**BEFORE, **(before or {}), "resourceVersion": "2", **after}))
    return is_news(Change(old, new, cause))


@each_row(
    "after",
    [
        pytest.param({"status": {**UNREADY, "restoreSize": 7}}, id="status"),
        pytest.param({"finalizers": ["others"]}, id="finalizers"),
        pytest.param({"annotations": {BEING_CREATED: "yes"}}, id="mark"),
        pytest.param({"managedFields": [{"manager": "m"}]}, id="managedFields"),
    ],
)
def test_S50_quiet_changes(after):
    assert not news(**after)


@each_row(
    "after",
    [
        pytest.param({"annotations": {BEING_DELETED: "yes"}}, id="deletion mark"),
        pytest.param({"annotations": {"example.com/note": "mine"}}, id="annotation"),
        pytest.param({"labels": {"a": "b"}}, id="label"),
        pytest.param({"policy": "Retain"}, id="policy"),
        pytest.param({"deletionTimestamp": DELETED}, id="deletion"),
        pytest.param({"status": CUT}, id="ready"),
        pytest.param({"resourceVersion": "1"}, id="resync"),
    ],
)
def test_S51_loud_changes(after):
    assert news(**after)


@each_row("version", ["0", "2"], ids=["older", "newer"])
def test_S51_a_set_back_of_the_server_wakes_what_is_unready_again(version):
    """Its list may be of a newer version by then."""
    assert news({"status": CUT}, status=UNREADY, resourceVersion=version)
    assert news({"status": UNREADY}, status=None, resourceVersion=version)


@each_row("cause", list(Cause))
def test_S51_an_older_version_is_always_news(cause):
    assert news(cause=cause, annotations={BEING_CREATED: "yes"}, resourceVersion="0")


def test_S50_our_own_writes_are_none():
    assert not news(cause=Cause.OWN_WRITE, annotations={BEING_CREATED: "yes"}, status=CUT, finalizers=["others"])


def test_the_answer_to_our_own_write_shows_the_work_of_others():
    assert news(cause=Cause.OWN_WRITE, annotations={BEING_DELETED: "yes"})
    assert news(cause=Cause.OWN_WRITE, deletionTimestamp=DELETED)


def test_a_new_content_is_news():
    assert is_news(Change(None, typed(a_made_content()), Cause.WATCH))
    assert is_news(Change(None, typed(a_made_content()), Cause.OWN_WRITE)), (
        "the answer to a write to a former one of its name showed it"
    )
