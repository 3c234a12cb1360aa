"""What users and administrators do that nobody expects of them: each act is a method, drawn by its weight, as those of
`acts.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES
from mooring.base.randomness import Random
from mooring.sidecars.resizer import names
from tests.sim.acting import Acting, secret_data
from tests.sim.growth.backend import STRANGER
from tests.sim.growth.laws import Json, bytes_of
from tests.sim.growth.plan import CLASSES, DRIVER, GIB, NAMESPACE, OTHER_CLASS, OTHER_DRIVER, SECRET
from tests.sim.growth.world import GrowthWorld

SIZES: Final = (
    *("1", "1500m", "1.5Gi", "2e9", "3221225473"),
    *(str(2**50), str(2**63 - 1), str(2**63), str(10**19), "8Ei", "9E", "100E"),
)
"""At the bounds of what can be written, counted, and had."""


class OddActs(Acting):
    """merge, do: of the acts that everybody does."""

    def __init__(
        self, world: GrowthWorld, merge: Callable[..., Awaitable[None]], do: Callable[..., Awaitable[None]]
    ) -> None:
        self._world, self._cluster, self._merge, self._do = world, world.cluster, merge, do
        self._habits, self._randomness = world.plan.habits, Random(world.plan.seed * 1_000_003 + 31)

    async def prepare(self) -> None:
        if "choose_other_class" in self._habits.acts:
            await self._make_foreign_class(OTHER_CLASS)

    async def disturb(self) -> None:
        """One act, now and then."""
        if self._randomness.happens(self._habits.act_share):
            await self._one_act(self._habits.acts)

    # -- classes

    async def take_over_class(self) -> None:
        """A class of another driver stands under the name."""
        name = self._one_of(CLASSES)
        await self._merge(VOLUME_ATTRIBUTES_CLASSES, name, {"metadata": {"finalizers": None}})
        await self._do(f"delete VolumeAttributesClass {name}", self._cluster.delete(VOLUME_ATTRIBUTES_CLASSES, name))
        await self._make_foreign_class(name)

    async def _make_foreign_class(self, name: str) -> None:
        body = {
            "metadata": {"name": name},
            "driverName": OTHER_DRIVER,
            "parameters": {"level": name},
        }
        await self._do(
            f"create foreign VolumeAttributesClass {name}",
            self._cluster.create(VOLUME_ATTRIBUTES_CLASSES.whole(), body),
        )

    async def choose_other_class(self) -> None:
        if claim := self._some():
            await self._merge_claim(claim, {"spec": {"volumeAttributesClassName": OTHER_CLASS}})

    # -- volumes and sizes

    async def remake_volume(self) -> None:
        """The PersistentVolume comes again under its name, with what a backup says of it; the volume on the storage is
        the same one.
        """
        claim = self._some()
        pv = self._world.laws.volumes.get(claim["spec"]["volumeName"]) if claim else None
        if pv is None or not claim:
            return
        name = pv["metadata"]["name"]
        kept = {key: pv["metadata"][key] for key in ("annotations", "labels") if key in pv["metadata"]}
        await self._merge(PERSISTENT_VOLUMES, name, {"metadata": {"finalizers": None}})
        await self._do(f"delete PersistentVolume {name}", self._cluster.delete(PERSISTENT_VOLUMES, name))
        body = {"metadata": {"name": name, **kept}, "spec": pv["spec"]}
        await self._do(f"make PersistentVolume {name} anew", self._cluster.create(PERSISTENT_VOLUMES.whole(), body))

    async def wish_oddly(self) -> None:
        if claim := self._some():
            has = bytes_of(claim["status"].get("capacity"))
            size = self._one_of((*SIZES, str(has + 1), str(has), str(has + GIB - 1)))
            await self._merge_claim(claim, {"spec": {"resources": {"requests": {"storage": size}}}})

    # -- Secrets

    async def swap_secret(self) -> None:
        """It becomes another tenant's."""
        data = secret_data(STRANGER)
        await self._merge(SECRETS, SECRET, {"data": data}, NAMESPACE)

    async def note_secret(self) -> None:
        """The annotations of a volume name the Secret for modifying, or one that is missing."""
        if (claim := self._some()) and self._world.plan.wants_secret:
            name = self._one_of((SECRET, "missing-secret", ""))
            notes = {names.MODIFY_SECRET_NAME: name, names.MODIFY_SECRET_NAMESPACE: NAMESPACE}
            await self._merge(PERSISTENT_VOLUMES, claim["spec"]["volumeName"], {"metadata": {"annotations": notes}})

    async def make_peace(self) -> None:
        """Every class is this driver's once more, and every volume names a Secret that is there."""
        for name in CLASSES:
            await self._merge(VOLUME_ATTRIBUTES_CLASSES, name, {"metadata": {"finalizers": None}})
            await self._do(
                f"delete VolumeAttributesClass {name}", self._cluster.delete(VOLUME_ATTRIBUTES_CLASSES, name)
            )
            body = {"metadata": {"name": name}, "driverName": DRIVER, "parameters": {"level": name}}
            await self._do(
                f"create VolumeAttributesClass {name}", self._cluster.create(VOLUME_ATTRIBUTES_CLASSES.whole(), body)
            )
        for name, pv in sorted(self._world.laws.volumes.items()):
            if names.MODIFY_SECRET_NAME in (pv["metadata"].get("annotations") or {}):
                gone = {names.MODIFY_SECRET_NAME: None, names.MODIFY_SECRET_NAMESPACE: None}
                await self._merge(PERSISTENT_VOLUMES, name, {"metadata": {"annotations": gone}})

    # -- the truth

    def _some(self) -> Json | None:
        claims = self._world.laws.claims
        return claims[self._one_of(sorted(claims))] if claims else None

    async def _merge_claim(self, claim: Json, body: Any) -> None:
        await self._merge(PERSISTENT_VOLUME_CLAIMS, claim["metadata"]["name"], body, NAMESPACE)
