"""The nodes' part of a growth, as kubelets do it: one step for each claim at a time, seen by everybody in between."""

from __future__ import annotations

import contextlib
from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import ApiError
from mooring.sidecars.resizer import names
from tests.sim.growth.backend import WHOLE
from tests.sim.growth.laws import Json, bytes_of, handle_of
from tests.sim.growth.plan import NAMESPACE
from tests.sim.growth.world import GrowthWorld


class Kubelet:
    def __init__(self, world: GrowthWorld) -> None:
        self._world, self._randomness = world, world.randomness["actor"]

    async def tend(self) -> None:
        for claim in list(self._world.laws.claims.values()):
            step = (claim["status"].get("allocatedResourceStatuses") or {}).get("storage")
            if self._world.faulty and self._randomness.happens(0.5):
                continue
            if step == names.NODE_PENDING:
                await self._patch(claim, _step(names.NODE_IN_PROGRESS))
            elif step == names.NODE_IN_PROGRESS:
                await self._resize(claim)

    async def _resize(self, claim: Json) -> None:
        laws, backend, handle = self._world.laws, self._world.backend, handle_of(claim)
        size = bytes_of(laws.volumes[claim["spec"]["volumeName"]]["spec"]["capacity"])
        is_too_large = size > 2 * WHOLE
        if is_too_large or (self._world.faulty and self._randomness.happens(self._world.plan.kubelet_fails)):
            error = {"type": names.NODE_ERROR, "status": "True", "message": "no"}
            await self._patch(claim, {**_step(names.NODE_INFEASIBLE), "conditions": [error]})
            return
        if self._world.plan.on_node:
            backend.sizes[handle] = max(size, backend.sizes[handle])
            laws.has_grown(handle, size)
        backend.systems[handle] = max(size, backend.systems[handle])
        gone = [{"$patch": "delete", "type": kind} for kind in names.RESIZE_CONDITIONS]
        await self._patch(
            claim, {"capacity": {"storage": str(size)}, "allocatedResourceStatuses": None, "conditions": gone}
        )

    async def _patch(self, claim: Json, status: Json) -> None:
        meta = claim["metadata"]
        body: dict[str, Any] = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        patch = Patch(PatchType.STRATEGIC, body)
        with contextlib.suppress(ApiError):
            await self._world.cluster.patch(
                PERSISTENT_VOLUME_CLAIMS.whole(), meta["name"], patch, NAMESPACE, subresource="status"
            )
            self._world.story.tell("kubelet", f"{meta['name']}: {status}")


def _step(step: str) -> Json:
    return {"allocatedResourceStatuses": {"storage": step}}
