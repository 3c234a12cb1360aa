"""Values by their shape: compared, merged, and with fields taken away."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.rules import RESOURCES
from mooring.apiserver.server_side_apply.fieldsets import field_set, keyed, named, valued
from mooring.apiserver.server_side_apply.shapes import ANYTHING, Form, custom_shape, object_shape
from mooring.apiserver.server_side_apply.typed import Untyped, check, compare, fields_of, merge, remove, with_named
from tests.support.applying import SHAPE_DEFINITION
from tests.support.rows import each_row

SCHEMA = SHAPE_DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
SHAPE = custom_shape(SCHEMA)
SPEC = named("spec")
Json = dict[str, Any]


def spec(**fields: Any) -> Json:
    return {"spec": fields}


def paths(*names: str) -> Any:
    return field_set(*((SPEC, named(name)) for name in names))


def test_a_value_of_its_shape_is_taken() -> None:
    check(
        SHAPE, spec(text="a", items=[{"port": 1}, {"port": 1, "protocol": "UDP"}], size="1", any={"x": [1]}, whole=None)
    )


@each_row(
    ("value", "says"),
    [
        (spec(text=1), ".spec.text: expected string, got &value.valueUnstructured{Value:1}"),
        (spec(text=["a"]), '.spec.text: expected string, got &value.valueUnstructured{Value:[]interface {}{"a"}}'),
        (spec(map=[]), ".spec.map: expected map, got &{[]}"),
        (spec(list={}), ".spec.list: expected list, got &{map[]}"),
        (
            spec(items=[{"port": True}]),
            '.spec.items[port=true,protocol="TCP"].port: expected numeric (int or float), got bool',
        ),
        (spec(items=[5]), ".spec.items: element 0: associative list with keys may not have non-map elements"),
        (spec(items=[{}, {}]), '.spec.items: duplicate entries for key [protocol="TCP"]'),
        (spec(items=[{"port": 1}, {"port": 1}]), '.spec.items: duplicate entries for key [port=1,protocol="TCP"]'),
        (spec(set=["a", "a"]), '.spec.set: duplicate entries for key [="a"]'),
        (spec(odd=1), ".spec.odd: field not declared in schema"),
        (spec(odd=1, text=1), "errors:\n  .spec.odd: "),
        (
            {"metadata": {"labels": {"a": 1}}},
            ".metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}",
        ),
    ],
)
def test_what_is_of_another_shape_is_told(value: Json, says: str) -> None:
    with pytest.raises(Untyped) as error:
        check(SHAPE, value)
    assert str(error.value).startswith(says)


def test_a_time_of_a_custom_kind_is_any_scalar() -> None:
    """As the times of built-in kinds are: what is no time is told when the object is validated."""
    shape = custom_shape(
        {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}, "text": {"type": "string"}}}
    )
    check(shape, {"at": 5})
    with pytest.raises(Untyped, match="expected any scalar"):
        check(shape, {"at": [5]})
    with pytest.raises(Untyped, match="expected string"):
        check(shape, {"text": 5})


@each_row("form", ["duration", "int-or-string", "x"])
def test_a_text_of_a_custom_kind_with_a_format_is_any_scalar(form: str) -> None:
    shape = custom_shape({"type": "object", "properties": {"at": {"type": "string", "format": form}}})
    check(shape, {"at": 5})
    with pytest.raises(Untyped, match="expected any scalar"):
        check(shape, {"at": [5]})


def test_bytes_of_a_custom_kind_are_a_text_and_a_number_with_a_format_is_a_number() -> None:
    fields = {"bytes": {"type": "string", "format": "byte"}, "number": {"type": "integer", "format": "date-time"}}
    shape = custom_shape({"type": "object", "properties": fields})
    for name, told in (("bytes", "expected string"), ("number", "expected numeric")):
        with pytest.raises(Untyped, match=told):
            check(shape, {name: True})


def test_a_number_or_a_text_may_be_anything_until_it_is_validated() -> None:
    for value in (1, "a", [1], {"a": "b"}, True):
        check(SHAPE, spec(size=value))


def test_the_values_that_a_schema_allows_are_a_list() -> None:
    kind = next(one for one in RESOURCES if one.kind == "CustomResourceDefinition")
    version = {"name": "v1", "schema": {"openAPIV3Schema": {"enum": ["a", 1, None, {"b": []}]}}}
    check(object_shape(kind.message), spec(versions=[version]))
    version["schema"] = {"openAPIV3Schema": {"properties": {"text": {"enum": "a b"}}}}
    with pytest.raises(Untyped, match=r"\.properties\.text\.enum: expected list, got &\{a b\}"):
        check(object_shape(kind.message), spec(versions=[version]))


def test_comparing_tells_what_came_what_went_and_what_is_another() -> None:
    old = spec(text="a", map={"x": "1", "y": "1"}, list=["a"], set=["a", "b"], whole={"x": "1"})
    new = spec(text="b", map={"x": "1", "z": "1"}, list=["b"], set=["b", "c"], whole={"x": "2"}, size=1)
    found = compare(SHAPE, old, new)
    sets = field_set((SPEC, named("map"), named("z")), (SPEC, named("set"), valued("c")))
    assert sets | paths("size") == found.added
    assert paths("text", "list", "whole") == found.modified
    assert field_set((SPEC, named("map"), named("y")), (SPEC, named("set"), valued("a"))) == found.removed


def test_a_new_map_is_new_itself_and_an_empty_list_is_not_null() -> None:
    assert (
        paths("map") | field_set((SPEC, named("map"), named("x"))) == compare(SHAPE, spec(), spec(map={"x": "1"})).added
    )
    assert paths("set") == compare(SHAPE, spec(set=None), spec(set=[])).modified
    assert not compare(SHAPE, spec(set=None), spec(set=["a"])).modified


def test_a_value_that_was_a_list_and_is_a_map_has_changed() -> None:
    found = compare(SHAPE, spec(any={"x": [1]}), spec(any={"x": {"y": 1}}))
    place = (SPEC, named("any"), named("x"))
    assert (field_set(place), field_set((*place, named("y")))) == (found.modified, found.added)


def test_items_that_are_there_twice_are_compared_together() -> None:
    one, twice = spec(set=["a"]), spec(set=["a", "a"])
    assert field_set((SPEC, named("set"), valued("a"))) == compare(SHAPE, one, twice).modified
    assert not compare(SHAPE, twice, twice).modified
    assert (
        field_set((SPEC, named("set"), valued("a"))) == compare(SHAPE, spec(set=["b"]), spec(set=["b", "a", "a"])).added
    )


@each_row(
    ("live", "config", "merged"),
    [
        (["a", "b"], ["c"], ["a", "b", "c"]),
        (["a", "b", "c"], ["c", "a"], ["b", "c", "a"]),
        (["a", "x", "b"], ["n", "b", "a"], ["x", "n", "b", "a"]),
        (["a", "b"], ["n", "b"], ["a", "n", "b"]),
        ([], ["a"], ["a"]),
        (None, ["a"], ["a"]),
        (["a"], None, ["a"]),
        (["a"], [], ["a"]),
    ],
)
def test_items_of_both_are_merged_in_the_configs_order(live: Any, config: Any, merged: list[str]) -> None:
    assert spec(set=merged) == merge(SHAPE, spec(set=live), spec(set=config))


def test_maps_are_merged_and_what_is_atomic_is_replaced() -> None:
    live = spec(map={"x": "1"}, whole={"x": "1"}, list=["a"], text="a", any={"deep": {"x": 1}})
    config = spec(map={"y": "2"}, whole={"y": "2"}, list=["b"], any={"deep": {"y": 2}})
    expected = spec(map={"x": "1", "y": "2"}, whole={"y": "2"}, list=["b"], text="a", any={"deep": {"x": 1, "y": 2}})
    assert expected == merge(SHAPE, live, config)


def test_merging_writes_to_neither() -> None:
    live, config = spec(map={"x": "1"}, set=["a"]), spec(map={"y": "2"}, set=["b"])
    merge(SHAPE, live, config)
    assert (spec(map={"x": "1"}, set=["a"]), spec(map={"y": "2"}, set=["b"])) == (live, config)


def test_fields_are_taken_away_and_what_is_left_empty_is_null() -> None:
    value = spec(map={"x": "1"}, set=["a", "b"], text="a", items=[{"port": 1, "name": "n"}])
    item = keyed({"port": 1, "protocol": "TCP"})
    gone = field_set(
        (SPEC, named("map"), named("x")), (SPEC, named("set"), valued("a")), (SPEC, named("items"), item, named("name"))
    )
    assert spec(map=None, set=["b"], text="a", items=[{"port": 1}]) == remove(SHAPE, value, gone)


def test_a_declared_field_stands_for_what_is_below_it() -> None:
    assert field_set((SPEC,), (SPEC, named("text"))) == with_named(SHAPE, paths("text"))
    below = field_set((SPEC, named("map"), named("x")))
    assert below | field_set((SPEC,), (SPEC, named("map"))) == with_named(SHAPE, below)


def test_an_item_is_a_field_and_an_empty_map_is_one_too() -> None:
    item = (SPEC, named("set"), valued("a"))
    assert field_set(item) == fields_of(SHAPE, spec(set=["a", "a"]))
    assert paths("map", "whole") == fields_of(SHAPE, spec(map={}, whole={"x": "1"}, list=None)) - paths("list")


@each_row("resource", RESOURCES, ids=lambda resource: resource.name)
def test_every_built_in_kind_has_a_shape(resource: Any) -> None:
    shape = object_shape(resource.message)
    assert Form.MAP is shape.form
    assert shape.inner("metadata") is not ANYTHING
    assert {("f:kind",), ("f:metadata", "f:labels", "f:a")} == set(
        fields_of(shape, {"kind": "x", "metadata": {"labels": {"a": "b"}}})
    )
