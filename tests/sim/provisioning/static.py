"""Volumes that an administrator made by hand for a class without a provisioner: claims take them, leave them, and
others get them.

Whoever wants the volume of a deleted claim to be had again takes claimRef out of it, as the administrators' guide has
it. There are as many volumes as claims at the most: in the end each claim has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.binding import NO_PROVISIONER
from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import is_deleting
from mooring.api.storage import STORAGE_CLASSES
from tests.sim.checkers import Complaint
from tests.sim.provisioning.orphans import OrphanActs
from tests.sim.provisioning.plan import FOREIGN, NAMESPACE, STATIC, is_static
from tests.sim.provisioning.world import ClaimWorld

VOLUMES: Final = 2


class StaticActs(OrphanActs):
    async def prepare(self) -> None:
        await super().prepare()
        if "make_static_claim" in self._world.plan.acts:
            body = {"metadata": {"name": STATIC}, "provisioner": NO_PROVISIONER, "reclaimPolicy": "Retain"}
            await self._do(f"create class {STATIC}", self._cluster.create(STORAGE_CLASSES.whole(), body))
            for number in range(VOLUMES):
                await self._make_static_volume(f"{STATIC}-{number}")

    async def _make_static_volume(self, name: str) -> None:
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
        }
        spec |= {"storageClassName": STATIC, "nfs": {"server": "nfs.example.com", "path": f"/{name}"}}
        body = {"metadata": {"name": name, "labels": {STATIC: "yes", FOREIGN: "yes"}}, "spec": spec}
        await self._do(f"create volume {name}", self._cluster.create(PERSISTENT_VOLUMES.whole(), body))

    async def tend(self) -> None:
        await super().tend()
        while not self._world.faulty and await self.free_static_volume():
            pass

    async def make_static_claim(self) -> None:
        if len([claim for claim in self._truth.all(PERSISTENT_VOLUME_CLAIMS) if _is_of(claim)]) < VOLUMES:
            self._count += 1
            await self._create_claim(f"c{self._count}", storageClassName=STATIC)

    async def drop_static_claim(self) -> None:
        if claims := [
            claim for claim in self._truth.all(PERSISTENT_VOLUME_CLAIMS) if _is_of(claim) and not is_deleting(claim)
        ]:
            await self._delete(PERSISTENT_VOLUME_CLAIMS, self._one_of(claims).metadata.name, NAMESPACE)

    async def free_static_volume(self) -> bool:
        """True when there was one whose claim is gone."""
        released = [
            pv for pv in _volumes(self._world) if pv.status.phase == "Released" and pv.spec.claim_ref is not None
        ]
        if released:
            await self._merge(PERSISTENT_VOLUMES, self._one_of(released).metadata.name, {"spec": {"claimRef": None}})
        return bool(released)

    def _claims(self) -> list[PersistentVolumeClaim]:
        """Those that are to have a volume made."""
        return [claim for claim in super()._claims() if not _is_of(claim)]


def unused(world: ClaimWorld) -> Iterator[Complaint]:
    """No claim waits beside a volume that it could have, and what nobody has can be had."""
    free = [pv for pv in _volumes(world) if pv.spec.claim_ref is None]
    for claim in world.truth.all(PERSISTENT_VOLUME_CLAIMS):
        if free and _is_of(claim) and claim.status.phase != "Bound":
            yield "volume-unused", f"{claim.metadata.name} is {claim.status.phase}, {free[0].metadata.name} is nobody's"
    for pv in free:
        if pv.status.phase != "Available":
            yield "volume-unused", f"{pv.metadata.name} is {pv.status.phase} and nobody's"


def _is_of(claim: PersistentVolumeClaim) -> bool:
    return claim.spec.storage_class_name == STATIC


def _volumes(world: ClaimWorld) -> list[PersistentVolume]:
    return [pv for pv in world.truth.all(PERSISTENT_VOLUMES) if is_static(pv)]
