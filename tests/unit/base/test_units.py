"""Durations in Go's syntax."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.base.units import format_duration, parse_duration_s
from tests.support.rows import each_row

EXACT_NS = (
    2**50
)  # nanoseconds that seconds as a float tell apart, and that survive the way there and back; some 13 days


@each_row(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("-0", 0.0),
        ("300ms", 0.3),
        ("1.5s", 1.5),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1h2m3.5s", 3723.5),
        ("+5s", 5.0),
        ("-5s", -5.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("7us", 7e-6),
        ("7µs", 7e-6),
        ("7μs", 7e-6),
        ("7ns", 7e-9),
        ("0.9ns", 0.0),
        ("1s1s", 2.0),
        ("2562047h47m16.854775807s", (2**63 - 1) / 1e9),
        ("-2562047h47m16.854775808s", -(2**63) / 1e9),
    ],
)
def test_a_duration_of_gos_syntax_is_read(text, seconds):
    assert parse_duration_s(text) == seconds


@each_row(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("5", 'time: missing unit in duration "5"'),
        ("1m5", 'time: missing unit in duration "1m5"'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        (" 1s", 'time: invalid duration " 1s"'),
        ("1 s", 'time: unknown unit " s" in duration "1 s"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1.2.3s", 'time: missing unit in duration "1.2.3s"'),
        ("１s", 'time: invalid duration "１s"'),
        ("3000000h", 'time: invalid duration "3000000h"'),
        ("2562047h47m16.854775808s", 'time: invalid duration "2562047h47m16.854775808s"'),
    ],
)
def test_anything_else_is_refused_in_gos_words(text, message):
    with pytest.raises(ValueError) as refusal:
        parse_duration_s(text)
    assert message == str(refusal.value)


@each_row(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1e-9, "1ns"),
        (999e-9, "999ns"),
        (1e-6, "1µs"),
        (999.999e-6, "999.999µs"),
        (1e-3, "1ms"),
        (0.999999999, "999.999999ms"),
        (1, "1s"),
        (59.999999999, "59.999999999s"),
        (60, "1m0s"),
        (-1e-9, "-1ns"),
        (1e300, "2562047h47m16.854775807s"),
        (-1e300, "-2562047h47m16.854775808s"),
        (90, "1m30s"),
        (3600, "1h0m0s"),
        (0.3, "300ms"),
        (1.5e-6, "1.5µs"),
        (2e-9, "2ns"),
        (-0.25, "-250ms"),
        (5400.25, "1h30m0.25s"),
        (600, "10m0s"),
    ],
)
def test_a_duration_is_shown_as_go_shows_it(seconds, text):
    assert text == format_duration(seconds)


@given(st.integers(-EXACT_NS, EXACT_NS))
def test_what_was_shown_is_read_back_the_same(nanoseconds):
    seconds = nanoseconds / 1e9
    assert seconds == parse_duration_s(format_duration(seconds))


@given(st.text(alphabet="0123456789.-+nuµmsh ", max_size=20))
def test_any_text_is_a_duration_or_a_value_error(text):
    try:
        seconds = parse_duration_s(text)
    except ValueError:
        return
    assert math.isfinite(seconds)
