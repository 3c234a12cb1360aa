"""`each_row` makes one test of many rows, and loses none of them."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.rows import each_row

Report = tuple[str | None, dict[str, Any], str]


class Reports:
    """Stands for pytest's `subtests`: has what was reported."""

    def __init__(self) -> None:
        self.found: list[Report] = []

    @contextlib.contextmanager
    def test(self, label: str | None, **values: Any) -> Iterator[None]:
        try:
            yield
        except (AssertionError, pytest.fail.Exception) as error:
            self.found.append((label, values, str(error).partition("\n")[0]))


def reports(test: Callable[..., Any], **fixtures: Any) -> list[Report]:
    found = Reports()
    test(subtests=found, **fixtures)
    return found.found


def test_all_rows_are_lived_and_each_that_fails_is_named() -> None:
    lived = []

    @each_row(("a", "b"), [(1, 1), (2, 3), (4, 4), (5, 6)])
    def all_rows(a: int, b: int) -> None:
        lived.append(a)
        if a != b:
            raise AssertionError(f"{a} is not {b}")

    assert [(None, {"a": 2, "b": 3}, "2 is not 3"), (None, {"a": 5, "b": 6}, "5 is not 6")] == reports(all_rows)
    assert [1, 2, 4, 5] == lived


def test_a_coroutine_goes_through_all_of_them_as_well_on_a_loop_for_each(request: pytest.FixtureRequest) -> None:
    loops = []

    @each_row("a", range(4))
    async def all_rows(a: int) -> None:
        loops.append(asyncio.get_running_loop())
        if a % 2:
            pytest.fail(f"{a} is odd")

    assert [(None, {"a": 1}, "1 is odd"), (None, {"a": 3}, "3 is odd")] == reports(all_rows, request=request)
    assert 4 == len(set(loops))


async def test_one_with_other_fixtures_stays_on_the_loop_of_these() -> None:
    loops = []

    @each_row("a", range(4))
    async def all_rows(a: int, server: object) -> None:
        loops.append(asyncio.get_running_loop())

    await all_rows(subtests=Reports(), server=None)
    assert [asyncio.get_running_loop()] * 4 == loops


def test_two_tables_give_the_product_and_keep_the_marks() -> None:
    lived = []

    @each_row("a", [1, 2], ids=["one", "two"])
    @pytest.mark.slow
    @each_row("b, c", [pytest.param(3, 4, id="first"), (5, 6)])
    def all_rows(a: int, b: int, c: int) -> None:
        lived.append((a, b, c))
        raise AssertionError

    assert ["one first", "one", "two first", "two"] == [label for label, _, _ in reports(all_rows)]
    assert [(1, 3, 4), (1, 5, 6), (2, 3, 4), (2, 5, 6)] == lived
    assert ["slow"] == [mark.name for mark in all_rows.pytestmark]


def test_parts_share_the_rows() -> None:
    lived = []

    @each_row("a", lambda: iter(range(7)), parts=3)
    def all_rows(a: int) -> None:
        lived.append(a)

    for part in range(3):
        assert [] == reports(all_rows, part=part)
    assert [0, 3, 6, 1, 4, 2, 5] == lived
    assert [("part", range(3))] == [mark.args for mark in all_rows.pytestmark]


def test_pytest_is_asked_for_the_fixtures_alone() -> None:
    @each_row("a", [1])
    def all_rows(api: object, a: int, name: str) -> None: ...

    assert ["api", "name", "subtests"] == list(inspect.signature(all_rows).parameters)


def test_each_row_has_a_name_and_a_folder_of_its_own(tmp_path: Path) -> None:
    found = []

    @each_row("a", [1, 2])
    def all_rows(a: int, name: str, tmp_path: Path) -> None:
        (tmp_path / "x").touch(exist_ok=False)
        found.append(name)

    assert [] == reports(all_rows, name="t", tmp_path=tmp_path)
    assert ["t-0", "t-1"] == found


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    monkeypatch.setenv("SHELF", str(tmp_path))
    things: list[int] = []
    yield things
    things.append(99)


@pytest.fixture
def book(shelf: list[int]) -> list[int]:
    shelf.append(0)
    return shelf


def test_fresh_fixtures_are_made_for_each_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    @each_row("a", [1, 2], fresh=[shelf, book])
    def all_rows(a: int, book: list[int]) -> None:
        book.append(a)
        found.append((book, os.environ["SHELF"]))

    assert {"tmp_path", "monkeypatch", "subtests"} == inspect.signature(all_rows).parameters.keys()
    assert [] == reports(all_rows, tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert [([0, 1, 99], str(tmp_path / "row-0")), ([0, 2, 99], str(tmp_path / "row-1"))] == found
    assert "SHELF" not in os.environ


def test_a_fresh_fixture_ends_also_where_its_row_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    @each_row("a", [1], fresh=[shelf])
    def all_rows(a: int, shelf: list[int]) -> None:
        found.append(shelf)
        raise AssertionError("no")

    assert [(None, {"a": 1}, "no")] == reports(all_rows, tmp_path=tmp_path, monkeypatch=monkeypatch)
    assert [[99]] == found


def test_a_skip_is_said_after_the_others_were_lived() -> None:
    lived = []

    @each_row("a", range(3))
    def all_rows(a: int) -> None:
        if a == 1:
            pytest.skip("not here")
        lived.append(a)

    with pytest.raises(pytest.skip.Exception, match="not here"):
        reports(all_rows)
    assert [0, 2] == lived


def test_a_table_without_rows_is_a_fault() -> None:
    @each_row("a", [])
    def all_rows(a: int) -> None: ...

    with pytest.raises(AssertionError, match="without a row"):
        reports(all_rows)


def test_a_row_of_the_wrong_width_is_a_fault() -> None:
    @each_row("a, b", [(1, 2, 3)])
    def all_rows(a: int, b: int) -> None: ...

    with pytest.raises(ValueError, match="longer"):
        reports(all_rows)
