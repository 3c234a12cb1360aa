"""CEL: what expressions mean, and that none is too much."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.apiserver.cel.checker import DYN, CompileError, checked
from mooring.apiserver.cel.compiler import CelScope, compiled, unescaped
from mooring.apiserver.cel.lexer import CelSyntaxError, tokens_of
from mooring.apiserver.cel.values import CelError
from mooring.apiserver.effort import Effort, NeedsThread, TooMuch, in_the_loop
from mooring.apiserver.regexp.programs import go_regexp
from tests.support.rows import each_row

NAMES: dict[str, Any] = {
    "n": 7,
    "f": 1.5,
    "s": "Straße",
    "t": True,
    "none": None,
    "l": [3, 1, 2],
    "m": {"a": 1, "b": {"c": None}},
    "big": list(range(1000)),
}


def value_of(text: str) -> Any:
    tree, _ = checked(text, dict.fromkeys(NAMES, DYN))
    return compiled(tree)(CelScope(NAMES, Effort()))


MEANINGS: dict[str, Any] = {
    "1 + 2 * 3 - 4 / 2": 5,
    "-7 / 2": -3,
    "-7 % 3": -1,
    "7 / -2 == -3 && 7 % -2 == 1": True,
    "2.0 / 0.0 > 1000.0": True,
    "1 == 1.0 && dyn(1) != true": True,
    "'a' < 'b' && b'a' < b'b' && false < true": True,
    "[1, [2]] == [1, [2]] && {'a': [1]} == {'a': [1]}": True,
    "[1, 2] + [3] == [1, 2, 3]": True,
    "n > 5 ? 'many' : 'few'": "many",
    "!t || n == 7": True,
    "m.a == 1 && m['a'] == 1 && 'a' in m && !('z' in m)": True,
    "has(m.a) && !has(m.z) && has(m.b) && !has(m.b.c)": True,
    "l.all(i, i > 0) && l.exists(i, i == 2) && l.exists_one(i, i > 2)": True,
    "l.filter(i, i > 1)": [3, 2],
    "l.map(i, i * 2)": [6, 2, 4],
    "l.map(i, i > 1, i * 2)": [6, 4],
    "m.exists(k, k == 'b') && m.all(k, v, k != 'a' || v == 1)": True,
    "l.all(place, item, place >= 0 && item > 0)": True,
    "size(s) == 6 && s.size() == 6 && size(l) == 3 && m.size() == 2": True,
    "s.startsWith('Str') && s.endsWith('ße') && s.contains('aß') && s.matches('^[A-Z]')": True,
    "s.substring(0, 3) + s.charAt(5)": "Stre",
    "'a,b,c'.split(',', 2)": ["a", "b,c"],
    "['a', 'b'].join('-')": "a-b",
    "' x '.trim() + 'aba'.replace('a', 'c', 1)": "xcba",
    "'abcb'.indexOf('b') + 'abcb'.lastIndexOf('b') + [1, 2].indexOf(2)": 5,
    "'a1b22'.find('[0-9]+') + 'a1b22'.findAll('[0-9]+')[1]": "122",
    "s.upperAscii() + s.lowerAscii()": "STRAßEstraße",
    "l.min() + l.max() + l.sum() + [1, 2, 2].lastIndexOf(2)": 12,
    "[1, 2, 2].isSorted() && !l.isSorted()": True,
    "int('12') + int(3.9) + int(timestamp('1970-01-01T00:00:05Z'))": 20,
    "string(n) + string(t) + string(1.0) + string(b'x')": "7true1x",
    "double('1.5') == f && bool('true')": True,
    "type(n) == int && type(s) == string && type(l) == list && type(none) == null_type": True,
    "timestamp('2024-01-01T00:00:00Z') + duration('1h30m') > timestamp('2024-01-01T01:00:00Z')": True,
    "duration('90s') == duration('1m30s') && duration('-1h') < duration('0')": True,
    "quantity('1Gi').compareTo(quantity('1024Mi')) == 0 && quantity('1').isLessThan(quantity('2'))": True,
    "isQuantity('1Ki') && !isQuantity('x')": True,
    "m.?z.orValue(5) + m.?a.value()": 6,
    "m.?b.?c.hasValue() || optional.none().hasValue() || l[?7].hasValue()": False,
    "sets.contains(l, [1, 2]) && sets.intersects(l, [9, 1]) && sets.equivalent([1, 2], [2, 1, 1])": True,
    r"r'\d' == '\\d' && '\x41\u00df\101' == 'AßA' && '''a'b''' == 'a\'b'": True,
    "0x1F == 31 && 1e3 == 1000.0 // a comment": True,
    "none == null && m.b.c == null": True,
}


@each_row("text", MEANINGS)
def test_an_expression_means_what_cel_says(text: str) -> None:
    value = value_of(text)
    assert (MEANINGS[text], type(MEANINGS[text])) == (value, type(value))


ERRORS = {
    "m.z": "no such key: z",
    "m['z']": "no such key: z",
    "l[3]": "index out of bounds: 3",
    "1 / 0": "division by zero",
    "1 % 0": "modulus by zero",
    "9223372036854775807 + 1": "integer overflow",
    "n + f": "no such overload",
    "n < s": "no such overload",
    "n && t": "no such overload",
    "int('x')": "invalid syntax",
    "timestamp('x')": "cannot parse",
    "duration('1')": "cannot parse",
    "l.exists(i, i / 0 == 1)": "division by zero",
    "m.?z.value()": "optional.none() dereference",
    "s.substring(9)": "invalid substring range",
}


@each_row("text", ERRORS)
def test_what_has_no_value_says_why(text: str) -> None:
    with pytest.raises(CelError, match="^.*" + ERRORS[text].replace("(", r"\(").replace(")", r"\)")):
        value_of(text)


@each_row("text", ["false && m.z == 1", "m.z == 1 && false", "!(true || m.z == 1)", "!(m.z == 1 || true)"])
def test_an_error_does_not_matter_where_the_other_side_decides(text: str) -> None:
    assert value_of(text) is False


@each_row(
    "text",
    ["l.exists(i, 6 / (i - 1) == 6 || i == 3)", "!l.all(i, i / (i - 1) == 7)"],
)
def test_an_error_in_one_round_does_not_matter_where_another_decides(text: str) -> None:
    assert value_of(text) is True


@each_row("text", ["1 +", "a b", "'open", "[1, 2", "{'a': }", "1 ? 2", "x.all(1, true)", "in", "a.in", "'\\q'", "#"])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(CompileError, match="Syntax error"):
        checked(text, {"a": DYN, "b": DYN, "x": DYN})


@each_row(
    "text",
    [
        "(" * 500 + "1" + ")" * 500,
        "!" * 500 + "t",
        "1" + " + 1" * 500,
        "m" + ".a" * 500,
        "[" * 500 + "]" * 500,
        "t" + " ? t : t" * 500,
        "1" * 20_000,
    ],
)
def test_what_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(CompileError, match=r"recursion limit exceeded|more than 16384 characters"):
        checked(text, dict.fromkeys(NAMES, DYN))


@pytest.mark.slow
def test_work_without_end_is_cut_off() -> None:
    with pytest.raises(TooMuch):
        value_of("big.all(a, big.all(b, big.all(c, a + b + c >= 0)))")


def test_a_list_of_one_list_many_times_is_not_counted_to_its_end() -> None:
    looks = 0

    class Seen(list[int]):
        def __iter__(self) -> Iterator[int]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    tree, _ = checked("many != []", {"many": DYN})
    with pytest.raises(NeedsThread):
        compiled(tree)(CelScope({"many": [Seen(range(2000))] * 2000}, in_the_loop()))
    assert looks < 100


def test_values_without_end_are_cut_off() -> None:
    text = "'xxxxxxxx'"
    for name in "abcdefghijklmnopqrst":
        text = f"[{text}].map({name}, {name} + {name})[0]"
    with pytest.raises(CelError, match="too large"):
        value_of(text)


def test_escaped_names_are_the_words_themselves() -> None:
    names = ["__namespace__", "a__dash__b", "a__dot__b__slash__c", "x__underscores__y", "__in__", "plain"]
    assert ["namespace", "a-b", "a.b/c", "x__y", "in", "plain"] == [unescaped(name) for name in names]


def test_a_timestamp_keeps_its_zone() -> None:
    assert datetime.datetime(2024, 1, 1, 1, tzinfo=datetime.UTC) == value_of("timestamp('2024-01-01T02:00:00+01:00')")


def test_tokens_know_their_place() -> None:
    assert [("name", 0), ("sign", 2), ("value", 5), ("end", 7)] == [
        (token.kind, token.at) for token in tokens_of("a == 12")
    ]
    with pytest.raises(CelSyntaxError) as error:
        tokens_of("a ~ b")
    assert 2 == error.value.at


@each_row(
    ("pattern", "text", "found"),
    [
        ("a$", "a\n", False),
        (r"a\z", "a", True),
        ("^[[:alpha:]]+$", "abc", True),
        ("^[[:^x]+$", "[", True),
        (r"^\d+$", "١", False),
        (r"^\Qa.b\E$", "a.b", True),
        (r"^\Qa.b\E$", "axb", False),
        ("(?m)^a$", "x\na\ny", True),
        ("[]$]", "$", True),
    ],
)
def test_regular_expressions_mean_what_go_says(pattern: str, text: str, found: bool) -> None:
    assert found is go_regexp(pattern).search(text)
