"""A client of a test's server, and what the tests ask it for."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from mooring.api.storage import VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.randomness import Random
from mooring.kube.client.config import ClusterConfig
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import WatchEvent
from tests.unit.kube.bad_server import BadServer, bad_server
from tests.unit.kube.instant_clock import InstantClock

VA: dict[str, Any] = {
    "metadata": {"name": "va", "resourceVersion": "7", "uid": "u"},
    "spec": {"attacher": "a", "nodeName": "n"},
}


@contextlib.asynccontextmanager
async def a_client(
    config: ClusterConfig, *, clock: InstantClock | None = None, **options: Any
) -> AsyncIterator[HttpCluster]:
    async with HttpCluster(
        config, clock=clock or InstantClock(), randomness=Random(1), user_agent="test/1", **options
    ) as cluster:
        yield cluster


@contextlib.asynccontextmanager
async def a_server_and_client() -> AsyncIterator[tuple[BadServer, HttpCluster]]:
    """A server that answers as it is told, and a client of it."""
    async with bad_server() as server, a_client(server.config()) as cluster:
        yield server, cluster


async def events_of(cluster: HttpCluster, **arguments: Any) -> list[WatchEvent[VolumeAttachment]]:
    async with contextlib.aclosing(
        cluster.watch(VOLUME_ATTACHMENTS, **{"resource_version": "5", **arguments})
    ) as events:
        return [event async for event in events]
