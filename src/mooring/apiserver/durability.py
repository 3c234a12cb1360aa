"""The promise behind every answer: no version is shown that the server could lose.

The store changes at once and synchronously; the disk (`disk/log.py`) comes later. In between only the rules see the
change: every answer waits until the store's newest version is committed, reads and refusals too (a 409 reveals a write
as much as a 200 does), and watches read no further than that.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Final, Protocol

from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore


class Durability(Protocol):
    """The progress of a store's changes to the disk. Belongs to one event loop."""

    @property
    def committed(self) -> int:
        """Versions up to this one may be shown."""

    @property
    def failure(self) -> str:
        """The reason that no further change will be committed; "" while there is none."""

    async def wait_committed(self, version: int) -> None:
        """Returns once that version is committed. Raises ServerError when it will never be."""

    async def failed(self) -> None:
        """Returns when there is a failure: the process must end."""

    def on_commit(self, listener: Callable[[Resource], None]) -> None:
        """Calls listener for each kind that has changed, once its changes are committed."""


class InMemory:
    """A store that ends with its process: every version is as lasting as it will ever be."""

    committed: Final = sys.maxsize
    failure: Final = ""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def wait_committed(self, version: int) -> None:
        pass

    async def failed(self) -> None:
        await asyncio.get_running_loop().create_future()  # never

    def on_commit(self, listener: Callable[[Resource], None]) -> None:
        self._store.on_change(lambda resource, _change: listener(resource))
