"""Regular expressions mean what they mean in Go, and take no longer than a text is long."""

from __future__ import annotations

import contextlib
import random
import re
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver import effort
from mooring.apiserver.effort import Effort, NeedsThread, TooMuch, in_the_loop
from mooring.apiserver.regexp import programs
from mooring.apiserver.regexp.programs import GoRegexp, go_regexp
from mooring.apiserver.regexp.syntax import RegexpError
from tests.support.rows import each_row

FOUND: list[tuple[str, str, list[str]]] = [
    (r"a|ab", "ab", ["a"]),
    (r"(?U)a+", "aaa", ["a", "a", "a"]),
    (r"(|a)*", "aa", ["", "", ""]),
    (r"(|a)+", "aa", ["", "", ""]),
    (r"(a|b)*?b", "aab", ["aab"]),
    (r"x{2,3}?", "xxxxx", ["xx", "xx"]),
    (r"x*", "xax", ["x", "x"]),
    (r"\b\w+\b", "ab, c", ["ab", "c"]),
    (r"(?m)^.$", "a\nb", ["a", "b"]),
    (r"(?s).", "\n", ["\n"]),
    (r".", "\n", []),
    (r"(?i)straße", "STRAßE", ["STRAßE"]),
    (r"(?i:[a-c]x)(?-i)D", "BXD bxd", ["BXD"]),
    (r"[]a-]+", "]-a", ["]-a"]),
    (r"[^]a]", "]b", ["b"]),
    (r"[[:alpha:][:^digit:]]", "é", ["é"]),
    (r"[\d\-x]+", "1-x", ["1-x"]),
    (r"\pL\p{Lu}\P{Lu}\p{^Lu}", "éÉab", ["éÉab"]),
    (r"\x41\x{e9}\101\t", "AéA\t", ["AéA\t"]),
    (r"\Qa.b\E+", "a.bbb", ["a.bbb"]),
    (r"a{,2}", "a{,2}", ["a{,2}"]),
    (r"(?P<n>a)(?<m>b)", "ab", ["ab"]),
    (r"\Aa\z", "a", ["a"]),
    (r"a$", "a\n", []),
    (r"\B", "", [""]),
]
"""By Go 1.26's FindAllString."""


@each_row(("pattern", "text", "found"), FOUND)
def test_what_is_found_is_what_go_finds(pattern: str, text: str, found: list[str]) -> None:
    assert found == list(go_regexp(pattern).find_all(text))
    assert bool(found) is go_regexp(pattern).search(text)


@each_row(
    ("pattern", "why"),
    [
        ("a**", "invalid nested repetition operator: `**`"),
        ("+?", "missing argument to repetition operator: `+?`"),
        ("{2}", "missing argument to repetition operator: `{2}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("x[a", "missing closing ]: `[a`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:no:]]", "invalid character class range: `[:no:]`"),
        (r"\y", r"invalid escape sequence: `\y`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)", "invalid or unsupported Perl syntax: `(?<`"),
        ("(" * 200 + ")" * 200, "expression nests too deeply"),
        ("(a{1000}){1000}", "expression too large"),
        ("(((((){1000}){1000}){1000}){1000}){1000}", "expression too large"),
    ],
)
def test_what_go_refuses_is_refused_in_its_words(pattern: str, why: str) -> None:
    with pytest.raises(RegexpError, match=re.escape(f"error parsing regexp: {why}")):
        go_regexp(pattern)


@each_row(
    ("pattern", "text", "found"),
    [
        ("(a+)+$", "a" * 100_000 + "b", False),
        ("(a|a)*b", "a" * 100_000, False),
        (".*.*.*.*x", "a" * 100_000, False),
        ("[a-z]*x", "a" * 100_000, False),
        ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a" * 100_000, True),
        ("^.{1,1000}$", "a" * 1000, True),
        ("(x?){500}x{500}", "x" * 600, True),
        ("(a|b)*a(a|b){15}$", "ab" * 20_000, True),
    ],
)
def test_no_expression_goes_back(pattern: str, text: str, found: bool) -> None:
    begun = time.process_time()
    assert found is go_regexp(pattern).search(text)
    assert time.process_time() - begun < 20


def test_what_would_take_long_is_given_up() -> None:
    begun = time.process_time()
    with pytest.raises(TooMuch):
        list(go_regexp("[a-z]*x").find_all("a" * 100_000))
    assert time.process_time() - begun < 30


_PARTS = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\d", r"\w", "-", r"\.", "^", r"\b"])
_PATTERNS = st.recursive(
    _PARTS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,3}"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
    ),
    max_leaves=8,
)


@given(_PATTERNS, st.text("ab1-. \n", max_size=10))
def test_what_python_finds_is_found(pattern: str, text: str) -> None:
    """The two differ in what they prefer where a loop can go round without a letter, but not in whether there is
    something.
    """
    assert (re.compile(pattern, re.ASCII).search(text) is not None) is go_regexp(pattern).search(text)


@given(st.text(r"ab()[]{}*+?|\^$-.,:dpQEx19PL<>i=!&", max_size=12), st.text("ab1", max_size=5))
def test_any_text_is_an_expression_or_a_clean_error(pattern: str, text: str) -> None:
    try:
        expression = go_regexp(pattern)
    except RegexpError:
        return
    assert bool(list(expression.find_all(text))) is expression.search(text)


def test_a_class_of_many_ranges_is_one_look() -> None:
    """Python's functions that a match calls, counted: no more for a class of a thousand ranges than for one of ten."""

    def calls(ranges: int) -> int:
        members = "".join(f"{chr(0x400 + 3 * number)}-{chr(0x401 + 3 * number)}" for number in range(ranges))
        expression = GoRegexp(f"^[{members}]$")
        return calls_of(lambda: expression.search("x"))

    assert calls(1000) == calls(10)


def calls_of(do: Callable[[], object]) -> int:
    """How many of Python's functions it calls."""
    count = 0

    def counted(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count


@each_row("pattern", ["(a|b)" * 6000, "a" * 9000, r"\pL" * 9000, "[a-z]" * 6000], ids=lambda pattern: pattern[:5])
def test_what_is_long_to_read_is_not_read_in_the_loop(pattern: str) -> None:
    def make() -> None:
        with effort.of_request(in_the_loop()), pytest.raises(NeedsThread):
            GoRegexp(pattern)

    assert calls_of(make) < 1000


def test_what_an_expression_remembers_is_bounded() -> None:
    letters = random.Random(1)
    expression = GoRegexp("(a|b)*a(a|b){900}c")
    with contextlib.suppress(TooMuch):
        expression.search("".join(letters.choice("ab") for _ in range(3000)))
    assert sum(len(state.at) for state in expression._states.values()) < 40_000


def test_expressions_are_kept_as_far_as_they_are_small() -> None:
    go_regexp("kept")
    with effort.of_request(Effort(10 * effort.STEPS_MAX)):
        for number in range(60):
            go_regexp(f"(a|b){{900}}(a|b){{900}}{number}")
    assert programs._KEPT._size <= programs._KEPT_SIZE_MAX
    assert programs._KEPT.get("kept") is None


def test_an_expression_that_was_made_twice_at_once_counts_once() -> None:
    """The loop and a thread may both miss it, and make it."""
    kept, text = programs._Kept(), "(a|b){900}"
    for _ in range(2):
        kept.put(text, GoRegexp(text))
    other = GoRegexp("other")
    kept.put("other", other)
    assert kept._size == sum(programs._size(pattern, found) for pattern, found in kept._found.items())
    assert kept.get("other") is other
