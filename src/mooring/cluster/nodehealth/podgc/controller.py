"""The controller `pod-garbage-collector-controller`: which change wakes which pod, and since when nodes are missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from mooring.api.core import NODES, Node
from mooring.api.meta import Key, is_deleting, key_of
from mooring.api.nodes import OUT_OF_SERVICE_TAINT, has_taint, readiness
from mooring.api.pods import Pod
from mooring.base.log import logger
from mooring.cluster.nodehealth import reasons as why
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.cluster.nodehealth.podgc.decide import Absence, Action, AskForNode, Remove, decide_pod, decide_terminated
from mooring.cluster.nodehealth.podgc.reconcile import PodGcMetrics, Reconciler
from mooring.cluster.nodehealth.view import is_terminated
from mooring.cluster.nodehealth.writes import HealthCaches, tell_nobody
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision, Failed
from mooring.control.result import Result, Stale
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change
from mooring.kube.errors import NotFound

log = logger(__name__)

WORKERS: Final = 4
ALL_ENDED: Final = "ended"
"""The one key of the pods that have ended: they are counted together."""


class PodCollector:
    """controllers: of each pod, and of the number of pods that have ended."""

    def __init__(self, runtime: Runtime, caches: HealthCaches, options: NodeHealthOptions) -> None:
        self._cluster, self._clock, self._view, self._options = runtime.cluster, runtime.clock, caches.view, options
        self._absences: dict[str, Absence] = {}
        self._reconciler = Reconciler(caches.pod_writer, runtime.metrics.once(PodGcMetrics), runtime.clock)
        one = Deciding(self._decide, self._perform, tell_nobody)
        self._pods: Controller[Key] = Controller(runtime, "podgc", one, workers=WORKERS, label="Pod", log=log)
        ended = Deciding(self._decide_ended, self._perform_ended, tell_nobody)
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
            if not self._view.pods_on(node_name):
                self._absences.pop(node_name, None)
        elif old is None or (old.spec.node_name, is_deleting(old)) != (new.spec.node_name, is_deleting(new)):
            yield change.key

    def _node_changed(self, change: Change[Node]) -> Iterable[Key]:
        """A node that came or went, or is out of service."""
        old, new, name = change.old, change.new, change.key.name
        if new is not None:
            self._absences.pop(name, None)
        if old is not None and new is not None and _condition(old) == _condition(new):
            return ()
        return [key_of(pod) for pod in self._view.pods_on(name)]

    def _pod_ended(self, change: Change[Pod]) -> Iterator[str]:
        if (
            change.new is not None
            and is_terminated(change.new)
            and (change.old is None or not is_terminated(change.old))
        ):
            yield ALL_ENDED

    # -- one pod

    def _decide(self, key: Key) -> Decision[Action]:
        pod = self._view.pods.get(key)
        if pod is None:
            return Decision(why.Gone(str(key)))
        now, node_name = self._clock.now(), pod.spec.node_name
        node, absence = self._view.node(node_name), None
        if node is None and node_name:
            absence = self._absences.setdefault(node_name, Absence(now))
        return decide_pod(pod, node, absence, now, self._options.quarantine_s)

    async def _perform(self, key: Key, decision: Decision[Action]) -> Result | None:
        """Raises Failed, Stale, ApiError."""
        for action in decision.actions:
            match action:
                case AskForNode(name):
                    await self._ask(name)
                    return Result(decision.because, again=True)
                case Remove():
                    await self._reconciler.remove(action)
                    return None
        return Result(decision.because, after_s=decision.after_s)

    async def _ask(self, node_name: str) -> None:
        """A node that is there after all is on its way into the cache, and gets its quarantine anew. Raises ApiError."""
        known = frozenset(pod.metadata.uid for pod in self._view.pods_on(node_name))
        try:
            await self._cluster.get(NODES, node_name)
        except NotFound:
            if (absence := self._absences.get(node_name)) is not None:
                self._absences[node_name] = msgspec.structs.replace(absence, confirmed=known)
        else:
            self._absences.pop(node_name, None)

    # -- all that have ended

    def _decide_ended(self, key: str) -> Decision[Remove]:
        return decide_terminated(self._view.terminated, self._options.terminated_pod_gc_threshold)

    async def _perform_ended(self, key: str, decision: Decision[Remove]) -> None:
        """One pod after the other: there are many only after a burst. One that can't be removed holds up no other.

        Raises Failed, Stale.
        """
        failures: list[Failed | Stale] = []
        for action in decision.actions:
            try:
                await self._reconciler.remove(action)
            except (Failed, Stale) as error:
                failures.append(error)
        if failures:
            raise failures[0]


def _condition(node: Node) -> tuple[str, bool]:
    return readiness(node), has_taint(node, OUT_OF_SERVICE_TAINT)
