"""The least that a provisioner in Python can do, on Mooring's own wires: the third column of `bench.provision --least`.

It calls the driver for each claim and stores the volume, and takes back what is released. It has no cache, decides
nothing, tells nobody and writes no intent: killed at the wrong moment, it loses a volume. So its cost is the bound of
whatever has to do more.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from bench.claims import a_volume
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Kind
from mooring.base.clock import LoopClock
from mooring.base.loops import run
from mooring.base.randomness import Random
from mooring.csi.driver import Call
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.cluster import EventType

T = TypeVar("T")

AT_ONCE = 100
"""As --worker-threads has it."""
CALL = Call(timeout_s=10.0)
MINE = "volume.kubernetes.io/storage-provisioner"


class LeastProvisioner:
    """name: the driver's."""

    def __init__(self, cluster: HttpCluster, driver: WireDriver, name: str) -> None:
        self._cluster, self._driver, self._name = cluster, driver, name
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._begun: set[str] = set()  # uids of claims, and of volumes that are taken back

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:

            def claim_seen(claim: PersistentVolumeClaim) -> None:
                uid = claim.metadata.uid
                if (claim.metadata.annotations or {}).get(MINE) == self._name and uid not in self._begun:
                    self._begun.add(uid)
                    group.create_task(self._made(claim))

            def volume_seen(volume: PersistentVolume) -> None:
                source, uid = volume.spec.csi, volume.metadata.uid
                if (
                    source is not None
                    and source.driver == self._name
                    and volume.status.phase == "Released"
                    and uid not in self._begun
                ):
                    self._begun.add(uid)
                    group.create_task(self._taken_back(volume.metadata.name, source.volume_handle))

            group.create_task(self._follow(PERSISTENT_VOLUME_CLAIMS, claim_seen))
            group.create_task(self._follow(PERSISTENT_VOLUMES, volume_seen))

    async def _follow(self, kind: Kind[T], seen: Callable[[T], None]) -> None:
        page = await self._cluster.list(kind)
        for one in page.items:
            seen(one)
        version = page.resource_version
        while True:
            async with contextlib.aclosing(self._cluster.watch(kind, resource_version=version)) as events:
                async for event in events:
                    version = event.resource_version
                    if event.type in (EventType.ADDED, EventType.MODIFIED) and event.object is not None:
                        seen(event.object)

    async def _made(self, claim: PersistentVolumeClaim) -> None:
        async with self._slots:
            meta = claim.metadata
            request = csi.CreateVolumeRequest(name=f"pvc-{meta.uid}", parameters={"type": "fast", "pool": "gold"})
            request.capacity_range.required_bytes = 2**30
            capability = request.volume_capabilities.add()
            capability.mount.fs_type = "ext4"
            capability.access_mode.mode = csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER
            answer = await self._driver.create_volume(request, CALL)
            read: dict[str, Any] = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}}
            body = a_volume(meta.name, self._name, read)
            body["metadata"]["name"] = f"pvc-{meta.uid}"
            body["spec"]["csi"]["volumeHandle"] = answer.volume.volume_id
            await self._cluster.create(PERSISTENT_VOLUMES, body)

    async def _taken_back(self, name: str, handle: str) -> None:
        async with self._slots:
            await self._driver.delete_volume(csi.DeleteVolumeRequest(volume_id=handle), CALL)
            await self._cluster.delete(PERSISTENT_VOLUMES, name)


async def main() -> None:
    parser = argparse.ArgumentParser(description="The least that a provisioner in Python can do.")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--csi-address", required=True)
    flags, _ = parser.parse_known_args()  # --kube-api-qps and its kin: there is no limit here
    clock = LoopClock()
    driver = WireDriver(flags.csi_address, clock=clock)
    await driver.connect()
    config = load(flags.kubeconfig, {})
    async with HttpCluster(config, clock=clock, randomness=Random(), user_agent="least-provisioner") as cluster:
        name = (await driver.get_plugin_info(csi.GetPluginInfoRequest(), CALL)).name
        await LeastProvisioner(cluster, driver, name).run()


if __name__ == "__main__":
    run(main())
