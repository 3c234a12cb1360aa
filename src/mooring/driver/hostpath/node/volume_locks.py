"""A lock for each volume: the nodes of one driver share a volume's file and its loop device."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class CrossNodeLocks:
    """Calls of one node for one volume are kept apart by the SDK's guard; these wait for those of another node."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._users: defaultdict[str, int] = defaultdict(int)

    @asynccontextmanager
    async def alone_with(self, volume_id: str) -> AsyncGenerator[None, None]:
        """One at a time for each volume."""
        self._users[volume_id] += 1
        try:
            async with self._locks[volume_id]:
                yield
        finally:
            self._users[volume_id] -= 1
            if not self._users[volume_id]:
                del self._users[volume_id], self._locks[volume_id]
