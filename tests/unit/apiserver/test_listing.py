"""Which moment a list shows and where a watch starts: the tables of the specification."""

from __future__ import annotations

import base64
import json

import pytest

from mooring.api.meta import Key
from mooring.apiserver.listing import (
    NEWEST,
    ContinueExpired,
    ListOptions,
    Moment,
    WatchOptions,
    WatchStart,
    moment_of,
    token_after,
    watch_start_of,
)
from mooring.kube.errors import ApiError, BadRequest, Gone, Invalid, ServerError
from tests.support.rows import each_row

CURRENT, FLOOR = 100, 10


def moment(version: str = "", match: str = "", limit: int = 0, token: str = "") -> Moment:
    return moment_of(ListOptions(version, match, limit, token), CURRENT, FLOOR, namespaced=True)


def test_without_a_cache_version_0_knows_a_limit() -> None:
    assert Moment(limit=5) == moment_of(ListOptions("0", limit=5), CURRENT, FLOOR, namespaced=True, cached=False)


LISTS: dict[tuple[str, str, int], Moment] = {
    ("", "", 0): Moment(),
    ("", "", 5): Moment(limit=5),
    ("0", "", 5): Moment(),
    ("0", "NotOlderThan", 5): Moment(),
    ("50", "", 0): Moment(),
    ("50", "", 5): Moment(50, limit=5),
    ("50", "NotOlderThan", 5): Moment(limit=5),
    ("50", "Exact", 0): Moment(50),
    ("100", "Exact", 5): Moment(100, limit=5),
    ("9", "NotOlderThan", 0): Moment(),
}


@each_row("row", LISTS)
def test_a_list_shows_the_moment_it_is_asked_for(row: tuple[str, str, int]) -> None:
    assert LISTS[row] == moment(*row)


@each_row(
    ("row", "error"),
    [
        (("9", "Exact", 0), Gone),
        (("9", "", 5), Gone),
        (("101", "", 0), ServerError),
        (("101", "NotOlderThan", 0), ServerError),
        (("101", "Exact", 0), ServerError),
        (("", "NotOlderThan", 0), Invalid),
        (("", "Exact", 0), Invalid),
        (("0", "Exact", 0), Invalid),
        (("5", "Sometimes", 0), Invalid),
        (("x", "", 0), BadRequest),
        (("-1", "", 0), BadRequest),
        (("1.5", "", 0), BadRequest),
        (("²", "", 0), BadRequest),
        (("9" * 5000, "", 0), BadRequest),
    ],
)
def test_a_list_that_can_not_be_shown_is_refused(row: tuple[str, str, int], error: type[ApiError]) -> None:
    with pytest.raises(error):
        moment(*row)


KEY = Key("ns", "name")


def test_a_token_goes_on_after_its_key() -> None:
    token = token_after(KEY, 50, namespaced=True)
    assert Moment(50, KEY, 5) == moment(limit=5, token=token)
    assert Moment(50, KEY) == moment("0", limit=5, token=token)


def test_an_expired_token_offers_one_for_the_newest_state() -> None:
    with pytest.raises(ContinueExpired) as expired:
        moment(limit=5, token=token_after(KEY, 9, namespaced=True))
    assert (410, "Expired") == (expired.value.status_code, expired.value.reason)
    assert Moment(None, KEY, 5) == moment(limit=5, token=expired.value.continue_token)


def test_tokens_of_cluster_scoped_kinds_hold_the_name_alone() -> None:
    token = token_after(Key("", "a/b"), NEWEST, namespaced=False)
    assert "a/b\0" == json.loads(base64.urlsafe_b64decode(token + "=="))["start"]


@each_row(
    "content",
    [
        b"",
        b"nonsense",
        b'{"v":"meta.k8s.io/v1","rv":1}',
        b'{"v":"meta.k8s.io/v2","rv":50,"start":"a/b\\u0000"}',
        b'{"v":"meta.k8s.io/v1","rv":0,"start":"a/b\\u0000"}',
        b'{"v":"meta.k8s.io/v1","rv":-2,"start":"a/b\\u0000"}',
        b'{"v":"meta.k8s.io/v1","rv":50,"start":"a/b"}',
        b'{"v":"meta.k8s.io/v1","rv":50,"start":"b\\u0000"}',
        b'{"v":"meta.k8s.io/v1","rv":"50","start":"a/b\\u0000"}',
    ],
)
def test_a_bad_token_is_refused(content: bytes) -> None:
    with pytest.raises(BadRequest, match="continue key is not valid"):
        moment(token=base64.urlsafe_b64encode(content).decode() or "!")


def test_a_token_with_a_version_or_a_match_is_refused() -> None:
    token = token_after(KEY, 50, namespaced=True)
    with pytest.raises(BadRequest):
        moment("50", token=token)
    with pytest.raises(Invalid):
        moment("50", "Exact", token=token)


# watches


def start(version: str = "", initial: bool | None = None, match: str = "") -> WatchStart:
    return watch_start_of(WatchOptions(version, match, initial), CURRENT, FLOOR)


WATCHES: dict[tuple[str, bool | None, str], WatchStart] = {
    ("", None, ""): WatchStart(CURRENT, initial=True),
    ("0", None, ""): WatchStart(CURRENT, initial=True),
    ("50", None, ""): WatchStart(50, initial=False),
    ("10", None, ""): WatchStart(10, initial=False),
    ("500", None, ""): WatchStart(500, initial=False),
    ("", True, "NotOlderThan"): WatchStart(CURRENT, initial=True),
    ("0", True, "NotOlderThan"): WatchStart(CURRENT, initial=True),
    ("50", True, "NotOlderThan"): WatchStart(CURRENT, initial=True),
    ("", False, "NotOlderThan"): WatchStart(CURRENT, initial=False),
    ("0", False, "NotOlderThan"): WatchStart(CURRENT, initial=False),
    ("50", False, "NotOlderThan"): WatchStart(50, initial=False),
}


@each_row("row", WATCHES)
def test_a_watch_starts_where_it_is_asked_to(row: tuple[str, bool | None, str]) -> None:
    assert WATCHES[row] == start(*row)


@each_row(
    ("row", "error"),
    [
        (("9", None, ""), Gone),
        (("9", False, "NotOlderThan"), Gone),
        (("101", True, "NotOlderThan"), ServerError),
        (("", True, ""), Invalid),
        (("", False, ""), Invalid),
        (("", True, "Exact"), Invalid),
        (("", None, "NotOlderThan"), Invalid),
        (("abc", None, ""), BadRequest),
    ],
)
def test_a_watch_that_can_not_start_is_refused(row: tuple[str, bool | None, str], error: type[ApiError]) -> None:
    with pytest.raises(error):
        start(*row)
