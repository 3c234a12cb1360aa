"""An API server that is set back to a backup, in lives of growing claims; and what its administrator does then, as
objects can't say it.

Claims that came after the backup are gone, and their volumes are removed by hand; claims that went since are back, and
are deleted, for their volumes are gone. What a volume has grown since, or which class it became, no object says any
more: a resizer has nothing to do, as the claim has all that it asks for. So its user asks for what the storage has.
Where the resizer heard of the claim as it was before it heard of its volume, the claim shows what the storage has and
the volume does not: that is put right by hand.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.base.randomness import Random
from tests.sim.growth.laws import Json, bytes_of, handle_of
from tests.sim.growth.plan import CLASSES, NAMESPACE
from tests.sim.growth.world import GrowthWorld

SHARE: Final = 0.15
"""Of the moments between two acts, in a life whose server is set back once: a backup, or its use."""


class SettingBack:
    """merge, do: as everybody does it. pod_of: the name of the pod that uses a claim. restore_secret: gives it what the
    storage wants.
    """

    def __init__(
        self,
        world: GrowthWorld,
        merge: Callable[..., Awaitable[None]],
        do: Callable[..., Awaitable[None]],
        pod_of: Callable[[Json], str],
        restore_secret: Callable[[], Awaitable[None]],
    ) -> None:
        self._world, self._backend, self._claims = world, world.backend, world.laws.claims
        self._merge, self._do, self._pod_of, self._restore_secret = merge, do, pod_of, restore_secret
        self._randomness = Random(world.plan.seed * 1_000_003 + 47)

    async def disturb(self) -> None:
        """A backup, now and then, and once its use."""
        if not self._world.habits.set_back or not self._randomness.happens(SHARE):
            return
        if self._randomness.happens(0.5):
            self._world.server.back_up()
        elif self._world.server.set_back():
            await self._look_after()

    async def _look_after(self) -> None:
        backend = self._backend
        kept = {handle_of(claim) for claim in self._claims.values()}
        for handle in sorted(set(backend.sizes) - kept):
            self._world.story.tell("actor", f"remove {handle} from the storage: no claim is left of it")
            backend.drop(handle)
        for claim in list(self._claims.values()):
            if handle_of(claim) not in backend.sizes or claim["spec"]["volumeName"] not in self._world.laws.volumes:
                await self._remove(claim)
        pods = {pod.metadata.name for pod in self._world.truth.all(PODS)}
        backend.in_use = {handle_of(claim) for claim in self._claims.values() if self._pod_of(claim) in pods}
        await self._restore_secret()

    async def _remove(self, claim: Json) -> None:
        name, pv_name = claim["metadata"]["name"], claim["spec"]["volumeName"]
        for kind, obj, namespace in ((PERSISTENT_VOLUME_CLAIMS, name, NAMESPACE), (PERSISTENT_VOLUMES, pv_name, "")):
            await self._merge(kind, obj, {"metadata": {"finalizers": None}}, namespace)
            await self._do(f"delete {kind.name} {obj}", self._world.cluster.delete(kind, obj, namespace))
        self._backend.drop(handle_of(claim))

    async def tend(self) -> None:
        """Once nothing else stands in the way: users ask for what their volumes have."""
        if not self._world.server.set_back_count:
            return
        for claim in list(self._claims.values()):
            size, status, spec = self._backend.sizes[handle_of(claim)], claim["status"], claim["spec"]
            if bytes_of(spec["resources"]["requests"]) <= bytes_of(status["capacity"]) < size:
                await self._patch(claim, {"resources": {"requests": {"storage": str(size)}}})
            pv = self._world.laws.volumes[spec["volumeName"]]
            if bytes_of(pv["spec"]["capacity"]) < bytes_of(status["capacity"]) == size:
                await self._merge(
                    PERSISTENT_VOLUMES, spec["volumeName"], {"spec": {"capacity": {"storage": str(size)}}}
                )
            name, has = spec.get("volumeAttributesClassName"), self._backend.classes[handle_of(claim)]
            if (
                self._world.plan.modifies
                and name
                and name == status.get("currentVolumeAttributesClassName")
                and name != has
            ):
                await self._patch(
                    claim, {"volumeAttributesClassName": next(one for one in CLASSES if one not in (name, has))}
                )

    async def _patch(self, claim: Json, spec: Json) -> None:
        await self._merge(PERSISTENT_VOLUME_CLAIMS, claim["metadata"]["name"], {"spec": spec}, NAMESPACE)
