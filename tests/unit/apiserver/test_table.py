"""A kind's objects and history: order, old moments, and the bounds on what is remembered."""

from __future__ import annotations

import gc

import pytest

from mooring.api.meta import Key
from mooring.apiserver.listing import ListOptions, ListScope, scope_of
from mooring.apiserver.resource import Resource
from mooring.apiserver.rules import CONFIG_MAPS, LEASES, SECRETS, SERVICE_ACCOUNTS, VOLUME_ATTACHMENTS
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import HistoryLimits, StoredChange
from mooring.kube.cluster import EventType
from mooring.kube.errors import Gone
from tests.support.builders import a_secret, a_va
from tests.support.rows import each_row
from tests.unit.apiserver.objects import NOW, Json, a_store, create, patch


def test_items_are_ordered_by_namespace_and_name(store: ObjectStore) -> None:
    for namespace, name in [
        ("kube-system", "a"),
        ("default", "b"),
        ("default", "a-"),
        ("default", "a.b"),
        ("default", "a"),
    ]:
        create(store, SECRETS, a_secret(f"{name}x"), namespace)
    found = [stored.key for stored in store.list(SECRETS, ListScope()).items]
    assert found == sorted(found)
    assert 5 == len(found)
    assert [Key("kube-system", "ax")] == [stored.key for stored in store.list(SECRETS, ListScope("kube-system")).items]
    assert () == store.list(SECRETS, ListScope("kube")).items


def test_an_old_moment_is_todays_list_with_later_changes_taken_back(store: ObjectStore) -> None:
    for name in "ac":
        create(store, VOLUME_ATTACHMENTS, a_va(name))
    then = store.version
    before = {stored.key.name: stored.body for stored in store.list(VOLUME_ATTACHMENTS, ListScope()).items}
    create(store, VOLUME_ATTACHMENTS, a_va("b"))
    patch(store, VOLUME_ATTACHMENTS, Key("", "a"), {"metadata": {"labels": {"x": "y"}}})
    store.delete(VOLUME_ATTACHMENTS, Key("", "c"), NOW)
    create(store, VOLUME_ATTACHMENTS, a_va("c"))
    store.delete(VOLUME_ATTACHMENTS, Key("", "b"), NOW)
    exactly = ListOptions(str(then), "Exact")
    assert before == {
        stored.key.name: stored.body for stored in store.list(VOLUME_ATTACHMENTS, ListScope(), exactly).items
    }


def test_what_goes_while_objects_are_read_is_left_out(store: ObjectStore) -> None:
    """As the loop's writes do under a thread that looks for the default class."""
    for name in "abcd":
        create(store, VOLUME_ATTACHMENTS, a_va(name))
    then, table = store.version, store.table(VOLUME_ATTACHMENTS)
    patch(store, VOLUME_ATTACHMENTS, Key("", "a"), {"metadata": {"labels": {"x": "y"}}})
    now, before = iter(table.items()), iter(table.items_at(then))
    assert ["a", "a"] == [next(now).key.name, next(before).key.name]
    store.delete(VOLUME_ATTACHMENTS, Key("", "b"), NOW)
    assert [["c", "d"]] * 2 == [[stored.key.name for stored in found] for found in (now, before)]


def test_pages_go_on_where_a_deleted_object_was(store: ObjectStore) -> None:
    for name in "abcd":
        create(store, VOLUME_ATTACHMENTS, a_va(name))
    first = store.list(VOLUME_ATTACHMENTS, ListScope(), ListOptions(limit=2))
    assert 2 == first.remaining
    store.delete(VOLUME_ATTACHMENTS, Key("", "b"), NOW)
    rest = store.list(VOLUME_ATTACHMENTS, ListScope(), ListOptions(limit=9, continue_token=first.continue_token))
    assert ["c", "d"] == [stored.key.name for stored in rest.items]
    assert ("", None) == (rest.continue_token, rest.remaining)


def test_remaining_is_not_told_with_a_selector(store: ObjectStore) -> None:
    for name in "abc":
        create(store, VOLUME_ATTACHMENTS, a_va(name))
    scope = scope_of(VOLUME_ATTACHMENTS, None, "", "metadata.name!=a")
    page = store.list(VOLUME_ATTACHMENTS, scope, ListOptions(limit=1))
    assert page.continue_token
    assert page.remaining is None


@each_row(
    ("limits", "kept"),
    [
        (HistoryLimits(changes_max=3), 3),
        (HistoryLimits(bytes_max=1300), 3),
        (HistoryLimits(age_s_max=25.0), 3),
        (HistoryLimits(), 11),
    ],
    ids=["count", "bytes", "age", "roomy"],
)
def test_history_is_bounded_by_count_bytes_and_age(limits: HistoryLimits, kept: int) -> None:
    store = a_store(limits)
    create(store, VOLUME_ATTACHMENTS, a_va("va"))
    for number in range(10):
        patch(
            store,
            VOLUME_ATTACHMENTS,
            Key("", "va"),
            {"metadata": {"labels": {"n": str(number)}}},
            now=NOW + 10 * number,
        )
    history = store.table(VOLUME_ATTACHMENTS).history
    assert kept == len(history)
    assert kept == len(history.after(history.floor))
    assert store.version == history.after(history.floor)[-1].rv
    if kept < 11:
        with pytest.raises(Gone, match=r"too old resource version: 6 \(\d+\)"):
            store.list(VOLUME_ATTACHMENTS, ListScope(), ListOptions("6", "Exact"))


@each_row(
    ("limits", "count", "least", "most"),
    [(HistoryLimits(changes_max=2000), 3900, 2000, 3000), (HistoryLimits(changes_max=20), 100, 20, 23)],
)
def test_what_is_forgotten_takes_no_memory(limits: HistoryLimits, count: int, least: int, most: int) -> None:
    """Few changes may be large ones."""
    store = a_store(limits)
    create(store, VOLUME_ATTACHMENTS, a_va("forgetful"))
    for number in range(count):
        patch(store, VOLUME_ATTACHMENTS, Key("", "forgetful"), {"metadata": {"labels": {"n": str(number)}}})
    gc.collect()
    mine = [
        found for found in gc.get_objects() if isinstance(found, StoredChange) and found.key == Key("", "forgetful")
    ]
    assert least <= len(mine) <= most


def test_a_quiet_kind_forgets_by_age_when_it_is_swept() -> None:
    store = a_store(HistoryLimits(age_s_max=60.0))
    create(store, VOLUME_ATTACHMENTS, a_va("va"))
    store.sweep(NOW + 59)
    assert 1 == len(store.table(VOLUME_ATTACHMENTS).history)
    store.sweep(NOW + 61)
    assert 0 == len(store.table(VOLUME_ATTACHMENTS).history)
    assert store.version == store.table(VOLUME_ATTACHMENTS).history.floor


def test_all_kinds_together_remember_no_more_than_a_bound() -> None:
    """The busiest lose first; a quiet one keeps what it has."""
    store = a_store(HistoryLimits(bytes_max=40_000, sum_bytes_max=80_000))
    kinds = [SECRETS, CONFIG_MAPS, LEASES, SERVICE_ACCOUNTS]
    for number in range(3):
        patch_or_make(store, VOLUME_ATTACHMENTS, a_va("quiet", labels={"n": str(number)}), "")
    quiet = len(store.table(VOLUME_ATTACHMENTS).history)
    for number in range(400):
        kind = kinds[number // 100]
        body = {"metadata": {"name": "busy", "annotations": {"n": f"{number} " + "x" * 1000}}}
        patch_or_make(store, kind, body, "default")
        histories = [store.table(each).history for each in (*kinds, VOLUME_ATTACHMENTS)]
        assert sum(history.bytes_count for history in histories) <= 80_000
    assert quiet == len(store.table(VOLUME_ATTACHMENTS).history)
    assert all(len(history) > 5 for history in histories[:4]), "each keeps a share"
    with pytest.raises(Gone):
        store.list(SECRETS, ListScope(), ListOptions("6", "Exact"))


def patch_or_make(store: ObjectStore, resource: Resource, body: Json, namespace: str) -> None:
    key = Key(namespace, body["metadata"]["name"])
    if store.table(resource).get(key) is None:
        create(store, resource, body, namespace)
    else:
        patch(store, resource, key, body)


def test_one_kinds_storm_does_not_age_another() -> None:
    store = a_store(HistoryLimits(changes_max=5))
    create(store, SECRETS, a_secret("s"), "default")
    for number in range(20):
        create(store, VOLUME_ATTACHMENTS, a_va(f"va-{number}"))
    assert 0 == store.table(SECRETS).history.floor


@pytest.mark.slow
def test_a_long_history_is_found_by_version() -> None:
    store = a_store(HistoryLimits(changes_max=2000))
    create(store, VOLUME_ATTACHMENTS, a_va("va"))
    for number in range(5000):
        patch(store, VOLUME_ATTACHMENTS, Key("", "va"), {"metadata": {"labels": {"n": str(number)}}})
    history = store.table(VOLUME_ATTACHMENTS).history
    assert [store.version - 1, store.version] == [change.rv for change in history.after(store.version - 2)]
    assert 2000 == len(history)
    assert len(history._changes) < 2 * 2000 + 1025, "what is forgotten is let go"


def test_what_a_watcher_is_told_depends_on_its_selection(store: ObjectStore) -> None:
    create(store, VOLUME_ATTACHMENTS, a_va("va", labels={"x": "1"}))
    patch(store, VOLUME_ATTACHMENTS, Key("", "va"), {"metadata": {"labels": {"x": "2"}}})
    patch(store, VOLUME_ATTACHMENTS, Key("", "va"), {"metadata": {"labels": {"x": "1"}}})
    store.delete(VOLUME_ATTACHMENTS, Key("", "va"), NOW)
    changes = store.table(VOLUME_ATTACHMENTS).history.after(0)
    one = scope_of(VOLUME_ATTACHMENTS, None, "x=1", "")
    told = [change.seen_by(one.matches) for change in changes]
    assert [EventType.ADDED, EventType.DELETED, EventType.ADDED, EventType.DELETED] == [
        seen[0] for seen in told if seen
    ]
    left = told[1]
    assert left is not None
    assert ({"x": "1"}, changes[1].rv) == (left[1].labels, left[1].rv), "the old content, the new version"
    everything = [change.seen_by(ListScope().matches) for change in changes]
    assert ["ADDED", "MODIFIED", "MODIFIED", "DELETED"] == [seen[0].value for seen in everything if seen]
