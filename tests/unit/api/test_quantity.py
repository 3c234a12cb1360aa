from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.quantity import nearest_quantity, parse_quantity
from tests.support.rows import each_row

CANONICAL = {
    "0": "0",
    "1024Mi": "1Gi",
    "1536Mi": "1536Mi",
    "1.5Gi": "1536Mi",
    ".5Mi": "512Ki",
    "1Ei": "1Ei",
    "500M": "500M",
    "1000k": "1M",
    "1e3": "1e3",
    "0.5": "500m",
    "100m": "100m",
    "1.1Ki": "1126400m",
    "9E": "9E",
    "-1": "-1",
    "5e-1": "500e-3",
    "1023": "1023",
    "0.5Ki": "512",
}


@each_row("text", CANONICAL)
def test_a_quantity_has_one_canonical_form(text: str) -> None:
    assert CANONICAL[text] == str(parse_quantity(text))


@each_row("text", ["", "1Gib", "Gi", "1 Gi", "1..5", "1,5", "--1", "1KI", "0x10", "∞", "1e", "१"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        parse_quantity(text)


def test_what_is_finer_than_a_billionth_is_rounded_away_from_zero() -> None:
    assert ["1n", "-1n", "1e-9"] == [str(parse_quantity(text)) for text in ("0.1n", "-0.1n", "1e-400")]
    assert "12345678901234567890001m" == str(parse_quantity("12345678901234567890.0000001").rounded_up(-3))


@each_row(
    ("text", "kept"),
    [
        ("12345678901234567890", "12345678901234567890"),
        ("+00012345678901234567890.000", "12345678901234567890"),
        ("9223372036854775808", "9223372036854775808"),
        ("-9223372036854775809", "-9223372036854775809"),
        ("9223372036854775807.5", "9223372036854775807500m"),
        ("12345678901234567890k", "12345678901234567890k"),
        ("99999999999999999999999999999999n", "99999999999999999999999999999999n"),
        ("10E", "10E"),
        ("10000P", "10E"),
        ("9.5E", "9500P"),
        ("1e19", "10e18"),
        ("1e30", "1e30"),
        ("1e400", "10e399"),
        ("7Ei", "7Ei"),
        ("8Ei", "9223372036854775807"),
        ("-9Ei", "-9223372036854775807"),
        ("9223372036854775808Ki", "9223372036854775807"),
    ],
)
def test_what_64_bits_cannot_hold_is_cut_after_a_binary_suffix_alone(text: str, kept: str) -> None:
    assert kept == str(parse_quantity(text))


def test_a_suffix_beyond_the_largest_is_not_lost() -> None:
    """Differs from the API server, which writes 1."""
    assert "1000E" == str(parse_quantity("1000E"))


@each_row(
    ("text", "number"),
    [("1500m", 2), ("-1500m", -1), ("0.1n", 1), ("8Ei", 2**63 - 1), ("10E", 2**63), ("-1e9999", -(2**63))],
)
def test_as_a_whole_number_it_says_when_it_does_not_fit_64_bits(text: str, number: int) -> None:
    assert number == parse_quantity(text).whole


@each_row("text", ["1" * 1001, "1e10000", "1e1000000000", "1e-99999"])
def test_what_would_take_long_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        parse_quantity(text)


@given(number=st.integers(0, 10**15), suffix=st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "e3", "e-3"]))
def test_the_canonical_form_says_the_same_amount(number: int, suffix: str) -> None:
    quantity = parse_quantity(f"{number}{suffix}")
    again = parse_quantity(str(quantity))
    assert quantity.value == again.value
    assert str(quantity) == str(again)


@each_row(
    ("text", "meant"),
    [
        ("1GiB", "1Gi"),
        ("1gib", "1Gi"),
        ("10 Gi", "10Gi"),
        ("1.5TB", "1.5T"),
        ("20g", "20G"),
        ("1K", "1k"),
        ("1kb", "1k"),
        ("1KiB", "1Ki"),
        ("2 mbytes", "2M"),
        ("1Gi", "1Gi"),
        ("lots", ""),
        ("1x", ""),
        ("", ""),
        ("1e3", ""),
    ],
)
def test_what_was_meant_by_an_amount_that_is_written_another_way(text: str, meant: str) -> None:
    assert meant == nearest_quantity(text)
