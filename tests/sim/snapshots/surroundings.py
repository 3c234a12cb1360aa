"""What snapshots need: claims with their volumes, classes and Secrets, and what users and administrators do with
them.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api import snapshot_names as names
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CLASSES
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES
from tests.sim.acting import Acting, secret_data
from tests.sim.snapshots.hands import Hands
from tests.sim.snapshots.objects import CLAIMS, SNAPSHOTS, Json, is_going
from tests.sim.snapshots.plan import CLAIMS_MAX, DRIVER, GROUPED, NAMESPACE, SECRET, ClassPlan
from tests.sim.snapshots.world import SnapshotWorld

_PREFIX = "csi.storage.k8s.io"


class Surroundings(Acting):
    """Each act is a method, drawn by its weight."""

    def __init__(self, world: SnapshotWorld) -> None:
        self._world, self._backend, self._objects = world, world.backend, world.laws.tables.objects
        self._randomness, self._hands, self._count = world.randomness["actor"], Hands(world), 0

    # -- claims

    async def make_claim(self) -> None:
        if len(self._all(CLAIMS)) >= CLAIMS_MAX:
            return
        self._count += 1
        name, pv_name = f"c{self._count}", f"pv{self._count}"
        common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        spec = {**common, "volumeName": pv_name, "resources": {"requests": {"storage": "1Gi"}}}
        labels = GROUPED if self._randomness.happens(0.6) else {}
        made = await self._hands.create(
            PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name, "labels": labels}, "spec": spec}, NAMESPACE
        )
        assert made is not None
        ref = {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": name, "uid": made["metadata"]["uid"]}
        source = {"csi": {"driver": DRIVER, "volumeHandle": f"h-{pv_name}"}}
        volume = {
            **common,
            **source,
            "capacity": {"storage": "1Gi"},
            "claimRef": ref,
            "persistentVolumeReclaimPolicy": "Delete",
        }
        await self._hands.create(PERSISTENT_VOLUMES, {"metadata": {"name": pv_name}, "spec": volume})
        self._backend.volumes.add(f"h-{pv_name}")
        await self._hands.bind(made)

    async def drop_claim(self) -> None:
        if found := [claim for claim in self._all(CLAIMS) if "dataSource" not in claim["spec"]]:
            await self._hands.remove(PERSISTENT_VOLUME_CLAIMS, self._one_of(found))

    async def restore(self) -> None:
        """A claim that is to be filled from a snapshot, and waits for that."""
        ready = [
            one for one in self._all(SNAPSHOTS) if (one.get("status") or {}).get("readyToUse") and not is_going(one)
        ]
        if ready and len(self._all(CLAIMS)) < CLAIMS_MAX + 1:
            self._count += 1
            source = {
                "apiGroup": "snapshot.storage.k8s.io",
                "kind": "VolumeSnapshot",
                "name": self._one_of(ready)["metadata"]["name"],
            }
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "1Gi"}},
            }
            body = {"metadata": {"name": f"r{self._count}"}, "spec": {**spec, "dataSource": source}}
            await self._hands.create(PERSISTENT_VOLUME_CLAIMS, body, NAMESPACE)

    async def end_restore(self) -> None:
        await self._end_restore()

    async def _end_restore(self) -> bool:
        """Somebody gives it up."""
        for claim in self._all(CLAIMS):
            if "dataSource" in claim["spec"] and not is_going(claim):
                await self._hands.remove(PERSISTENT_VOLUME_CLAIMS, claim)
                await self._hands.merge(PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"finalizers": None}})
                return True
        return False

    # -- classes and secrets

    async def drop_class(self) -> None:
        await self._hands.delete(VOLUME_SNAPSHOT_CLASSES, self._one_of(self._world.plan.classes).name)

    async def restore_class(self) -> None:
        await self._make_class(self._one_of(self._world.plan.classes))

    async def break_class(self) -> None:
        """It comes back with a parameter that nobody knows."""
        planned = self._one_of(self._world.plan.classes)
        await self._hands.delete(VOLUME_SNAPSHOT_CLASSES, planned.name)
        await self._make_class(planned, {f"{_PREFIX}/unknown": "yes"})

    async def _make_classes(self) -> None:
        for planned in self._world.plan.classes:
            await self._make_class(planned)
        if self._world.plan.groups:
            policy = self._world.plan.classes[0].policy
            await self._hands.create(
                GROUP_SNAPSHOT_CLASSES, {"metadata": {"name": "groups"}, "driver": DRIVER, "deletionPolicy": policy}
            )

    async def _make_class(self, planned: ClassPlan, more: Mapping[str, str] | None = None) -> None:
        secret = {
            f"{_PREFIX}/snapshotter-secret-name": SECRET,
            f"{_PREFIX}/snapshotter-secret-namespace": NAMESPACE,
            "secret": "yes",
        }
        if self._world.plan.habits.list_secret:
            secret |= {
                f"{_PREFIX}/snapshotter-list-secret-name": SECRET,
                f"{_PREFIX}/snapshotter-list-secret-namespace": NAMESPACE,
            }
        notes = {names.DEFAULT_CLASS: "true"} if planned.default else {}
        body = {
            "metadata": {"name": planned.name, "annotations": notes},
            "driver": DRIVER,
            "deletionPolicy": planned.policy,
            "parameters": {"kind": "any", **(secret if planned.secret else {}), **(more or {})},
        }
        await self._hands.create(VOLUME_SNAPSHOT_CLASSES, body)

    async def change_secret(self) -> None:
        """The storage first: until the Secret follows, it refuses."""
        self._count += 1
        self._backend.token = f"token{self._count}"
        self._hands.tell(f"the storage wants {self._backend.token}")

    async def drop_secret(self) -> None:
        await self._hands.delete(SECRETS, SECRET, NAMESPACE)

    async def restore_secret(self) -> None:
        data = secret_data(self._backend.token)
        await self._hands.delete(SECRETS, SECRET, NAMESPACE)
        await self._hands.create(SECRETS, {"metadata": {"name": SECRET}, "data": data}, NAMESPACE)

    # -- the truth

    def _all(self, plural: str) -> list[Json]:
        return [found for _, found in sorted(self._objects[plural].items())]
