from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.selector import parse_fields, parse_labels
from tests.support.rows import each_row

NUMBERS = {"long": str(2**63), "spaced": "1_000", "least": str(-(2**63)), "most": str(2**63 - 1)}
LABELS = {"a": "1", "b": "x", "c/d": "", **NUMBERS}
HOLDS = {
    "": True,
    "a": True,
    "!a": False,
    "! z": True,
    "a=1": True,
    "a==1": True,
    "a!=1": False,
    "z!=1": True,
    "a in (1,2)": True,
    "a in (2)": False,
    "a notin (2, 3),b": True,
    "z notin (1)": True,
    "c/d=": True,
    "c/d in ()": True,
    "a>0": True,
    "a<1": False,
    "b>0": False,
    "z>0": False,
    "long>0": False,
    "spaced>0": False,
    "least<0": True,
    "most>" + "0" * 30 + "1": True,
    " a = 1 , b = x ": True,
    "in": False,
}


@each_row("text", HOLDS)
def test_a_label_selector_holds_or_not(text: str) -> None:
    assert HOLDS[text] == parse_labels(text).matches(LABELS)


@each_row(
    ("text", "why"),
    [
        ("a in 1", "unable to parse requirement: found '1' expected: '('"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("/x=1", 'unable to parse requirement: <nil>: Invalid value: "/x"'),
        ("a>x", 'unable to parse requirement: values[0]: Invalid value: "x"'),
        ("a=-", 'unable to parse requirement: values[0][a]: Invalid value: "-"'),
        ("a in (-,b,c)", 'unable to parse requirement: values[0][a]: Invalid value: "-"'),
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,,b", "found ',', expected: !, identifier, or 'end of string'"),
        ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
        ("a!b", "unable to parse requirement"),
        ("a=(b)", "unable to parse requirement"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("a/b/c=d", "unable to parse requirement"),
        ("a<9223372036854775808", "the value must be an integer"),
        ("a>1_0", "the value must be an integer"),
        ("a>-1", 'values[0][a]: Invalid value: "-1"'),
        ("a>" + "1" * 5000, "the value must be an integer"),
    ],
)
def test_what_is_no_label_selector_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parse_labels(text)


@each_row(
    ("text", "holds"),
    [("x=1", True), ("x==1,y=", True), ("x!=1", False), (r"z=a\,b\=c", True), ("", True), ("x=1,", True)],
)
def test_a_field_selector_holds_or_not(text: str, holds: bool) -> None:
    assert holds == parse_fields(text).matches({"x": "1", "y": "", "z": "a,b=c"})


def test_what_is_said_again_is_asked_once() -> None:
    assert 2 == len(parse_labels(",".join(["a", "b=c"] * 1000)).requirements)
    assert 1 == len(parse_fields(",".join(["a=b"] * 1000)).requirements)


@each_row("text", ["x", "x in (a)", "x=a=b"])
def test_what_is_no_field_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="selector"):
        parse_fields(text)


@given(st.text(alphabet="ab1=!<>(), \t\nin/-.ü", max_size=30))
def test_any_text_is_a_selector_or_a_clean_error(text: str) -> None:
    for parse in (parse_labels, parse_fields):
        try:
            parse(text).matches(LABELS)
        except ValueError:
            pass
