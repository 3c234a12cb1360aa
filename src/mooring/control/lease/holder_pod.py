"""The pod of a Lease's holder, as standbys watch it: the kubelet reports the end of its process.

One watch of one object. It needs the right to list and watch pods in the namespace of the candidates' pods; without it, known by asking
first, the Lease runs out as ever.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from mooring.api.pods import PODS
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.control.lease.lock import LeaseLock
from mooring.control.lease.obituary import has_ended, pod_name_of
from mooring.kube.access_review import denied
from mooring.kube.cluster import Cluster, Selection
from mooring.kube.errors import ApiError, Forbidden, Gone, MethodNotAllowed, Unauthorized

_WATCH_S: Final = (300.0, 600.0)
_RETRY_S: Final = (2.0, 4.0)

_log = logger(__name__)


class HolderPod:
    """namespace: of the candidates' pods. lock: says who holds the Lease, and takes note of the end of that process; then wake is set."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        lock: LeaseLock,
        wake: asyncio.Event,
        *,
        clock: Clock,
        randomness: Random,
    ) -> None:
        self._cluster, self._namespace, self._lock, self._wake = cluster, namespace, lock, wake
        self._clock, self._randomness = clock, randomness
        self._holder = ""
        self._changed = asyncio.Event()
        self._kind = PODS.whole()

    def _holds(self, identity: str) -> None:
        """The Lease has this holder now, "" for none."""
        if identity != self._holder:
            self._holder = identity
            self._changed.set()

    async def run(self) -> None:
        """Watches until cancelled, or until it is clear that there is no right to it."""
        if await denied(self._cluster, PODS, self._namespace, ("list", "watch")):
            _log.info(
                2,
                "No right to watch pods: a Lease whose holder dies runs out before it is taken",
                namespace=self._namespace,
            )
            return
        self._lock.on_holder = self._holds
        self._holds(self._lock.holder)
        while True:
            self._changed.clear()
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._follow(self._holder), name=f"lease/pod-of/{self._holder}")
                await self._changed.wait()
                watching.cancel()

    async def _follow(self, identity: str) -> None:
        """Looks at the pod until cancelled; at none where the identity names none."""
        name = pod_name_of(identity)
        while name:
            try:
                await self._look(name, identity)
            except (Unauthorized, Forbidden, MethodNotAllowed) as error:
                _log.info(2, "Not allowed to watch the holder's pod", pod=name, why=str(error))
                return
            except Gone:
                pass  # the next list knows a newer version
            except ApiError as error:
                _log.info(4, "The watch of the holder's pod failed", pod=name, why=str(error))
            await self._clock.sleep(self._randomness.uniform(*_RETRY_S))

    async def _look(self, name: str, identity: str) -> None:
        """One list and one watch. The last state of a pod that is deleted counts as well: what has ended, has. Raises ApiError."""
        selection = Selection(self._namespace, field_selector=f"metadata.name={name}")
        page = await self._cluster.list(self._kind, selection)
        for pod in page.items:
            self._judge(pod, identity)
        timeout_s = self._randomness.uniform(*_WATCH_S)
        watch = self._cluster.watch(self._kind, selection, resource_version=page.resource_version, timeout_s=timeout_s)
        async with contextlib.aclosing(watch) as events:
            async for event in events:
                if event.object is not None:
                    self._judge(event.object, identity)

    def _judge(self, pod: dict[str, object], identity: str) -> None:
        if self._lock.ended != identity and has_ended(pod, identity):
            _log.info(0, "The process that holds the Lease has ended, says its kubelet", identity=identity)
            self._lock.ended = identity
            self._wake.set()
