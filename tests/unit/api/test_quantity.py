from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.quantity import nearest_quantity, parse_quantity

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


@pytest.mark.parametrize("text", CANONICAL)
def test_a_quantity_has_one_canonical_form(text: str) -> None:
    assert CANONICAL[text] == str(parse_quantity(text))


@pytest.mark.parametrize("text", ["", "1Gib", "Gi", "1 Gi", "1..5", "1,5", "--1", "1KI", "0x10", "∞", "1e", "१"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        parse_quantity(text)


def test_what_is_finer_than_a_billionth_is_rounded_up() -> None:
    assert "1n" == str(parse_quantity("0.1n"))


def test_what_is_too_large_is_cut() -> None:
    assert Decimal(2**63 - 1) == parse_quantity("10000E").value


@given(number=st.integers(0, 10**15), suffix=st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "e3", "e-3"]))
def test_the_canonical_form_says_the_same_amount(number: int, suffix: str) -> None:
    quantity = parse_quantity(f"{number}{suffix}")
    again = parse_quantity(str(quantity))
    assert quantity.value == again.value
    assert str(quantity) == str(again)


@pytest.mark.parametrize(
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
