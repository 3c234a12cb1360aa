"""What stands in the cells of tables: ages, paths into custom objects, values by their type."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

import pytest

from mooring.apiserver import effort
from mooring.apiserver.custom.jsonpath import parse_path
from mooring.apiserver.effort import Effort, NeedsThread, in_the_loop
from mooring.apiserver.printers import column
from mooring.apiserver.printers.column import DEFAULT, Column
from mooring.apiserver.printers.kinds import _custom_columns, columns_of
from mooring.apiserver.resource import Custom, CustomColumn
from mooring.apiserver.rules import RESOURCES
from mooring.apiserver.table import Stored
from mooring.apiserver.web.rendering import TableRendering
from tests.support.applying import SHAPE_KIND
from tests.support.rows import each_row
from tests.unit.apiserver.objects import NOW

MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY


@each_row(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (-0.5, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (10 * MINUTE - 1, "9m59s"),
        (10 * MINUTE + 5, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 10 * MINUTE, "3h10m"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR + 10 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY + 5 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + 30 * DAY, "2y30d"),
        (8 * YEAR - 1, "7y364d"),
        (8 * YEAR + 30 * DAY, "8y"),
    ],
)
def test_ages_are_short(seconds: float, shown: str) -> None:
    assert shown == column.short_age(seconds)


@each_row("timestamp", [None, "", "0001-01-01T00:00:00Z"])
def test_no_time_has_no_age(timestamp: str | None) -> None:
    assert "<unknown>" == column.age_of(timestamp, NOW)


def test_an_age_is_counted_from_now() -> None:
    assert "20s" == column.age_of("2023-11-14T22:13:00Z", NOW)
    assert "20s" == column.age_of("2023-11-14T22:13:00.000001Z", NOW + 1)


OBJECT = {
    "metadata": {"annotations": {"a.b/c": "an"}},
    "spec": {
        "name": "x",
        "list": ["a", "b", 3],
        "map": {"b": 2, "a": 1},
        "conditions": [{"type": "A", "n": 1}, {"type": "B", "n": 2}],
    },
}


@each_row(
    ("path", "found"),
    [
        (".spec.name", ["x"]),
        (".spec['name']", ["x"]),
        ('.spec["name"]', ["x"]),
        (".spec.list[0]", ["a"]),
        (".spec.list[-1]", [3]),
        (".spec.list[5]", []),
        (".spec.list[0:2]", ["a", "b"]),
        (".spec.list[-2:]", ["b", 3]),
        (".spec.list[::2]", ["a", 3]),
        (".spec.list[*]", ["a", "b", 3]),
        (".spec.map.*", [1, 2]),
        ("..n", [1, 2]),
        (".metadata.annotations.a\\.b/c", ["an"]),
        (".metadata.annotations['a\\.b/c']", ["an"]),
        ('.spec.conditions[?(@.type=="B")].n', [2]),
        (".spec.conditions[?(@.type == 'B')].n", [2]),
        (".spec.conditions[?(@.n>=2)].type", ["B"]),
        (".spec.conditions[?(@.n>'x')].type", []),
        (".spec.conditions[?(@.missing)].type", []),
        (".spec.name[0]", []),
        (".spec.list.name", []),
        (".spec.missing.name", []),
    ],
)
def test_paths_find(path: str, found: list[Any]) -> None:
    assert found == parse_path(path)(OBJECT)


@each_row("path", ["spec", ".", ".a[", ".a[?(@.b==c)]", ".a b", ".a[?(x)]", "." + "a" * 2000])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="JSONPath"):
        parse_path(path)


def test_a_deep_object_is_searched_without_recursion() -> None:
    value: Any = {"n": 1}
    for _ in range(1500):
        value = {"a": value}
    assert [1] == parse_path("..n")(value)


@each_row("path", ["..a" * 300, ".a" + "..a" * 300 + ".none", ".b[?(@..a..a..a..a)]", ".b[*][*]..a..a"])
def test_a_path_that_looks_again_and_again_finds_nothing(path: str) -> None:
    value: Any = 1
    for _ in range(100):
        value = {"a": value, "b": [{"a": 1}] * 400}
    begun = time.process_time()
    assert [] == parse_path(path)(value)
    assert time.process_time() - begun < 10


@each_row("form", ["[{}", "[{}]", "[?({}]", "[?(@{})]x[", "[?(@.a=={}", "[*{}"])
def test_spaces_cost_nothing(form: str) -> None:
    begun = time.process_time()
    for _ in range(100):
        with pytest.raises(ValueError, match="JSONPath"):
            parse_path(form.format(" " * 900))
    assert time.process_time() - begun < 1


def test_what_a_path_looks_at_is_work_of_the_request() -> None:
    find, wide = parse_path("..zz"), {f"k{number}": {} for number in range(2000)}
    whole = Effort()
    with effort.of_request(whole):
        assert [] == find(wide)
    assert whole.left <= effort.STEPS_MAX - 4000
    with effort.of_request(in_the_loop()), pytest.raises(NeedsThread):
        list(map(find, [wide] * 20))


def test_a_row_of_a_watch_is_blank_where_its_cells_are_too_much_work() -> None:
    find = parse_path("..zz")
    columns = [
        CustomColumn(f"c{number}", "integer", "", "told", 0, lambda obj: len(find(obj))) for number in range(100)
    ]
    resource = dataclasses.replace(SHAPE_KIND, custom=a_custom(*columns))
    wide = {"metadata": {"name": "a", "uid": "u"}, "wide": {f"k{number}": {} for number in range(2000)}}
    table = TableRendering("meta.k8s.io/v1", "None")
    with effort.of_request(Effort(100_000)):
        [row] = json.loads(table.event(resource, Stored(wide, {}), 0.0, first=False))["rows"]
    assert {"cells": ["", *[0] * 100], "object": None} == row


def a_custom(*columns: CustomColumn) -> Custom:
    return Custom(definition="d", stored_in="v1", singular="s", list_kind="L", schema={}, columns=columns)


@each_row(
    ("kind", "value", "cell"),
    [
        ("string", "x", "x"),
        ("string", 5, "5"),
        ("string", {"a": [1]}, '{"a":[1]}'),
        ("string", None, None),
        ("integer", 5, 5),
        ("integer", 5.9, 5),
        ("integer", "5", None),
        ("integer", True, None),
        ("number", 5, 5.0),
        ("boolean", False, False),
        ("boolean", 1, None),
        ("date", "2023-11-14T22:13:00Z", "20s"),
        ("date", "yesterday", "<invalid>"),
        ("date", 5, None),
        ("other", "x", None),
    ],
)
def test_custom_cells_have_the_declared_type(kind: str, value: Any, cell: Any) -> None:
    name, shown = _custom_columns(a_custom(CustomColumn("X", kind, "f", "told", 1, lambda _obj: value)))
    assert ("Name", "name") == (name.name, name.format)
    assert cell == shown.cell({}, NOW)
    assert {"name": "X", "type": kind, "format": "f", "description": "told", "priority": 1} == shown.to_json()


def test_a_custom_kind_without_columns_shows_its_age() -> None:
    assert [("Name", "string"), ("Age", "date")] == [
        (column.name, column.type) for column in _custom_columns(a_custom())
    ]


@each_row(
    "resource", [resource for resource in RESOURCES if resource.answer is None], ids=lambda resource: resource.name
)
def test_every_kind_explains_its_columns(resource: Any) -> None:
    columns: tuple[Column, ...] = columns_of(resource)
    assert columns is DEFAULT or {"Age", "Last Seen"}.intersection(column.name for column in columns)
    assert all(column.description and column.priority in (0, 1) for column in columns)
