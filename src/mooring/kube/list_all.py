"""All objects of a kind, where one look is enough and nothing is to be watched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, TypeVar

from mooring.api.meta import Key, Kind
from mooring.kube.cluster import EVERYTHING, Cluster, Page, Selection
from mooring.kube.errors import ServerError

PAGE_LIMIT: Final = 500

T = TypeVar("T")


async def list_all(
    cluster: Cluster, kind: Kind[T], selection: Selection = EVERYTHING, *, page_limit: int = PAGE_LIMIT
) -> AsyncIterator[T]:
    """Yield each object; they are asked for page by page. Raises ApiError, after some of them perhaps."""
    token = ""
    while True:
        page = await cluster.list(kind, selection, limit=page_limit, continue_token=token)
        for item in all_of(page, kind):
            yield item
        token = page.continue_token
        if not token:
            return


def all_of(page: Page[T], kind: Kind[T]) -> tuple[T, ...]:
    """The page's items, for who concludes something from what is missing. Raises ServerError when one of them can't be
    read.
    """
    if page.unread:
        one = page.unread[0]
        raise ServerError(
            f'{len(page.unread)} of the {kind.plural} can\'t be read, "{Key(one.namespace, one.name)}" among them',
            code=502,
        )
    return page.items
