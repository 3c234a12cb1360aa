"""Bodies against shapes: what is dropped, refused, and brought into one form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.codecs.schema import Messages, decode
from mooring.apiserver.rules import RESOURCES, VOLUME_ATTACHMENTS
from tests.support.rows import each_row

SHAPES = Messages("""
Thing: 1 name s!, 2 size i32, 3 on b?, 4 tags *s, 5 maybe *Part!, 6 part Part?, 7 labels {s}, 8 <> Extra, \
9 whole Part!, 10 ref s!?
Part: 1 when time!, 2 amount q, 3 key y
Extra: 1 odd i64, 2 exact micro
""")
THING = SHAPES["Thing"]
EMPTY = {"name": "", "maybe": None, "whole": {"when": None}, "ref": None}


def canonical(value: dict[str, Any]) -> dict[str, Any]:
    return decode(THING, value, [])


def test_what_must_always_be_there_is_and_zeros_are_not() -> None:
    assert EMPTY == canonical({"size": 0, "tags": [], "labels": {}, "odd": 0, "on": None, "part": None})


def test_pointers_keep_their_zeros() -> None:
    assert {**EMPTY, "on": False, "part": {"when": None}} == canonical({"on": False, "part": {}})


def test_inlined_fields_stand_in_the_parent() -> None:
    assert {**EMPTY, "odd": 7} == canonical({"odd": 7})


def test_members_come_in_the_declared_order() -> None:
    assert ["name", "size", "maybe", "whole", "ref"] == list(canonical({"whole": {}, "size": 1, "name": "x"}))


@each_row(
    ("given", "kept"),
    [
        ({"part": {"when": "2024-01-02T03:04:05.9+01:00"}}, {"part": {"when": "2024-01-02T02:04:05Z"}}),
        ({"exact": "2024-01-02T03:04:05.000006+01:00"}, {"exact": "2024-01-02T02:04:05.000006Z"}),
        ({"whole": {"amount": "1024Mi"}}, {"whole": {"when": None, "amount": "1Gi"}}),
        ({"whole": {"amount": 5}}, {"whole": {"when": None, "amount": "5"}}),
        ({"whole": {"key": "YQ==\n"}}, {"whole": {"when": None, "key": "YQ=="}}),
        ({"tags": [None, "a"]}, {"tags": ["", "a"]}),
        ({"maybe": [None]}, {"maybe": [{"when": None}]}),
    ],
)
def test_values_get_one_form(given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert {**EMPTY, **kept} == canonical(given)


def test_unknown_fields_are_dropped_and_named_by_their_paths() -> None:
    unknown: list[str] = []
    value = {"a": 1, "part": {"b": 1}, "maybe": [{}, {"c": {"d": 1}}]}
    assert {**EMPTY, "part": {"when": None}, "maybe": [{"when": None}] * 2} == decode(THING, value, unknown)
    assert ["a", "part.b", "maybe[1].c"] == unknown


@each_row(
    ("given", "text"),
    [
        ({"name": 5}, "json: cannot unmarshal number into Go struct field name of type string"),
        ({"size": "5"}, "json: cannot unmarshal string into Go struct field size of type int32"),
        ({"size": 1.5}, "json: cannot unmarshal number 1.5 into Go struct field size of type int32"),
        ({"size": 2**31}, "of type int32"),
        ({"size": True}, "json: cannot unmarshal bool into Go struct field size of type int32"),
        ({"on": 1}, "of type bool"),
        ({"tags": "a"}, "json: cannot unmarshal string into Go struct field tags of type list"),
        ({"labels": []}, "json: cannot unmarshal array into Go struct field labels of type map"),
        ({"labels": {"a": {}}}, "json: cannot unmarshal object into Go struct field labels.a of type string"),
        ({"maybe": [{}, 5]}, r"Go struct field maybe\[1\] of type object"),
        ({"part": {"when": "yesterday"}}, 'parsing time "yesterday"'),
        ({"part": {"when": "2024-13-01T00:00:00Z"}}, "parsing time"),
        ({"part": {"when": "2024-01-01T00:00:00"}}, "parsing time"),
        ({"exact": "2024-01-02T03:04:05.1Z"}, "parsing time"),
        ({"whole": {"amount": "1Gib"}}, "quantities must match"),
        ({"whole": {"key": "a%"}}, "illegal base64 data at input byte 1"),
    ],
)
def test_wrong_types_are_refused_with_their_place(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        canonical(given)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({name for resource in RESOURCES for name in resource.message.fields} | {"metadata", "spec", "status"})


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(FIELDS), JSON_VALUES, max_size=4))
def test_any_json_is_an_object_of_each_kind_or_a_clean_error(value: dict[str, Any]) -> None:
    for resource in RESOURCES:
        try:
            once = decode(resource.message, value, [])
        except ValueError:
            continue
        assert once == decode(resource.message, once, []), "the canonical form is its own"


def test_every_message_that_is_named_is_declared() -> None:
    def walk(message: Any, seen: set[str]) -> None:
        if message.name in seen:
            return
        seen.add(message.name)
        for field in message.fields.values():
            inner = message.of(field)
            if inner is not None:
                walk(inner, seen)

    for resource in RESOURCES:
        walk(resource.message, set())


def test_protobuf_numbers_are_used_once_a_message() -> None:
    messages = {id(message): message for resource in RESOURCES for message in resource.message.messages.values()}
    assert len(messages) > 50
    for message in messages.values():
        numbers = [field.number for field in message.declared]
        assert len(set(numbers)) == len(numbers), message.name


def test_a_kind_knows_its_own_shape() -> None:
    assert "VolumeAttachment" == VOLUME_ATTACHMENTS.message.name
