"""A controller's own writes wake it not, but for what their answers show of others' changes."""

from __future__ import annotations

import pytest

from mooring.cluster.snapshots.controller import is_news
from mooring.kube.cache.informer import Cause, Change
from tests.support.builders import DELETED, Json, a_group_content, a_new_snapshot, typed

SNAPSHOT = a_new_snapshot(uid="uid-snap")


def news(old: Json, new: Json, cause: Cause = Cause.OWN_WRITE) -> bool:
    return is_news(Change(typed(old), typed(new), cause))


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(a_new_snapshot(uid="uid-snap", deletionTimestamp=DELETED), id="deleted"),
        pytest.param(a_new_snapshot(uid="uid-snap", snapshot_class="other"), id="another-class"),
        pytest.param(a_new_snapshot(uid="uid-another"), id="another-object"),
    ],
)
def test_the_answer_to_our_own_write_shows_the_work_of_others(new):
    assert news(SNAPSHOT, new)


def test_our_own_write_wakes_nobody():
    written = {**a_new_snapshot(uid="uid-snap", finalizers=["ours"]), "status": {"readyToUse": True}}
    assert not news(SNAPSHOT, written)
    assert news(SNAPSHOT, written, Cause.WATCH)
    assert not is_news(Change(None, typed(SNAPSHOT), Cause.OWN_WRITE))


def test_the_status_may_be_of_others():
    change = Change(typed(a_group_content()), typed(a_group_content(status={"readyToUse": True})), Cause.OWN_WRITE)
    assert (False, True) == (is_news(change), is_news(change, lambda content: content.status))
