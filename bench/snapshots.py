"""Snapshots of bound claims, for the bench of the snapshot controller and the snapshotter: made, watched and deleted.

Times are those of the wall clock, since the driver has no other in common with us.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from bench.growths import NS, BoundLoad
from mooring.api.snapshot import (
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOT_CONTENTS,
    VOLUME_SNAPSHOTS,
    VolumeSnapshot,
    VolumeSnapshotContent,
)
from mooring.api.snapshot_names import AS_SOURCE_FINALIZER, BOUND_FINALIZER, CONTENT_FINALIZER
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import EventType, Patch, PatchType, WatchEvent
from tests.support.control_plane import ControlPlane

Json = dict[str, Any]

CREATED = "2026-11-21T12:00:00Z"
CREATED_NS = 1795262400 * 10**9


class SnapshotLoad(BoundLoad):
    """A snapshot is known by its name, and so is its content."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        super().__init__(plane, cluster)
        self.created_at: dict[str, float] = {}
        self.ready_at: dict[str, float] = {}
        self.gone_at: dict[str, float] = {}
        self.content_gone_at: dict[str, float] = {}
        self.uid_of: dict[str, str] = {}

    async def make_snapshot_class(self, name: str, driver: str, parameters: Mapping[str, str] | None = None) -> None:
        body = {
            "metadata": {"name": name},
            "driver": driver,
            "deletionPolicy": "Delete",
            "parameters": dict(parameters or {}),
        }
        await self._cluster.create(VOLUME_SNAPSHOT_CLASSES.whole(), body)

    async def snap(self, name: str, claim: str, snapshot_class: str) -> None:
        made = await self._cluster.create(VOLUME_SNAPSHOTS.whole(), a_snapshot(name, claim, snapshot_class), NS)
        self.created_at[name] = time.time()
        self.uid_of[name] = made["metadata"]["uid"]

    async def drop(self, name: str) -> None:
        await self._cluster.delete(VOLUME_SNAPSHOTS, name, NS)

    async def make_ready(self, name: str, claim: str, snapshot_class: str, driver: str) -> None:
        """A snapshot and its content as both programs leave them."""
        body = a_snapshot(name, claim, snapshot_class)
        body["metadata"]["finalizers"] = [AS_SOURCE_FINALIZER, BOUND_FINALIZER]
        made = await self._cluster.create(VOLUME_SNAPSHOTS.whole(), body, NS)
        content = a_content(made, claim, driver)
        bound = content["metadata"]["name"]
        await self._cluster.create(VOLUME_SNAPSHOT_CONTENTS.whole(), content)
        handle = {
            "snapshotHandle": f"snap-{name}",
            "creationTime": CREATED_NS,
            "restoreSize": 1 << 30,
            "readyToUse": True,
        }
        await self._status(VOLUME_SNAPSHOT_CONTENTS.whole(), bound, handle)
        ready = {
            "boundVolumeSnapshotContentName": bound,
            "creationTime": CREATED,
            "restoreSize": "1Gi",
            "readyToUse": True,
        }
        await self._status(VOLUME_SNAPSHOTS.whole(), name, ready, NS)

    async def _status(self, kind: Any, name: str, status: Json, namespace: str = "") -> None:
        await self._cluster.patch(
            kind, name, Patch(PatchType.MERGE, {"status": status}), namespace, subresource="status"
        )

    async def remove_snapshots(self) -> None:
        """All that are left, and their contents: others would find them."""
        snapshots = (await self._cluster.list(VOLUME_SNAPSHOTS)).items
        await self.remove(VOLUME_SNAPSHOTS, [one.metadata.name for one in snapshots], NS)
        contents = (await self._cluster.list(VOLUME_SNAPSHOT_CONTENTS)).items
        await self.remove(VOLUME_SNAPSHOT_CONTENTS, [one.metadata.name for one in contents])

    async def watch(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.follow(VOLUME_SNAPSHOTS, self._snapshot_changed))
            group.create_task(self.follow(VOLUME_SNAPSHOT_CONTENTS, self._content_changed))

    def _snapshot_changed(self, event: WatchEvent[VolumeSnapshot]) -> None:
        assert event.object is not None
        name, status = event.object.metadata.name, event.object.status
        if event.type is EventType.DELETED:
            self.gone_at.setdefault(name, time.time())
        elif status is not None and status.ready_to_use:
            self.ready_at.setdefault(name, time.time())

    def _content_changed(self, event: WatchEvent[VolumeSnapshotContent]) -> None:
        assert event.object is not None
        if event.type is EventType.DELETED:
            self.content_gone_at.setdefault(event.object.spec.volume_snapshot_ref.name, time.time())


def a_snapshot(name: str, claim: str, snapshot_class: str) -> Json:
    spec = {"source": {"persistentVolumeClaimName": claim}, "volumeSnapshotClassName": snapshot_class}
    return {"metadata": {"name": name, "labels": {"app": "bench"}}, "spec": spec}


def a_content(snapshot: Json, volume: str, driver: str) -> Json:
    """As a snapshot controller makes it for this snapshot, as it was read."""
    meta = snapshot["metadata"]
    told = {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion")}
    spec = {
        "driver": driver,
        "deletionPolicy": "Delete",
        "source": {"volumeHandle": f"vol-{volume}"},
        "sourceVolumeMode": "Filesystem",
        "volumeSnapshotClassName": snapshot["spec"]["volumeSnapshotClassName"],
        "volumeSnapshotRef": {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", **told},
    }
    return {"metadata": {"name": f"snapcontent-{meta['uid']}", "finalizers": [CONTENT_FINALIZER]}, "spec": spec}


def driver_name(uid: str) -> str:
    """The name that the driver is given for the snapshot with this uid, with flags as shipped."""
    return f"snapshot-{uid}"
