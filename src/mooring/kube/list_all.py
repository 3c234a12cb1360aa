"""All objects of a kind, where one look is enough and nothing is to be watched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, TypeVar

from mooring.api.meta import Kind
from mooring.kube.cluster import EVERYTHING, Cluster, Selection

PAGE_LIMIT: Final = 500

T = TypeVar("T")


async def list_all(cluster: Cluster, kind: Kind[T], selection: Selection = EVERYTHING) -> AsyncIterator[T]:
    """Object by object, asked for page by page. Raises ApiError, after some of them perhaps."""
    token = ""
    while True:
        page = await cluster.list(kind, selection, limit=PAGE_LIMIT, continue_token=token)
        for item in page.items:
            yield item
        token = page.continue_token
        if not token:
            return
