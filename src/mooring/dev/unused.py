"""Tells of pods' volumes that no container uses: the kubelet mounts none of them, and the node's driver hears
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from mooring.api.meta import key_of
from mooring.api.pods import PODS, Pod, unused_text
from mooring.base.errors import first_of
from mooring.control.caches import Caches
from mooring.control.runtime import Runtime
from mooring.dev.story import Story
from mooring.kube.cache.store import Change


@contextlib.asynccontextmanager
async def unused_told(runtime: Runtime, story: Story) -> AsyncGenerator[None, None]:
    """Each volume of each pod once, as long as the block runs."""
    caches = Caches(runtime, "unused")

    def look(change: Change[Pod]) -> None:
        if change.old is None and change.new is not None:  # a pod's volumes never change
            for volume in change.new.spec.unused_claims:
                story.happened(
                    "dev", f"pod {key_of(change.new)}: {unused_text(volume)}; a volumeMount of a container would use it"
                )

    caches.of(PODS).on_change(look)
    try:
        async with asyncio.TaskGroup() as group:
            following = caches.start(group)
            yield
            for one in following:
                one.cancel()
    except BaseExceptionGroup as errors:
        raise first_of(errors) from errors
