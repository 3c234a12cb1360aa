"""The load on a large cluster: pods that come and go with their volumes, claims, growths and snapshots; and the
kubelets, played.

Everything goes at a rate, whatever the contender does, and each thing is timed from the write that asks for it to the
moment at which a watch shows that it is done. A kubelet reports a volume in use once it is reported as attached, and
takes it out once the pod is gone.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import math
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from typing import Any

from bench.load import REQUESTS, Load
from bench.podload import a_pod
from bench.scale.lived import CLASS, DRIVER, NS, SNAPSHOT_CLASS, Size, handle_of, in_use, node_name, spare_name
from mooring.api.coordination import LEASES
from mooring.api.core import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
)
from mooring.api.pods import PODS
from mooring.api.snapshot import (
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOT_CONTENTS,
    VOLUME_SNAPSHOTS,
    VolumeSnapshot,
    VolumeSnapshotContent,
)
from mooring.api.storage import CSI_DRIVERS, STORAGE_CLASSES, VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.api.volume_names import attachment_name, unique_name
from mooring.dev.extras import install
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import EventType, Patch, PatchType, WatchEvent
from mooring.kube.errors import AlreadyExists
from tests.support.control_plane import ControlPlane

Json = dict[str, Any]

HOLD_S = 3.0
"""How long a pod stays once its volume is reported."""
_SENT = ("apiserver_response_sizes_sum", "apiserver_watch_events_sizes_sum")
"""Bytes of answers, and of watch events."""

ATTACH, DETACH, BIND, DELETE, GROW, SNAPSHOT, UNSNAPSHOT = (
    "pod → volume reported as attached",
    "volume not in use → attachment gone",
    "claim → bound",
    "claim deleted → volume gone",
    "growth asked → done",
    "snapshot → ready",
    "snapshot deleted → content gone",
)
ATTACHMENT = "attachment → attached"
WANTED = "pod → attachment made"
KINDS = (ATTACH, DETACH, BIND, DELETE, GROW, SNAPSHOT, UNSNAPSHOT)


class Setting(Load):
    """What the lived cluster has that is not in etcd beforehand."""

    async def prepare(self) -> None:
        """The kinds of snapshots, the driver, and its classes."""
        await install(self._cluster)
        await self._cluster.create(
            CSI_DRIVERS.whole(), {"metadata": {"name": DRIVER}, "spec": {"attachRequired": True}}
        )
        body: Json = {"metadata": {"name": CLASS}, "provisioner": DRIVER, "allowVolumeExpansion": True}
        await self._cluster.create(STORAGE_CLASSES.whole(), body)
        body = {"metadata": {"name": SNAPSHOT_CLASS}, "driver": DRIVER, "deletionPolicy": "Delete"}
        await self._cluster.create(VOLUME_SNAPSHOT_CLASSES.whole(), body)

    async def watch(self) -> None:
        return


class ScaleLoad(Load):
    """took_s: by kind, how long each took. Works on the spare volumes; `size` has enough of them for what is begun."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        super().__init__(plane, cluster)
        self.size = Size(0, 0)
        self.took_s: dict[str, list[float]] = collections.defaultdict(list)
        self._seen: dict[tuple[str, str], asyncio.Event] = collections.defaultdict(asyncio.Event)
        self._in_use: dict[str, list[str]] = {}
        self._spares: Iterator[int] = iter(())
        self._numbers = itertools.count()

    def begin(self, size: Size, first_spare: int, last_spare: int) -> None:
        """These spares are this load's: each is used once."""
        self.size = size
        self._in_use = {node_name(number): in_use(size, number) for number in range(size.nodes)}
        self._spares = iter(range(first_spare, last_spare))
        self._tag = f"r{first_spare}"

    # -- one of each, from begin to end

    async def move(self) -> None:
        """A pod comes to a node with its volume, and goes."""
        number = next(self._spares)
        volume, node, pod = spare_name(number), node_name(number * 7 % self.size.nodes), f"{self._tag}-pod-{number}"
        unique = unique_name(DRIVER, handle_of(volume))
        began = time.monotonic()
        await self._cluster.create(PODS.whole(), a_pod(pod, node, volume), NS)
        await self._done(ATTACH, ("reported", unique), began)
        self._in_use[node].append(unique)
        await self._report(node)
        await asyncio.sleep(HOLD_S)
        await self._cluster.delete(PODS, pod, NS, grace_period_s=0)
        self._in_use[node].remove(unique)
        await self._report(node)
        await self._done(DETACH, ("detached", volume), time.monotonic())

    async def attach(self) -> None:
        """An attachment is made as the attach/detach controller makes it, and deleted."""
        number = next(self._spares)
        volume, node = spare_name(number), node_name(number % self.size.nodes)
        name = attachment_name(DRIVER, handle_of(volume), node)
        spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}}
        began = time.monotonic()
        await self._cluster.create(VOLUME_ATTACHMENTS.whole(), {"metadata": {"name": name}, "spec": spec})
        await self._done(ATTACHMENT, ("attached", volume), began)
        await self._cluster.delete(VOLUME_ATTACHMENTS, name)
        await self._done(DETACH, ("detached", volume), time.monotonic())

    async def want(self) -> None:
        """A pod comes to a node, so that its volume's attachment is made, which nobody carries out; then the pod
        goes.
        """
        number = next(self._spares)
        volume, pod = spare_name(number), f"{self._tag}-pod-{number}"
        began = time.monotonic()
        await self._cluster.create(PODS.whole(), a_pod(pod, node_name(number % self.size.nodes), volume), NS)
        await self._done(WANTED, ("wanted", volume), began)
        await self._cluster.delete(PODS, pod, NS, grace_period_s=0)
        await self._done(DETACH, ("detached", volume), time.monotonic())

    async def claim(self) -> None:
        """A claim is bound, and deleted."""
        name = f"{self._tag}-claim-{next(self._numbers)}"
        began = time.monotonic()
        await self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), _claim(name), NS)
        await self._done(BIND, ("bound", name), began)
        began = time.monotonic()
        await self._cluster.delete(PERSISTENT_VOLUME_CLAIMS, name, NS)
        await self._done(DELETE, ("volume gone", name), began)

    async def grow(self) -> None:
        name = spare_name(next(self._spares))
        patch = Patch(PatchType.MERGE, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
        began = time.monotonic()
        await self._cluster.patch(PERSISTENT_VOLUME_CLAIMS.whole(), name, patch, NS)
        await self._done(GROW, ("grown", name), began)

    async def snapshot(self) -> None:
        """One is taken, and deleted."""
        number = next(self._spares)
        name = f"{self._tag}-snapshot-{number}"
        spec = {"source": {"persistentVolumeClaimName": spare_name(number)}, "volumeSnapshotClassName": SNAPSHOT_CLASS}
        began = time.monotonic()
        await self._cluster.create(VOLUME_SNAPSHOTS.whole(), {"metadata": {"name": name}, "spec": spec}, NS)
        await self._done(SNAPSHOT, ("ready", name), began)
        began = time.monotonic()
        await self._cluster.delete(VOLUME_SNAPSHOTS, name, NS)
        await self._done(UNSNAPSHOT, ("content gone", name), began)

    # -- many

    async def churn(self, rate: float, seconds: float) -> None:
        """rate: pods a second; beside every second one a claim, beside every fourth a growth and a snapshot. Returns
        when all are done.
        """
        async with asyncio.TaskGroup() as group:
            for job in _jobs(self, int(rate * seconds)):
                group.create_task(job)
                await asyncio.sleep(1 / rate / 2)

    @contextlib.asynccontextmanager
    async def heartbeats(self, rate_max: float) -> AsyncIterator[None]:
        """Each node renews its lease every 10 s, as far as rate_max writes a second allow."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._beat(min(rate_max, self.size.nodes / 10)))
            try:
                yield
            finally:
                task.cancel()

    async def _beat(self, rate: float) -> None:
        leases, began = LEASES.whole(), time.monotonic()
        for number in itertools.count():
            spec = {"renewTime": _now()}
            name = node_name(number % self.size.nodes)
            await self._cluster.patch(leases, name, Patch(PatchType.MERGE, {"spec": spec}), "kube-node-lease")
            await asyncio.sleep(max(0.0, began + (number + 1) / rate - time.monotonic()))

    async def hold_lease(self, name: str) -> None:
        """For an hour from now, as some other replica."""
        now = _now()
        spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now}
        with contextlib.suppress(AlreadyExists):
            await self._cluster.create(LEASES.whole(), {"metadata": {"name": name}, "spec": spec}, NS)
        await self._cluster.patch(LEASES.whole(), name, Patch(PatchType.MERGE, {"spec": spec}), NS)

    async def _report(self, node: str) -> None:
        patch = Patch(PatchType.MERGE, {"status": {"volumesInUse": sorted(self._in_use[node])}})
        await self._cluster.patch(NODES.whole(), node, patch, subresource="status")

    async def _done(self, kind: str, what: tuple[str, str], began: float) -> None:
        try:
            async with asyncio.timeout(self.size.patience_s):
                await self._seen[what].wait()
        except TimeoutError:
            raise AssertionError(f"{kind}: {what[1]} was not done within {self.size.patience_s:g} s") from None
        self.took_s[kind].append(time.monotonic() - began)

    # -- what is seen

    async def watch(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.follow(NODES, self._node_changed))
            group.create_task(self.follow(VOLUME_ATTACHMENTS, self._attachment_changed))
            group.create_task(self.follow(PERSISTENT_VOLUME_CLAIMS, self._claim_changed))
            group.create_task(self.follow(PERSISTENT_VOLUMES, self._volume_changed))
            group.create_task(self.follow(VOLUME_SNAPSHOTS, self._snapshot_changed))
            group.create_task(self.follow(VOLUME_SNAPSHOT_CONTENTS, self._content_changed))

    def _node_changed(self, event: WatchEvent[Node]) -> None:
        assert event.object is not None
        for one in event.object.status.volumes_attached or ():
            self._seen["reported", one.name].set()

    def _attachment_changed(self, event: WatchEvent[VolumeAttachment]) -> None:
        assert event.object is not None
        volume = event.object.spec.source.persistent_volume_name or ""
        if event.type is EventType.DELETED:
            self._seen["detached", volume].set()
            return
        self._seen["wanted", volume].set()
        if event.object.status.attached:
            self._seen["attached", volume].set()

    def _claim_changed(self, event: WatchEvent[PersistentVolumeClaim]) -> None:
        assert event.object is not None
        name, status = event.object.metadata.name, event.object.status
        if status.phase == "Bound":
            self._seen["bound", name].set()
        if (status.capacity or {}).get("storage") == "2Gi":
            self._seen["grown", name].set()

    def _volume_changed(self, event: WatchEvent[PersistentVolume]) -> None:
        assert event.object is not None
        if event.type is EventType.DELETED and event.object.spec.claim_ref is not None:
            self._seen["volume gone", event.object.spec.claim_ref.name].set()

    def _snapshot_changed(self, event: WatchEvent[VolumeSnapshot]) -> None:
        assert event.object is not None
        if event.object.status is not None and event.object.status.ready_to_use:
            self._seen["ready", event.object.metadata.name].set()

    def _content_changed(self, event: WatchEvent[VolumeSnapshotContent]) -> None:
        assert event.object is not None
        if event.type is EventType.DELETED:
            self._seen["content gone", event.object.spec.volume_snapshot_ref.name].set()

    # -- what the server was asked for

    async def asked(self) -> Asked:
        """All requests of the whole server so far."""
        requests: collections.Counter[str] = collections.Counter()
        sent = 0.0
        counts_bytes = False
        for name, labels, value in await self.samples(REQUESTS, *_SENT):
            if not labels["resource"]:
                continue  # metrics, health
            if name == REQUESTS:
                requests[f"{labels['verb']} {labels['resource']}"] += int(value)
            else:
                counts_bytes = True
                sent += value
        return Asked(requests, sent if counts_bytes else math.nan)


class Asked:
    """requests: by verb and resource. sent: bytes of answers and watch events, before compression; nan where the server
    counts none.
    """

    def __init__(self, requests: Mapping[str, int], sent: float) -> None:
        self.requests, self.sent = requests, sent

    def __sub__(self, before: Asked) -> Asked:
        requests = {key: count - before.requests.get(key, 0) for key, count in self.requests.items()}
        return Asked({key: count for key, count in requests.items() if count}, self.sent - before.sent)


def _now() -> str:
    """As a Lease has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())


def _jobs(load: ScaleLoad, moves: int) -> Iterator[Coroutine[Any, Any, None]]:
    for number in range(moves):
        yield load.move()
        if number % 2 == 0:
            yield load.claim()
        if number % 4 == 1:
            yield load.grow()
        if number % 4 == 3:
            yield load.snapshot()


def spares_for(rate: float, seconds: float) -> int:
    """How many spare volumes `churn` takes."""
    moves = int(rate * seconds)
    return moves + len(range(1, moves, 4)) + len(range(3, moves, 4))


def _claim(name: str) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": CLASS}
    return {"metadata": {"name": name, "labels": {"app": "bench"}}, "spec": spec}
