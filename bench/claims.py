"""Claims and volumes for the benches of the provisioner and the binder, and the client that makes them."""

from __future__ import annotations

import time
from typing import Any

from bench.load import Load
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.storage import STORAGE_CLASSES
from mooring.kube.client.http import HttpCluster
from mooring.kube.cluster import EventType, Patch, PatchType, WatchEvent
from mooring.kube.errors import AlreadyExists
from tests.support.control_plane import ControlPlane

Json = dict[str, Any]

OTHER = "other.bench.mooring.dev"
RELEASED = Patch(PatchType.MERGE, {"status": {"phase": "Released"}})


class ProvisionLoad(Load):
    """Makes claims, and watches the volumes that come of them. Everything is known by the claim's name."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        super().__init__(plane, cluster)
        self.created_at: dict[str, float] = {}
        self.made_at: dict[str, float] = {}
        self.gone_at: dict[str, float] = {}
        self._volume_of: dict[str, str] = {}

    async def make_class(self, driver: str) -> None:
        body = {"metadata": {"name": driver}, "provisioner": driver, "parameters": {"type": "fast", "pool": "gold"}}
        try:
            await self._cluster.create(STORAGE_CLASSES.whole(), body)
        except AlreadyExists:
            return

    async def claim(self, name: str, driver: str) -> None:
        await self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), a_claim(name, driver), "default")
        self.created_at[name] = time.monotonic()

    async def drop(self, name: str) -> None:
        await self._cluster.delete(PERSISTENT_VOLUME_CLAIMS, name, "default")

    async def release(self, name: str) -> None:
        """As the PV controller does it for a volume whose claim is gone."""
        await self._cluster.patch(PERSISTENT_VOLUMES, self._volume_of[name], RELEASED, subresource="status")

    async def fill(self, count: int) -> None:
        """So many volumes of another driver, bound to as many claims."""
        names = [f"other-{number}" for number in range(count)]
        await self.each(self._cluster.create(PERSISTENT_VOLUMES.whole(), a_volume(name)) for name in names)
        await self.each(
            self._cluster.create(PERSISTENT_VOLUME_CLAIMS.whole(), a_claim(name, OTHER, name), "default")
            for name in names
        )

    async def watch(self) -> None:
        await self.follow(PERSISTENT_VOLUMES, self._happened)

    def _happened(self, event: WatchEvent[PersistentVolume]) -> None:
        assert event.object is not None
        ref = event.object.spec.claim_ref
        if ref is None:
            return
        if event.type is EventType.DELETED:
            self.gone_at.setdefault(ref.name, time.monotonic())
        else:
            self.made_at.setdefault(ref.name, time.monotonic())
            self._volume_of[ref.name] = event.object.metadata.name


def a_claim(name: str, driver: str, volume_name: str = "") -> Json:
    """A claim of the driver's class, as the PV controller leaves it to the provisioner; with volume_name: as it leaves
    a bound one.
    """
    notes = {
        "volume.beta.kubernetes.io/storage-provisioner": driver,
        "volume.kubernetes.io/storage-provisioner": driver,
    }
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": driver,
    }
    if volume_name:
        spec["volumeName"] = volume_name
        notes |= {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    return {"metadata": {"name": name, "labels": {"app": "bench"}, "annotations": notes}, "spec": spec}


def a_volume(name: str, driver: str = OTHER, claim: Json | None = None) -> Json:
    """A volume as a provisioner writes it, for a claim of the same name. claim: as it was read, for a full
    reference.
    """
    meta = (
        {}
        if claim is None
        else {"uid": claim["metadata"]["uid"], "resourceVersion": claim["metadata"]["resourceVersion"]}
    )
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name, **meta}
    source = {
        "driver": driver,
        "volumeHandle": f"vol-{name}",
        "fsType": "ext4",
        "volumeAttributes": {"pool": "gold", "backend": "array-1"},
    }
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": driver,
        "claimRef": reference,
        "csi": source,
    }
    return {"metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": driver}}, "spec": spec}
