"""The scheduler: a queue of pods, plans that are carried out, and waits that end with an event.

A pod that waits for its volumes holds no worker: it has a plan and topics, and comes again when one of them is told.
kube-scheduler polls once a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.api.core import NODES
from mooring.api.meta import Key, key_of
from mooring.api.pods import Pod
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, CSI_STORAGE_CAPACITIES, VOLUME_ATTACHMENTS
from mooring.base.backoff import retry_backoff
from mooring.base.log import logger
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.options import BinderOptions
from mooring.cluster.binder.scheduling import event_handlers as handlers
from mooring.cluster.binder.scheduling import wake_topics
from mooring.cluster.binder.scheduling.assumed_bindings import AssumedBindings
from mooring.cluster.binder.scheduling.decide import Action, BindPod, DropPlan, Refuse, WritePlan, decide_pod
from mooring.cluster.binder.scheduling.reconcile import Reconciler
from mooring.cluster.binder.scheduling.stale_node_selection import StaleNodeSelection
from mooring.cluster.binder.scheduling.view import ATTACHMENT_INDEXES, CAPACITY_INDEXES, NODE, View
from mooring.cluster.binder.view import LABELLED
from mooring.control.backlog import newest_keys
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision
from mooring.control.events import EventRecorder
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.control.slim import Part, always
from mooring.kube.cache.informer import Change

log = logger(__name__)

BACK_OFF: Final = retry_backoff(1.0, 10.0)
"""kube-scheduler's back-off, for pods whose volumes did not come, or that could not be written."""


class Scheduler:
    """The controller `scheduler`."""

    def __init__(self, runtime: Runtime, caches: BindingCaches, options: BinderOptions, events: EventRecorder) -> None:
        self._clock, self._randomness, self._options = runtime.clock, runtime.randomness, options
        self._plans = AssumedBindings()
        self._pods: Controller[Key] = Controller(
            runtime,
            "scheduler",
            Deciding(self._decide, self._perform),
            workers=options.workers,
            backoff=BACK_OFF,
            label="Pod",
            log=log,
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
        self._reconciler = Reconciler(runtime, self.view, caches, events, options.scheduler_name, self._drop)
        self._stale_selections = StaleNodeSelection(runtime, self.view, caches.whole_claims)
        self.controllers = (self._pods, self._stale_selections.controller)
        self._pods.watch(caches.pods, self._pod_changed, tells=handlers.of_pod)
        self._pods.watch(caches.claims, tells=handlers.of_claim)
        self._pods.watch(caches.volumes, tells=handlers.of_volume)
        self._pods.watch(caches.classes, tells=lambda change: (wake_topics.storage_class(change.key.name),))
        self._pods.watch(nodes, tells=handlers.of_node)
        self._pods.watch(csi_nodes, tells=lambda change: (wake_topics.LIMITS,))
        self._pods.watch(drivers, tells=lambda change: (wake_topics.driver(change.key.name),))
        self._pods.watch(capacities, tells=handlers.of_capacity)
        self._pods.watch(attachments, tells=handlers.of_attachment)
        self._stale_selections.controller.watch(nodes, self._stale_selections.node_changed)
        self._stale_selections.controller.watch(caches.claims, self._stale_selections.claim_changed)

    async def look_at_all(self) -> None:
        """A term begins: pods without a node are looked at, and claims on nodes that went while the caches were
        filled.
        """
        self._stale_selections.look_at_all()
        self._pods.add_later(newest_keys(self.view.pods, lambda pod: None if pod.spec.node_name else key_of(pod)))

    def _pod_changed(self, change: Change[Pod]) -> Iterator[Key]:
        if change.new is None or change.new.spec.node_name:
            self._plans.forget(change.object.metadata.uid)
        yield from handlers.undecided(change)

    # -- one pod

    def _decide(self, key: Key) -> Decision[Action]:
        options = self._options
        return decide_pod(
            self.view,
            key,
            self._clock.now(),
            scheduler_name=options.scheduler_name,
            bind_timeout_s=options.bind_timeout_s,
            pick=lambda fits: fits[self._randomness.below(len(fits))],
        )

    async def _perform(self, key: Key, decision: Decision[Action]) -> Result:
        """A pod without a node keeps its back-off. Raises ApiError, Failed, Stale."""
        pod, after_s = self.view.pods.get(key), decision.after_s
        for action in decision.actions:
            match action:
                case DropPlan():
                    plan = self._plans.get(key)
                    if plan is not None and any(isinstance(one, Refuse) for one in decision.actions):
                        self._plans.refuse(plan)
                    self._drop(key)
                case WritePlan(plan):
                    self._plans.add(plan)  # no await since it was decided
                    await self._reconciler.write(plan)
                case BindPod() if pod is not None:
                    await self._reconciler.bind(pod)
                    return Result(decision.because, done="bound")
                case Refuse() if pod is not None:
                    await self._reconciler.refuse(pod, action)
        return Result(decision.because, "", decision.again, decision.waits_for, after_s, keeps_backoff=pod is not None)

    def _drop(self, key: Key) -> None:
        """Drop the pod's plan. Others may wait for its volumes and claims, unless the pod has them now."""
        plan = self._plans.drop(key)
        if plan is not None and not handlers.has_its_node(self.view.pods.get(key), plan):
            self._pods.tell(*handlers.of_dropped_plan(self.view, plan), by=key)
