"""A merge patch says exactly what changed."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube import patch
from mooring.kube.cluster import PatchType
from mooring.kube.patch import merge_diff
from tests.support.rows import each_row
from tests.unit.kube.objects import pv_at

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab/~", max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text("abc", max_size=2), VALUES, max_size=5)


def applied(target: Any, change: Any) -> Any:
    """RFC 7386, section 2, word for word."""
    if not isinstance(change, dict):
        return change
    if not isinstance(target, dict):
        target = {}
    result = dict(target)
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = applied(result.get(name), value)
    return result


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


def exact(value: Any) -> Any:
    """Tells true from 1, which Python does not."""
    if isinstance(value, dict):
        return {name: exact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [exact(inner) for inner in value]
    return (isinstance(value, bool), value)


@pytest.mark.slow
@given(OBJECTS, OBJECTS)
def test_a_diff_applied_to_the_old_gives_the_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert exact(without_nulls(new)) == exact(without_nulls(applied(old, merge_diff(old, new))))


@pytest.mark.slow
@given(OBJECTS)
def test_equal_objects_need_no_patch(obj: dict[str, Any]) -> None:
    assert merge_diff(obj, obj) == {}


@pytest.mark.slow
@given(OBJECTS, OBJECTS)
def test_a_diff_names_no_field_that_is_the_same(old: dict[str, Any], new: dict[str, Any]) -> None:
    change = merge_diff(old, new)
    for name in change:
        assert exact(without_nulls({name: old.get(name)})) != exact(without_nulls({name: new.get(name)}))


@each_row(
    ("old", "new", "change"),
    [
        ({"a": 1}, {}, {"a": None}),
        ({}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"l": ["x", "y"]}, {"l": ["x"]}, {"l": ["x"]}),
        ({"l": ["x"]}, {"l": ["x"]}, {}),
        ({"a": True}, {"a": 1}, {"a": 1}),
        ({"a": None}, {}, {}),
        ({}, {"a": None}, {}),
        ({"a": "text"}, {"a": {}}, {"a": {}}),
        ({"status": {"attached": False}}, {"status": {"attached": True}}, {"status": {"attached": True}}),
    ],
)
def test_what_a_diff_looks_like(old: dict[str, Any], new: dict[str, Any], change: dict[str, Any]) -> None:
    assert change == merge_diff(old, new)


def test_json_patches_are_built_from_operations() -> None:
    built = patch.json_patch(
        [
            patch.test("/metadata/uid", "u"),
            patch.add("/metadata/finalizers/-", "f"),
            patch.remove(patch.pointer("metadata", "annotations", "a/b~c")),
            patch.replace(patch.pointer("items", 0), 1),
        ]
    )
    assert built.type is PatchType.JSON
    assert built.body == [
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "f"},
        {"op": "remove", "path": "/metadata/annotations/a~1b~0c"},
        {"op": "replace", "path": "/items/0", "value": 1},
    ]


def test_a_merge_patch_carries_its_body_as_it_is() -> None:
    built = patch.merge_patch({"metadata": {"annotations": {"a": None}}})
    assert (PatchType.MERGE, {"metadata": {"annotations": {"a": None}}}) == (built.type, built.body)


def test_a_patch_of_an_object_is_one_of_no_other_of_its_name() -> None:
    assert {"metadata": {"labels": {}, "uid": "uid-of-pv1"}} == patch.merge_patch(
        {"metadata": {"labels": {}}}, of=pv_at()
    ).body
    assert {"status": {}, "metadata": {"uid": "u"}} == patch.strategic_patch({"status": {}}, of="u").body
    assert [SAME, patch.remove("/a")] == patch.json_patch([patch.remove("/a")], of=pv_at()).body


SAME: Final = {"op": "test", "path": "/metadata/uid", "value": "uid-of-pv1"}
PATH: Final = "/metadata/finalizers"


@each_row(
    ("held", "strictly", "steps"),
    [
        (None, True, [SAME, {"op": "test", "path": PATH, "value": None}, {"op": "add", "path": PATH, "value": ["f"]}]),
        ((), True, [SAME, {"op": "test", "path": PATH, "value": []}, {"op": "add", "path": PATH, "value": ["f"]}]),
        (
            ("a",),
            True,
            [SAME, {"op": "test", "path": PATH, "value": ["a"]}, {"op": "add", "path": f"{PATH}/-", "value": "f"}],
        ),
        (("a",), False, [SAME, {"op": "add", "path": f"{PATH}/-", "value": "f"}]),
    ],
)
def test_a_finalizer_is_added_beside_others(
    held: tuple[str, ...] | None, strictly: bool, steps: list[dict[str, Any]]
) -> None:
    built = patch.add_finalizer(pv_at(finalizers=held), "f", strictly=strictly)
    assert (PatchType.JSON, steps) == (built.type, built.body)


def test_a_finalizer_is_removed_from_its_places_from_behind() -> None:
    built = patch.remove_finalizer(pv_at(finalizers=("f", "a", "f")), "f")
    paths = f"{PATH}/2", f"{PATH}/0"
    steps = [
        step for path in paths for step in ({"op": "test", "path": path, "value": "f"}, {"op": "remove", "path": path})
    ]
    assert (PatchType.JSON, [SAME, *steps]) == (built.type, built.body)


def test_a_finalizer_patch_changes_something() -> None:
    with pytest.raises(AssertionError):
        patch.add_finalizer(pv_at(finalizers=("f",)), "f")
    with pytest.raises(AssertionError):
        patch.remove_finalizer(pv_at(finalizers=("a",)), "f")


@each_row(
    ("before", "after", "steps"),
    [
        pytest.param({"a": 1}, {"a": 1}, None, id="equal"),
        pytest.param(None, {}, None, id="nothing"),
        pytest.param(None, {"a": 1}, [patch.test("/status", None), patch.add("/status", {"a": 1})], id="new"),
        pytest.param(
            {"a": 1, "b": 2},
            {"a": 3, "c/d": 4},
            [patch.remove("/status/b"), patch.add("/status/a", 3), patch.add("/status/c~1d", 4)],
            id="changed",
        ),
        pytest.param({"a": 1}, {"a": True}, [patch.add("/status/a", True)], id="true is not 1"),
    ],
)
def test_fields_are_set_one_by_one_on_the_very_object(before: Any, after: dict[str, Any], steps: Any) -> None:
    """So that what others have written beside them stays."""
    found = patch.set_fields(pv_at("1"), "status", before, after)
    expected = None if steps is None else [patch.test("/metadata/uid", pv_at("1").metadata.uid), *steps]
    assert expected == (None if found is None else found.body)
