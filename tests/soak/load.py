"""Mixed load on an API server: what a busy laptop does in a day, over and over, so that nothing is left of it but
history.
"""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.clock import Clock
from mooring.base.randomness import Random
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import ApiError

DRIVER: Final = "soak.example.com"
STANDING: Final = 500
"""Volumes that stay all the time."""

_FILLER: Final = "x" * 600
_BLINK_S: Final = 2.0


class Load:
    """writers: lives of a volume at a time. followers: caches that follow all the time. rate: lives begun in a second,
    by all together.

    latencies_s: of each request since they were last taken. failures: texts and how often.
    """

    def __init__(
        self, cluster: Cluster, clock: Clock, randomness: Random, *, writers: int, followers: int, rate: float
    ) -> None:
        self._cluster, self._clock, self._randomness = cluster, clock, randomness
        self._writers, self._followers, self._rate = writers, followers, rate
        self.latencies_s: list[float] = []
        self.requests_count = 0
        self.failures: collections.Counter[str] = collections.Counter()
        self._numbers: Iterator[int] = iter(range(1 << 60))

    async def run(self) -> None:
        """Until it is cancelled."""
        for number in range(STANDING):
            await self._cluster.create(PERSISTENT_VOLUMES, _volume(f"standing-{number}"))
        async with asyncio.TaskGroup() as group:
            for number in range(self._followers):
                kind: Kind[Any] = (PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS)[number % 2]
                informer: Informer[Any] = Informer(self._cluster, kind, clock=self._clock, randomness=self._randomness)
                group.create_task(informer.run(), name=f"soak/follower/{number}")
            for number in range(self._writers):
                group.create_task(self._live(), name=f"soak/writer/{number}")
            group.create_task(self._blink(), name="soak/blinker")
            group.create_task(self._read(), name="soak/reader")

    async def _live(self) -> None:
        """Volumes and their attachments, from beginning to end."""
        while True:
            began = time.monotonic()
            name = f"soak-{next(self._numbers)}"
            finalizers = {"metadata": {"finalizers": ["soak.example.com/held"]}}
            attached = {"status": {"attached": True, "attachmentMetadata": {"device": _FILLER[:100]}}}
            await self._ask(lambda name=name: self._cluster.create(PERSISTENT_VOLUMES, _volume(name)))
            await self._ask(lambda name=name: self._cluster.create(VOLUME_ATTACHMENTS, _attachment(name)))
            await self._patch(VOLUME_ATTACHMENTS, name, finalizers)
            await self._patch(VOLUME_ATTACHMENTS, name, attached, "status")
            await self._patch(
                PERSISTENT_VOLUMES,
                f"standing-{self._randomness.below(STANDING)}",
                {"metadata": {"annotations": {"by": name}}},
            )
            await self._ask(lambda name=name: self._cluster.delete(VOLUME_ATTACHMENTS, name))
            await self._patch(VOLUME_ATTACHMENTS, name, {"metadata": {"finalizers": None}})
            await self._patch(PERSISTENT_VOLUMES, name, {"metadata": {"finalizers": None}})
            await self._ask(lambda name=name: self._cluster.delete(PERSISTENT_VOLUMES, name))
            await self._clock.sleep(max(0.0, self._writers / self._rate - (time.monotonic() - began)))

    async def _patch(self, kind: Kind[Any], name: str, body: dict[str, Any], subresource: str = "") -> None:
        await self._ask(lambda: self._cluster.patch(kind, name, Patch(PatchType.MERGE, body), subresource=subresource))

    async def _blink(self) -> None:
        """Watches that come, see a little, and break off."""
        while True:
            try:
                async with asyncio.timeout(self._randomness.uniform(0.0, 2 * _BLINK_S)):
                    async for _ in self._cluster.watch(PERSISTENT_VOLUMES, resource_version="0"):
                        pass
            except TimeoutError:
                continue
            except ApiError as error:
                self.failures[str(error)] += 1

    async def _read(self) -> None:
        while True:
            await self._ask(lambda: self._cluster.list(PERSISTENT_VOLUMES, limit=100))
            await self._ask(lambda: self._cluster.get(PERSISTENT_VOLUMES, "standing-0"))
            await self._clock.sleep(0.2)

    async def _ask(self, request: Callable[[], Awaitable[Any]]) -> None:
        began = time.monotonic()
        try:
            await request()
        except ApiError as error:
            self.failures[str(error)] += 1
        self.requests_count += 1
        self.latencies_s.append(time.monotonic() - began)


def _volume(name: str) -> dict[str, Any]:
    source = {"driver": DRIVER, "volumeHandle": name, "volumeAttributes": {"filler": _FILLER}}
    return {
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": source},
    }


def _attachment(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"attacher": DRIVER, "nodeName": "node-1", "source": {"persistentVolumeName": name}},
    }
