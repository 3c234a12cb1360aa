"""Protobuf bodies into JSON values: what is taken, and what strangers may send."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.codecs.jsonbody import Huge
from mooring.apiserver.codecs.protobody import parse_protobuf
from mooring.apiserver.codecs.schema import Message, Messages, decode
from mooring.apiserver.rules import RESOURCES
from tests.support.podsamples import OMIT
from tests.support.protobuf import body, chunk, encode, envelope, number, varint
from tests.support.rows import each_row
from tests.support.samples import RULES, samples

SHAPES = Messages("""
Thing: 1 name s, 2 size i32, 3 big i64, 4 on b, 5 tags *s, 6 numbers *i32, 7 key y, 8 when time, \
9 exact micro, 10 amount q, 11 port intstr, 12 raw any, 13 part Part, 14 parts *Part, 15 labels {s}, \
16 amounts {q}, 17 byName {Part}, 18 <> Part, 19 ratio f64
Part: 1 name s, 2 note s, 3 inner Part
""")
THING = SHAPES["Thing"]


def parsed(content: bytes, message: Message = THING) -> dict[str, Any]:
    return parse_protobuf(envelope("v1", "Thing", content), message)


def told(content: bytes) -> dict[str, Any]:
    """The fields alone."""
    found = parsed(content)
    assert ("v1", "Thing") == (found.pop("apiVersion"), found.pop("kind"))
    return found


ALL = [sample for resource in RESOURCES if resource.decode is None for sample in samples(resource)]


@each_row("sample", ALL, ids=str)
def test_every_declared_field_comes_back(sample: Any) -> None:
    obj = sample.make("x")
    found = parse_protobuf(body(sample.resource, obj), sample.resource.message)
    assert {"apiVersion": sample.resource.api_version, "kind": sample.resource.kind, **obj} == found


def test_the_samples_leave_no_field_out() -> None:
    """Else a wrong number could hide: the conformance tests hold these samples against the real server."""
    covered: set[str] = set()
    declared: set[str] = set()
    for sample in ALL:
        _walk(sample.resource.message, sample.make("x"), declared, covered)
    left_out = {
        field for rules in (RULES, *(sample.rules for sample in ALL)) for field, value in rules.items() if value is OMIT
    }
    assert [] == sorted(declared - covered - left_out)


def _walk(message: Message, value: Any, declared: set[str], covered: set[str]) -> None:
    for field in message.declared:
        path, inner = f"{message.name}.{field.name}", message.of(field)
        given = value if field.name == "<>" else value.get(field.name)
        if field.name == "<>":
            assert inner is not None
            _walk(inner, value, declared, covered)
            continue
        declared.add(path)
        if given is None:
            continue
        covered.add(path)
        if inner is not None:
            for item in given if field.shape == "*" else given.values() if field.shape == "{" else [given]:
                _walk(inner, item, declared, covered)


@each_row(
    ("content", "value"),
    [
        (number(2, -1), {"size": -1}),
        (number(2, 2**32 + 5), {"size": 5}),
        (number(3, -(2**63)), {"big": -(2**63)}),
        (number(4, 7), {"on": True}),
        (number(6, 1) + chunk(6, varint(2) + varint(2**64 - 3)) + number(6, 4), {"numbers": [1, 2, -3, 4]}),
        (chunk(7, b"\0\1"), {"key": "AAE="}),
        (chunk(8, b""), {"when": None}),
        (chunk(8, number(1, 0)), {"when": None}),
        (chunk(8, number(1, 1_700_000_000) + number(2, 999_999_999)), {"when": "2023-11-14T22:13:20Z"}),
        (chunk(8, number(1, -1)), {"when": "1969-12-31T23:59:59Z"}),
        (chunk(9, number(1, 1_700_000_000) + number(2, 7_999)), {"exact": "2023-11-14T22:13:20.000007Z"}),
        (chunk(10, chunk(1, b"1024Mi")), {"amount": "1024Mi"}),
        (chunk(10, b""), {"amount": "0"}),
        (chunk(11, number(1, 0) + number(2, 80)), {"port": 80}),
        (chunk(11, number(1, 1) + chunk(3, b"http")), {"port": "http"}),
        (chunk(11, b""), {"port": 0}),
        (chunk(12, chunk(1, b'{"a": [1]}')), {"raw": {"a": [1]}}),
        (chunk(12, b""), {"raw": None}),
        (chunk(13, chunk(1, b"a")) + chunk(13, chunk(2, b"b")), {"part": {"name": "a", "note": "b"}}),
        (chunk(14, b"") + chunk(14, chunk(1, b"a")), {"parts": [{}, {"name": "a"}]}),
        (chunk(15, chunk(1, b"k") + chunk(2, b"v")) + chunk(15, chunk(1, b"k")), {"labels": {"k": ""}}),
        (chunk(15, chunk(2, b"v")), {"labels": {"": "v"}}),
        (chunk(16, chunk(1, b"k")), {"amounts": {"k": "0"}}),
        (chunk(17, chunk(1, b"k") + chunk(2, chunk(1, b"a"))), {"byName": {"k": {"name": "a"}}}),
        (chunk(18, chunk(2, b"inlined")), {"note": "inlined"}),
        (chunk(1, b"a") + chunk(1, b"b"), {"name": "b"}),
        (chunk(1, b"\xc3"), {"name": "\ufffd"}),
        (varint(19 << 3 | 1) + struct.pack("<d", 0.5), {"ratio": 0.5}),
    ],
)
def test_the_wire_means(content: bytes, value: dict[str, Any]) -> None:
    assert value == told(content)


def test_what_is_unknown_is_skipped() -> None:
    nested = (
        varint(99 << 3 | 3)
        + number(1, 1)
        + chunk(2, b"x")
        + varint(98 << 3 | 3)
        + varint(98 << 3 | 4)
        + varint(99 << 3 | 4)
    )
    rest = number(100, 1) + varint(101 << 3 | 1) + b"12345678" + varint(102 << 3 | 5) + b"1234"
    assert {"name": "a"} == told(nested + chunk(1, b"a") + rest)


@each_row(
    ("content", "why"),
    [
        (b"\x0a", "unexpected end"),
        (b"\x0a\x05abc", "unexpected end"),
        (b"\x0a" + b"\xff" * 9 + b"\x01", "unexpected end"),
        (b"\x0a" + b"\xff" * 20, "more than 64 bits"),
        (b"\x10", "unexpected end"),
        (b"\x00\x00", "illegal field number"),
        (varint((2**29) << 3), "illegal field number"),
        (b"\x0c", "illegal wire type"),
        (b"\x0e", "illegal wire type"),
        (varint(99 << 3 | 3), "unexpected end"),
        (varint(99 << 3 | 3) * 100, "groups nested too deeply"),
        (number(1, 5), "wire type"),
        (chunk(2, b"x"), "wire type"),
        (number(13, 5), "wire type"),
        (chunk(8, number(1, 2**62)), "year is not in the range"),
        (chunk(12, chunk(1, b"{")), "no JSON"),
        (chunk(12, chunk(1, b"[" * 5000)), "no JSON"),
    ],
)
def test_what_is_no_message_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parsed(content)


@each_row("digits", [309, 400])
def test_a_number_that_no_float_holds_is_none_of_pythons(digits: int) -> None:
    """The first is found wherever it stands, since one letter in 77 is looked at."""
    for letters in range(80):
        found = told(chunk(12, chunk(1, f'{{"{"a" * letters}":-{"9" * digits}}}'.encode())))["raw"]
        assert [f"-{'9' * digits}"] == [str(value) for value in found.values() if isinstance(value, Huge)]


@pytest.mark.slow
@each_row(
    "content",
    [chunk(5, b"") * 400_001, chunk(6, b"\1" * 400_001), number(99, 1) * 400_001, chunk(15, number(9, 1) * 400_001)],
    ids=["items", "packed", "unknown", "in an entry"],
)
def test_an_object_may_not_have_countless_fields(content: bytes) -> None:
    with pytest.raises(ValueError, match="more than 400000 fields"):
        parsed(content)


def test_depth_has_an_end() -> None:
    content = b""
    for _ in range(1000):
        content = chunk(3, content)
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed(content, SHAPES["Part"])


@each_row(
    ("content", "why"),
    [
        (b"{}", "does not start with"),
        (b"k8s\0", "no envelope"),
        (b"k8s\0" + number(2, 1), "wire type"),
        (b"k8s\0" + chunk(3, b"gzip") + chunk(2, b""), "content encoding"),
        (b"k8s\0\x12\x7f", "unexpected end"),
    ],
)
def test_what_is_no_envelope_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_protobuf(content, THING)


_PV = next(resource for resource in RESOURCES if resource.kind == "PersistentVolume")


@given(st.binary(max_size=400))
def test_whatever_comes_is_a_value_or_an_error(content: bytes) -> None:
    for message in (THING, _PV.message):
        try:
            found = parsed(content, message)
        except ValueError:
            continue
        assert isinstance(found, dict)


@given(st.data())
def test_a_damaged_body_is_a_value_or_an_error(data: st.DataObject) -> None:
    """Near what is valid, where chance alone does not come."""
    whole = bytearray(encode(_PV.message, samples(_PV)[-1].make("x")))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = parsed(bytes(whole[: data.draw(st.integers(0, len(whole)))]), _PV.message)
        decode(_PV.message, {name: value for name, value in found.items() if name not in ("apiVersion", "kind")}, [])
    except ValueError:
        pass
