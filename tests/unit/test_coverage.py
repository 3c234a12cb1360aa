"""The design documents, item by item: their page is made from items.yaml, and every test that it names is there."""

from __future__ import annotations

import dataclasses
import functools

from tests.support import coverage
from tests.support.coverage import Item, Record, behaviours, is_there, page, problems, read

HERE = "tests/unit/test_coverage.py"


@functools.cache
def kept() -> Record:
    return read(coverage.RECORD.read_text())


def test_the_record_has_every_item_and_names_tests_that_there_are() -> None:
    assert 292 == kept().count
    assert [] == problems(kept(), behaviours())


def test_the_page_is_what_the_command_makes() -> None:
    """To mend it: python -m tests.support.coverage."""
    assert coverage.PAGE.read_text() == page(kept(), behaviours())


GOOD = Item(1, "d", "flies", "there", tests=("X1",))


def record(*items: Item, count: int = 1) -> Record:
    return Record({"d": "A document"}, count, items)


def test_what_is_wrong_with_a_record_is_told() -> None:
    for found, told in (
        (record(GOOD), []),
        (record(GOOD, GOOD), ["1: there 2 times"]),
        (record(GOOD, count=2), ["2: not there"]),
        (record(GOOD, dataclasses.replace(GOOD, number=7)), ["7: beyond the 1 items"]),
        (record(dataclasses.replace(GOOD, document="e")), ["1: no document e"]),
        (record(dataclasses.replace(GOOD, text="")), ["1: says nothing"]),
        (record(dataclasses.replace(GOOD, state="nearly", reason="it rains")), ["1: no state nearly"]),
        (record(dataclasses.replace(GOOD, tests=())), ["1: there without a test"]),
        (record(dataclasses.replace(GOOD, tests=("X2",))), ["1: no test X2"]),
        *(
            (record(dataclasses.replace(GOOD, state=state)), [f"1: {state} without a reason"])
            for state in coverage.STATES[1:]
        ),
        *(
            (record(dataclasses.replace(GOOD, state=state, reason="r", tests=())), [])
            for state in ("not applicable", "in part", "missing")
        ),
    ):
        assert told == problems(found, ["X1"]), found.items


def test_a_test_is_found_by_its_whole_name() -> None:
    for test, there in (
        (HERE, True),
        (f"{HERE}::test_the_page_is_what_the_command_makes", True),
        (f"{HERE}::test_the_page_is_what", False),
        (f"{HERE}::record", False),
        ("tests/unit/test_nowhere.py", False),
        ("tests/support/coverage.py", False),
        ("src/mooring/__init__.py", False),
        ("tests/unit", False),
        ("flies", False),
    ):
        assert there == is_there(test), test


def test_a_page_counts_by_document_and_links_ids() -> None:
    made = page(record(GOOD, Item(2, "d", "swims", "missing", "no water", (HERE,)), count=2), {"X1": "x.md"})
    assert "| A document | 1 | 0 | 0 | 0 | 1 | 2 |\n| all | 1 | 0 | 0 | 0 | 1 | 2 |\n" in made
    assert (
        "\n## A document\n\n| # | item | how it stands | tests |\n|---|---|---|---|\n| 1 | flies | there | "
        "[X1](../../docs/behaviours/x.md) |\n"
    ) in made
    assert f"| 2 | swims | missing: no water | `{HERE}` |\n" in made
