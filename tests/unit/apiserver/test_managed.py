"""The record of owners: read, kept up to date, bounded, written."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.rules.classes import STORAGE_CLASSES
from mooring.apiserver.server_side_apply import managed
from mooring.apiserver.server_side_apply.apply import LAST_APPLIED, apply
from mooring.apiserver.server_side_apply.fieldsets import NO_FIELDS, field_set, named
from mooring.apiserver.server_side_apply.managed import (
    SERVER,
    ManagedFieldsEntry,
    Writer,
    after_update,
    applier,
    read_entries,
    record_after,
    updater,
    written_entries,
)
from mooring.apiserver.server_side_apply.typed import Comparison
from mooring.kube.errors import Conflict
from tests.support.builders import DRIVER, Json, a_class
from tests.support.rows import each_row

V1 = "storage.k8s.io/v1"
A, B = named("a"), named("b")
NOW = "2024-01-01T00:00:00Z"


def entry(manager: str = "m", operation: str = "Update", **more: Any) -> Json:
    whole = {
        "manager": manager,
        "operation": operation,
        "apiVersion": V1,
        "time": NOW,
        "fieldsType": "FieldsV1",
        "fieldsV1": {A: {}},
    }
    return {**whole, **more}


def changed(*paths: str) -> Comparison:
    return Comparison(field_set(*((path,) for path in paths)), NO_FIELDS, NO_FIELDS)


def test_a_record_is_read_and_written() -> None:
    entries = [entry("b", "Apply"), entry("a"), entry("a", subresource="status")]
    assert entries == written_entries(read_entries(entries))


def test_appliers_come_first_and_the_oldest_before_the_younger() -> None:
    late = {"time": "2025-01-01T00:00:00Z"}
    entries = [entry("a", **late), entry("b"), entry("z", "Apply"), entry("y", "Apply", **late)]
    assert ["z", "y", "b", "a"] == [found["manager"] for found in written_entries(read_entries(entries))]


@each_row(
    "entries",
    [
        None,
        [],
        [{}],
        "text",
        [1],
        [entry(operation="Delete")],
        [entry(apiVersion="")],
        [entry(fieldsType="FieldsV2")],
        [entry(fieldsV1={"odd": {}})],
        [entry(fieldsV1=[])][:0],
    ],
)
def test_a_record_that_can_not_be_read_is_none(entries: Any) -> None:
    assert {} == read_entries(entries)


def test_an_applier_moves_on_with_the_version_and_an_updater_does_not() -> None:
    record = read_entries([entry("m", "Apply"), entry("m")])
    assert {applier("m"), updater("m", V1)} == set(record)
    assert {V1} == {found.version for found in record.values()}


def test_an_update_takes_fields_and_releases_what_is_gone() -> None:
    record = {updater("one", V1): ManagedFieldsEntry(field_set((A,), (B,)), V1, NOW)}
    found = after_update(
        record, Comparison(NO_FIELDS, field_set((A,)), field_set((B,))), updater("two", V1), NO_FIELDS, NOW
    )
    assert {updater("two", V1): ManagedFieldsEntry(field_set((A,)), V1, NOW)} == found


def test_what_an_endpoint_does_not_write_changes_no_owner() -> None:
    record = {updater("one", V1): ManagedFieldsEntry(field_set((A,)), V1, NOW)}
    assert record == after_update(record, changed(A), updater("two", V1), field_set((A,)), NOW)


def test_nobody_owns_what_the_server_keeps() -> None:
    metadata = named("metadata")
    fields = field_set((named("kind"),), (metadata,), (metadata, named("uid")), (metadata, named("labels")))
    found = after_update({}, Comparison(fields, NO_FIELDS, NO_FIELDS), updater("one", V1), NO_FIELDS, NOW)
    assert [field_set((metadata, named("labels")))] == [found.fields for found in found.values()]


def test_too_many_updaters_become_one() -> None:
    record: dict[managed.FieldManager, ManagedFieldsEntry] = {
        applier("first"): ManagedFieldsEntry(field_set((A,)), V1, NOW)
    }
    for number in range(managed.UPDATERS_MAX + 5):
        time = f"2024-01-01T00:00:{number:02}Z"
        record = after_update(record, changed(named(f"f{number}")), updater(f"m{number}", V1), NO_FIELDS, time)
    updaters = [manager for manager in record if manager.operation == managed.UPDATE]
    assert managed.UPDATERS_MAX == len(updaters)
    ancient = record[updater(managed.ANCIENT, V1)]
    assert [f"f:f{number}" for number in range(6)] == sorted(ancient.fields.members)
    assert applier("first") in record


def test_objects_differ_in_their_times_alone() -> None:
    one = {"metadata": {"managedFields": [entry()]}, "x": 1}
    later = {"metadata": {"managedFields": [entry(time="2030-01-01T00:00:00Z")]}, "x": 1}
    assert managed.same_but_for_times(one, later)
    assert not managed.same_but_for_times(one, {**later, "x": 2})
    assert not managed.same_but_for_times(one, {"metadata": {"managedFields": [entry("other")]}, "x": 1})
    assert not managed.same_but_for_times(one, {"metadata": {}, "x": 1})


@each_row("sent", [[{}], []])
def test_a_cleared_record_is_cleared(sent: list[Json]) -> None:
    old = a_class("x", managedFields=[entry()])
    assert [] == record_after(STORAGE_CLASSES, old, a_class("x", managedFields=sent), Writer("m"), 0.0)


def test_objects_that_nobody_applies_carry_no_record() -> None:
    assert [] == record_after(STORAGE_CLASSES, a_class("x"), a_class("x", mountOptions=["a"]), SERVER, 0.0)


def test_a_record_that_is_sent_at_creation_is_kept_and_the_creator_owns_the_rest() -> None:
    new = a_class("x", managedFields=[entry("old", fieldsV1={"f:parameters": {}})])
    found = record_after(STORAGE_CLASSES, None, new, Writer("restore"), 0.0)
    assert {"old": {"f:parameters": {}}, "restore": {"f:provisioner": {}}} == {
        one["manager"]: one["fieldsV1"] for one in found
    }


def applied_by_kubectl_before(note: str) -> Json:
    return a_class("x", mountOptions=["a"], annotations={LAST_APPLIED: note})


def test_kubectl_may_take_what_it_has_applied_on_its_own_side() -> None:
    note = (
        '{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"x"},"mountOptions":["a"],'
        '"provisioner":"csi.test"}'
    )
    live = applied_by_kubectl_before(note)
    obj = apply(STORAGE_CLASSES, live, a_class("x", mountOptions=["b"]), "kubectl", NOW)
    assert ["b"] == obj["mountOptions"]
    assert '"mountOptions":["b"]' in obj["metadata"]["annotations"][LAST_APPLIED]
    with pytest.raises(Conflict):
        apply(STORAGE_CLASSES, live, a_class("x", mountOptions=["b"]), "another", NOW)


def test_of_an_object_without_record_kubectl_owns_what_its_note_says_and_nothing_else() -> None:
    """It would remove the rest when it moves on to the server's side."""
    note = (
        '{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"x"},"mountOptions":["a"],'
        '"provisioner":"csi.test"}'
    )
    live = a_class(
        "x", mountOptions=["a"], parameters={"others": "1"}, annotations={LAST_APPLIED: note}, finalizers=["d/x"]
    )
    obj = apply(STORAGE_CLASSES, live, a_class("x", mountOptions=["a"]), "kubectl", NOW)
    fields = {
        one["manager"]: one["fieldsV1"] for one in obj["metadata"]["managedFields"] if one["operation"] == "Update"
    }
    annotations: Json = {f"f:{LAST_APPLIED}": {}}
    assert {"f:metadata": {"f:annotations": annotations}, "f:mountOptions": {}, "f:provisioner": {}} == fields[
        "kubectl-client-side-apply"
    ]
    kept: Json = {"f:annotations": {}, "f:finalizers": {".": {}, 'v:"d/x"': {}}}
    assert {"f:metadata": kept, "f:parameters": {".": {}, "f:others": {}}} == fields[managed.BEFORE_FIRST_APPLY]


@each_row("note", ["", "{", "[]", '{"odd":1}', '{"mountOptions":["z"]}'])
def test_a_note_of_kubectl_that_is_no_longer_true_allows_nothing(note: str) -> None:
    with pytest.raises(Conflict):
        apply(STORAGE_CLASSES, applied_by_kubectl_before(note), a_class("x", mountOptions=["b"]), "kubectl", NOW)


def test_a_hostile_record_harms_nobody() -> None:
    odd: Json = {
        "f:provisioner": {"f:deeper": {}},
        "f:mountOptions": {'v:"x"': {}},
        'k:{"a":1}': {".": {}},
        "f:nothing": {"i:7": {}},
    }
    live = a_class("x", mountOptions=["a"], managedFields=[entry("m", "Apply", fieldsV1=odd)])
    obj = apply(STORAGE_CLASSES, live, a_class("x"), "m", NOW)
    assert DRIVER == obj["provisioner"]
    assert [("m", {"f:provisioner": {}})] == [
        (one["manager"], one["fieldsV1"]) for one in obj["metadata"]["managedFields"]
    ]
