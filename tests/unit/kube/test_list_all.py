"""All objects of a kind, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.storage import STORAGE_CLASSES
from mooring.kube.cluster import Page, Selection, UnreadItem
from mooring.kube.errors import Gone, ServerError
from mooring.kube.list_all import PAGE_LIMIT, list_all


class Pages:
    """By the token that asks for them; asked: what was."""

    def __init__(self, **pages: Page[Any]) -> None:
        self.pages, self.asked = pages, []

    async def list(self, kind: Any, selection: Selection, *, limit: int, continue_token: str) -> Page[Any]:
        self.asked.append((kind, selection, limit, continue_token))
        if continue_token not in self.pages:
            raise Gone("too old")
        return self.pages[continue_token]


async def test_pages_follow_each_other_until_one_is_the_last():
    pages = Pages(**{"": Page(("a", "b"), "1", "more"), "more": Page((), "1", "rest"), "rest": Page(("c",), "1")})
    selection = Selection("ns")
    assert ["a", "b", "c"] == [one async for one in list_all(pages, STORAGE_CLASSES, selection)]
    assert [(STORAGE_CLASSES, selection, PAGE_LIMIT, token) for token in ("", "more", "rest")] == pages.asked


async def test_a_page_that_is_refused_is_told_after_what_came_before():
    listed = list_all(Pages(**{"": Page(("a",), "1", "lost")}), STORAGE_CLASSES)
    assert "a" == await anext(listed)
    with pytest.raises(Gone):
        await anext(listed)


async def test_a_list_with_an_object_that_can_not_be_read_is_no_list_of_all():
    """Whoever looks for what is missing would take it for that: a volume for an orphan, a claim for unused."""
    listed = list_all(Pages(**{"": Page(("a",), "1", "", (UnreadItem("ns", "odd", "u"),))}), STORAGE_CLASSES)
    with pytest.raises(ServerError, match=r'1 of the storageclasses can\'t be read, "ns/odd" among them'):
        await anext(listed)
