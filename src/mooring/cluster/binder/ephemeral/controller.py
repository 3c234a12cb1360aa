"""Ephemeral volumes: creates the claims of pods' templates. The garbage collector deletes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim, reference_to
from mooring.api.meta import Key, key_of
from mooring.api.pods import Pod
from mooring.base.log import logger
from mooring.cluster.binder.announcer import Announcer
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.ephemeral.decide import CreateClaim, decide_pod, refused
from mooring.cluster.binder.metrics import BindingMetrics
from mooring.cluster.binder.reasons import EventText, Gone
from mooring.cluster.binder.view import BY_CLAIM
from mooring.control.backlog import newest_keys
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision, Failed
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
        deciding = Deciding(self._decide, self._perform, self._show)
        self.controller: Controller[Key] = Controller(
            runtime, "ephemeral_volume", deciding, workers=WORKERS, label="Pod", log=log
        )
        self.controllers = (self.controller,)
        self.controller.watch(caches.pods, self._changed)
        self.controller.watch(caches.claims, self._claim_gone)

    async def look_at_all(self) -> None:
        """A term begins."""
        self.controller.add_later(
            newest_keys(self._caches.pods.store, lambda pod: key_of(pod) if _has_templates(pod) else None)
        )

    def _changed(self, change: Change[Pod]) -> Iterator[Key]:
        if change.new is not None and change.old is None and _has_templates(change.new):
            yield change.key

    def _claim_gone(self, change: Change[PersistentVolumeClaim]) -> Iterator[Key]:
        """A claim of this name is gone: its pod may need another, or may now have its own."""
        if change.new is None and change.old is not None:
            for pod in self._caches.pods.store.by(BY_CLAIM, str(key_of(change.old))):
                yield key_of(pod)

    # -- one pod

    def _decide(self, key: Key) -> Decision[CreateClaim]:
        pod = self._caches.pods.store.get(key)
        return Decision(Gone(str(key))) if pod is None else decide_pod(pod, self._caches.claims.store.get)

    async def _perform(self, key: Key, decision: Decision[CreateClaim]) -> None:
        """Raises Failed, ApiError."""
        for action in decision.actions:
            await self._create_claim(key.namespace, action)

    async def _create_claim(self, namespace: str, action: CreateClaim) -> None:
        """Create the claim. Users are not told of one that exists already, since the cache was behind."""
        name = action.body["metadata"]["name"]
        self._metrics.ephemeral.inc()
        try:
            made = await self._cluster.create(PERSISTENT_VOLUME_CLAIMS, action.body, namespace)
        except AlreadyExists as error:
            self._metrics.ephemeral_failures.inc()
            await self._caches.whole_claims.refresh(Key(namespace, name))
            raise Failed(
                f"the claim of ephemeral volume {action.volume_name} is there already: {error}", is_shown=True
            ) from error
        except ApiError as error:
            self._metrics.ephemeral_failures.inc()
            raise Failed(refused(action.volume_name, name, str(error))) from error
        self._caches.claims.wrote(made)

    async def _show(self, key: Key, decision: Decision[CreateClaim], failure: Failed) -> None:
        pod = self._caches.pods.store.get(key)
        if pod is not None and pod.metadata.uid == decision.uid:
            self._announcer.tell(reference_to(pod, "Pod"), EventText("Warning", "FailedBinding", str(failure)))


def _has_templates(pod: Pod) -> bool:
    return any(volume.ephemeral for volume in pod.spec.volumes or ())
