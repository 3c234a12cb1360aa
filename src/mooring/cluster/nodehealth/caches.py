"""The caches that the controllers of node health share, with the writers of Nodes and Pods."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, TypeVar

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE, Lease
from mooring.api.core import NODES, Node
from mooring.api.meta import Key, Kind, Object
from mooring.api.nodes import TRUE
from mooring.api.pods import PODS, Pod
from mooring.base.clock import rfc3339
from mooring.cluster.nodehealth.view import BY_NODE, DISRUPTION_TARGET, LEASE, NODE, POD, POD_INDEXES
from mooring.control.caches import Caches
from mooring.control.object_writer import ObjectWriter
from mooring.control.runtime import Runtime
from mooring.control.slim import always
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Selection
from mooring.kube.errors import NotFound
from mooring.kube.patch import strategic_patch

T = TypeVar("T", bound=Object)


class HealthCaches:
    """The caches of Nodes, their Leases, and Pods."""

    def __init__(self, runtime: Runtime, shared: Caches) -> None:
        self.nodes: Informer[Node] = shared.of(NODES, keeps=always(NODE))
        self.leases: Informer[Lease] = shared.of(
            LEASES, keeps=always(LEASE), selection=Selection(namespace=NODE_LEASE_NAMESPACE)
        )
        self.pods: Informer[Pod] = shared.of(PODS, keeps=always(POD), indexes=POD_INDEXES)
        self.node_writer = ObjectWriter(runtime.cluster, NODES, self.nodes)
        # Answers about pods stay outside of the cache: it would take a pod in its grace period for gone.
        self.pod_writer = ObjectWriter(runtime.cluster, PODS, self.pods, keeps_answers=False)
        self._cluster, self._clock = runtime.cluster, runtime.clock

    def node(self, name: str) -> Node | None:
        return self.nodes.store.get(Key("", name)) if name else None

    def pods_on(self, node_name: str) -> tuple[Pod, ...]:
        return self.pods.store.by(BY_NODE, node_name)

    async def read(self, cache: Informer[T], kind: Kind[T], key: Key) -> None:
        """Read the object from the API server into its cache; one that is gone leaves the cache. Raises ApiError."""
        with contextlib.suppress(NotFound):
            await cache.read(key, self._cluster.get(kind, key.name, key.namespace))

    @property
    def stamp(self) -> str:
        """The wall clock's time, as objects have it."""
        return rfc3339(self._clock.wall_s())

    # -- writes

    async def patch_status(self, pod: Pod, status: Mapping[str, Any]) -> Pod:
        """Set these fields of the pod's status; conditions join those that are there. Raises Failed, Stale."""
        # Patch this version alone: a late write would fail a pod whose node is back, or excuse the pod's own failure.
        patch = strategic_patch({"status": status}, of=pod)
        return await self.pod_writer.patch(pod, patch, "status", strictly=True)

    def disruption(self, pod: Pod, reason: str, message: str) -> dict[str, Any]:
        """The condition by which a Job knows that the pod did not fail by itself."""
        condition = {"type": DISRUPTION_TARGET, "status": TRUE, "reason": reason, "message": message}
        return {**condition, "lastTransitionTime": self.stamp, **observed(pod)}


def observed(pod: Pod) -> dict[str, Any]:
    """The generation that a status is about; an older API server gives pods none."""
    return {"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {}
