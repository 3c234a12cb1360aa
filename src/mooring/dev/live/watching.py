"""The view of a plane that runs: caches that follow its API server feed the model; a terminal shows it, and a page."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Protocol

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.api.snapshot import VOLUME_SNAPSHOTS, VolumeSnapshot
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, VOLUME_ATTACHMENTS
from mooring.base.clock import Clock
from mooring.base.errors import first_of
from mooring.control.caches import Caches
from mooring.control.runtime import Runtime
from mooring.dev.live.board import Board, ObjectBoard
from mooring.dev.live.model import Model
from mooring.kube.cache.store import Store


class Viewer(Protocol):
    """Shows a board. changed: it may be another."""

    def changed(self) -> None: ...
    def viewing(self, board: Callable[[], Board], clock: Clock) -> AbstractAsyncContextManager[None]: ...


@contextlib.asynccontextmanager
async def viewed(
    viewers: Sequence[Viewer], model: Model, runtime: Runtime, *, snapshots: bool
) -> AsyncGenerator[None, None]:
    """Shows the plane to all of them as long as the block runs; nothing is followed for nobody. model: theirs, fed by
    the plane's story. runtime: with the plane's cluster. snapshots: it has their kinds.
    """
    if not viewers:
        yield
        return
    caches = Caches(runtime, "view")
    nodes, csi_nodes, pods = caches.of(NODES), caches.of(CSI_NODES), caches.of(PODS)
    claims, volumes = caches.of(PERSISTENT_VOLUME_CLAIMS), caches.of(PERSISTENT_VOLUMES)
    attachments, drivers = caches.of(VOLUME_ATTACHMENTS), caches.of(CSI_DRIVERS)
    photographs: Store[VolumeSnapshot] = caches.of(VOLUME_SNAPSHOTS).store if snapshots else Store()
    for informer in caches.informers:
        informer.on_change(lambda _change: model.changed())

    def board() -> Board:
        objects = ObjectBoard(
            nodes.store.values(),
            csi_nodes.store.values(),
            pods.store.values(),
            claims.store.values(),
            volumes.store.values(),
            attachments.store.values(),
            drivers.store.values(),
            photographs.values(),
        )
        return model.board(objects, runtime.clock.now())

    try:
        async with asyncio.TaskGroup() as group:
            following = caches.start(group)
            await caches.synced()
            async with AsyncExitStack() as shown:
                for viewer in viewers:
                    await shown.enter_async_context(viewer.viewing(board, runtime.clock))
                yield
            for one in following:
                one.cancel()
    except BaseExceptionGroup as errors:
        raise first_of(errors) from errors
