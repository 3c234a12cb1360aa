"""Carries out the scheduler's decisions: writes a choice of volumes, binds the pod, and tells users why there is no
node.

A choice is written on exactly the states that it was made from.

Differs from other rooms: a Conflict about a Binding is judged here, since no object is written that ObjectWriter could
look at again. The pod has its node from another scheduler, and the watch will show it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from mooring.api.binding import SELECTED_NODE
from mooring.api.core import PersistentVolume, PersistentVolumeClaim, reference_to
from mooring.api.meta import Key, annotation, key_of
from mooring.api.pods import PODS, Pod
from mooring.base.clock import rfc3339
from mooring.cluster.binder import edits
from mooring.cluster.binder.announcer import Announcer
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.scheduling import reasons as why
from mooring.cluster.binder.scheduling.assumed_bindings import AssumedBinding
from mooring.cluster.binder.scheduling.decide import Refuse
from mooring.cluster.binder.scheduling.view import View
from mooring.control.decision import Failed
from mooring.control.events import EventRecorder
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Stale, Vanished
from mooring.control.runtime import Runtime
from mooring.kube.errors import ApiError, Conflict, NotFound, ServerError, Unreachable
from mooring.kube.patch import strategic_patch


class SchedulerMetrics:
    """The scheduler's metrics as far as they concern volumes, under kube-scheduler's names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._stage = Counter(
            "scheduler_volume_scheduling_stage_error_total",
            "Volume scheduling stage error count",
            ["operation"],
            registry=registry,
        )
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result.",
            ["result", "profile"],
            registry=registry,
        )

    def attempted(self, result: str, profile: str) -> None:
        """result: scheduled, unschedulable, or error when the node was chosen and something failed. profile: the
        scheduler's name.
        """
        self._attempts.labels(result, profile).inc()

    def failed(self, operation: str) -> None:
        """operation: predicate, assume, bind."""
        self._stage.labels(operation).inc()


class Reconciler:
    """drop: called with a pod whose plan has failed."""

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        caches: BindingCaches,
        events: EventRecorder,
        scheduler_name: str,
        drop: Callable[[Key], None],
    ) -> None:
        self._cluster, self._clock, self._view, self._drop = runtime.cluster, runtime.clock, view, drop
        self._claims, self._volumes = caches.whole_claims, caches.whole_volumes
        self._pods = ObjectWriter(runtime.cluster, PODS, caches.pods, keeps_answers=False)
        self._events, self._announcer = events, Announcer(events, runtime.clock)
        self._metrics, self._scheduler_name = runtime.metrics.once(SchedulerMetrics), scheduler_name

    async def write(self, plan: AssumedBinding) -> None:
        """Writes the choice, on exactly the states that it was made from; nothing is undone when a later write fails.

        Raises Failed, Stale.
        """
        view = self._view
        static = [(view.volumes.get(pv_name), view.claims.get(key)) for pv_name, key in plan.static]
        provision = [view.claims.get(key) for key in plan.provision]  # no await since it was decided
        try:
            for pv, claim in static:
                assert pv is not None, "chosen a moment ago"
                assert claim is not None, "it was chosen for"
                await self._claim_volume(pv, claim)
            for claim in provision:
                assert claim is not None, "looked at a moment ago"
                await self._select_node(claim, plan.node_name)
        except Stale:
            self._drop(plan.pod)
            raise
        except Failed as failure:
            self._drop(plan.pod)
            self._attempted("error")
            self._metrics.failed("bind")
            pod = self._view.pods.get(plan.pod)
            if pod is not None:
                await self._tell_users(pod, why.BindingFailed(str(failure.__cause__)))
            raise
        plan.written = True

    async def _claim_volume(self, pv: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        if self._view.claims.get(key_of(claim)) is not claim:
            raise Stale(f'"{key_of(claim)}" has changed')
        if pv.spec.claim_ref is None or pv.spec.claim_ref.uid != claim.metadata.uid:
            await self._volumes.put(pv, edits.claim_volume(claim))

    async def _select_node(self, claim: PersistentVolumeClaim, node_name: str) -> None:
        if annotation(claim, SELECTED_NODE) != node_name:
            await self._claims.put(claim, edits.select_node(node_name))

    async def bind(self, pod: Pod) -> None:
        """Bind the pod to its plan's node. Raises ApiError, Failed."""
        key = key_of(pod)
        plan = self._view.plans.get(key)
        assert plan is not None, "decided a moment ago"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod.metadata.uid},
            "target": {"kind": "Node", "name": plan.node_name},
        }
        try:
            await self._cluster.post(PODS, key.name, "binding", body, key.namespace)
        except (Conflict, NotFound) as error:  # another scheduler was quicker, or the pod is gone: the watch shows it
            self._drop(key)
            self._attempted("error")
            raise Failed(f"the pod could not be bound: {error}") from error
        except ApiError as error:
            self._drop(key)
            self._attempted("error")
            if not isinstance(error, ServerError | Unreachable):  # else the pod may have its node
                await self._tell_users(pod, why.BindingFailed(str(error), why.BINDER))
            raise
        plan.bound = True
        self._attempted("scheduled")
        self._announcer.forget(pod.metadata.uid)
        self._events.event(
            reference_to(pod, "Pod"), "Normal", "Scheduled", f"Successfully assigned {key} to {plan.node_name}"
        )

    async def refuse(self, pod: Pod, action: Refuse) -> None:
        """The pod gets no node now. Raises Failed, Stale."""
        self._attempted("error" if action.had_plan else "unschedulable")
        await self._tell_users(pod, action.refusal)
        if action.had_plan:
            self._metrics.failed("bind")

    def _attempted(self, result: str) -> None:
        self._metrics.attempted(result, self._scheduler_name)

    async def _tell_users(self, pod: Pod, because: why.Refusal) -> None:
        """Tell users the reason by an event, and in the pod's condition when that differs."""
        self._announcer.tell(reference_to(pod, "Pod"), because.event)
        old = next((one for one in pod.status.conditions or () if one.type == "PodScheduled"), None)
        if old is not None and (old.status, old.reason, old.message) == ("False", because.condition, str(because)):
            return
        condition: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": because.condition,
            "message": str(because),
        }
        condition["lastProbeTime"] = None
        if old is None or old.status != "False":
            condition["lastTransitionTime"] = rfc3339(self._clock.wall_s())
        patch = strategic_patch({"status": {"conditions": [condition]}}, of=pod)
        try:
            await self._pods.patch(pod, patch, "status")
        except Vanished:
            pass  # the watch will show it
