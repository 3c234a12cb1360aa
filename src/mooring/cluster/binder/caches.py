"""The caches that the binder's controllers and the scheduler share; beside them the available volumes, and writers of
whole objects.
"""

from __future__ import annotations

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import key_of
from mooring.api.pods import PODS, Pod
from mooring.api.storage import STORAGE_CLASSES, StorageClass
from mooring.base.clock import in_turns
from mooring.cluster.binder.available_volumes import AvailableVolumes, is_free
from mooring.cluster.binder.view import (
    CLAIM_INDEXES,
    POD_INDEXES,
    VOLUME_INDEXES,
    Volumes,
    keeps_of_pod,
    keeps_of_volume,
)
from mooring.cluster.binder.writes import Whole
from mooring.control.caches import Caches
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change, Informer


class BindingCaches:
    """Claims, volumes, classes and pods; further kinds by `shared.of`. schedules: the scheduler is among the readers,
    which needs all pods, and whole ones.
    """

    def __init__(self, runtime: Runtime, shared: Caches, *, schedules: bool) -> None:
        self.shared = shared
        self.claims: Informer[PersistentVolumeClaim] = shared.of(PERSISTENT_VOLUME_CLAIMS, indexes=CLAIM_INDEXES)
        self.volumes: Informer[PersistentVolume] = shared.of(
            PERSISTENT_VOLUMES, keeps=keeps_of_volume, indexes=VOLUME_INDEXES
        )
        self.pods: Informer[Pod] = shared.of(PODS, keeps=None if schedules else keeps_of_pod, indexes=POD_INDEXES)
        self.classes: Informer[StorageClass] = shared.of(STORAGE_CLASSES)
        self.available = AvailableVolumes()
        self.volumes.on_change(self._index_available)  # before any other handler: these look there
        self.by_name = Volumes(self.volumes.store, self.available)
        self.whole_claims = Whole(runtime.cluster, PERSISTENT_VOLUME_CLAIMS, self.claims)
        self.whole_classes = Whole(runtime.cluster, STORAGE_CLASSES, self.classes)
        self.whole_volumes = Whole(runtime.cluster, PERSISTENT_VOLUMES, self.volumes)

    async def look_at_all(self) -> None:
        """A term begins: the free volumes are indexed."""
        async for pv in in_turns(self.volumes.store.values()):
            if is_free(pv):
                self.available.move(pv.metadata.name, self.volumes.store.get(key_of(pv)))

    def _index_available(self, change: Change[PersistentVolume]) -> None:
        self.available.move(change.key.name, change.new)
