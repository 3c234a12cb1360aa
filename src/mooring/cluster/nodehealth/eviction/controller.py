"""The controller `taint-eviction-controller`: which change wakes which pod, and since when each pod's time runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mooring.api.core import Node
from mooring.api.meta import Key, is_deleting, key_of
from mooring.api.pods import Pod
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.cluster.nodehealth import reasons as why
from mooring.cluster.nodehealth.caches import HealthCaches
from mooring.cluster.nodehealth.eviction.decide import decide_eviction
from mooring.cluster.nodehealth.eviction.reconcile import EvictionMetrics, Reconciler
from mooring.cluster.nodehealth.view import no_execute_taints
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change

log = logger(__name__)

WORKERS: Final = 8


class TaintEviction:
    """A pod's time runs from when this process first saw a taint that the pod tolerates for a time: a restart begins it anew."""

    def __init__(self, runtime: Runtime, caches: HealthCaches, events: EventRecorder) -> None:
        self._clock, self._view = runtime.clock, caches.view
        self._since: dict[Key, Instant] = {}
        self._reconciler = Reconciler(caches.writes, events, runtime.metrics.once(EvictionMetrics), runtime.clock)
        self.controller: Controller[Key] = Controller(runtime, "tainteviction", self._reconcile, workers=WORKERS, label="Pod", log=log)
        self.controller.watch(caches.nodes, self._node_changed)
        self.controller.watch(caches.pods, self._pod_changed)

    def _node_changed(self, change: Change[Node]) -> Iterable[Key]:
        if no_execute_taints(change.old) == no_execute_taints(change.new):
            return ()
        return [key_of(pod) for pod in self._view.pods_on(change.key.name)]

    def _pod_changed(self, change: Change[Pod]) -> Iterator[Key]:
        old, new = change.old, change.new
        if new is None:
            self._since.pop(change.key, None)
            self.controller.forget(change.key)
        elif old is None or (old.spec, is_deleting(old)) != (new.spec, is_deleting(new)):
            yield change.key

    async def _reconcile(self, key: Key) -> Result:
        pod = self._view.pods.get(key)
        if pod is None:
            return Result(why.Gone(str(key)))
        now = self._clock.now()
        decision = decide_eviction(pod, self._view.node(pod.spec.node_name), self._since.pop(key, None), now)
        self.controller.explain(key, decision.because)
        if decision.since is not None:
            self._since[key] = decision.since
        if decision.cancelled:
            self._reconciler.cancelled(pod)
        if decision.evict:
            return await self._reconciler.evict(pod, decision, first=not self.controller.failures(key))
        return Result(decision.because, after_s=None if decision.at is None else decision.at - now)
