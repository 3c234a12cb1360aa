"""One request never holds up the others for long: whatever it says, its answer takes a few seconds of one processor at
most.
"""

from __future__ import annotations

import functools
import json
import time
from typing import Any

import msgspec
import pytest

from mooring.api.meta import Key
from mooring.api.selector import parse_labels
from mooring.apiserver import field_errors, metadata
from mooring.apiserver.bodies.objects import DEPTH_MAX, VALUES_MAX, check_bounds, is_within_bounds
from mooring.apiserver.codecs.jsonbody import duplicate_fields, parse_json
from mooring.apiserver.rules import SECRETS, STORAGE_CLASSES, jobpolicies
from mooring.apiserver.rules.classes import default_class
from mooring.apiserver.table import StoreView
from mooring.apiserver.web.messages import HttpReply, rendered
from mooring.apiserver.web.negotiation import as_yaml
from mooring.base.json_text import TooDeep
from mooring.kube.errors import BadRequest, NotAcceptable, TooLarge
from tests.support.builders import a_class
from tests.support.rows import each_row
from tests.unit.apiserver.objects import a_store, create, patch
from tests.unit.apiserver.test_service import Client

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ONE = f"{CONFIG_MAPS}/one"
JSON, YAML = "application/json", "application/yaml"
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC_PATCH, APPLY_PATCH = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
SECONDS_MAX = 20.0
"""Measured: 1.3 at most."""
MANY = 49_000
HALF = MANY // 2


def a_map(**fields: Any) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", **fields}).encode()


def names(count: int, before: str = "") -> list[str]:
    return [f"{before}{number:x}" for number in range(count)]


@functools.cache
def hostile() -> dict[str, tuple[str, bytes]]:
    """Bodies of megabytes, made when they are sent."""
    return {
        "unknown-fields-twice": (
            JSON,
            b'{"metadata":{"name":"x"},' + ",".join(f'"{name}":1,"{name}":1' for name in names(MANY)).encode() + b"}",
        ),
        "bad-labels": (JSON, a_map(metadata={"name": "x", "labels": dict.fromkeys(names(MANY, "/"), "/")})),
        "owners": (STRATEGIC_PATCH, a_map(metadata={"ownerReferences": [{"uid": name} for name in names(HALF)]})),
        "deleted-from-a-list": (
            STRATEGIC_PATCH,
            a_map(metadata={"finalizers": names(HALF, "a/"), "$deleteFromPrimitiveList/finalizers": names(HALF, "b/")}),
        ),
        "ordered": (
            STRATEGIC_PATCH,
            a_map(metadata={"finalizers": names(HALF, "a/"), "$setElementOrder/finalizers": names(HALF, "a/")}),
        ),
        "kept-keys": (
            STRATEGIC_PATCH,
            json.dumps({**dict.fromkeys(names(HALF, "x"), 1), "$retainKeys": names(HALF, "x")}).encode(),
        ),
        "applied-data": (APPLY_PATCH, a_map(data=dict.fromkeys(names(MANY), ""))),
        "applied-owners": (APPLY_PATCH, a_map(metadata={"ownerReferences": [{"uid": name} for name in names(HALF)]})),
        "applied-finalizers": (APPLY_PATCH, a_map(metadata={"finalizers": names(MANY, "a/")})),
        "inserted-in-front": (
            JSON_PATCH,
            json.dumps(
                [
                    {"op": "add", "path": "/x", "value": [0] * 20_000},
                    *[{"op": "add", "path": "/x/0", "value": 0} for _ in range(7000)],
                ]
            ).encode(),
        ),
        "a-long-path": (JSON_PATCH, b'[{"op":"test","path":"%b","value":1}]' % (b"/a" * 1_500_000)),
        "base-60": (YAML, b"x: 1" + b":1" * 500_000),
        "base-60-with-a-fraction": (YAML, b"x: 1" + b":1" * 500_000 + b".5"),
        "base-60-by-its-tag": (YAML, b"x: !!int 1" + b":1" * 500_000),
        "many-values-in-yaml": (YAML, b"x: [" + b"0," * 500_000 + b"]"),
        "merged-in-yaml": (YAML, b"x: {<<: [" + b"{a: 1}," * 100_000 + b"]}"),
    }


def ask(client: Client, kind: str, body: bytes) -> HttpReply:
    """A POST or a PATCH of `one`, as the media type says."""
    if kind in (JSON, YAML):
        return client.ask("POST", CONFIG_MAPS, body, kind)
    return client.ask("PATCH", ONE, body, kind, query={"fieldManager": "m"} if kind == APPLY_PATCH else {})


def a_client() -> Client:
    client = Client()
    owners = [{"apiVersion": "v1", "kind": "x", "name": "x", "uid": name} for name in names(4000)]
    assert 201 == client.ask("POST", CONFIG_MAPS, {"metadata": {"name": "one", "ownerReferences": owners}}).status
    return client


@pytest.mark.slow
@each_row("row", hostile, parts=4)
def test_no_body_holds_up_the_server(row: str) -> None:
    client, (kind, body) = a_client(), hostile()[row]
    for _ in range(2):
        begun = time.process_time()
        assert ask(client, kind, body).status < 501
        assert time.process_time() - begun < SECONDS_MAX


def a_container(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "example.com/image:1", **fields}


def files(count: int) -> list[dict[str, str]]:
    return [{"key": name, "path": f"f/{name}"} for name in names(count)]


@functools.cache
def pods() -> dict[str, dict[str, Any]]:
    return {
        "files": {"volumes": [{"name": "v", "configMap": {"name": "c", "items": files(12_000)}}]},
    }


@pytest.mark.slow
@each_row("row", pods)
def test_no_pod_holds_up_the_server(row: str) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [a_container()], **pods()[row]}}
    begun = time.process_time()
    reply = Client().ask("POST", "/api/v1/namespaces/default/pods", pod)
    assert time.process_time() - begun < SECONDS_MAX
    assert 201 == reply.status, reply.body[:500]


@each_row("kind", [JSON, YAML, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH, JSON_PATCH])
def test_a_body_has_so_many_values_at_most(kind: str) -> None:
    metadata = {"name": "one", "labels": dict.fromkeys(names(VALUES_MAX), "")}
    body = (
        json.dumps([{"op": "add", "path": "/metadata", "value": metadata}]).encode()
        if kind == JSON_PATCH
        else a_map(metadata=metadata)
    )
    reply = ask(a_client(), kind, body)
    assert (413, f"Request entity too large: more than {VALUES_MAX} values") == (
        reply.status,
        json.loads(reply.body)["message"],
    )


@each_row(
    "query",
    [
        {"labelSelector": ",".join(f"!{name}" for name in names(501))},
        {"fieldSelector": ",".join(f"metadata.name!={name}" for name in names(501))},
        {
            "labelSelector": ",".join(names(400)),
            "fieldSelector": ",".join(f"metadata.name!={name}" for name in names(101)),
        },
    ],
)
def test_a_selector_has_so_many_requirements_at_most(query: dict[str, str]) -> None:
    reply = Client().ask("GET", CONFIG_MAPS, query=query)
    assert (400, "selectors of more than 500 requirements") == (reply.status, json.loads(reply.body)["message"])


def test_patches_together_make_no_object_that_one_body_could_not() -> None:
    store, key = a_store(), Key("default", "s")
    create(store, SECRETS, {"metadata": {"name": "s"}}, "default")
    for first in (0, HALF):
        if first:
            with pytest.raises(TooLarge, match=f"more than {VALUES_MAX} values"):
                patch(store, SECRETS, key, {"data": {f"k{number}": "" for number in range(first, first + HALF + 2000)}})
        else:
            patch(store, SECRETS, key, {"data": {f"k{number}": "" for number in range(HALF)}})


def test_depth_and_number_are_counted_exactly() -> None:
    deep: Any = 1
    for _ in range(DEPTH_MAX):
        deep = [deep]
    check_bounds(deep)
    with pytest.raises(BadRequest, match="exceeded max depth"):
        check_bounds([deep])
    check_bounds([0] * (VALUES_MAX - 1))
    with pytest.raises(TooLarge):
        check_bounds([0] * VALUES_MAX)


def test_a_small_text_is_known_to_be_within_the_bounds() -> None:
    deep, values = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX, b"[" + b"0," * 2046 + b"10]"
    for body in (deep, values):
        assert is_within_bounds(body)
        check_bounds(parse_json(body), len(body))
    with pytest.raises(TooDeep):
        parse_json(b"[" + deep + b"]")
    assert not is_within_bounds(values + b" ")


def test_exit_codes_of_a_job_are_not_each_compared_with_all_before() -> None:
    compared = 0

    class Code(int):
        __hash__ = int.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return int(self) == other

    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [*map(Code, range(1, 1001)), Code(7)]}}
    template = {"spec": {"containers": []}}
    spec = {
        "completionMode": "NonIndexed",
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [rule]},
        "template": template,
    }
    twice = [cause.field for cause in jobpolicies.validate(spec) if cause.reason == "FieldValueDuplicate"]
    assert ["spec.podFailurePolicy.rules[0].onExitCodes.values[1000]"] == twice
    assert compared <= 10_000


def test_an_object_has_a_largest_size_and_can_always_go() -> None:
    store, key = a_store(), Key("default", "s")
    note = {"example.com/a": "x" * 250_000}
    create(store, SECRETS, {"metadata": {"name": "s", "annotations": note, "finalizers": ["example.com/f"]}}, "default")
    fields = [
        {"manager": f"m{number}", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
        for number in range(1)
    ]
    record = [{**fields[0], "fieldsV1": {f"f:{'x' * 1000}{number}": {} for number in range(1900)}}]
    with pytest.raises(TooLarge, match=r"an object of \d+ bytes, limit is 2097152"):
        patch(store, SECRETS, key, {"metadata": {"managedFields": record}})
    assert not store.delete(SECRETS, key, 0.0).gone
    assert patch(store, SECRETS, key, {"metadata": {"finalizers": None}}).gone


def test_a_large_answer_is_not_given_in_yaml() -> None:
    assert b"a: 1\n" == as_yaml(b'{"a":1}')
    with pytest.raises(NotAcceptable, match="too much for YAML; ask for JSON"):
        as_yaml(msgspec.json.encode({"a": "x" * (1 << 20)}))


def test_the_head_of_an_answer_stays_small() -> None:
    warnings = tuple(f"{number} {'x' * 10_000}" for number in range(1000))
    assert len(rendered(HttpReply(200, b"", warnings=warnings), "", is_last=False)) < 8000


def test_an_answer_has_so_many_headers_as_clients_in_python_read() -> None:
    warnings = tuple(f"w{number}" for number in range(1000))
    assert 80 == rendered(HttpReply(200, b"", warnings=warnings), "", is_last=False).count(b"Warning: ")


def below(key: str, value: Any) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {key: value}}


def test_the_paths_of_all_values_together_have_a_largest_length() -> None:
    """Each value's path is a text, and there are 45,000 values below a key of a megabyte."""
    check_bounds(below("k" * 1_000_000, [0] * 14))
    with pytest.raises(TooLarge, match="many values below a long key"):
        check_bounds(below("k" * 1_000_000, [0] * 20))
    check_bounds({f"{number}": {"k" * 100: [0] * 10} for number in range(4000)})


def twice_in(body: bytes) -> list[str]:
    return duplicate_fields(body, parse_json(body))


def test_what_is_there_twice_below_a_long_key_is_told_in_few_words() -> None:
    body = b'{"metadata":{"name":"x"},"data":{"%b":{%b}}}' % (b"k" * 10_000, b",".join([b'"a":1,"b":2'] * 1000))
    assert twice_in(body) == [f'duplicate field "data.{"k" * 10_000}.{name}"' for name in "ab"]
    many = b'{"data":{"%b":{%b}}}' % (
        b"k" * 10_000,
        b",".join(b'"%x":1,"%x":1' % (number, number) for number in range(1000)),
    )
    assert sum(map(len, twice_in(many))) < 100_000
    assert ['duplicate field "a[1].b"'] == twice_in(b'{"a":[0,{"b":1,"b":2}]}')


@each_row("body", [b'{"a":1,"a":100000.0}', b'{"a":1,"a":1e5}', b'{"a":[{"b":"x","b":"x"}]}', b'{ "a":1, "a":1 }'])
def test_no_body_hides_what_is_there_twice(body: bytes) -> None:
    """Also one that is as long as its value without it: `{"a":1,"a":1e5}` and `{"a":100000.0}`."""
    assert len(twice_in(body)) == 1


@each_row("number", [b"1e400", b"9" * 400, b"-9223372036854775809", b"18446744073709551616"])
def test_a_number_of_any_size_may_be_there_once(number: bytes) -> None:
    assert twice_in(b'{"a":%b}' % number) == []
    assert twice_in(b'{"a":%b,"a":%b}' % (number, number)) == ['duplicate field "a"']


def test_of_very_many_causes_the_first_and_the_last_are_told() -> None:
    causes = [field_errors.invalid(f"spec[{number}]", "x", "y" * 1000) for number in range(5000)]
    error = field_errors.invalid_object("Thing", "", "x", causes)
    assert len(str(error)) < 400_000
    told = error.details["causes"]
    assert (told[0]["field"], told[-1]["field"]) == ("spec[0]", "spec[4999]")
    assert f"this one and {5000 - len(told)} more are not told" in told[-2]["message"]


def test_of_very_many_choices_the_first_are_told() -> None:
    told = field_errors.not_supported("a", "x", [f"choice-{number}" for number in range(1000)]).message
    assert told.endswith('"choice-99", and 900 more')
    assert len(field_errors.not_supported("a", "x", ["c" * 1_000_000]).message) < 2000
    assert (
        'Unsupported value: "x": supported values: "1", "a"' == field_errors.not_supported("a", "x", [1, "a"]).message
    )


def test_the_finalizers_of_an_object_that_goes_are_compared_once() -> None:
    compared = 0

    class Name(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, str(other))

        __hash__ = str.__hash__

    names = [Name(f"a.example/f{number}") for number in range(1000)]
    before = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [str(name) for name in names]}
    assert [] == list(metadata.validate_update({**before, "finalizers": names}, before))
    added = metadata.validate_update({**before, "finalizers": [*names, Name("a.example/new")]}, before)
    assert ["metadata.finalizers"] == [cause.field for cause in added]
    assert compared <= 10_000


def test_a_selector_of_half_a_megabyte_is_read_once() -> None:
    """Of values that are one; a bound on requirements does not see them."""
    begun = time.process_time()
    assert parse_labels(f"a in ({','.join(['x'] * 250_000)})") == parse_labels("a in (x)")
    assert time.process_time() - begun < SECONDS_MAX


def test_of_classes_only_those_are_read_that_may_be_the_default() -> None:
    store = a_store()
    create(store, STORAGE_CLASSES, a_class("plain"))
    create(
        store, STORAGE_CLASSES, a_class("default", annotations={"storageclass.kubernetes.io/is-default-class": "true"})
    )
    view = StoreView(store._tables)
    assert ["default"] == [
        found["metadata"]["name"] for found in view.all(STORAGE_CLASSES.path, word=b"is-default-class")
    ]
    assert "default" == default_class(view)
