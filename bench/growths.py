"""Bound claims whose volumes may grow, for the bench of the resizer: made, asked to grow, and watched."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Any

from bench.claims import a_claim, a_volume
from bench.load import Load
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolumeClaim
from mooring.api.storage import STORAGE_CLASSES
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import Patch, PatchType, WatchEvent
from mooring.kube.errors import AlreadyExists, ApiError
from tests.support.control_plane import ControlPlane

NS = "default"
GROWN = "2Gi"
BOUND = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}


class BoundLoad(Load):
    """Claims with their volumes, as the PV controller leaves them. A claim and its volume have one name."""

    async def make_class(self, driver: str) -> None:
        with contextlib.suppress(AlreadyExists):
            await self._cluster.create(STORAGE_CLASSES.whole(), a_class(driver))

    async def make_bound(self, names: Iterable[str], driver: str) -> None:
        await self.each(self._bound(name, driver) for name in names)

    async def _bound(self, name: str, driver: str) -> None:
        claims = PERSISTENT_VOLUME_CLAIMS.whole()
        made = await self._cluster.create(claims, a_claim(name, driver, name), NS)
        await self._cluster.create(PERSISTENT_VOLUMES.whole(), a_volume(name, driver, made))
        await self._cluster.patch(claims, name, Patch(PatchType.MERGE, {"status": BOUND}), NS, subresource="status")

    async def remove_bound(self, names: Iterable[str]) -> None:
        names = list(names)
        await self.remove(PERSISTENT_VOLUME_CLAIMS, names, NS)
        await self.remove(PERSISTENT_VOLUMES, names)


class GrowthLoad(BoundLoad):
    """Each claim grows once, from 1 to 2 GiB. Times on the monotonic clock."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        super().__init__(plane, cluster)
        self.asked_at: dict[str, float] = {}
        self.grown_at: dict[str, float] = {}

    async def ask(self, name: str) -> None:
        wanted = Patch(PatchType.MERGE, {"spec": {"resources": {"requests": {"storage": GROWN}}}})
        await self._cluster.patch(PERSISTENT_VOLUME_CLAIMS.whole(), name, wanted, NS)
        self.asked_at[name] = time.monotonic()

    async def ask_first(self, name: str) -> None:
        """Again while the API server has not noticed that the class allows it."""
        while name not in self.asked_at:
            with contextlib.suppress(ApiError):
                await self.ask(name)
            await asyncio.sleep(0.1)

    async def watch(self) -> None:
        await self.follow(PERSISTENT_VOLUME_CLAIMS, self._happened)

    def _happened(self, event: WatchEvent[PersistentVolumeClaim]) -> None:
        assert event.object is not None
        if (event.object.status.capacity or {}).get("storage") == GROWN:
            self.grown_at.setdefault(event.object.metadata.name, time.monotonic())


def a_class(driver: str) -> dict[str, Any]:
    return {"metadata": {"name": driver}, "provisioner": driver, "allowVolumeExpansion": True}
