"""Adds a finalizer, and removes it; and reads the pods that a decision lacks.

pvc-protection asks the API server for a namespace's pods only where the cache can't prove that it has all pods from
when the claim was deleted; kube-controller-manager asks for each batch of claims.
"""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

import msgspec

from mooring.api.binding import claims_of
from mooring.api.meta import Object
from mooring.api.pods import PODS, Pod
from mooring.base.clock import Clock, Instant
from mooring.cluster.binder import edits
from mooring.cluster.binder.protection.decide import AddFinalizer, Finalizing, RemoveFinalizer
from mooring.cluster.binder.writes import Whole
from mooring.kube.cluster import Cluster, Selection, compare_versions
from mooring.kube.list_all import all_of

T = TypeVar("T", bound=Object)

LOOK_AGAIN_S: Final = 30.0
"""Seconds until a claim is looked at again whose pod the cache lacks: a cache that lists anew never tells of that
pod's end.
"""

SHARED_S: Final = 5.0
"""Seconds in which one list serves all claims of its namespace."""


class _Listed(msgspec.Struct, frozen=True):
    """Pods of a namespace that name claims, as they were at a version and at a time."""

    namespace: str
    version: str
    at: Instant
    pods: tuple[Pod, ...]


class LivePods:
    """A namespace's pods from the API server, listed once for all claims that were deleted before and are looked at
    together.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster, self._clock = cluster, clock
        self._lock = asyncio.Lock()
        self._last: _Listed | None = None

    async def of(self, namespace: str, version: str) -> tuple[Pod, ...]:
        """The namespace's pods that name claims, read at this version or a later one, and not long ago."""
        async with self._lock:
            last, now = self._last, self._clock.now()
            if (
                last is None
                or last.namespace != namespace
                or compare_versions(last.version, version) < 0
                or now - last.at > SHARED_S
            ):
                page = await self._cluster.list(PODS, Selection(namespace=namespace))
                pods = tuple(pod for pod in all_of(page, PODS) if claims_of(pod))
                last = self._last = _Listed(namespace, page.resource_version, now, pods)
            return last.pods


async def set_finalizer(writes: Whole[T], obj: T, action: Finalizing) -> None:
    """Add or remove the finalizer. Raises Failed, Stale."""
    match action:
        case AddFinalizer(name):
            await writes.put(obj, edits.add_finalizer(name))
        case RemoveFinalizer(name):
            await writes.put(obj, edits.remove_finalizer(name))
