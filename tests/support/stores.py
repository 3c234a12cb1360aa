"""Caches with objects in them, for pure decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.api.meta import Key
from mooring.cluster.binder import view as binder
from mooring.cluster.binder.available_volumes import AvailableVolumes
from mooring.cluster.binder.scheduling import view as scheduler
from mooring.cluster.binder.scheduling.assumed_bindings import AssumedBindings
from mooring.kube.cache.store import Store
from tests.support.builders import KINDS, Json, typed


def store_of(*objects: Any, indexes: Any = None) -> Store[Any]:
    """A cache with these objects in it."""
    store: Store[Any] = Store(indexes)
    for obj in objects:
        store.apply(obj)
    return store


class Stores:
    """Caches with these objects in them; the second state of an object takes the place of the first."""

    def __init__(self, *bodies: Json) -> None:
        self._stores: dict[str, Store[Any]] = {kind: Store(_INDEXES.get(kind)) for kind in KINDS}
        self.available, self._version = AvailableVolumes(), 0
        for body in bodies:
            self.put(body)

    def put(self, body: Json) -> None:
        self._version += 1
        meta = {"uid": f"uid-{body['metadata']['name']}", **body["metadata"], "resourceVersion": str(self._version)}
        obj = typed({**body, "metadata": meta})
        store = self._stores[body["kind"]]
        store.apply(obj)
        if body["kind"] == "PersistentVolume":
            self.available.move(obj.metadata.name, obj)

    def of(self, kind: str) -> Store[Any]:
        return self._stores[kind]

    @property
    def volumes(self) -> binder.Volumes:
        return binder.Volumes(self.of("PersistentVolume"), self.available)

    def binder(self, taken: Mapping[str, Key] | None = None) -> binder.View:
        return binder.View(
            self.of("PersistentVolumeClaim"), self.volumes, self.of("StorageClass"), self.of("Pod"), taken or {}
        )

    def scheduler(self, plans: AssumedBindings | None = None) -> scheduler.View:
        return scheduler.View(
            self.of("PersistentVolumeClaim"),
            self.volumes,
            self.of("StorageClass"),
            self.of("Pod"),
            self.of("Node"),
            self.of("CSINode"),
            self.of("CSIDriver"),
            self.of("CSIStorageCapacity"),
            self.of("VolumeAttachment"),
            plans or AssumedBindings(),
        )


_INDEXES: dict[str, Any] = {
    "PersistentVolumeClaim": binder.CLAIM_INDEXES,
    "PersistentVolume": binder.VOLUME_INDEXES,
    "Pod": binder.POD_INDEXES,
    "CSIStorageCapacity": scheduler.CAPACITY_INDEXES,
    "VolumeAttachment": scheduler.ATTACHMENT_INDEXES,
}
