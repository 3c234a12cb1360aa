"""Ephemeral volumes: creates the claims of pods' templates. The garbage collector deletes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim, reference_to
from mooring.api.meta import Key, key_of
from mooring.api.pods import Pod
from mooring.base.log import logger
from mooring.cluster.binder.announcer import Announcer
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.ephemeral.decide import decide_pod, refused
from mooring.cluster.binder.metrics import BindingMetrics
from mooring.cluster.binder.reasons import Gone
from mooring.cluster.binder.view import BY_CLAIM
from mooring.control.controller import Controller
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change
from mooring.kube.errors import AlreadyExists, ApiError

log = logger(__name__)

EPHEMERAL_COMPONENT: Final = "ephemeral_volume"
WORKERS: Final = 5


class EphemeralVolumes:
    """The controller `ephemeral-volume-controller`. announcer: tells pods why they lack a claim."""

    def __init__(self, runtime: Runtime, caches: BindingCaches, announcer: Announcer) -> None:
        self._cluster, self._caches, self._announcer = runtime.cluster, caches, announcer
        self._metrics = runtime.metrics.once(BindingMetrics)
        self.controller: Controller[Key] = Controller(runtime, "ephemeral_volume", self._reconcile, workers=WORKERS, label="Pod", log=log)
        self.controller.watch(caches.pods, self._changed)
        self.controller.watch(caches.claims, self._claim_gone)

    def _changed(self, change: Change[Pod]) -> Iterator[Key]:
        pod = change.new
        if pod is not None and change.old is None and any(volume.ephemeral for volume in pod.spec.volumes or ()):
            yield key_of(pod)

    def _claim_gone(self, change: Change[PersistentVolumeClaim]) -> Iterator[Key]:
        """A claim of this name is gone: its pod may need another, or may now have its own."""
        if change.new is None and change.old is not None:
            for pod in self._caches.pods.store.by(BY_CLAIM, str(key_of(change.old))):
                yield key_of(pod)

    async def _reconcile(self, key: Key) -> Result:
        pod = self._caches.pods.store.get(key)
        if pod is None:
            return Result(Gone(str(key)))
        decision = decide_pod(pod, self._caches.claims.store.get)
        for volume_name, body in decision.bodies:
            await self._create_claim(pod, volume_name, body)
        if decision.event is not None:
            self._announcer.tell(reference_to(pod, "Pod"), decision.event)
            raise Retry(decision.problem)
        return Result(decision.because, done="made the claims of ephemeral volumes" if decision.bodies else "")

    async def _create_claim(self, pod: Pod, volume_name: str, body: dict[str, Any]) -> None:
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
