"""The patches: RFC 6902 with the API server's ways, RFC 7386, and strategic merge."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonpatch
import jsonpointer
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mooring.apiserver.bodies.objects import FieldValidation
from mooring.apiserver.bodies.patches import OPERATIONS_MAX, PatchFailed, apply_json, apply_merge, change_of
from mooring.apiserver.bodies.strategic import merge_strategic
from mooring.apiserver.codecs.schema import Messages
from mooring.apiserver.rules import SECRETS, VOLUME_ATTACHMENTS
from mooring.kube.cluster import PatchType
from mooring.kube.errors import BadRequest, Invalid, TooLarge
from tests.support.rows import each_row

DOCUMENT: dict[str, Any] = {"a": {"b": "1", "x/y": "z", "~": "t"}, "l": ["p", "q"], "n": None}

JSON_ROWS: dict[str, tuple[dict[str, Any], Any]] = {
    "add": ({"op": "add", "path": "/a/c", "value": 1}, {"a": {**DOCUMENT["a"], "c": 1}}),
    "add_over": ({"op": "add", "path": "/a", "value": 1}, {"a": 1}),
    "append": ({"op": "add", "path": "/l/-", "value": "r"}, {"l": ["p", "q", "r"]}),
    "insert": ({"op": "add", "path": "/l/1", "value": "r"}, {"l": ["p", "r", "q"]}),
    "insert_at_the_end": ({"op": "add", "path": "/l/2", "value": "r"}, {"l": ["p", "q", "r"]}),
    "insert_from_behind": ({"op": "add", "path": "/l/-1", "value": "r"}, {"l": ["p", "q", "r"]}),
    "remove": ({"op": "remove", "path": "/a/b"}, {"a": {"x/y": "z", "~": "t"}}),
    "remove_item": ({"op": "remove", "path": "/l/0"}, {"l": ["q"]}),
    "remove_last": ({"op": "remove", "path": "/l/-1"}, {"l": ["p"]}),
    "replace": ({"op": "replace", "path": "/l/1", "value": "r"}, {"l": ["p", "r"]}),
    "replace_last": ({"op": "replace", "path": "/l/-1", "value": "r"}, {"l": ["p", "r"]}),
    "replace_nothing_adds": ({"op": "replace", "path": "/a/new", "value": 1}, {"a": {**DOCUMENT["a"], "new": 1}}),
    "slash": ({"op": "replace", "path": "/a/x~1y", "value": 1}, {"a": {**DOCUMENT["a"], "x/y": 1}}),
    "tilde": ({"op": "replace", "path": "/a/~0", "value": 1}, {"a": {**DOCUMENT["a"], "~": 1}}),
    "move": ({"op": "move", "from": "/a/b", "path": "/m"}, {"a": {"x/y": "z", "~": "t"}, "m": "1"}),
    "copy": ({"op": "copy", "from": "/l", "path": "/m"}, {"m": ["p", "q"]}),
    "copy_of_nothing": ({"op": "copy", "from": "/a/none", "path": "/m"}, {"m": None}),
    "test": ({"op": "test", "path": "/l", "value": ["p", "q"]}, {}),
    "test_of_nothing": ({"op": "test", "path": "/a/none", "value": None}, {}),
    "test_without_value": ({"op": "test", "path": "/a/none"}, {}),
    "test_of_null": ({"op": "test", "path": "/n", "value": None}, {}),
}


@each_row("row", JSON_ROWS)
def test_json_patch_does_what_the_real_server_does(row: str) -> None:
    operation, changed = JSON_ROWS[row]
    before = copy.deepcopy(DOCUMENT)
    assert {**DOCUMENT, **changed} == apply_json(DOCUMENT, [operation])
    assert before == DOCUMENT, "the document is left alone"


@each_row(
    "operation",
    [
        {"op": "test", "path": "/a/b", "value": "2"},
        {"op": "test", "path": "/a/b", "value": None},
        {"op": "test", "path": "/none/deeper", "value": None},
        {"op": "remove", "path": "/a/none"},
        {"op": "remove", "path": "/l/9"},
        {"op": "replace", "path": "/none/deeper", "value": 1},
        {"op": "replace", "path": "/l/2", "value": 1},
        {"op": "replace", "path": "/l/-", "value": 1},
        {"op": "add", "path": "/none/deeper", "value": 1},
        {"op": "add", "path": "/l/3", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/a/b/c", "value": 1},
        {"op": "move", "from": "/none", "path": "/m"},
        {"op": "copy", "from": "/none/deeper", "path": "/m"},
        {"op": "add", "path": "", "value": {}},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add"},
        {"op": "ADD", "path": "/a"},
        {"path": "/a"},
        None,
    ],
)
def test_a_json_patch_that_does_not_fit_fails_as_a_whole(operation: Any) -> None:
    with pytest.raises(PatchFailed):
        apply_json(DOCUMENT, [{"op": "remove", "path": "/n"}, operation])


def test_true_is_not_one() -> None:
    with pytest.raises(PatchFailed):
        apply_json({"a": True}, [{"op": "test", "path": "/a", "value": 1}])


def test_a_copied_value_is_not_shared() -> None:
    operations = [{"op": "copy", "from": "/l", "path": "/m"}, {"op": "add", "path": "/m/-", "value": "r"}]
    assert ["p", "q"] == apply_json(DOCUMENT, operations)["l"]


def test_a_patch_has_a_largest_length() -> None:
    with pytest.raises(TooLarge, match="The allowed maximum operations in a JSON patch is 10000, got 10001"):
        apply_json(DOCUMENT, [{"op": "test", "path": "/n"}] * (OPERATIONS_MAX + 1))


KEYS = st.sampled_from(["a", "b", "c~d", "e/f"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


@pytest.mark.slow
@given(before=DOCUMENTS, after=DOCUMENTS)
def test_patches_made_by_jsonpatch_lead_where_it_says(before: Any, after: Any) -> None:
    """The oracle: a library's patch from one document to another."""
    assert after == apply_json(before, jsonpatch.make_patch(before, after).patch)


@pytest.mark.slow
@given(document=DOCUMENTS, data=st.data())
def test_single_operations_agree_with_jsonpatch(document: Any, data: st.DataObject) -> None:
    """Wherever both accept an operation they agree; where ours accepts more, it is one of the server's ways."""
    path = "/" + "/".join(
        data.draw(st.lists(st.sampled_from(["a", "b", "c~0d", "e~1f", "0", "1", "-"]), min_size=1, max_size=3))
    )
    operation = {
        "op": data.draw(st.sampled_from(["add", "remove", "replace", "test"])),
        "path": path,
        "value": data.draw(VALUES),
    }
    try:
        wanted = jsonpatch.apply_patch(document, [operation])
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError):
        assume(operation["op"] == "add")
        with pytest.raises(PatchFailed):
            apply_json(document, [operation])
        return
    assume(
        not (
            operation["op"] == "test"
            and json.dumps(operation["value"]) != json.dumps(jsonpointer.resolve_pointer(document, path))
        )
    )
    assert wanted == apply_json(document, [operation])


@each_row(
    ("document", "patch", "wanted"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "c"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ],
)
def test_merge_patch_follows_its_rfc(document: Any, patch: Any, wanted: Any) -> None:
    before = copy.deepcopy(document)
    assert wanted == apply_merge(document, patch)
    assert before == document


@pytest.mark.slow
@given(document=DOCUMENTS, patch=DOCUMENTS)
def test_a_merge_patch_has_no_more_to_change_at_its_third_time(document: Any, patch: Any) -> None:
    """The second time it may take nulls out of a list that has come in a map's place."""
    twice = apply_merge(apply_merge(document, patch), patch)
    assert twice == apply_merge(twice, patch)


# strategic merge

SHAPE = Messages("""
Root: 1 drivers *Driver@name, 2 finalizers *s@, 3 atomic *s, 4 labels {s}, 5 spec Spec!, 6 hosts *Driver
Spec: 1 drivers *Driver@name, 2 size i32
Driver: 1 name s!, 2 id s, 3 keys *s, 4 inner Spec?
""")["Root"]
D, E = {"name": "d", "id": "1"}, {"name": "e", "id": "2"}

STRATEGIC: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "maps_merge": (
        {"labels": {"a": "1", "b": "2"}},
        {"labels": {"a": None, "c": "3"}},
        {"labels": {"b": "2", "c": "3"}},
    ),
    "map_replaced": ({"labels": {"a": "1"}}, {"labels": {"$patch": "replace", "c": "3"}}, {"labels": {"c": "3"}}),
    "map_deleted": ({"labels": {"a": "1"}}, {"labels": {"$patch": "delete"}}, {"labels": {}}),
    "null_deletes": ({"atomic": ["a"], "labels": {}}, {"atomic": None}, {"labels": {}}),
    "lists_without_key_are_replaced": (
        {"atomic": ["a", "b"], "hosts": [D]},
        {"atomic": ["c"], "hosts": [E]},
        {"atomic": ["c"], "hosts": [E]},
    ),
    "items_merge_by_key": (
        {"drivers": [D, E]},
        {"drivers": [{"name": "e", "id": "9"}]},
        {"drivers": [D, {"name": "e", "id": "9"}]},
    ),
    "new_items_come_first": ({"drivers": [D]}, {"drivers": [E]}, {"drivers": [E, D]}),
    "item_deleted": ({"drivers": [D, E]}, {"drivers": [{"name": "d", "$patch": "delete"}]}, {"drivers": [E]}),
    "list_replaced": ({"drivers": [D]}, {"drivers": [{"$patch": "replace"}, E]}, {"drivers": [E]}),
    "list_replaced_by_an_item": (
        {"drivers": [D]},
        {"drivers": [{"$patch": "replace", "name": "x"}, E]},
        {"drivers": [E]},
    ),
    "order": (
        {"drivers": [D, E]},
        {"$setElementOrder/drivers": [{"name": "f"}, {"name": "e"}, {"name": "d"}], "drivers": [{"name": "f"}]},
        {"drivers": [{"name": "f"}, E, D]},
    ),
    "order_alone": (
        {"drivers": [D, E]},
        {"$setElementOrder/drivers": [{"name": "e"}, {"name": "d"}]},
        {"drivers": [E, D]},
    ),
    "order_leaves_others_in_place": (
        {"finalizers": ["a", "b", "c"]},
        {"$setElementOrder/finalizers": ["c", "b"], "finalizers": []},
        {"finalizers": ["a", "c", "b"]},
    ),
    "primitives_are_a_set": (
        {"finalizers": ["a", "a", "b"]},
        {"finalizers": ["c", "b"]},
        {"finalizers": ["c", "a", "b"]},
    ),
    "primitive_deleted": (
        {"finalizers": ["a", "b"]},
        {"$deleteFromPrimitiveList/finalizers": ["a", "z"]},
        {"finalizers": ["b"]},
    ),
    "retain_keys": (
        {"labels": {"a": "1"}, "atomic": ["x"]},
        {"$retainKeys": ["labels"], "labels": {"b": "2"}},
        {"labels": {"a": "1", "b": "2"}},
    ),
    "deep": (
        {"spec": {"drivers": [D], "size": 1}},
        {"spec": {"drivers": [{"name": "d", "inner": {"size": 2}}]}},
        {"spec": {"drivers": [{**D, "inner": {"size": 2}}], "size": 1}},
    ),
    "from_nothing": ({}, {"drivers": [D], "labels": {"a": "1", "b": None}}, {"drivers": [D], "labels": {"a": "1"}}),
}


@each_row("row", STRATEGIC)
def test_strategic_merge(row: str) -> None:
    original, patch, wanted = STRATEGIC[row]
    before = copy.deepcopy((original, patch))
    assert wanted == merge_strategic(SHAPE, original, patch)
    assert before == (original, patch), "what was given is left alone"


@each_row(
    "patch",
    [
        {"labels": {"$patch": "odd"}},
        {"drivers": [{"id": "1"}]},
        {"drivers": ["d"]},
        {"$retainKeys": ["labels"], "atomic": []},
        {"$setElementOrder/drivers": "d", "drivers": [D]},
        {"$setElementOrder/drivers": [{"name": "e"}], "drivers": [{"name": "new"}]},
        {"$deleteFromPrimitiveList/finalizers": "a"},
    ],
)
def test_directives_that_make_no_sense_are_refused(patch: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        merge_strategic(SHAPE, {"labels": {"a": "1"}, "drivers": [D]}, patch)


# as a change of a stored object

VA = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "VolumeAttachment",
    "metadata": {"name": "va", "labels": {"a": "1"}},
    "spec": {"attacher": "d", "source": {}, "nodeName": "n"},
    "status": {"attached": False},
}


def test_a_change_gives_a_decoded_object_and_its_warnings() -> None:
    warnings: list[str] = []
    change = change_of(
        VOLUME_ATTACHMENTS, PatchType.MERGE, {"odd": 1, "metadata": {"labels": {}}}, FieldValidation.WARN, warnings
    )
    assert VA == change(VA)
    assert ['unknown field "odd"'] == warnings


@each_row(
    ("kind", "patch"),
    [
        (PatchType.JSON, {}),
        (PatchType.JSON, "x"),
        (PatchType.JSON, [5]),
        (PatchType.MERGE, []),
        (PatchType.STRATEGIC, []),
    ],
)
def test_what_is_no_patch_is_a_bad_request(kind: PatchType, patch: Any) -> None:
    with pytest.raises(BadRequest):
        change_of(VOLUME_ATTACHMENTS, kind, patch, FieldValidation.WARN)(VA)


def test_a_failed_test_is_invalid_without_details() -> None:
    with pytest.raises(Invalid, match="the server rejected our request due to an error in our request") as refused:
        change_of(VOLUME_ATTACHMENTS, PatchType.JSON, [{"op": "remove", "path": "/none"}], FieldValidation.WARN)(VA)
    assert {} == refused.value.details


def test_a_refused_patch_shows_no_secret() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"a": "Y2FuYXJ5"},
        "type": "Opaque",
    }
    for patch in ({"data": {"b": "canary%"}}, {"odd": "canary"}, {"stringData": {"c": ["canary"]}}):
        with pytest.raises(Invalid) as refused:
            change_of(SECRETS, PatchType.MERGE, patch, FieldValidation.STRICT)(secret)
        assert "canary" not in json.dumps([str(refused.value), refused.value.details])
        assert "Y2FuYXJ5" not in json.dumps([str(refused.value), refused.value.details])
