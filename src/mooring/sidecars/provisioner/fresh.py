"""Caches that something irrevocable relies on: the API server itself is asked where a watch may hide what is there."""

from __future__ import annotations

import asyncio
import copy
import math
from typing import Final, Generic, TypeVar

from mooring.api.meta import Kind, Object
from mooring.base.clock import Instant
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import ApiError
from mooring.kube.list_all import list_all

T = TypeVar("T", bound=Object)

SILENCE_S_MAX: Final = 120.0
"""Two bookmarks of the API server that did not come."""


class FreshCache(Generic[T]):
    """informer: the cache, of this kind."""

    def __init__(self, runtime: Runtime, informer: Informer[T], kind: Kind[T]) -> None:
        self._cluster, self._clock, self._informer, self._kind = runtime.cluster, runtime.clock, informer, kind
        self._listing = asyncio.Lock()
        self._listed_at: Instant = -math.inf
        self._failure: ApiError | None = None

    async def look(self) -> None:
        """Returns when the cache has the objects of a while ago. Raises ApiError."""
        if self._clock.now() - self._informer.heard_at > SILENCE_S_MAX:
            await self.list()

    async def list(self) -> None:
        """Returns when the cache has every object that is there now; some that are gone may be in it as well. Raises ApiError."""
        asked_at = self._clock.now()
        async with self._listing:
            if self._listed_at < asked_at:  # else the list of somebody before us, which began after we had asked, is ours as well
                began_at = self._clock.now()
                self._failure = await self._list()
                self._listed_at = began_at
            if self._failure is not None:
                raise copy.copy(self._failure)  # of its own for each: a shared one would keep the frames of all

    async def _list(self) -> ApiError | None:
        """Puts the objects into the cache; those that are gone leave it with the watch. Gives the error, if there was one."""
        try:
            async for obj in list_all(self._cluster, self._kind):
                self._informer.wrote(obj)
        except ApiError as error:
            return error
        return None
