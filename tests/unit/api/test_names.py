from __future__ import annotations

from mooring.api import names
from tests.support.rows import each_row

ROWS = {
    "subdomain": (names.dns_subdomain, "a.b-c.0", "A", "a..b"),
    "label": (names.dns_label, "a-0", "a.b", "-a"),
    "qualified": (names.qualified_name, "example.com/My_Name.x", "a/b/c", "/x"),
    "value": (names.label_value, "", "a b", "-"),
    "segment": (names.path_segment, "Pod:with odd", "..", "a/b"),
    "prefix": (names.prefix_of(names.dns_subdomain), "vol-", "Vol-", "vol_"),
}


@each_row("row", ROWS)
def test_each_rule_lets_the_right_names_through(row: str) -> None:
    rule, good, *bad = ROWS[row]
    assert [] == rule(good)
    for name in bad:
        assert rule(name), name


@each_row(
    ("rule", "length", "unit"),
    [
        (names.dns_subdomain, 253, "characters"),
        (names.dns_label, 63, "characters"),
        (names.label_value, 63, "bytes"),
    ],
)
def test_names_have_a_largest_length(rule: object, length: int, unit: str) -> None:
    assert callable(rule)
    assert [] == rule("a" * length)
    assert [f"must be no more than {length} {unit}"] == rule("a" * (length + 1))


def test_length_counts_bytes() -> None:
    assert "must be no more than 63 characters" in names.dns_label("ü" * 32)


def test_a_name_with_dots_is_told_so_where_dots_are_the_fault() -> None:
    assert ["must not contain dots"] == names.dns_label("a.b")
