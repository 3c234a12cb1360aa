"""The scheduler: a queue of pods, plans that are carried out, and waits that end with an event.

A pod that waits for its volumes holds no worker: it has a plan and topics, and comes again when one of them is told. kube-scheduler polls
once a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

from mooring.api.core import NODES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, key_of
from mooring.api.pods import PODS, Pod
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, CSI_STORAGE_CAPACITIES, VOLUME_ATTACHMENTS
from mooring.base.clock import rfc3339
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.queue import retry_backoff
from mooring.control.result import Because, Result, Retry, Stale
from mooring.control.runtime import Runtime
from mooring.control.slim import Part, always
from mooring.controllers.binding import edits
from mooring.controllers.binding.announcer import CROWDED_S, Announcer
from mooring.controllers.binding.caches import BindingCaches
from mooring.controllers.binding.names import SELECTED_NODE, reference_to
from mooring.controllers.binding.options import BinderOptions
from mooring.controllers.binding.view import LABELLED
from mooring.controllers.scheduler import event_handlers as handlers
from mooring.controllers.scheduler import reasons as why
from mooring.controllers.scheduler import wake_topics
from mooring.controllers.scheduler.assumed_bindings import AssumedBinding, AssumedBindings
from mooring.controllers.scheduler.decide import decide_pod
from mooring.controllers.scheduler.metrics import SchedulerMetrics
from mooring.controllers.scheduler.stale_node_selection import StaleNodeSelection
from mooring.controllers.scheduler.view import ATTACHMENT_INDEXES, CAPACITY_INDEXES, NODE, View
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import ApiError, Conflict, NotFound, ServerError, Unreachable

log = logger(__name__)

BACK_OFF: Final = retry_backoff(1.0, 10.0)
"""Of pods whose volumes did not come, or that could not be written; kube-scheduler's."""


class Scheduler:
    """The controller `scheduler`."""

    def __init__(self, runtime: Runtime, caches: BindingCaches, options: BinderOptions, events: EventRecorder) -> None:
        self._cluster, self._clock, self._options = runtime.cluster, runtime.clock, options
        self._claims, self._volumes = caches.whole_claims, caches.whole_volumes
        self._events, self._announcer = events, Announcer(events, runtime.clock)
        self._metrics = runtime.metrics.once(SchedulerMetrics)
        self._plans = AssumedBindings()
        self._pods: Controller[Key] = Controller(
            runtime, "scheduler", self._reconcile, workers=options.workers, backoff=BACK_OFF, label="Pod", log=log
        )
        labelled: Callable[[Any], Part] = always(LABELLED)
        nodes = caches.shared.of(NODES, keeps=always(NODE))
        csi_nodes = caches.shared.of(CSI_NODES, keeps=labelled)
        drivers = caches.shared.of(CSI_DRIVERS, keeps=labelled)
        capacities = caches.shared.of(CSI_STORAGE_CAPACITIES, keeps=labelled, indexes=CAPACITY_INDEXES)
        attachments = caches.shared.of(VOLUME_ATTACHMENTS, keeps=labelled, indexes=ATTACHMENT_INDEXES)
        self.view = View(
            caches.claims.store,
            caches.by_name,
            caches.classes.store,
            caches.pods.store,
            nodes.store,
            csi_nodes.store,
            drivers.store,
            capacities.store,
            attachments.store,
            self._plans,
        )
        self._stale_selections = StaleNodeSelection(runtime, self.view, self._claims)
        self.controllers = (self._pods, self._stale_selections.controller)
        self._pods.watch(caches.pods, handlers.undecided)
        self._pods.tell_on(caches.pods, handlers.of_pod)
        self._pods.tell_on(caches.claims, handlers.of_claim)
        self._pods.tell_on(caches.volumes, handlers.of_volume)
        self._pods.tell_on(caches.classes, lambda change: (wake_topics.storage_class(change.key.name),))
        self._pods.tell_on(nodes, lambda change: (wake_topics.node(change.key.name), wake_topics.NODES))
        self._pods.tell_on(csi_nodes, lambda change: (wake_topics.LIMITS,))
        self._pods.tell_on(drivers, lambda change: (wake_topics.driver(change.key.name),))
        self._pods.tell_on(capacities, handlers.of_capacity)
        self._pods.tell_on(attachments, handlers.of_attachment)
        self._stale_selections.controller.watch(nodes, self._stale_selections.node_changed)

    # -- one pod

    async def _reconcile(self, key: Key) -> Result:
        options, now = self._options, self._clock.now()
        decision = decide_pod(self.view, key, now, scheduler_name=options.scheduler_name, bind_timeout_s=options.bind_timeout_s)
        self._pods.explain(key, decision.because)
        pod = self.view.pods.get(key)
        if decision.over:
            self._drop(key)
        if decision.again:
            return Result(decision.because, again=True)
        if decision.plan is not None:
            self._plans.add(decision.plan)  # no await since it was decided
            await self._carry_out(decision.plan)
            return Result(decision.because, again=True)
        if pod is None:
            return Result(decision.because)
        if decision.bind:
            return await self._bind(pod, decision.because)
        after_s = None if decision.wake_at is None else decision.wake_at - now
        if decision.refusal is not None:
            self._attempted("error" if decision.failed else "unschedulable")
            after_s = await self._tell_users(pod, decision.refusal)
        if decision.failed:
            self._metrics.failed("bind")
            raise Retry(str(decision.because))
        return Result(decision.because, waits_for=decision.waits, after_s=after_s, keeps_backoff=True)

    def _drop(self, key: Key) -> None:
        """Others may have waited for the volumes and claims of the plan, unless the pod has them now."""
        plan = self._plans.drop(key)
        if plan is not None and not handlers.has_its_node(self.view.pods.get(key), plan):
            self._pods.tell(*handlers.of_dropped_plan(self.view, plan))

    async def _carry_out(self, plan: AssumedBinding) -> None:
        """Writes the choice, on exactly the states that it was made from; nothing is undone when a later write fails.

        Raises ApiError, Stale.
        """
        view = self.view
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
        except ApiError as error:
            self._drop(plan.pod)
            self._attempted("error")
            self._metrics.failed("bind")
            pod = self.view.pods.get(plan.pod)
            if pod is not None:
                await self._tell_users(pod, why.BindingFailed(str(error)))
            raise
        plan.written = True

    async def _claim_volume(self, pv: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        if self.view.claims.get(key_of(claim)) is not claim:
            raise Stale(f'"{key_of(claim)}" has changed')
        if pv.spec.claim_ref is None or pv.spec.claim_ref.uid != claim.metadata.uid:
            await self._volumes.put(pv, edits.claim_volume(claim))

    async def _select_node(self, claim: PersistentVolumeClaim, node_name: str) -> None:
        if annotation(claim, SELECTED_NODE) != node_name:
            await self._claims.put(claim, edits.select_node(node_name))

    async def _bind(self, pod: Pod, because: Because) -> Result:
        """Raises ApiError, Retry."""
        key = key_of(pod)
        plan = self._plans.get(key)
        assert plan is not None, "decided a moment ago"
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod.metadata.uid},
            "target": {"kind": "Node", "name": plan.node_name},
        }
        try:
            await self._cluster.post(PODS, key.name, "binding", body, key.namespace)
        except (Conflict, NotFound) as error:  # another scheduler was quicker: the watch will show it
            self._drop(key)
            self._attempted("error")
            raise Retry(f"the pod could not be bound: {error}") from error
        except ApiError as error:
            self._drop(key)
            self._attempted("error")
            if not isinstance(error, ServerError | Unreachable):  # else the pod may have its node
                await self._tell_users(pod, why.BindingFailed(str(error), why.BINDER))
            raise
        plan.bound = True
        self._attempted("scheduled")
        self._announcer.forget(pod.metadata.uid)
        self._events.event(reference_to(pod, "Pod"), "Normal", "Scheduled", f"Successfully assigned {key} to {plan.node_name}")
        return Result(because, done="bound")

    def _attempted(self, result: str) -> None:
        self._metrics.attempted(result, self._options.scheduler_name)

    async def _tell_users(self, pod: Pod, because: why.Refusal) -> float | None:
        """By an event, and in the pod's condition when that differs. Gives the seconds until the event is to be sent again."""
        after_s = None if self._announcer.tell(reference_to(pod, "Pod"), because.event) else CROWDED_S
        old = next((one for one in pod.status.conditions or () if one.type == "PodScheduled"), None)
        if old is not None and (old.status, old.reason, old.message) == ("False", because.condition, str(because)):
            return after_s
        condition: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": because.condition, "message": str(because)}
        condition["lastProbeTime"] = None
        if old is None or old.status != "False":
            condition["lastTransitionTime"] = rfc3339(self._clock.wall_s())
        patch = Patch(PatchType.STRATEGIC, {"status": {"conditions": [condition]}})
        with contextlib.suppress(NotFound):
            await self._cluster.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace, subresource="status")
        return after_s
