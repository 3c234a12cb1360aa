"""Kubelets without containers or mounts, which keep the kubelet's word to the attach/detach controller.

A volume is written to `volumesInUse` before it is mounted. It is mounted once the Node that shows it in use shows it in
`volumesAttached` as well. It stays in use until it is unmounted, whatever becomes of the pod. The times of all mounts
are noted.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import random
import time
from collections.abc import Iterable
from typing import Any

from mooring.api.core import NODES, Node
from mooring.api.pods import PODS, Pod
from mooring.api.volume_names import unique_name
from mooring.kube.cluster import EventType, WatchEvent
from mooring.kube.errors import ApiError, NotFound
from tests.attachdetach_load.following import Changed
from tests.support.builders import DRIVER, NS, Json
from tests.support.cluster_world import ClusterUser

GATHER_S = 0.2
"""The longest time until a change of what is in use is written."""


@dataclasses.dataclass
class Mount:
    """One volume mounted on one node. Times on the machine's monotonic clock; ended_s: infinite while it is."""

    handle: str
    node: str
    began_s: float
    ended_s: float = math.inf


class Kubelet:
    """Of one node. slow_s: how long stopping, unmounting and letting go take at the most, each."""

    def __init__(
        self, user: ClusterUser, node: str, dice: random.Random, mounts: list[Mount], *, slow_s: float
    ) -> None:
        self.node, self.running = node, set[str]()
        self._user, self._dice, self._mounts, self._slow_s = user, dice, mounts, slow_s
        self._changed, self._stale = Changed(), asyncio.Event()
        self._version, self._attached = 0, frozenset[str]()
        self._users: dict[str, set[str]] = {}
        self._in_use_since: dict[str, int] = {}
        self._mounted: dict[str, tuple[Mount, set[str]]] = {}
        self._pods: dict[str, Pod | None] = {}
        self._lives: set[asyncio.Task[None]] = set()

    # -- what it sees

    def saw_node(self, event: WatchEvent[Node]) -> None:
        node = event.object
        assert node is not None
        if node.metadata.name == self.node:
            self._take(int(node.metadata.resource_version), {one.name for one in node.status.volumes_attached or ()})

    def _take(self, version: int, attached: Iterable[str]) -> None:
        if version > self._version:
            self._version, self._attached = version, frozenset(attached)
            self._changed.tell()

    def saw_pod(self, event: WatchEvent[Pod]) -> None:
        pod = event.object
        assert pod is not None
        uid, gone = pod.metadata.uid, event.type is EventType.DELETED
        if pod.spec.node_name != self.node or (gone and uid not in self._pods):
            return
        if uid not in self._pods:
            life = asyncio.get_running_loop().create_task(self._live(pod), name=f"pod/{pod.metadata.name}")
            self._lives.add(life)
            life.add_done_callback(self._ended)
        self._pods[uid] = None if gone else pod
        self._changed.tell()

    def _ended(self, life: asyncio.Task[None]) -> None:
        self._lives.discard(life)
        if not life.cancelled():
            life.result()

    async def run(self) -> None:
        """Writes what is in use, until cancelled."""
        while True:
            await self._stale.wait()
            await asyncio.sleep(self._dice.uniform(0, GATHER_S))
            self._stale.clear()
            try:
                await self._write()
            except ApiError:
                self._stale.set()

    async def _write(self) -> None:
        wanted = sorted(self._users)
        self._in_use_since = {volume: since for volume, since in self._in_use_since.items() if volume in self._users}
        node = await self._user.patch(
            NODES, self.node, {"status": {"volumesInUse": wanted or None}}, subresource="status"
        )
        version = int(node["metadata"]["resourceVersion"])
        self._in_use_since = {volume: self._in_use_since.get(volume, version) for volume in wanted}
        self._take(version, [one["name"] for one in node["status"].get("volumesAttached") or ()])
        self._changed.tell()

    # -- one pod

    async def _live(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        handles = [
            one.persistent_volume_claim.claim_name
            for one in pod.spec.volumes or ()
            if one.persistent_volume_claim is not None
        ]
        volumes = [unique_name(DRIVER, handle) for handle in handles]
        self._use(uid, volumes)
        await self._changed.until(lambda: self._leaving(uid) or all(map(self._may_mount, volumes)))
        if not self._leaving(uid):
            self._mount(uid, dict(zip(volumes, handles, strict=True)))
            await self._tell(pod, {"phase": "Running", "containerStatuses": [_container({"running": {}})]})
            self.running.add(pod.metadata.name)
            await self._changed.until(lambda: self._leaving(uid))
        await self._stop(pod, volumes)
        del self._pods[uid]

    async def _stop(self, pod: Pod, volumes: list[str]) -> None:
        """The object goes before or after the volumes are let go of, as it happens."""
        uid, early = pod.metadata.uid, self._dice.random() < 0.5
        self.running.discard(pod.metadata.name)
        await self._pause()
        if self._dice.random() < 0.5:
            await self._tell(pod, {"containerStatuses": [_container({"terminated": {"exitCode": 0}})]})
        await self._pause()
        self._unmount(uid)
        if early:
            await self._delete(pod)
        await self._pause()
        self._let_go(uid, volumes)
        if not early:
            await self._delete(pod)

    def _leaving(self, uid: str) -> bool:
        pod = self._pods[uid]
        return pod is None or pod.metadata.deletion_timestamp is not None

    async def _pause(self) -> None:
        await asyncio.sleep(self._dice.uniform(0, self._slow_s))

    async def _tell(self, pod: Pod, status: Json) -> None:
        """Unless another pod has its name by now."""
        body: dict[str, Any] = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        with contextlib.suppress(ApiError):
            await self._user.patch(PODS, pod.metadata.name, body, subresource="status")

    async def _delete(self, pod: Pod) -> None:
        while self._pods[pod.metadata.uid] is not None:
            try:
                await self._user.users.delete(PODS, pod.metadata.name, NS, uid=pod.metadata.uid, grace_period_s=0)
            except NotFound:
                return
            except ApiError:
                await asyncio.sleep(0.1)
                continue
            return

    # -- volumes

    def _use(self, uid: str, volumes: Iterable[str]) -> None:
        for volume in volumes:
            self._users.setdefault(volume, set()).add(uid)
        self._stale.set()

    def _let_go(self, uid: str, volumes: Iterable[str]) -> None:
        for volume in volumes:
            self._users[volume].discard(uid)
            if not self._users[volume]:
                del self._users[volume]
        self._stale.set()

    def _may_mount(self, volume: str) -> bool:
        since = self._in_use_since.get(volume)
        return since is not None and self._version >= since and volume in self._attached

    def _mount(self, uid: str, handles: dict[str, str]) -> None:
        for volume, handle in handles.items():
            if volume not in self._mounted:
                self._mounted[volume] = Mount(handle, self.node, time.monotonic()), set()
                self._mounts.append(self._mounted[volume][0])
            self._mounted[volume][1].add(uid)

    def _unmount(self, uid: str) -> None:
        for volume, (mount, users) in list(self._mounted.items()):
            users.discard(uid)
            if not users:
                mount.ended_s = time.monotonic()
                del self._mounted[volume]


def _container(state: Json) -> Json:
    return {"name": "c", "image": "i", "imageID": "", "ready": "running" in state, "restartCount": 0, "state": state}
