"""Pods with a volume each on nodes that are objects alone, for the bench of the attach/detach controller: made, and
watched.
"""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import Iterable
from typing import Any

from bench.load import REQUESTS, Load
from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Node
from mooring.api.pods import PODS
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS, VolumeAttachment
from mooring.api.volume_names import attachment_name, unique_name
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import EventType, Patch, PatchType, WatchEvent
from tests.support.control_plane import ControlPlane

Json = dict[str, Any]

NS = "default"
READ = (
    "pods",
    "nodes",
    "persistentvolumes",
    "persistentvolumeclaims",
    "volumeattachments",
    "csinodes",
    "csidrivers",
    "storageclasses",
)


def unique(driver: str, name: str) -> str:
    """Of a volume of the bench: its handle is its name."""
    return unique_name(driver, name)


class PodLoad(Load):
    """Everything is known by one name: pod, claim, volume and handle. Times on the monotonic clock."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        super().__init__(plane, cluster)
        self.created_at: dict[str, float] = {}
        self.reported_at: dict[str, float] = {}
        self.dropped_at: dict[str, float] = {}
        self.gone_at: dict[str, float] = {}

    async def make_nodes(self, names: Iterable[str], driver: str) -> None:
        nodes = list(names)
        await self.each(self._cluster.create(NODES.whole(), a_node(name)) for name in nodes)
        drivers = [{"name": driver, "nodeID": "n", "topologyKeys": None}]
        await self.each(
            self._cluster.create(CSI_NODES.whole(), {"metadata": {"name": name}, "spec": {"drivers": drivers}})
            for name in nodes
        )

    async def make_volumes(self, names: Iterable[str], driver: str) -> None:
        await self.each(self._volume(name, driver) for name in names)

    async def _volume(self, name: str, driver: str) -> None:
        made = await self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), a_claim(name), NS)
        await self._cluster.create(PERSISTENT_VOLUMES.whole(), a_volume(name, driver, made["metadata"]["uid"]))
        await self._patch(PERSISTENT_VOLUME_CLAIMS, name, {"phase": "Bound"}, NS)

    async def make_pod(self, name: str, node: str) -> None:
        await self._cluster.create(PODS.whole(), a_pod(name, node), NS)
        self.created_at[name] = time.monotonic()

    async def drop_pod(self, name: str) -> None:
        await self._cluster.delete(PODS, name, NS, grace_period_s=0)
        self.dropped_at[name] = time.monotonic()

    async def remove_volumes(self, names: Iterable[str]) -> None:
        for kind, namespace in ((PERSISTENT_VOLUME_CLAIMS, NS), (PERSISTENT_VOLUMES, "")):
            await self.each(self._cluster.delete(kind, name, namespace) for name in names)

    async def attached_already(self, name: str, driver: str, node: str) -> None:
        """An attachment as an earlier controller and its attacher left it."""
        va = attachment_name(driver, name, node)
        spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": name}}
        await self._cluster.create(VOLUME_ATTACHMENTS.whole(), {"metadata": {"name": va}, "spec": spec})
        await self._patch(VOLUME_ATTACHMENTS, va, {"attached": True})

    async def report(self, node: str, names: Iterable[str], driver: str) -> None:
        """The Node's lists, with these volumes attached and in use."""
        uniques = sorted(unique(driver, name) for name in names)
        listed = [{"name": one, "devicePath": ""} for one in uniques]
        await self._patch(NODES, node, {"volumesAttached": listed, "volumesInUse": uniques})

    async def _patch(self, kind: Any, name: str, status: Json, namespace: str = "") -> None:
        await self._cluster.patch(
            kind, name, Patch(PatchType.MERGE, {"status": status}), namespace, subresource="status"
        )

    async def watch(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.follow(NODES, self._node_changed))
            group.create_task(self.follow(VOLUME_ATTACHMENTS, self._attachment_changed))

    def _node_changed(self, event: WatchEvent[Node]) -> None:
        assert event.object is not None
        now = time.monotonic()
        for one in event.object.status.volumes_attached or ():
            self.reported_at.setdefault(one.name.rpartition("^")[2], now)

    def _attachment_changed(self, event: WatchEvent[VolumeAttachment]) -> None:
        assert event.object is not None
        if event.type is EventType.DELETED:
            self.gone_at.setdefault(event.object.spec.source.persistent_volume_name or "", time.monotonic())

    async def requests(self) -> collections.Counter[str]:
        """All requests of the whole server about what the controller reads or writes, so far, by verb and resource."""
        found: collections.Counter[str] = collections.Counter()
        for _, labels, count in await self.samples(REQUESTS):
            if labels["resource"] in READ:
                found[f"{labels['verb']} {labels['resource']}"] += int(count)
        return found


# -- objects


def a_node(name: str) -> Json:
    conditions = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": name, "annotations": {MANAGED: "true"}}, "status": {"conditions": conditions}}


def a_claim(name: str) -> Json:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": {**wanted, "storageClassName": "", "volumeName": name}}


def a_volume(name: str, driver: str, claim_uid: str) -> Json:
    source = {
        "driver": driver,
        "volumeHandle": name,
        "fsType": "ext4",
        "volumeAttributes": {"pool": "gold", "backend": f"array-{name}"},
    }
    ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NS, "name": name, "uid": claim_uid}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": source,
    }
    return {"metadata": {"name": name, "labels": {"app": "bench"}}, "spec": {**spec, "claimRef": ref}}


def a_pod(name: str, node: str, claim: str = "") -> Json:
    """claim: by the pod's name, unless another is given."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim or name}}]
    containers = [
        {"name": "c", "image": "example.com/image:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    ]
    spec = {"nodeName": node, "containers": containers, "volumes": volumes, "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name, "labels": {"app": "bench"}}, "spec": spec}
