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
from mooring.cluster.nodehealth.eviction.decide import Action, Cancel, Evict, Stay, decide_eviction
from mooring.cluster.nodehealth.eviction.reconcile import EvictionMetrics, Reconciler
from mooring.cluster.nodehealth.view import no_execute_taints
from mooring.cluster.nodehealth.writes import HealthCaches, tell_nobody
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision
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
        self._reconciler = Reconciler(caches, events, runtime.metrics.once(EvictionMetrics), runtime.clock)
        deciding = Deciding(self._decide, self._perform, tell_nobody)
        self.controller: Controller[Key] = Controller(
            runtime, "tainteviction", deciding, workers=WORKERS, label="Pod", log=log
        )
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

    # -- one pod

    def _decide(self, key: Key) -> Decision[Action]:
        pod = self._view.pods.get(key)
        if pod is None:
            return Decision(why.Gone(str(key)))
        return decide_eviction(pod, self._view.node(pod.spec.node_name), self._since.pop(key, None), self._clock.now())

    async def _perform(self, key: Key, decision: Decision[Action]) -> Result | None:
        """Raises Failed, Stale."""
        for action in decision.actions:
            match action:
                case Cancel(pod):
                    self._reconciler.cancelled(pod)
                case Stay(_, _, since):
                    self._since[key] = since
                case Evict(_, _, _, since):
                    if since is not None:
                        self._since[key] = since
                    await self._reconciler.evict(action, first=not self.controller.failures(key))
                    return None
        return Result(decision.because, after_s=decision.after_s)
