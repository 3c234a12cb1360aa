"""Sets of fields: what they hold, and how they are written."""

from __future__ import annotations

import pytest

from mooring.apiserver.server_side_apply.fieldsets import (
    NO_FIELDS,
    FieldSet,
    field_set,
    from_json,
    keyed,
    named,
    shown,
    valued,
)
from tests.support.rows import each_row

SPEC, LIST, ITEM, TEXT = named("spec"), named("list"), keyed({"name": "a", "id": 1}), named("text")
SOME = field_set((SPEC,), (SPEC, LIST, ITEM), (SPEC, LIST, ITEM, TEXT))
WRITTEN: dict[str, object] = {"f:spec": {".": {}, "f:list": {'k:{"id":1,"name":"a"}': {".": {}, "f:text": {}}}}}


def test_a_set_is_written_as_a_tree_and_read_again() -> None:
    assert WRITTEN == SOME.to_json()
    assert SOME == from_json(WRITTEN)
    assert {} == NO_FIELDS.to_json()


def test_a_place_with_a_member_below_is_not_a_member_itself() -> None:
    assert [(SPEC, TEXT)] == list(field_set((SPEC, TEXT)))
    assert [(SPEC,), (SPEC, LIST, ITEM), (SPEC, LIST, ITEM, TEXT)] == list(SOME)


def test_sets_are_joined_cut_and_taken_from_each_other() -> None:
    other = field_set((SPEC,), (TEXT,))
    assert field_set((SPEC,)) == SOME & other
    assert field_set((SPEC,), (TEXT,), (SPEC, LIST, ITEM), (SPEC, LIST, ITEM, TEXT)) == SOME | other
    assert field_set((SPEC, LIST, ITEM), (SPEC, LIST, ITEM, TEXT)) == SOME - other
    assert NO_FIELDS == SOME.without(other), "what lies below a member goes with it"
    assert NO_FIELDS == SOME - SOME


@each_row(
    ("path", "text"),
    [
        ((SPEC, TEXT), ".spec.text"),
        ((SPEC, LIST, ITEM, TEXT), '.spec.list[id=1,name="a"].text'),
        ((named("metadata"), named("finalizers"), valued("x/y")), '.metadata.finalizers[="x/y"]'),
        ((named("a"), "i:3"), ".a[3]"),
    ],
)
def test_paths_are_told_to_people(path: tuple[str, ...], text: str) -> None:
    assert text == shown(path)


@each_row(
    "value", [None, [], "f:a", {"x:a": {}}, {"f:a": []}, {"f:a": {"f:b": 1}}, {"k:1": {}}, {"k:{": {}}, {"v:": {}}]
)
def test_what_is_no_set_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"fieldsV1|JSON|truncated"):
        from_json(value)


def test_a_set_that_is_too_deep_is_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(1000):
        deep = {"f:a": deep}
    with pytest.raises(ValueError, match="fieldsV1"):
        from_json(deep)


def test_equal_sets_are_one_key() -> None:
    assert {SOME: 1} == {from_json(WRITTEN): 1}
    assert FieldSet() != "nothing"
