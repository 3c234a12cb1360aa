"""The pages of behaviours and the tests hold each other: each id that a test names has one line, and each line has a
test.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "behaviours"

LINE = re.compile(r"^- \*\*(?P<id>[A-Z]{1,4}-?\d+[a-z]?)\*\* (?P<sentence>[^.].*)$", re.MULTILINE)
WORD = re.compile(r"(?<![A-Za-z0-9%])[A-Z]{1,4}-?\d+[a-z]?(?![A-Za-z0-9])")
NAME = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)


def lines(text: str) -> list[tuple[str, str]]:
    """Ids and sentences of a page. A sentence may go on in indented lines."""
    joined = re.sub(r"\n  (?=\S)", " ", text)
    return [(line["id"], line["sentence"]) for line in LINE.finditer(joined)]


def named(text: str, known: Iterable[str]) -> set[str]:
    """The ids in a test file: words in the form of those that are known, and whatever in a test's name looks like an
    id.

    A word has the form of an id if the family (its letters) is known, and if it has as many digits as the shortest id
    of that family.
    """
    shortest: dict[str, int] = {}
    for one in known:
        shortest[family(one)] = min(shortest.get(family(one), digit_count(one)), digit_count(one))
    words = [
        word
        for word in WORD.findall(text.replace("_", " "))
        if digit_count(word) >= shortest.get(family(word), math.inf)
    ]
    in_names = WORD.findall(" ".join(NAME.findall(text)).replace("_", " "))
    return {_spelled(word, known) for word in [*words, *in_names]}


def _spelled(word: str, known: Iterable[str]) -> str:
    """As its line has it: a name of Python can't have the dash of an id."""
    return next((one for one in known if one.replace("-", "") == word), word)


def family(one: str) -> str:
    return "".join(itertools.takewhile(str.isalpha, one))


def digit_count(one: str) -> int:
    return sum(character.isdigit() for character in one)


@functools.cache
def promises() -> list[tuple[str, str]]:
    """Ids and sentences of all pages."""
    return [one for page in sorted(PAGES.glob("*.md")) for one in lines(page.read_text())]


def test_each_id_that_a_test_names_has_a_line_and_each_line_has_a_test() -> None:
    known = {one for one, _ in promises()}
    here = Path(__file__).resolve()
    ids = {
        str(path.relative_to(ROOT)): named(path.read_text(), known)
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != here
    }
    missing = {path: sorted(found - known) for path, found in ids.items() if found - known}
    assert {} == missing, "give each a line in docs/behaviours"
    assert [] == sorted(known.difference(*ids.values())), "no test names them: they promise what nobody asserts"


def test_an_id_has_one_line_and_one_sentence() -> None:
    assert [] == sorted(one for one, count in Counter(one for one, _ in promises()).items() if count > 1)
    assert [] == [
        one
        for one, sentence in promises()
        if not re.fullmatch(r"[A-Z`].*[^.]\.", sentence) or re.search(r"[^.]\. [A-Z]", sentence)
    ]


def test_every_line_with_an_id_is_read() -> None:
    marked = [
        line for page in PAGES.glob("*.md") for line in page.read_text().splitlines() if line.startswith(("- ", "* "))
    ]
    assert len(promises()) == len(marked), "one is not in the form `- **AT01** A sentence.`"


def test_the_index_knows_each_family_and_its_page() -> None:
    rows = re.findall(r"^\| ([A-Z, -]+) \| (.*?) \|", (PAGES / "README.md").read_text(), re.MULTILINE)
    index = {
        (letters, page)
        for families, pages in rows
        for letters in families.split(", ")
        for page in re.findall(r"\((.*?)\)", pages)
    }
    pages = [page for page in PAGES.glob("*.md") if page.name != "README.md"]
    assert {(family(one), page.name) for page in pages for one, _ in lines(page.read_text())} == index


def test_ids_are_found_where_tests_carry_them() -> None:
    for text, found in (
        ("def test_X01_a(): ...", {"X01"}),
        ("async def test_X01_X02b_a(): ...", {"X01", "X02b"}),
        ('"""Rows X01 to X03."""', {"X01", "X03"}),
        ('pytest.param(1, id="X03-lost")', {"X03"}),
        ("def test_QQ7_a(): ...", {"QQ7"}),
        ("def test_REG1_a(): ...", {"REG-1"}),
        ("'REG-1'", {"REG-1"}),
        ("x = 'QQ7 X1 %X01 MAX01 X01st x01'", set()),
    ):
        assert found == named(text, {"X01", "X02b", "REG-1"}), text
