"""What is too much: both servers refuse the same, and say the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.applying import APPLY_PATCH
from tests.support.customkinds import GROUP, a_definition, a_version, an_object, installed, spec_of
from tests.support.paths import LEASES, SECRETS
from tests.support.rest import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Rest
from tests.support.rows import each_row

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
BODY_BYTES_MAX = 3 * 1024 * 1024
LONG = "9" * 400
NUMBERS = {
    "number": {"type": "number"},
    "half": {"type": "number", "multipleOf": 0.5, "minimum": -1.5},
    "whole": {"type": "integer"},
    "either": {"x-kubernetes-int-or-string": True},
    "open": {"x-kubernetes-preserve-unknown-fields": True},
}
PATTERN = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.fixture
def path(api: Rest, name: str) -> str:
    """A ConfigMap's."""
    api.post(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"a": "x" * 1000}}).ok(201)
    return f"{CONFIG_MAPS}/{name}"


# -- patches


def test_a_json_patch_that_doubles_an_object_again_and_again_is_refused_whole(api: Rest, path: str) -> None:
    patch = [{"op": "copy", "from": "/metadata", "path": f"/metadata/{number}"} for number in range(30)]
    status = api.patch(path, patch, JSON_PATCH).refused(422, "Invalid")
    assert "the server rejected our request due to an error in our request" == status["message"]


def test_copies_of_a_json_patch_are_counted_together(api: Rest, path: str) -> None:
    api.patch(
        path,
        [{"op": "copy", "from": "/data/a", "path": f"/data/{number}"} for number in range(900)],
        JSON_PATCH,
        dryRun="All",
    ).ok()
    copies = [{"op": "copy", "from": "/data/a", "path": "/data/b"}] * 3500
    api.patch(path, copies, JSON_PATCH, dryRun="All").refused(422, "Invalid", says="the server rejected our request")


def test_the_operations_of_a_json_patch_are_counted(api: Rest, path: str) -> None:
    operation: Any = {"op": "test", "path": "/data/none"}
    api.patch(path, [operation] * 10_000, JSON_PATCH).ok()
    text = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    for operations in ([operation] * 10_001, [None] * 10_001):
        assert text == api.patch(path, operations, JSON_PATCH).refused(413, "RequestEntityTooLarge")["message"]


@each_row("kind", [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH, "POST", "PUT"])
def test_a_body_has_a_largest_size(api: Rest, path: str, kind: str) -> None:
    large = "x" * BODY_BYTES_MAX
    body: Any = [{"op": "add", "path": "/data/b", "value": large}] if kind == JSON_PATCH else {"data": {"b": large}}
    if kind in ("POST", "PUT"):
        answer = api.request(kind, CONFIG_MAPS if kind == "POST" else path, {"metadata": {"name": "x"}, **body})
    else:
        answer = api.patch(path, body, kind, fieldManager="m")
    text = f"Request entity too large: limit is {BODY_BYTES_MAX}"
    assert text == answer.refused(413, "RequestEntityTooLarge")["message"]


# -- depth


@each_row("kind", [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH, "POST", "YAML"])
@each_row("levels", [b"[]", b"{}"])
def test_what_is_nested_too_deeply_is_refused(api: Rest, path: str, kind: str, levels: bytes) -> None:
    """Differs from kube-apiserver in how deep that is: 128 levels here, 10,000 there."""
    begin, end = (b"[", b"]") if levels == b"[]" else (b'{"a":', b"}")
    value = begin * 11_000 + b"1" + end * 11_000
    if kind in ("POST", "YAML"):
        media_type = "application/json" if kind == "POST" else "application/yaml"
        answer = api.request("POST", CONFIG_MAPS, b'{"metadata":{"name":"x"},"x":%b}' % value, media_type)
    else:
        body = b'[{"op":"add","path":"/x","value":%b}]' % value if kind == JSON_PATCH else b'{"data":%b}' % value
        answer = api.patch(path, body, kind, fieldManager="m")
    answer.refused(400, "BadRequest", says="exceeded max depth")


def test_a_depth_that_has_a_use_is_taken(api: Rest, path: str) -> None:
    value = b'{"a":' * 120 + b"1" + b"}" * 120
    assert ['299 - "unknown field \\"x\\""'] == api.patch(path, b'{"x":%b}' % value, dryRun="All").warnings


# -- what is told


def test_so_many_fields_are_told_and_no_more(api: Rest, name: str) -> None:
    unknown = ",".join(f'"u{number:04}":1,"u{number:04}":2' for number in range(60))
    twice = ",".join(f'"d{number:04}":"","d{number:04}":""' for number in range(60))
    body = f'{{"metadata":{{"name":"{name}"}},"data":{{{twice}}},{unknown}}}'.encode()
    status = api.post(CONFIG_MAPS, body, fieldValidation="Strict").refused(400, "BadRequest")
    assert 100 == status["message"].count("unknown field") + status["message"].count("duplicate field")


def test_long_warnings_are_cut(api: Rest, name: str) -> None:
    fields = ",".join(f'"{str(number) * 3000}":1' for number in range(1, 4))
    warnings = api.post(CONFIG_MAPS, f'{{"metadata":{{"name":"{name}"}},{fields}}}'.encode(), dryRun="All").warnings
    assert [f'299 - "unknown field \\"{number * 241}"' for number in ("1", "2", "3")] == warnings


# -- numbers


@each_row(
    ("written", "kept"),
    [
        ('"12345678901234567890"', "12345678901234567890"),
        ("12345678901234567890", "12345678901234567890"),
        ('"9223372036854775808"', "9223372036854775808"),
        ('"12345678901234567890.5"', "12345678901234567890500m"),
        ('"12345678901234567890k"', "12345678901234567890k"),
        ('"99999999999999999999999999999999n"', "99999999999999999999999999999999n"),
        ('"10000P"', "10E"),
        ('"9.5E"', "9500P"),
        ('"1e19"', "10e18"),
        ("1e30", "1e30"),
        ('"1e400"', "10e399"),
        ("1e400", "10e399"),
        ('"1E"', "1E"),
        ('"1E1"', "10"),
        ('"8Ei"', "9223372036854775807"),
        ('"9223372036854775808Ki"', "9223372036854775807"),
        ('"1e-400"', "1e-9"),
    ],
)
def test_a_large_quantity_keeps_its_text(api: Rest, name: str, written: str, kept: str) -> None:
    body = f'{{"metadata":{{"name":"{name}"}},"storageClassName":"x","capacity":{written}}}'.encode()
    assert kept == api.post(CAPACITIES, body, dryRun="All").ok(201)["capacity"]


@each_row("written", ['"1e"', "true", "[]", '"0x10"'])
def test_what_is_no_quantity_is_refused(api: Rest, name: str, written: str) -> None:
    body = f'{{"metadata":{{"name":"{name}"}},"storageClassName":"x","capacity":{written}}}'.encode()
    says = "" if written == '"1e"' else PATTERN
    api.post(CAPACITIES, body).refused(400, "BadRequest", says=says)


@each_row("number", ["1e400", "-1E400", "2147483648", "1.5", "99999999999999999999999999", LONG, f"-{LONG}"])
def test_a_number_that_does_not_fit_is_told_as_it_was_written(api: Rest, name: str, number: str) -> None:
    """Differs from kube-apiserver, which names Go's struct before the field."""
    body = f'{{"metadata":{{"name":"{name}"}},"spec":{{"leaseDurationSeconds":{number}}}}}'.encode()
    before = 'Lease in version "v1" cannot be handled as a Lease: '
    message = api.post(LEASES, body).refused(400, "BadRequest")["message"].replace("LeaseSpec.", "")
    assert (
        f"{before}json: cannot unmarshal number {number} into Go struct field spec.leaseDurationSeconds of type int32"
        == message
    )


def test_a_number_in_place_of_a_text_is_not_told(api: Rest, name: str) -> None:
    body = {"metadata": {"name": name}, "type": 1.5}
    api.post(SECRETS, body).refused(400, "BadRequest", says="json: cannot unmarshal number into Go struct field ")


@each_row("number", [LONG, f"-{LONG}", "1e400"])
def test_an_applied_number_that_no_float_holds_is_text(api: Rest, name: str, number: str) -> None:
    """Since an apply is YAML, also one in JSON."""
    body = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}","generation":{number}}}}}'.encode()
    answer = api.patch(f"{CONFIG_MAPS}/{name}", body, APPLY_PATCH, fieldManager="m", force="true")
    assert 500 == answer.status, answer
    assert answer.json["message"].endswith(".metadata.generation: expected numeric (int or float), got string"), answer


@each_row("number", [LONG, f"-{LONG}", "1e400"])
@each_row("member", ["number", "half", "whole", "either", "open"])
def test_a_custom_object_has_no_number_that_no_float_holds(api: Rest, name: str, number: str, member: str) -> None:
    numbers = installed(api, a_definition("numbers", a_version(spec_of(**NUMBERS))))
    whole = (
        f'{{"apiVersion":"{GROUP}/v1","kind":"Number","metadata":{{"name":"{name}"}},"spec":{{"{member}":{number}}}}}'
    ).encode()
    says = f"cannot unmarshal number {number} into Go value of type float64"
    api.post(numbers, whole).refused(400, "BadRequest", says=says)
    api.post(numbers, an_object("numbers", name)).ok(201)
    api.request("PUT", f"{numbers}/{name}", whole).refused(400, "BadRequest", says=says)
    spec = f'{{"{member}":{number}}}'
    for patch, kind in (
        (f'{{"spec":{spec}}}', MERGE_PATCH),
        (f'[{{"op":"add","path":"/spec","value":{spec}}}]', JSON_PATCH),
    ):
        assert 400 <= api.patch(f"{numbers}/{name}", patch.encode(), kind).status < 500


# -- YAML


@each_row(
    ("written", "read"),
    [
        ("1:30", "1:30"),
        ("1e400", "1e400"),
        ("1.0e+400", "1.0e+400"),
        ("0xfffffffffffffffff", "0xfffffffffffffffff"),
        ("!!str 5", "5"),
    ],
)
def test_yaml_has_no_numbers_that_go_has_not(api: Rest, name: str, written: str, read: str) -> None:
    body = f"metadata: {{name: {name}}}\ndata: {{a: {written}}}\n".encode()
    assert {"a": read} == api.request("POST", CONFIG_MAPS, body, "application/yaml", dryRun="All").ok(201)["data"]


@each_row("written", ["0o777", "0777", "1_000", "1e3", "08", ".5", "0b11", "y", "off", "YES"])
def test_yaml_has_the_numbers_and_words_that_go_has(api: Rest, name: str, written: str) -> None:
    body = f"metadata: {{name: {name}}}\ndata: {{a: {written}}}\n".encode()
    says = "cannot unmarshal number" if written[0] in "01." else "cannot unmarshal bool"
    api.request("POST", CONFIG_MAPS, body, "application/yaml").refused(400, "BadRequest", says=says)


@each_row("written", [".inf", "-.Inf", ".nan", "!!int 1:30", "!!float x", "!!bool maybe"])
def test_what_is_no_json_in_yaml_is_refused(api: Rest, name: str, written: str) -> None:
    body = f"metadata: {{name: {name}}}\nx: {written}\n".encode()
    api.request("POST", CONFIG_MAPS, body, "application/yaml").refused(400, "BadRequest")


def test_words_are_keys_in_yaml(api: Rest, name: str) -> None:
    body = f"metadata: {{name: {name}}}\ndata: {{true: a, 5: b}}\n".encode()
    assert {"true": "a", "5": "b"} == api.request("POST", CONFIG_MAPS, body, "application/yaml", dryRun="All").ok(201)[
        "data"
    ]
