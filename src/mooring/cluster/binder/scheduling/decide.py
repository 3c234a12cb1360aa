"""The scheduler's decision on one pod. Pure: the caches, the plans and the time go in, the next step comes out.

A pod without a plan gets a node, or the reason why there is none; a pod with a plan is bound once its volumes have
come, or its plan ends. Its waits come out as topics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from mooring.api.binding import claims_of, is_finished, is_fully_bound
from mooring.api.classes import class_of
from mooring.api.core import Node
from mooring.api.meta import Key, is_deleting
from mooring.api.pods import Pod
from mooring.base.clock import Instant
from mooring.cluster.binder.scheduling import reasons as why
from mooring.cluster.binder.scheduling import wake_topics
from mooring.cluster.binder.scheduling.assumed_bindings import AssumedBinding
from mooring.cluster.binder.scheduling.claims import PodClaims, check_claims
from mooring.cluster.binder.scheduling.node_filters import exceeds_limits, has_conflict, why_not_here
from mooring.cluster.binder.scheduling.prebind import PlanFailed, missing_claims
from mooring.cluster.binder.scheduling.view import View
from mooring.cluster.binder.scheduling.volume_filters import VolumeFilters, VolumeVerdict
from mooring.control.decision import Changing, Decision
from mooring.control.topics import Topic

TIMED_OUT = "context deadline exceeded"


class DropPlan(msgspec.Struct, frozen=True):
    """The plan that the pod may have is over."""


@dataclasses.dataclass(frozen=True, slots=True)
class WritePlan(Changing):
    """Others count on the plan from now on; its choice of volumes is written."""

    plan: AssumedBinding

    def kept(self) -> WritePlan:
        """Return the action with the plan as it is now: it is going to be written, and its pod bound."""
        return WritePlan(msgspec.structs.replace(self.plan))


class BindPod(msgspec.Struct, frozen=True):
    """The plan's node is the pod's."""


class Refuse(msgspec.Struct, frozen=True):
    """Tell users, by the pod's event and condition, why it has no node. had_plan: a node was chosen before."""

    refusal: why.Refusal
    had_plan: bool = False


Action: TypeAlias = DropPlan | WritePlan | BindPod | Refuse


Pick: TypeAlias = Callable[[Sequence[tuple[Node, VolumeVerdict]]], tuple[Node, VolumeVerdict]]
"""Picks one of several equal nodes."""


def first(fits: Sequence[tuple[Node, VolumeVerdict]]) -> tuple[Node, VolumeVerdict]:
    """Picks by name, for those who only want to know whether there is a node."""
    return min(fits, key=lambda one: one[0].metadata.name)


def decide_pod(
    view: View, key: Key, now: Instant, *, scheduler_name: str, bind_timeout_s: float, pick: Pick = first
) -> Decision[Action]:
    """The next step for one Pod."""
    pod = view.pods.get(key)
    if pod is None or pod.spec.node_name or is_deleting(pod) or is_finished(pod):
        return Decision(why.NothingToDo("it is gone, going, or has its node"), (DropPlan(),))
    if (pod.spec.scheduler_name or scheduler_name) != scheduler_name:
        return Decision(why.NothingToDo(f'it belongs to the scheduler "{pod.spec.scheduler_name}"'), (DropPlan(),))
    if pod.spec.scheduling_gates:
        return Decision(why.NothingToDo("it has scheduling gates"), (DropPlan(),))
    plan = view.plans.get(key)
    if plan is not None and plan.uid != pod.metadata.uid:
        return Decision(why.NothingToDo("its name was another pod's"), (DropPlan(),), again=True)
    return _place(view, pod, now + bind_timeout_s, pick) if plan is None else _continue(view, plan, now)


def _continue(view: View, plan: AssumedBinding, now: Instant) -> Decision[Action]:
    if plan.bound or not plan.written:
        return Decision(why.GoesTo(plan.node_name))
    try:
        missing = missing_claims(view, plan)
    except PlanFailed as failure:
        return _failed(f"binding volumes: {failure}")
    if not missing:
        return Decision(why.GoesTo(plan.node_name), (BindPod(),))
    if now >= plan.deadline:
        return _failed(f"binding volumes: {TIMED_OUT}")
    waits = {wake_topics.node(plan.node_name), *(wake_topics.volume(name) for name, _ in plan.static)}
    for claim_key in (*plan.provision, *(key for _, key in plan.static)):
        claim = view.claims.get(claim_key)
        waits.add(wake_topics.claim(claim_key))
        if claim is not None and claim.spec.volume_name:
            waits.add(wake_topics.volume(claim.spec.volume_name))
    return Decision(
        why.WaitsForVolumes(plan.node_name, missing), waits_for=frozenset(waits), after_s=plan.deadline - now
    )


def _failed(text: str) -> Decision[Action]:
    failure = why.BindingFailed(text)
    return Decision(failure, (DropPlan(), Refuse(failure, had_plan=True)), failure)


def _rejected(rejected: why.Rejected, waits_for: frozenset[Topic]) -> Decision[Action]:
    return Decision(rejected, (Refuse(rejected),), waits_for=waits_for)


def _place(view: View, pod: Pod, deadline: Instant, pick: Pick) -> Decision[Action]:
    key = Key(pod.metadata.namespace, pod.metadata.name)
    nodes = view.nodes.values()
    claims = check_claims(view, pod)
    if claims.problem:
        waits = {*_waits_for_claims(view, pod), *(() if nodes else (wake_topics.NODES,))}
        return _rejected(why.Rejected(len(nodes), pod=claims.problem), frozenset(waits))
    fits, reasons, heals = _filter(view, pod, claims, nodes)
    if not fits:
        return _rejected(why.Rejected(len(nodes), reasons=tuple(reasons)), frozenset(heals))
    # A node that was tried for the pod in vain comes after all others: else a driver that is full there is asked again.
    refused = view.plans.refused(pod.metadata.uid)
    ranks = [(one[0].metadata.name in refused, view.pod_count(one[0].metadata.name)) for one in fits]
    node, fit = pick([one for one, rank in zip(fits, ranks, strict=True) if rank == min(ranks)])
    plan = AssumedBinding(
        key, pod.metadata.uid, node.metadata.name, fit.static, fit.provision, claims_of(pod), deadline
    )
    return Decision(why.GoesTo(node.metadata.name), (WritePlan(plan),), again=True)


def _waits_for_claims(view: View, pod: Pod) -> Iterator[str]:
    """The topics of the claims, and of the classes that determine how they are bound."""
    for key in claims_of(pod):
        yield wake_topics.claim(key)
        claim = view.claims.get(key)
        if claim is not None and not is_fully_bound(claim):
            yield wake_topics.storage_class(class_of(claim))


def _filter(
    view: View, pod: Pod, claims: PodClaims, nodes: Iterable[Node]
) -> tuple[list[tuple[Node, VolumeVerdict]], list[str], set[Topic]]:
    """The suitable nodes, the reasons of the others, and the topics that could end one of these reasons."""
    heals = {wake_topics.NODES, *map(wake_topics.claim, claims_of(pod))}
    fitting = VolumeFilters(view, claims, heals)
    fits: list[tuple[Node, VolumeVerdict]] = []
    reasons: list[str] = []
    read: set[str] = set()
    for node in nodes:
        noted = _noting(node, read)
        reason = why_not_here(pod, noted)
        if not reason and has_conflict(view, pod, node.metadata.name):
            reason = why.DISK
            heals.add(wake_topics.LIMITS)
        if not reason and claims.in_use:
            reason = why.RWOP
            heals.update(map(wake_topics.users, claims.in_use))
        if not reason and exceeds_limits(view, pod, node.metadata.name):
            reason = why.LIMIT
            heals.add(wake_topics.LIMITS)
        if reason:
            reasons.append(reason)
            continue
        fit = fitting.on(noted)
        if fit.reasons:
            reasons += fit.reasons
        else:
            fits.append((node, fit))
    return fits, reasons, heals.union(map(wake_topics.label, read))


class _NotingLabels(dict[str, str]):
    """A node's labels, which put each key that is looked up into `read`, there or not: no other label could lead to
    another decision.
    """

    __slots__ = ("read",)
    read: set[str]

    def __bool__(self) -> bool:
        return True  # else `labels or {}` would look up those of a node that has none yet somewhere else

    def __contains__(self, key: Any) -> bool:
        self.read.add(key)
        return super().__contains__(key)

    def __getitem__(self, key: str) -> str:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None, /) -> Any:
        self.read.add(key)
        return super().get(key, default)


def _noting(node: Node, read: set[str]) -> Node:
    """The node, with labels that note who looks them up."""
    labels = _NotingLabels(node.metadata.labels or {})
    labels.read = read
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels))
