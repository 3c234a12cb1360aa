"""The attacher on in-process ports, in virtual time: the base situation of the specification, and what became of it.

`story` holds requests and driver calls in one order, as short texts: `["patch volumeattachments", "ControllerPublishVolume", ...]`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from mooring.api.core import NAMESPACES, PERSISTENT_VOLUMES, SECRETS
from mooring.api.meta import Kind
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS
from mooring.apiserver.local import Faults, LocalCluster
from mooring.apiserver.rules import RESOURCES
from mooring.apiserver.store import ObjectStore
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.control.runtime import Runtime
from mooring.controllers.attacher.controller import Attacher, AttacherOptions
from mooring.csi.in_process import InProcessDriver
from mooring.csi.metrics import CallMetrics
from mooring.csi.session import greet
from mooring.kube.cluster import Patch, PatchType, WatchEvent
from mooring.kube.errors import AlreadyExists, NotFound
from tests.support.builders import a_csi_node, a_held_pv, namespace_of
from tests.support.recording import RecordingCluster, Request
from tests.support.scripted_driver import ScriptedDriver

KINDS: dict[str, Kind[Any]] = {
    "PersistentVolume": PERSISTENT_VOLUMES,
    "VolumeAttachment": VOLUME_ATTACHMENTS,
    "CSINode": CSI_NODES,
    "Secret": SECRETS,
}
WAIT_S = 2000.0
EPOCH_S = 1_780_000_000.0

PATCH_PV = "patch persistentvolumes"
PATCH_VA = "patch volumeattachments"
PATCH_STATUS = "patch volumeattachments/status"
GET_SECRET = "get secrets"
GET_VA = "get volumeattachments"
GET_PV, GET_NODE = "get persistentvolumes", "get csinodes"
PUBLISH, UNPUBLISH = "ControllerPublishVolume", "ControllerUnpublishVolume"
STD_ATTACH = [PATCH_VA, PUBLISH, PATCH_STATUS]


class LateWatch(Faults):
    """The watches of these kinds come a second late."""

    def __init__(self, *plurals: str) -> None:
        self._plurals = plurals

    async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        if kind.plural in self._plurals:
            await asyncio.sleep(1)


class World:
    """An embedded store, a scripted driver, and attachers that come and go. `users` acts as everybody else, unrecorded."""

    def __init__(
        self,
        driver: ScriptedDriver | None = None,
        faults: Faults | None = None,
        call_metrics: CallMetrics | None = None,
        **options: Any,
    ) -> None:
        self.clock, self.chance = LoopClock(EPOCH_S), Chance(7)
        self.store = ObjectStore(RESOURCES, self.chance)
        self.story: list[str] = []
        self.users = LocalCluster(self.store, clock=self.clock, chance=self.chance)
        local = LocalCluster(self.store, clock=self.clock, chance=self.chance, faults=faults)
        self.cluster = RecordingCluster(local, self.story)
        self.driver = driver or ScriptedDriver()
        self.driver.story = self.story
        self.options = AttacherOptions(**{"default_fstype": "ext4", **options})
        self.attacher: Attacher | None = None
        self._call_metrics = call_metrics

    # -- attachers

    @contextlib.asynccontextmanager
    async def attaching(self) -> AsyncIterator[Attacher]:
        """A running attacher; cancelled at the end, as by kill -9."""
        port = InProcessDriver(self.driver, clock=self.clock, metrics=self._call_metrics)
        info = await greet(port, clock=self.clock)
        self.attacher = Attacher(Runtime(self.cluster, self.clock, self.chance, Metrics()), port, info, self.options)
        running = asyncio.create_task(self.attacher.run(), name="attacher")
        try:
            yield self.attacher
            if running.done():
                running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    # -- objects

    async def base(self, **pv: Any) -> World:
        """CSINode and PV."""
        await self.create(a_csi_node(), a_held_pv(**pv))
        await self.set_finalizers("PersistentVolume", "pv1", pv.get("finalizers", ["external-attacher/csi-test"]))
        return self

    async def create(self, *bodies: Mapping[str, Any]) -> None:
        """Also with status, and without what admission adds to finalizers."""
        for body in bodies:
            kind = KINDS[body["kind"]]
            if namespace := namespace_of(body):
                with contextlib.suppress(AlreadyExists):
                    await self.users.create(NAMESPACES.whole(), {"metadata": {"name": namespace}})
            await self.users.create(kind.whole(), body, namespace)
            if body["kind"] == "VolumeAttachment" and "status" in body:
                await self.patch("VolumeAttachment", body["metadata"]["name"], {"status": body["status"]}, "status")

    async def set_finalizers(self, kind: str, name: str, finalizers: Any) -> None:
        await self.patch(kind, name, {"metadata": {"finalizers": list(finalizers) if finalizers else None}})

    async def patch(self, kind: str, name: str, body: Mapping[str, Any], subresource: str = "") -> None:
        await self.users.patch(KINDS[kind].whole(), name, Patch(PatchType.MERGE, body), subresource=subresource)

    async def delete(self, kind: str, name: str) -> None:
        await self.users.delete(KINDS[kind], name)

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        return await self.users.get(KINDS[kind].whole(), name)

    # -- waiting

    async def until(self, check: Callable[[], Awaitable[bool]], wait_s: float = WAIT_S) -> None:
        """Waits in virtual time until the check holds."""
        deadline = self.clock.now() + wait_s
        while not await check():
            assert self.clock.now() < deadline, f"not within {wait_s} s; story: {self.story}"
            await asyncio.sleep(0.01)

    async def attached(self, name: str = "pv1-node1", wait_s: float = WAIT_S) -> dict[str, Any]:
        return await self.status(lambda status: status["attached"], name, wait_s)

    async def status(self, check: Callable[[dict[str, Any]], Any], name: str = "pv1-node1", wait_s: float = WAIT_S) -> dict[str, Any]:
        """The attachment, once its status is as wanted."""
        found: dict[str, Any] = {}

        async def holds() -> bool:
            found.update(await self.get("VolumeAttachment", name))
            return bool(check(found["status"]))

        await self.until(holds, wait_s)
        return found

    async def error(self, field: str = "attachError", name: str = "pv1-node1") -> dict[str, Any]:
        """The error in the status, once there is one."""
        found: dict[str, Any] = (await self.status(lambda status: status.get(field), name))["status"][field]
        return found

    async def gone(self, kind: str, name: str, wait_s: float = WAIT_S) -> None:
        async def is_gone() -> bool:
            try:
                await self.get(kind, name)
            except NotFound:
                return True
            return False

        await self.until(is_gone, wait_s)

    async def settle(self, seconds: float = 0.5) -> None:
        """Lets so much time pass: enough for every event to arrive and every worker to have ended, too short for a back-off."""
        await asyncio.sleep(seconds)

    # -- what happened

    def bodies(self, short: str) -> list[Any]:
        return [request.body for request in self.cluster.writes(short)]

    def last(self, short: str) -> Request:
        return self.cluster.writes(short)[-1]
