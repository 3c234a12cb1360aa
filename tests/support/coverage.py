"""The items of the design documents with the tests that stand for each: reads the record, says what is wrong with it,
makes the page.

    python -m tests.support.coverage      writes tests/coverage/README.md from tests/coverage/items.yaml

A test is named by an id of docs/behaviours (`AT01`), by a test's own id (`tests/unit/x.py::test_y`), or by a whole
file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
RECORD: Final = ROOT / "tests" / "coverage" / "items.yaml"
PAGE: Final = ROOT / "tests" / "coverage" / "README.md"
BEHAVIOURS: Final = ROOT / "docs" / "behaviours"

STATES: Final = ("there", "otherwise", "not applicable", "in part", "missing")
TESTED: Final = frozenset({"there", "otherwise"})
"""States that no item has without a test."""

HEAD: Final = """\
# The design documents, item by item

Mooring began with five documents of Kubernetes, which we split into items, sentence by sentence. This page gives the
state of each item, and the tests for it. `python -m tests.support.coverage` makes the page from `items.yaml`. A test
compares the two, finds every test that is named here, and refuses an item without a state, and a state other than
"there" without its reason.

- *there*: Mooring does what the document says.
- *otherwise*: Mooring does something else on purpose, mostly what today's Go program does.
- *not applicable*: Kubernetes has abandoned it, or it is about the inside of the Go program.
- *in part*, *missing*: the reason says what is missing.

An id such as AT01 is a line of the [behaviours](../../docs/behaviours/README.md), whose tests carry it. The rest are
tests by file and name.
"""


@dataclass(frozen=True, slots=True)
class Item:
    """reason: "" where none is given. tests: as in the record."""

    number: int
    document: str
    text: str
    state: str
    reason: str = ""
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """documents: short name to title. count: how many items there must be."""

    documents: dict[str, str]
    count: int
    items: tuple[Item, ...]


def read(text: str) -> Record:
    found: dict[str, Any] = yaml.safe_load(text)
    items = tuple(
        Item(
            one["number"],
            one["document"],
            one["item"],
            one["state"],
            one.get("reason", ""),
            tuple(one.get("tests", ())),
        )
        for one in found["items"]
    )
    return Record(found["documents"], found["count"], items)


def behaviours() -> dict[str, str]:
    """Each id of docs/behaviours, and the page that has its line."""
    return {
        one: page.name
        for page in sorted(BEHAVIOURS.glob("*.md"))
        for one in re.findall(r"^- \*\*([A-Z]{1,4}-?\d+[a-z]?)\*\* ", page.read_text(), re.M)
    }


def problems(record: Record, ids: Iterable[str]) -> list[str]:
    """What keeps a record from being one. ids: those of the behaviours."""
    known = set(ids)
    return [
        *_of_the_whole(record),
        *(f"{one.number}: {text}" for one in record.items for text in _of_one(one, record, known)),
    ]


def _of_the_whole(record: Record) -> Iterator[str]:
    counts = Counter(one.number for one in record.items)
    yield from (f"{number}: there {times} times" for number, times in counts.items() if times > 1)
    yield from (f"{number}: not there" for number in range(1, record.count + 1) if number not in counts)
    yield from (f"{number}: beyond the {record.count} items" for number in counts if not 1 <= number <= record.count)


def _of_one(one: Item, record: Record, known: set[str]) -> Iterator[str]:
    if one.document not in record.documents:
        yield f"no document {one.document}"
    if not one.text:
        yield "says nothing"
    if one.state not in STATES:
        yield f"no state {one.state}"
    if one.state != "there" and not one.reason:
        yield f"{one.state} without a reason"
    if one.state in TESTED and not one.tests:
        yield f"{one.state} without a test"
    yield from (f"no test {test}" for test in one.tests if test not in known and not is_there(test))


def is_there(test: str) -> bool:
    """Whether a file has such a test, or for a whole file any."""
    path, _, name = test.partition("::")
    file = ROOT / path
    if not re.fullmatch(r"tests/[\w/]+\.py", path) or not file.is_file():
        return False
    if name and not name.startswith("test_"):
        return False
    pattern = rf"^ *(async )?def {name}\(" if name else r"^ *(async )?def test_"
    return re.search(pattern, file.read_text(), re.M) is not None


# -- the page


def page(record: Record, pages: dict[str, str]) -> str:
    """pages: as from `behaviours`."""
    parts = [HEAD, _summary(record)]
    for document, title in record.documents.items():
        parts.append(f"\n## {title}\n\n| # | item | how it stands | tests |\n|---|---|---|---|\n")
        parts.extend(_row(one, pages) for one in record.items if one.document == document)
    return "".join(parts)


def _summary(record: Record) -> str:
    lines = ["", f"| document | {' | '.join(STATES)} | all |", "|---" * (len(STATES) + 2) + "|"]
    lines += [
        _counted(title, [one for one in record.items if one.document == name])
        for name, title in record.documents.items()
    ]
    return "\n".join([*lines, _counted("all", record.items)]) + "\n"


def _counted(title: str, items: Sequence[Item]) -> str:
    counts = Counter(one.state for one in items)
    return f"| {title} | {' | '.join(str(counts[state]) for state in STATES)} | {len(items)} |"


def _row(one: Item, pages: dict[str, str]) -> str:
    stands = f"{one.state}: {one.reason}" if one.reason else one.state
    tests = ", ".join(
        f"[{test}](../../docs/behaviours/{pages[test]})" if test in pages else f"`{test}`" for test in one.tests
    )
    return f"| {one.number} | {one.text} | {stands} | {tests} |\n".replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(page(read(RECORD.read_text()), behaviours()))
