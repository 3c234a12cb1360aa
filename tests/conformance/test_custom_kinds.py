"""Objects of custom kinds: what a schema keeps, fills in and refuses, and what each endpoint writes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.applying import APPLY_PATCH
from tests.support.customkinds import a_definition, a_version, an_object, installed, spec_of
from tests.support.rest import MERGE_PATCH, STRATEGIC_PATCH, Rest
from tests.support.rows import each_row
from tests.support.waiting import eventually

INVALID, TYPE, REQUIRED = "FieldValueInvalid", "FieldValueTypeInvalid", "FieldValueRequired"
UNSUPPORTED, TOO_LONG, TOO_MANY, DUPLICATE = (
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueDuplicate",
)

TEXT = {"type": "string"}
PAIR = {"type": "object", "properties": {"a": TEXT, "b": TEXT}}
PLACES: dict[str, Any] = {
    "whole": {"type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 2},
    "within": {"type": "integer", "minimum": 1, "maximum": 10, "exclusiveMinimum": True, "exclusiveMaximum": True},
    "text": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^x"},
    "choice": {"type": "string", "enum": ["a", "b"]},
    "number": {"type": "integer", "enum": [1, 2]},
    "flag": {"type": "boolean"},
    "list": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "string", "maxLength": 3}},
    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "keyed": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k", "p"],
        "items": {
            "type": "object",
            "required": ["k"],
            "properties": {"k": TEXT, "p": {"type": "integer", "default": 1}},
        },
    },
    "map": {"type": "object", "minProperties": 2, "maxProperties": 3, "additionalProperties": {"type": "integer"}},
    "needs": {**PAIR, "required": ["a", "b"]},
    "either": {"x-kubernetes-int-or-string": True},
    "one": {**PAIR, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "any": {**PAIR, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "all": {**PAIR, "allOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "not": {**PAIR, "not": {"required": ["a"]}},
    "moment": {"type": "string", "format": "date-time"},
    "day": {"type": "string", "format": "date"},
    "while": {"type": "string", "format": "duration"},
    "bytes": {"type": "string", "format": "byte"},
    "address": {"type": "string", "format": "ipv4"},
    "id": {"type": "string", "format": "uuid"},
    "nullable": {"type": "string", "nullable": True},
    "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "object": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    "items": {"type": "array", "items": {"type": "object", "properties": {"x": TEXT}}},
    "filled": {"type": "object", "default": {}, "properties": {"mode": {"type": "string", "default": "fast"}}},
}
STATUS = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
PLURAL = "things"


@pytest.fixture
def things(api: Rest) -> str:
    """The path of a kind with all of PLACES in its spec, and a status."""
    schema = spec_of(**PLACES)
    schema["properties"]["status"] = STATUS
    return installed(api, a_definition(PLURAL, a_version(schema, subresources={"status": {}})))


def spec_with(**spec: Any) -> dict[str, Any]:
    return an_object(PLURAL, "", spec=spec)


REFUSED: dict[str, tuple[dict[str, Any], tuple[str, str], str]] = {
    "too_small": ({"whole": 0}, (INVALID, "spec.whole"), "should be greater than or equal to 1"),
    "too_large": ({"whole": 12}, (INVALID, "spec.whole"), "should be less than or equal to 10"),
    "no_multiple": ({"whole": 3}, (INVALID, "spec.whole"), "should be a multiple of 2"),
    "lower_bound_itself": ({"within": 1}, (INVALID, "spec.within"), "should be greater than 1"),
    "upper_bound_itself": ({"within": 10}, (INVALID, "spec.within"), "should be less than 10"),
    "text_for_a_number": ({"whole": "x"}, (TYPE, "spec.whole"), 'must be of type integer: "string"'),
    "fraction_below_the_lower_bound": ({"whole": 0.5}, (INVALID, "spec.whole"), "should be greater than or equal to 1"),
    "fraction_above_the_upper_bound": ({"whole": 10.5}, (INVALID, "spec.whole"), "should be less than or equal to 10"),
    "fraction_for_a_whole_number": ({"number": 1.5}, (TYPE, "spec.number"), 'must be of type integer: "number"'),
    "flag_for_a_number": ({"whole": True}, (TYPE, "spec.whole"), 'must be of type integer: "boolean"'),
    "text_for_a_flag": ({"flag": "true"}, (TYPE, "spec.flag"), 'must be of type boolean: "string"'),
    "too_short": ({"text": "x"}, (INVALID, "spec.text"), "should be at least 2 chars long"),
    "too_long": ({"text": "xxxxx"}, (TOO_LONG, "spec.text"), "may not be more than 4 bytes"),
    "other_pattern": ({"text": "yy"}, (INVALID, "spec.text"), "should match '^x'"),
    "no_choice": ({"choice": "c"}, (UNSUPPORTED, "spec.choice"), 'supported values: "a", "b"'),
    "no_choice_of_numbers": (
        {"number": 3},
        (UNSUPPORTED, "spec.number"),
        'Unsupported value: 3: supported values: "1", "2"',
    ),
    "few_items": ({"list": ["a"]}, (INVALID, "spec.list"), "should have at least 2 items"),
    "many_items": ({"list": list("abcd")}, (TOO_MANY, "spec.list"), "must have at most 3 items"),
    "long_item": ({"list": ["a", "bbbb"]}, (TOO_LONG, "spec.list[1]"), "may not be more than 3 bytes"),
    "item_of_another_type": ({"list": ["a", 1]}, (TYPE, "spec.list[1]"), 'must be of type string: "integer"'),
    "null_item": ({"list": ["a", None]}, (TYPE, "spec.list[1]"), 'must be of type string: "null"'),
    "map_for_a_list": ({"list": {}}, (TYPE, "spec.list"), 'must be of type array: "object"'),
    "twice_in_a_set": ({"set": ["a", "b", "a"]}, (DUPLICATE, "spec.set[2]"), 'Duplicate value: "a"'),
    "key_twice": ({"keyed": [{"k": "a"}, {"k": "a", "p": 1}]}, (DUPLICATE, "spec.keyed[1]"), '{"k":"a","p":1}'),
    "no_key": ({"keyed": [{"p": 2}]}, (REQUIRED, "spec.keyed[0].k"), "Required value"),
    "few_members": ({"map": {"a": 1}}, (INVALID, "spec.map"), "should have at least 2 properties"),
    "many_members": ({"map": dict.fromkeys("abcd", 1)}, (TOO_MANY, "spec.map"), "must have at most 3 items"),
    "member_of_another_type": ({"map": {"a": 1, "b": "x"}}, (TYPE, "spec.map.b"), 'must be of type integer: "string"'),
    "missing": ({"needs": {"a": "x"}}, (REQUIRED, "spec.needs.b"), "Required value"),
    "neither_number_nor_text": ({"either": True}, (TYPE, "spec.either"), 'must be of type integer,string: "boolean"'),
    "no_moment": ({"moment": "2024-01-01 00:00:00Z"}, (TYPE, "spec.moment"), "must be of type date-time"),
    "no_day": ({"day": "2024-13-01"}, (TYPE, "spec.day"), "must be of type date"),
    "no_duration": ({"while": "1x"}, (TYPE, "spec.while"), "must be of type duration"),
    "no_base64": ({"bytes": "***"}, (TYPE, "spec.bytes"), "must be of type byte"),
    "no_address": ({"address": "1.2.3"}, (TYPE, "spec.address"), "must be of type ipv4"),
    "no_uuid": ({"id": "x"}, (TYPE, "spec.id"), "must be of type uuid"),
    "object_without_a_kind": ({"object": {"apiVersion": "v1"}}, (REQUIRED, "spec.object.kind"), "Required value"),
    "object_with_an_odd_kind": (
        {"object": {"apiVersion": "v1", "kind": "a b"}},
        (INVALID, "spec.object.kind"),
        "may have mixed case",
    ),
}


@each_row("row", REFUSED)
def test_a_value_that_the_schema_does_not_allow_is_refused(api: Rest, things: str, name: str, row: str) -> None:
    spec, cause, says = REFUSED[row]
    body = spec_with(**spec)
    body["metadata"]["name"] = name
    api.post(things, body).refused(422, "Invalid", cause, says=says)
    assert 404 == api.get(f"{things}/{name}").status


# (Of these the real server names the place in the text alone.)
JOINED: dict[str, tuple[dict[str, Any], str]] = {
    "none_of": ({"one": {}}, "must validate one and only one schema (oneOf). Found none valid"),
    "both_of": (
        {"one": {"a": "x", "b": "y"}},
        "must validate one and only one schema (oneOf). Found 2 valid alternatives",
    ),
    "not_any": ({"any": {}}, "must validate at least one schema (anyOf)"),
    "not_all": ({"all": {"a": "x"}}, "must validate all the schemas (allOf)"),
    "none_of_all": ({"all": {}}, "must validate all the schemas (allOf). None validated"),
    "forbidden": ({"not": {"a": "x"}}, "must not validate the schema (not)"),
}


@each_row("row", JOINED)
def test_schemas_of_a_schema_are_joined(api: Rest, things: str, name: str, row: str) -> None:
    spec, says = JOINED[row]
    place = next(iter(spec))
    api.post(things, an_object(PLURAL, name, spec=spec)).refused(422, "Invalid", says=f'"spec.{place}" {says}')


KEPT: dict[str, tuple[Any, Any]] = {
    "within_bounds": ({"whole": 2, "text": "xy", "choice": "a"}, {"whole": 2, "text": "xy", "choice": "a"}),
    "whole_number_with_a_point": ({"whole": 2.0}, {"whole": 2}),
    "either": ({"either": "5%"}, {"either": "5%"}),
    "one": ({"one": {"a": "x"}, "not": {"b": "x"}}, {"one": {"a": "x"}, "not": {"b": "x"}}),
    "formats": (
        {"moment": "2024-01-01T00:00:00.1+01:00", "while": "1h2m"},
        {"moment": "2024-01-01T00:00:00.1+01:00", "while": "1h2m"},
    ),
    "same_key_other_default": (
        {"keyed": [{"k": "a", "p": 2}, {"k": "a"}]},
        {"keyed": [{"k": "a", "p": 2}, {"k": "a", "p": 1}]},
    ),
    "null_that_is_allowed": ({"nullable": None}, {"nullable": None}),
    "null_that_says_nothing": (
        {"text": None, "list": None, "map": {"a": 1, "b": 2, "c": None}},
        {"map": {"a": 1, "b": 2}},
    ),
    "unknown_fields": (
        {"odd": 1, "items": [{"x": "a", "y": 1}], "open": {"any": [1]}},
        {"items": [{"x": "a"}], "open": {"any": [1]}},
    ),
    "whole_object": (
        {"object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "odd": 1}, "anything": True}},
        {"object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "anything": True}},
    ),
}


@each_row("row", KEPT)
def test_a_value_is_kept_as_the_schema_says(api: Rest, things: str, name: str, row: str) -> None:
    given, wanted = KEPT[row]
    made = api.post(things, an_object(PLURAL, name, spec=given), fieldValidation="Ignore").ok(201)
    assert {**wanted, "filled": {"mode": "fast"}} == made["spec"] == api.get(f"{things}/{name}").ok()["spec"]


@each_row("validation", ["Strict", "Warn"])
def test_unknown_fields_are_told(api: Rest, things: str, name: str, validation: str) -> None:
    body = an_object(PLURAL, name, spec={"items": [{"y": 1}]}, odd=1)
    body["metadata"]["strange"] = 1
    answer = api.post(things, body, fieldValidation=validation)
    paths = ("odd", "spec.items[0].y", "metadata.strange")
    if validation == "Warn":
        answer.ok(201)
        assert {f'299 - "unknown field \\"{path}\\""' for path in paths} == set(answer.warnings)
        return
    status = answer.refused(400, "BadRequest", says="strict decoding error: ")
    assert [] == [path for path in paths if f'unknown field "{path}"' not in status["message"]]


def test_a_body_names_its_kind(api: Rest, things: str, name: str) -> None:
    body = an_object(PLURAL, name)
    api.post(things, {**body, "kind": ""}).refused(400, "BadRequest", says="Object 'Kind' is missing")
    api.post(things, {**body, "apiVersion": ""}).refused(
        400, "BadRequest", says="does not match the expected API version"
    )
    api.post(things, {**body, "kind": "Other"}).refused(422, "Invalid", (INVALID, "kind"), says="must be Thing")
    api.post(things, {**body, "metadata": {"name": name, "labels": 3}}).refused(
        400, "BadRequest", says="cannot unmarshal number"
    )


def test_AO42_strategic_patches_are_for_built_in_kinds(api: Rest, things: str, name: str) -> None:
    api.post(things, an_object(PLURAL, name)).ok(201)
    answer = api.patch(f"{things}/{name}", {"spec": {"flag": True}}, STRATEGIC_PATCH)
    answer.refused(415, "UnsupportedMediaType", says="application/json-patch+json, application/merge-patch+json")


def test_generation_counts_changes_of_the_content(api: Rest, things: str, name: str) -> None:
    path = f"{things}/{name}"
    made = api.post(things, {**an_object(PLURAL, name), "metadata": {"name": name, "generation": 7}}).ok(201)
    told = [made["metadata"]["generation"]]
    changes: list[tuple[str, Any]] = [
        ("", {"metadata": {"labels": {"a": "b"}}}),
        ("", {"spec": {"flag": True}}),
        ("/status", {"status": {"ready": True}}),
        ("", {"spec": {"flag": True}}),
        ("", {"metadata": {"finalizers": ["bare-name"]}}),
    ]
    told += [api.patch(path + endpoint, change).ok()["metadata"]["generation"] for endpoint, change in changes]
    told.append(api.delete(path).ok()["metadata"]["generation"])
    assert [1, 1, 2, 2, 2, 2, 3] == told


def test_a_whole_number_that_comes_as_a_float_counts_as_a_change(api: Rest, things: str, name: str) -> None:
    path, whole = f"{things}/{name}", {"flag": True, "number": 2, "open": {"inner": [1]}}
    told = [api.post(things, an_object(PLURAL, name, spec={**whole, "number": 2.0})).ok(201)]
    stored = api.get(path).ok()
    told += [api.put(path, {**stored, "spec": {**whole, "number": 2.0}}).ok()]
    told += [api.patch(path, {"spec": {"open": {"inner": [1.0]}}}).ok() for _ in range(2)]
    told += [api.patch(path, {"spec": whole}).ok(), api.patch(path + "/status", {"status": {"open": 1.0}}).ok()]
    assert [1, 2, 3, 4, 4, 4] == [obj["metadata"]["generation"] for obj in told]
    assert api.get(path).ok()["spec"] == {**stored["spec"], **whole}
    assert told[4]["metadata"]["resourceVersion"] == told[3]["metadata"]["resourceVersion"]
    applied = an_object(PLURAL, name, spec={"number": 2.0})
    told = [api.patch(path, applied, APPLY_PATCH, fieldManager="a").ok() for _ in range(2)]
    assert [4, 4] == [obj["metadata"]["generation"] for obj in told]


def test_status_has_an_endpoint_of_its_own(api: Rest, things: str, name: str) -> None:
    path = f"{things}/{name}"
    assert "status" not in api.post(things, an_object(PLURAL, name, spec={"flag": True}, status={"ready": True})).ok(
        201
    )
    assert "status" not in api.patch(path, {"status": {"ready": True}}).ok()
    change = {"spec": {"flag": False}, "status": {"ready": True}, "metadata": {"labels": {"a": "b"}}}
    answer = api.patch(f"{path}/status", change).ok()
    assert ({"ready": True}, True, None) == (answer["status"], answer["spec"]["flag"], answer["metadata"].get("labels"))
    api.patch(f"{path}/status", {"status": {"ready": 1}}).refused(422, "Invalid", (TYPE, "status.ready"))


def test_a_write_without_a_version_is_refused(api: Rest, things: str, name: str) -> None:
    api.post(things, an_object(PLURAL, name)).ok(201)
    answer = api.put(f"{things}/{name}", an_object(PLURAL, name))
    answer.refused(422, "Invalid", (INVALID, "metadata.resourceVersion"), says="must be specified for an update")


def test_what_has_become_wrong_can_stay_but_not_change(api: Rest, name: str) -> None:
    """A definition may become stricter than the objects that are there."""
    plural = f"ratchet{name.replace('-', '')}s"
    definition = a_definition(plural, a_version(spec_of(a=TEXT, b=TEXT)))
    things, place = (
        installed(api, definition),
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + definition["metadata"]["name"],
    )
    api.post(things, an_object(plural, "x", spec={"a": "long enough", "b": "1"})).ok(201)
    stricter = a_definition(plural, a_version(spec_of(a={"type": "string", "maxLength": 3}, b=TEXT)))
    api.patch(place, {"spec": {"versions": stricter["spec"]["versions"]}}, MERGE_PATCH).ok()
    _until_stricter(api, things, an_object(plural, "y", spec={"a": "long"}))
    api.patch(f"{things}/x", {"spec": {"b": "2"}}).ok()
    api.patch(f"{things}/x", {"spec": {"a": "other"}}).refused(422, "Invalid", (TOO_LONG, "spec.a"))
    api.delete(place).ok()


def _until_stricter(api: Rest, things: str, body: dict[str, Any]) -> None:
    eventually(lambda: api.post(things, body, dryRun="All").status == 422, 30, "the schema is in force")
