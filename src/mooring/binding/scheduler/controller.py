"""The scheduler's shell: pods in a queue, plans carried out, waits that end with the event they wait for.

One worker's turn is short: a pod that waits for its volumes holds nobody, it has a plan and topics, and comes again when one of them is
told. kube-scheduler looks once a second.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mooring.api.core import NODES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, key_of
from mooring.api.pods import PODS, Pod
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, CSI_STORAGE_CAPACITIES, VOLUME_ATTACHMENTS
from mooring.base.chance import Chance
from mooring.base.clock import Clock, rfc3339
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.binding import edits
from mooring.binding.announce import CROWDED_S, Announcer
from mooring.binding.caches import Caches
from mooring.binding.edits import Moved
from mooring.binding.names import SELECTED_NODE, reference_to
from mooring.binding.options import BinderOptions
from mooring.binding.scheduler import because as why
from mooring.binding.scheduler.decide import Decision, decide_pod
from mooring.binding.scheduler.metrics import SchedulerMetrics
from mooring.binding.scheduler.plans import Plan, Plans
from mooring.binding.scheduler.topics import Waiting
from mooring.binding.scheduler.unpin import Unpin
from mooring.binding.scheduler.view import ATTACHMENT_INDEXES, CAPACITY_INDEXES, View, prune_node
from mooring.binding.scheduler.wakes import Wakes, has_its_node, let_go
from mooring.binding.view import prune_meta
from mooring.binding.workers import Workers
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import ApiError, Conflict, NotFound, ServerError, Unreachable
from mooring.kube.events import EventRecorder
from mooring.kube.queue import BackOff

log = logger(__name__)

BACK_OFF: Final = BackOff(1.0, 10.0)
"""Of pods whose volumes did not come, or that could not be written; kube-scheduler's."""

STEPS_MAX: Final = 4
"""Decisions for one pod in a row; what has changed under the last of them, too, comes again after a back-off."""


class Scheduler:
    """The part `scheduler`."""

    def __init__(
        self, caches: Caches, options: BinderOptions, *, clock: Clock, chance: Chance, metrics: Metrics, events: EventRecorder
    ) -> None:
        self._cluster, self._clock, self._options = caches.cluster, clock, options
        self._claims, self._volumes = caches.whole_claims, caches.whole_volumes
        self._events, self._announcer = events, Announcer(events, clock)
        self._metrics = metrics.once(SchedulerMetrics)
        self._plans, self._waiting = Plans(), Waiting()
        self._pods: Workers[Key] = Workers(
            "scheduler", options.workers, self._sync, clock=clock, chance=chance, metrics=metrics, back_off=BACK_OFF
        )
        nodes, csi_nodes = caches.of(NODES, prune=prune_node), caches.of(CSI_NODES, prune=prune_meta)
        drivers = caches.of(CSI_DRIVERS, prune=prune_meta)
        capacities = caches.of(CSI_STORAGE_CAPACITIES, indexes=CAPACITY_INDEXES, prune=prune_meta)
        attachments = caches.of(VOLUME_ATTACHMENTS, indexes=ATTACHMENT_INDEXES, prune=prune_meta)
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
        self._unpin = Unpin(self.view, self._claims, clock=clock, chance=chance, metrics=metrics)
        wakes = Wakes(self._tell, self._look_at, self._unpin.node_vanished)
        caches.pods.on_change(wakes.pod_changed)
        caches.claims.on_change(wakes.claim_changed)
        caches.volumes.on_change(wakes.volume_changed)
        caches.classes.on_change(wakes.class_changed)
        nodes.on_change(wakes.node_changed)
        csi_nodes.on_change(wakes.csi_node_changed)
        drivers.on_change(wakes.driver_changed)
        capacities.on_change(wakes.capacity_changed)
        attachments.on_change(wakes.attachment_changed)

    async def run(self) -> None:
        """Schedules until its queue is closed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run(), name="binder/scheduler")
            group.create_task(self._unpin.workers.run(), name="binder/scheduler/unpin")

    def close(self) -> None:
        self._pods.queue.close()
        self._unpin.workers.queue.close()

    def _tell(self, topic: str) -> None:
        for key in self._waiting.for_(topic):
            self._pods.queue.add(key)

    def _look_at(self, pod: Pod) -> None:
        self._pods.queue.add(key_of(pod))

    # -- one pod

    async def _sync(self, key: Key) -> None:
        for _ in range(STEPS_MAX):
            if not await self._step(key):
                return
        self._pods.queue.retry(key)

    async def _step(self, key: Key) -> bool:
        """Returns True when there is more to decide at once."""
        options = self._options
        decision = decide_pod(
            self.view, key, self._clock.now(), scheduler_name=options.scheduler_name, bind_timeout_s=options.bind_timeout_s
        )
        pod = self.view.pods.get(key)
        log.info(4, "decided", Pod=str(key), because=str(decision.because))
        self._waiting.set(key, decision.waits)
        if decision.over:
            self._drop(key)
        if decision.again:
            return True
        if decision.plan is not None:
            self._plans.add(decision.plan)  # no await since it was decided
            return await self._carry_out(decision.plan)
        if pod is None:
            self._pods.queue.forget(key)
            return False
        return await self._next(pod, decision)

    async def _next(self, pod: Pod, decision: Decision) -> bool:
        key = key_of(pod)
        if decision.bind:
            await self._bind(pod)
        elif isinstance(decision.because, why.Rejected):
            self._attempted("unschedulable")
            await self._told(pod, decision.because)
        elif isinstance(decision.because, why.BindingFailed):
            self._attempted("error")
            self._metrics.failed("bind")
            await self._told(pod, decision.because)
            self._pods.queue.retry(key)
        elif decision.wake_at is not None:
            self._pods.queue.add_after(key, decision.wake_at - self._clock.now())
        return False

    def _drop(self, key: Key) -> None:
        """Others may have waited for what the plan held, unless the pod holds it now."""
        plan = self._plans.drop(key)
        if plan is not None and not has_its_node(self.view.pods.get(key), plan):
            for topic in let_go(self.view, plan):
                self._tell(topic)

    async def _carry_out(self, plan: Plan) -> bool:
        """Writes what was chosen, on exactly the states that it was chosen from; nothing is taken back when a later write fails.

        Raises ApiError.
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
        except Moved:
            self._drop(plan.pod)
            return True
        except ApiError as error:
            self._drop(plan.pod)
            self._attempted("error")
            self._metrics.failed("bind")
            pod = self.view.pods.get(plan.pod)
            if pod is not None:
                await self._told(pod, why.BindingFailed(str(error)))
            raise
        plan.written = True
        return True

    async def _claim_volume(self, pv: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        if self.view.claims.get(key_of(claim)) is not claim:
            raise Moved(f'"{key_of(claim)}" has changed')
        if pv.spec.claim_ref is None or pv.spec.claim_ref.uid != claim.metadata.uid:
            await self._volumes.put(pv, edits.claim_volume(claim))

    async def _select_node(self, claim: PersistentVolumeClaim, node_name: str) -> None:
        if annotation(claim, SELECTED_NODE) != node_name:
            await self._claims.put(claim, edits.select_node(node_name))

    async def _bind(self, pod: Pod) -> None:
        """Raises ApiError."""
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
        except (Conflict, NotFound) as error:  # somebody else was quicker: the watch will say who
            self._drop(key)
            self._attempted("error")
            log.info(2, "the pod could not be bound", Pod=str(key), why=str(error))
            self._pods.queue.retry(key)
            return
        except ApiError as error:
            self._drop(key)
            self._attempted("error")
            if not isinstance(error, ServerError | Unreachable):  # else the pod may have its node
                await self._told(pod, why.BindingFailed(str(error), why.BINDER))
            raise
        plan.bound = True
        self._pods.queue.forget(key)
        self._attempted("scheduled")
        log.info(2, "bound", Pod=str(key), node=plan.node_name)
        self._announcer.forget(pod.metadata.uid)
        self._events.event(reference_to(pod, "Pod"), "Normal", "Scheduled", f"Successfully assigned {key} to {plan.node_name}")

    def _attempted(self, result: str) -> None:
        self._metrics.attempted(result, self._options.scheduler_name)

    async def _told(self, pod: Pod, because: why.Rejected | why.BindingFailed) -> None:
        """Into the pod's condition, when it says something else, and as an event."""
        if not self._announcer.tell(reference_to(pod, "Pod"), because.event):
            self._pods.queue.add_after(key_of(pod), CROWDED_S)
        old = next((one for one in pod.status.conditions or () if one.type == "PodScheduled"), None)
        if old is not None and (old.status, old.reason, old.message) == ("False", because.condition, str(because)):
            return
        condition: dict[str, Any] = {"type": "PodScheduled", "status": "False", "reason": because.condition, "message": str(because)}
        condition["lastProbeTime"] = None
        if old is None or old.status != "False":
            condition["lastTransitionTime"] = rfc3339(self._clock.wall_s())
        patch = Patch(PatchType.STRATEGIC, {"status": {"conditions": [condition]}})
        try:
            await self._cluster.patch(PODS, pod.metadata.name, patch, pod.metadata.namespace, subresource="status")
        except NotFound:
            return
