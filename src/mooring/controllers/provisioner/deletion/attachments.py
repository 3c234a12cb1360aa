"""The attachments of volumes, and how long their cache is trusted.

The cache may lag behind. That much is as in external-provisioner: an attachment of the last moment is the driver's to refuse. But a
watch that has been silent for a while may hide attachments that have existed for long, so then the API server itself is asked.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Final

from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.clock import Instant
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import ApiError
from mooring.kube.list_all import every

SILENCE_S_MAX: Final = 120.0
"""Two bookmarks of the API server that did not come."""


class Attachments:
    """informer: their cache."""

    def __init__(self, runtime: Runtime, informer: Informer[VolumeAttachment]) -> None:
        self._cluster, self._clock, self._informer = runtime.cluster, runtime.clock, informer
        self._listing = asyncio.Lock()
        self._listed_at: Instant = informer.heard_at
        self._failure: ApiError | None = None

    async def look(self) -> None:
        """Returns when the cache has the attachments of a while ago. Raises ApiError."""
        asked_at = self._clock.now()
        if asked_at - self._informer.heard_at <= SILENCE_S_MAX:
            return
        async with self._listing:
            if self._listed_at < asked_at:  # else the list of somebody before us, which began after we had asked, is ours as well
                began_at = self._clock.now()
                self._failure = await self._list()
                self._listed_at = began_at
            if self._failure is not None:
                raise copy.copy(self._failure)  # of its own for each: a shared one would keep the frames of all

    async def _list(self) -> ApiError | None:
        """Puts the attachments into the cache; those that are gone leave it with the watch. Gives the error, if there was one."""
        try:
            async for attachment in every(self._cluster, VOLUME_ATTACHMENTS):
                self._informer.wrote(attachment)
        except ApiError as error:
            return error
        return None
