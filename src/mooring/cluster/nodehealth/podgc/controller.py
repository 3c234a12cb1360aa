"""The controller `pod-garbage-collector-controller`: which change wakes which pod, since when nodes are missing, and
the removal itself: the phase Failed first, since no kubelet will write it, then the deletion without grace.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter

from mooring.api.core import NODES, Node
from mooring.api.meta import Key, is_deleting, key_of
from mooring.api.nodes import OUT_OF_SERVICE_TAINT, has_taint, readiness
from mooring.api.pods import Pod
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.cluster.nodehealth.caches import HealthCaches, observed
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.cluster.nodehealth.podgc.decide import FAILED, FINISHED, Cause, Remove, decide_pod, decide_terminated
from mooring.cluster.nodehealth.view import TERMINATED, YES, Gone, is_terminated
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision, Failed, Read
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change

log = logger(__name__)

WORKERS: Final = 4
ALL_ENDED: Final = "ended"
"""The one key of the pods that have ended: they are counted together."""


class PodGcMetrics:
    """The metrics of removals by namespace and cause, under kube-controller-manager's names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["namespace", "reason"]
        self.removed = Counter(
            "pod_gc_collector_force_delete_pods_total", "Pods removed by force", labels, registry=registry
        )
        self.errors = Counter(
            "pod_gc_collector_force_delete_pod_errors_total",
            "Errors while pods were removed by force",
            labels,
            registry=registry,
        )


class PodCollector:
    """controllers: of each pod, and of the number of pods that have ended. Failed writes are logged, and no user sees
    them, as in kube-controller-manager.
    """

    def __init__(self, runtime: Runtime, caches: HealthCaches, options: NodeHealthOptions) -> None:
        self._clock, self._caches, self._options = runtime.clock, caches, options
        self._metrics = runtime.metrics.once(PodGcMetrics)
        #: Since when this process finds a node missing that pods name, by the node's name.
        self._missing_since: dict[str, Instant] = {}
        one = Deciding(self._decide, self._perform, reads=self._reads)
        self._pods: Controller[Key] = Controller(runtime, "podgc", one, workers=WORKERS, label="Pod", log=log)
        ended = Deciding(self._decide_ended, self._perform_ended)
        self._ended: Controller[str] = Controller(runtime, "podgc-ended", ended, workers=1, label="pods", log=log)
        self.controllers = (self._pods, self._ended)
        self._pods.watch(caches.pods, self._pod_changed)
        self._pods.watch(caches.nodes, self._node_changed)
        self._ended.watch(caches.pods, self._pod_ended)

    # -- changes

    def _pod_changed(self, change: Change[Pod]) -> Iterator[Key]:
        old, new = change.old, change.new
        if new is None:
            self._pods.forget(change.key)
            node_name = change.object.spec.node_name
            if not self._caches.pods_on(node_name):
                self._missing_since.pop(node_name, None)
        elif old is None or (old.spec.node_name, is_deleting(old)) != (new.spec.node_name, is_deleting(new)):
            yield change.key

    def _node_changed(self, change: Change[Node]) -> Iterable[Key]:
        """Wake the pods of a node that came, went, or changed in readiness or service."""
        old, new, name = change.old, change.new, change.key.name
        if new is not None:
            self._missing_since.pop(name, None)
        before, after = (
            None if one is None else (readiness(one), has_taint(one, OUT_OF_SERVICE_TAINT)) for one in (old, new)
        )
        return [key_of(pod) for pod in self._caches.pods_on(name)] if before != after else ()

    def _pod_ended(self, change: Change[Pod]) -> Iterator[str]:
        old, new = change.old, change.new
        if new is not None and is_terminated(new) and not (old is not None and is_terminated(old)):
            yield ALL_ENDED

    # -- one pod

    def _decide(self, key: Key) -> Decision[Remove]:
        pod = self._caches.pods.store.get(key)
        if pod is None:
            return Decision(Gone(str(key)))
        now, node_name = self._clock.now(), pod.spec.node_name
        node, missing_since = self._caches.node(node_name), now
        if node is None and node_name:
            missing_since = self._missing_since.setdefault(node_name, now)
        return decide_pod(pod, node, missing_since, now, self._options.quarantine_s)

    def _reads(self, key: Key, decision: Decision[Remove]) -> Sequence[Read]:
        """Read the node anew before a pod goes for its sake: it may be back, or in service again. A pod that is deleted
        and has no node stays so.
        """
        return [
            functools.partial(self._caches.read, self._caches.nodes, NODES, Key("", action.pod.spec.node_name))
            for action in decision.actions
            if action.destroys
        ]

    async def _perform(self, key: Key, decision: Decision[Remove]) -> None:
        """Raises Failed, Stale."""
        for action in decision.actions:
            await self._remove(action)

    # -- all that have ended

    def _decide_ended(self, key: str) -> Decision[Remove]:
        return decide_terminated(self._caches.pods.store.by(TERMINATED, YES), self._options.terminated_pod_gc_threshold)

    async def _perform_ended(self, key: str, decision: Decision[Remove]) -> None:
        """Remove one pod after the other: there are many only after a burst. Raises Failed, Stale."""
        failures: list[Failed | Stale] = []
        for action in decision.actions:
            try:
                await self._remove(action)
            except (Failed, Stale) as error:
                failures.append(error)  # a pod that can't be removed holds up no other
        if failures:
            raise failures[0]

    # -- removal

    async def _remove(self, action: Remove) -> None:
        """Raises Failed, Stale."""
        pod, cause = action.pod, action.cause
        labels = pod.metadata.namespace, cause.value
        try:
            # Both writes are for this version of the pod alone: a late one must not end a pod that the kubelet of a
            # node that is back has reported on since.
            if pod.status.phase not in FINISHED:
                status: dict[str, Any] = {"phase": FAILED, **observed(pod)}
                if cause is Cause.ORPHANED:
                    because = self._caches.disruption(pod, "DeletionByPodGC", "PodGC: node no longer exists")
                    status["conditions"] = [because]
                pod = await self._caches.patch_status(pod, status)
            await self._caches.pod_writer.delete(pod, strictly=True, grace_period_s=0)
        except Failed:
            self._metrics.errors.labels(*labels).inc()
            raise
        self._metrics.removed.labels(*labels).inc()
