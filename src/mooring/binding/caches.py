"""The caches that the parts share: each is there once, and only when somebody reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Kind, Object
from mooring.api.pods import PODS, Pod
from mooring.api.storage import STORAGE_CLASSES, StorageClass
from mooring.base.chance import Chance
from mooring.base.clock import Clock
from mooring.binding.shelf import Shelf
from mooring.binding.view import CLAIM_INDEXES, POD_INDEXES, VOLUME_INDEXES, Volumes, prune_volume
from mooring.binding.writes import Whole
from mooring.kube.cluster import Cluster
from mooring.kube.informer import Change, Informer, obstacles

T = TypeVar("T", bound=Object)


def _keep(obj: Any) -> Any:
    return obj


class Caches:
    """Claims, volumes, classes and pods; further kinds by `of`."""

    def __init__(self, cluster: Cluster, clock: Clock, chance: Chance) -> None:
        self.cluster, self._clock, self._chance = cluster, clock, chance
        self._informers: dict[str, Informer[Any]] = {}
        self.claims: Informer[PersistentVolumeClaim] = self.of(PERSISTENT_VOLUME_CLAIMS, indexes=CLAIM_INDEXES)
        self.volumes: Informer[PersistentVolume] = self.of(PERSISTENT_VOLUMES, indexes=VOLUME_INDEXES, prune=prune_volume)
        self.pods: Informer[Pod] = self.of(PODS, indexes=POD_INDEXES)
        self.classes: Informer[StorageClass] = self.of(STORAGE_CLASSES)
        self.shelf = Shelf()
        self.volumes.on_change(self._shelve)  # before any other handler: they look there
        self.by_name = Volumes(self.volumes.store, self.shelf)
        self.whole_claims = Whole(cluster, PERSISTENT_VOLUME_CLAIMS, self.claims)
        self.whole_classes = Whole(cluster, STORAGE_CLASSES, self.classes)
        self.whole_volumes = Whole(cluster, PERSISTENT_VOLUMES, self.volumes)

    def of(
        self,
        kind: Kind[T],
        *,
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        prune: Callable[[T], T | None] = _keep,
        may_be_missing: bool = False,
    ) -> Informer[T]:
        """The cache of a kind, the same at each call. may_be_missing: in API servers that it is to work with."""
        if kind.plural not in self._informers:
            self._informers[kind.plural] = Informer(
                self.cluster,
                kind,
                clock=self._clock,
                chance=self._chance,
                indexes=indexes,
                prune=prune,
                may_be_missing=may_be_missing,
                name=f"binder/{kind.plural}",
            )
        return self._informers[kind.plural]

    def _shelve(self, change: Change[PersistentVolume]) -> None:
        self.shelf.move(change.old, change.new)

    @property
    def have_synced(self) -> bool:
        return all(informer.has_synced for informer in self._informers.values())

    @property
    def obstacle(self) -> str:
        return obstacles(self._informers.values())

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """The tasks that follow the API server."""
        return [group.create_task(informer.run(), name=informer.name) for informer in self._informers.values()]

    async def synced(self) -> None:
        for informer in self._informers.values():
            await informer.synced()
