"""Bugs to plant in the node agent: in what it knows of pods, and in what it says of them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final
from unittest import mock

import msgspec

from mooring.api.meta import Object, finalizers_of, is_deleting, key_of
from mooring.api.pods import PODS, Pod
from mooring.control.decision import Decision
from mooring.kube.cache import feed
from mooring.kube.cluster import Patch, PatchType
from mooring.node.volumes import controller, decide
from mooring.node.volumes.decide import Action, Facts, decide_volume, do_of
from mooring.node.volumes.pods.controller import NodePods
from mooring.node.volumes.state.actual import ActualState, VolumeState
from mooring.node.volumes.state.desired import DesiredState
from tests.sim.node.mended import LEFT
from tests.sim.planting import Bug, both

Planted = contextlib.AbstractContextManager[Any]


def _pods_in_part_are_known() -> Planted:
    """A pod of which one volume can't be found out wants what is known, and nothing else."""
    settle = DesiredState.set

    def known(self: DesiredState, pod_uid: str, wanted: Any, *, is_complete: bool = True) -> None:
        settle(self, pod_uid, wanted)

    return mock.patch.object(DesiredState, "set", known)


def _volumes_do_not_hear_of_pods() -> Planted:
    """A volume that waits for pods to be known is not told of it."""
    return mock.patch.object(controller.NodeVolumes, "_pods_known", return_value=None)


def _running_hides_deletion() -> Planted:
    """A pod that is being deleted counts as gone once the answer to the write that sets it running shows that."""

    async def deaf(self: NodePods, pod: Pod) -> None:
        key, body = key_of(pod), {"metadata": {"uid": pod.metadata.uid}, "status": {"phase": "Running"}}
        request = self._cluster.patch(
            PODS, key.name, Patch(PatchType.STRATEGIC, body), key.namespace, subresource="status"
        )
        answer = await self._actual.pods.write(key, request)
        self._looked_at[pod.metadata.uid] = answer.metadata.resource_version, self._clock.now()

    def is_over(obj: Object) -> bool:
        return is_deleting(obj) and not finalizers_of(obj)

    return both(mock.patch.object(NodePods, "_set_running", deaf), mock.patch.object(feed, "_is_over", is_over))


def _pods_run_at_once() -> Planted:
    """A pod is set running as soon as it is known what it wants."""
    return mock.patch.object(ActualState, "has_all", return_value=True)


def _pods_leave_at_once() -> Planted:
    """A deleted pod's object goes while its volumes are still taken away."""
    leave, states_of_pod = NodePods._leave, ActualState.states_of_pod
    leaving: ContextVar[bool] = ContextVar("leaving", default=False)

    async def hasty(self: NodePods, pod: Any) -> Any:
        token = leaving.set(True)
        try:
            self._desired.gone(pod.metadata.uid)
            return await leave(self, pod)
        finally:
            leaving.reset(token)

    def states(self: ActualState, uid: str) -> Any:
        return () if leaving.get() else states_of_pod(self, uid)

    return both(mock.patch.object(NodePods, "_leave", hasty), mock.patch.object(ActualState, "states_of_pod", states))


def _volumes_for_one_pod_are_shared() -> Planted:
    """ReadWriteOncePod is a word."""
    return mock.patch.object(decide, "_held_by_others", return_value=[])


def _failed_pods_are_forgotten() -> Planted:
    """A pod that could not be got rid of is not tried again while others wait for the volume."""

    def decided(state: VolumeState, facts: Facts) -> Decision[Action]:
        decision = decide_volume(state, facts)
        is_settled = do_of(decision) is None and facts.wanted
        return msgspec.structs.replace(decision, after_s=None) if is_settled else decision

    return mock.patch.object(controller, "decide_volume", decided)


POD_BUGS: Final[Mapping[str, Bug]] = {
    "pods-in-part-known": Bug(_pods_in_part_are_known, {"unpublish-wanted"}),
    "pods-unheard": Bug(_volumes_do_not_hear_of_pods, {"pod-left", "pod-stuck", "in-use-left", *LEFT}),
    "running-hides-deletion": Bug(_running_hides_deletion, {"pod-left", "pod-stuck"}),
    "pods-run-at-once": Bug(_pods_run_at_once, {"running-without"}),
    "pods-leave-at-once": Bug(_pods_leave_at_once, {"pod-dropped"}),
    "one-pod-shared": Bug(_volumes_for_one_pod_are_shared, {"two-pods"}),
    "failed-pods-forgotten": Bug(_failed_pods_are_forgotten, {"pod-left", "pod-stuck", "in-use-left", *LEFT}),
}
