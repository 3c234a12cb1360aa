"""Lives of volumes, from claim to attachment and all the way back, and a backend that knows what must never happen to
them.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final

from mooring.api.core import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.api.meta import Key, Kind
from mooring.api.storage import CSI_NODES, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.base.clock import Clock
from mooring.base.randomness import Random
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from tests.support.builders import NS, a_claim, a_class, a_csi_node, a_ready_node, a_va
from tests.support.unreliable_volumes import RPC, UnreliableVolumes

STEP_S_MAX: Final = 120.0
"""How long one step of a life may take, with every connection cut again and again."""

_NODES: Final = 10
_LOOK_S: Final = 0.05


class Array(UnreliableVolumes):
    """A quick driver without zones. published: nodes by handle. problems: what must never happen, and did."""

    def __init__(self, name: str, randomness: Random) -> None:
        super().__init__(name, randomness, trouble=0.0, slow_s=0.05)
        self.published: dict[str, set[str]] = defaultdict(set)
        self.problems: list[str] = []

    async def get_plugin_capabilities(
        self, request: csi.GetPluginCapabilitiesRequest
    ) -> csi.GetPluginCapabilitiesResponse:
        service = csi.PluginCapability.Service.CONTROLLER_SERVICE
        return csi.GetPluginCapabilitiesResponse(capabilities=[{"service": {"type": service}}])

    async def controller_get_capabilities(
        self, request: csi.ControllerGetCapabilitiesRequest
    ) -> csi.ControllerGetCapabilitiesResponse:
        able = (RPC.CREATE_DELETE_VOLUME, RPC.PUBLISH_UNPUBLISH_VOLUME)
        return csi.ControllerGetCapabilitiesResponse(capabilities=[{"rpc": {"type": one}} for one in able])

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        def publish() -> csi.ControllerPublishVolumeResponse:
            nodes = self.published[request.volume_id]
            nodes.add(request.node_id)
            if len(nodes) > 1:
                self.problems.append(f"{request.volume_id} is attached to {sorted(nodes)}")
            if request.volume_id not in self.volumes:
                self.problems.append(f"{request.volume_id} is attached, and does not exist")
            return csi.ControllerPublishVolumeResponse()

        return await self._call("publish", request.volume_id, publish)

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        def unpublish() -> csi.ControllerUnpublishVolumeResponse:
            self.published[request.volume_id].discard(request.node_id)
            return csi.ControllerUnpublishVolumeResponse()

        return await self._call("unpublish", request.volume_id, unpublish)

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        if self.published.pop(request.volume_id, None):
            self.problems.append(f"{request.volume_id} is deleted while it is attached")
        return await super().delete_volume(request)

    def left(self) -> list[str]:
        """What is there though nobody wants it, and what was made twice."""
        again = [f"{name} was made {times} times" for name, times in self.made.items() if times > 1]
        attached = [f"{handle} is attached" for handle, nodes in self.published.items() if nodes]
        return [*(f"{handle} is there" for handle in self.volumes), *attached, *again]


class Lives:
    """cluster: reached by a way that nobody cuts. writers: lives at a time. seconds: of each life since they were last
    taken.
    """

    def __init__(self, cluster: Cluster, clock: Clock, randomness: Random, driver: str, *, writers: int) -> None:
        self._cluster, self._clock, self._randomness = cluster, clock, randomness
        self._driver, self._writers = driver, writers
        self._numbers = itertools.count(1)
        self._claims: Informer[PersistentVolumeClaim] = self._follow(PERSISTENT_VOLUME_CLAIMS)
        self._volumes: Informer[PersistentVolume] = self._follow(PERSISTENT_VOLUMES)
        self._attachments: Informer[VolumeAttachment] = self._follow(VOLUME_ATTACHMENTS)
        self._is_over = False
        self.seconds: list[float] = []
        self.count = 0
        self.problems: Counter[str] = Counter()

    def _follow(self, kind: Kind[Any]) -> Informer[Any]:
        return Informer(self._cluster, kind, clock=self._clock, randomness=self._randomness)

    async def prepare(self) -> None:
        await self._cluster.create(STORAGE_CLASSES, a_class(provisioner=self._driver))
        for number in range(_NODES):
            await self._cluster.create(NODES, a_ready_node(f"n{number}"))
            await self._cluster.create(CSI_NODES, a_csi_node(f"n{number}", {self._driver: f"n{number}"}))

    async def run(self) -> None:
        """Returns once `end` was called and all lives have come to theirs."""
        async with asyncio.TaskGroup() as group:
            followers = [
                group.create_task(one.run(), name="soak/follower")
                for one in (self._claims, self._volumes, self._attachments)
            ]
            try:
                async with asyncio.TaskGroup() as writers:
                    for number in range(self._writers):
                        writers.create_task(self._live_on(), name=f"soak/writer/{number}")
            finally:
                for one in followers:
                    one.cancel()

    def end(self) -> None:
        """Begins no more lives."""
        self._is_over = True

    async def _live_on(self) -> None:
        while not self._is_over:
            began = time.monotonic()
            name = f"life-{next(self._numbers)}"
            try:
                await self._live(name)
            except TimeoutError as error:
                self.problems[f"{name}: {error}"] += 1
                return
            self.seconds.append(time.monotonic() - began)
            self.count += 1

    async def _live(self, name: str) -> None:
        """Raises TimeoutError where a step takes too long."""
        claim = Key(NS, name)
        await self._cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim(name), NS)
        await self._until(lambda: self._phase(claim) == "Bound", "bound")
        found = self._claims.store.get(claim)
        assert found is not None
        volume = Key("", found.spec.volume_name)
        node = f"n{self._randomness.below(_NODES)}"
        await self._cluster.create(VOLUME_ATTACHMENTS, a_va(name, volume.name, node, attacher=self._driver))
        await self._until(lambda: self._is_attached(Key("", name)), "attached")
        await self._cluster.delete(VOLUME_ATTACHMENTS, name)
        await self._until(lambda: self._attachments.store.get(Key("", name)) is None, "detached")
        await self._cluster.delete(PERSISTENT_VOLUME_CLAIMS, name, NS)
        await self._until(lambda: self._claims.store.get(claim) is None, "without its claim")
        await self._until(lambda: self._volumes.store.get(volume) is None, "without its volume")

    def _phase(self, claim: Key) -> str:
        found = self._claims.store.get(claim)
        return (found.status.phase if found is not None and found.status is not None else None) or ""

    def _is_attached(self, key: Key) -> bool:
        found = self._attachments.store.get(key)
        return bool(found is not None and found.status is not None and found.status.attached)

    async def _until(self, check: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + STEP_S_MAX
        while not check():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not {what} after {STEP_S_MAX:g} s")
            await asyncio.sleep(_LOOK_S)
