"""The shell of ephemeral volumes: makes the claims that pods bring templates for. Their end is the garbage collector's."""

from __future__ import annotations

from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.api.pods import Pod
from mooring.base.chance import Chance
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.binding.announce import Announcer
from mooring.binding.caches import Caches
from mooring.binding.ephemeral import judge_pod, refused
from mooring.binding.metrics import BindingMetrics
from mooring.binding.names import reference_to
from mooring.binding.view import BY_CLAIM
from mooring.binding.workers import Workers
from mooring.kube.errors import AlreadyExists, ApiError
from mooring.kube.informer import Change

log = logger(__name__)

COMPONENT: Final = "ephemeral_volume"
WORKERS: Final = 5


class EphemeralVolumes:
    """The part `ephemeral-volume-controller`."""

    def __init__(self, caches: Caches, announcer: Announcer, *, clock: Clock, chance: Chance, metrics: Metrics) -> None:
        self._caches, self._announcer = caches, announcer
        self._metrics = metrics.once(BindingMetrics)
        self.workers: Workers[Key] = Workers("ephemeral_volume", WORKERS, self._sync, clock=clock, chance=chance, metrics=metrics)
        caches.pods.on_change(self._pod_changed)
        caches.claims.on_change(self._claim_changed)

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.new
        if pod is not None and change.old is None and any(volume.ephemeral for volume in pod.spec.volumes or ()):
            self.workers.queue.add(key_of(pod))

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        """A claim of this name is no more: its pod may need another, or may now have its own."""
        if change.new is None and change.old is not None:
            for pod in self._caches.pods.store.by(BY_CLAIM, str(key_of(change.old))):
                self.workers.queue.add(key_of(pod))

    async def _sync(self, key: Key) -> None:
        pod = self._caches.pods.store.get(key)
        if pod is None:
            return
        wanted = judge_pod(pod, self._caches.claims.store.get)
        for volume_name, body in wanted.bodies:
            name = body["metadata"]["name"]
            self._metrics.ephemeral.inc()
            try:
                made = await self._caches.cluster.create(PERSISTENT_VOLUME_CLAIMS, body, key.namespace)
            except AlreadyExists:  # the cache is behind
                self._metrics.ephemeral_failures.inc()
                claim = await self._caches.whole_claims.refresh(Key(key.namespace, name))
                log.info(4, "the claim is there already", claim=str(claim.metadata.uid if claim else ""))
                self.workers.queue.retry(key)
                return
            except ApiError as error:
                self._metrics.ephemeral_failures.inc()
                self._announcer.tell(reference_to(pod, "Pod"), refused(volume_name, name, str(error)))
                raise
            else:
                self._caches.claims.wrote(made)
                log.info(2, "made the claim of an ephemeral volume", pod=str(key), claim=made.metadata.name)
        if wanted.event is not None:
            self._announcer.tell(reference_to(pod, "Pod"), wanted.event)
            self.workers.queue.retry(key)
        else:
            self.workers.queue.forget(key)
