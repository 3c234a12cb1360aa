"""Creates the claim of an ephemeral volume."""

from __future__ import annotations

from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, reference_to
from mooring.api.meta import Key
from mooring.api.pods import Pod
from mooring.cluster.binder.announcer import Announcer
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.ephemeral.decide import refused
from mooring.cluster.binder.metrics import BindingMetrics
from mooring.control.result import Retry
from mooring.control.runtime import Runtime
from mooring.kube.errors import AlreadyExists, ApiError


class Reconciler:
    """announcer: tells the pod of a claim that could not be created."""

    def __init__(self, runtime: Runtime, caches: BindingCaches, announcer: Announcer) -> None:
        self._cluster, self._caches, self._announcer = runtime.cluster, caches, announcer
        self._metrics = runtime.metrics.once(BindingMetrics)

    async def create_claim(self, pod: Pod, volume_name: str, body: dict[str, Any]) -> None:
        """Raises ApiError; Retry when the claim is there, and the cache behind."""
        namespace, name = pod.metadata.namespace, body["metadata"]["name"]
        self._metrics.ephemeral.inc()
        try:
            made = await self._cluster.create(PERSISTENT_VOLUME_CLAIMS, body, namespace)
        except AlreadyExists as error:
            self._metrics.ephemeral_failures.inc()
            await self._caches.whole_claims.refresh(Key(namespace, name))
            raise Retry(f"the claim of ephemeral volume {volume_name} is there already: {error}") from error
        except ApiError as error:
            self._metrics.ephemeral_failures.inc()
            self._announcer.tell(reference_to(pod, "Pod"), refused(volume_name, name, str(error)))
            raise
        self._caches.claims.wrote(made)
