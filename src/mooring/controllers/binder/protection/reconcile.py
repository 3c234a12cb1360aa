"""Adds a finalizer, and removes it; and reads the pods that a decision lacks.

pvc-protection asks the API server for a namespace's pods only where the cache can't prove that it has all pods from when the claim was
deleted; the peer asks for each batch of claims.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

from mooring.api.meta import Object
from mooring.api.pods import PODS, Pod
from mooring.control.result import Result
from mooring.controllers.binder.protection.decide import Decision, Guard
from mooring.controllers.binding import edits
from mooring.controllers.binding.names import claims_of
from mooring.controllers.binding.writes import Whole
from mooring.kube.cluster import Cluster, Selection
from mooring.kube.versions import order

T = TypeVar("T", bound=Object)

_EDITS: Final = {Guard.ADD: edits.add_finalizer, Guard.REMOVE: edits.remove_finalizer}
_DONE: Final = {Guard.ADD: "added the finalizer", Guard.REMOVE: "removed the finalizer"}


class LivePods:
    """A namespace's pods from the API server, listed once for all claims that were deleted before."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = asyncio.Lock()
        self._listed: tuple[str, str, tuple[Pod, ...]] = ("", "", ())

    async def of(self, namespace: str, version: str) -> tuple[Pod, ...]:
        """The namespace's pods that name claims, read at this version or a later one."""
        async with self._lock:
            known, at, pods = self._listed
            if known != namespace or order(at, version) < 0:
                page = await self._cluster.list(PODS, Selection(namespace=namespace))
                pods = tuple(pod for pod in page.items if claims_of(pod))
                self._listed = namespace, page.resource_version, pods
            return pods


async def carry_out(writes: Whole[T], obj: T, decision: Decision, finalizer: str, after_s: float | None = None) -> Result:
    """Raises ApiError, Stale."""
    if not decision.writes:
        return Result(decision.because, after_s=after_s)
    await writes.put(obj, _EDITS[decision.guard](finalizer))
    return Result(decision.because, done=f"{_DONE[decision.guard]} {finalizer}", after_s=after_s)
