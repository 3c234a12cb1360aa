"""docs/csi-rules.md is the book."""

from __future__ import annotations

from pathlib import Path

from mooring.conform.book.watcher import BOOK
from mooring.conform.page import page

PAGE = Path(__file__).parents[3] / "docs" / "csi-rules.md"


def test_the_page_is_the_book() -> None:
    assert PAGE.read_text() == page(), "make it anew: python -m mooring.conform.page > docs/csi-rules.md"


def test_every_rule_stands_on_the_page() -> None:
    assert [number for number in BOOK if f"### {number}: " not in page()] == []
