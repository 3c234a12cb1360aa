"""Pods on a node with claims that lead to no volume: which ones, and why. They hear of it; upstream says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.binding import claim_name_of, owns
from mooring.api.core import PersistentVolumeClaim, reference_to
from mooring.api.inline_volumes import inline_volumes_of
from mooring.api.meta import Key
from mooring.api.pods import Pod, Volume
from mooring.base.clock import Clock, Instant
from mooring.cluster.attachdetach import reasons as why
from mooring.cluster.attachdetach.identity import BOUND, pod_wants_volumes
from mooring.cluster.attachdetach.memory import REMIND_S
from mooring.cluster.attachdetach.view import View
from mooring.control.event_once import EventOnce
from mooring.control.events import SLACK_S, EventRecorder
from mooring.control.result import Result

TELL_AFTER_S: Final = 10.0
"""Objects of one moment come in any order: what leads nowhere for so long is told."""

AGAIN_S: Final = 1.0
"""Until events that found no room are tried again."""


def obstacles_of(view: View, pod: Pod) -> Iterator[tuple[str, str]]:
    """The volumes that lead nowhere, by name, each with the reason, of a pod that wants its volumes on a node. Pure."""
    if not pod.spec.node_name or not view.is_managed(pod.spec.node_name) or not pod_wants_volumes(pod):
        return
    for volume in pod.spec.volumes or ():
        text = _obstacle(view, pod, volume)
        if text:
            yield volume.name, text


def _obstacle(view: View, pod: Pod, volume: Volume) -> str:
    name, namespace = claim_name_of(pod, volume), pod.metadata.namespace
    if not name:
        problem = inline_volumes_of(pod).problems.get(volume.name)
        return f"failed to translate in-tree pv to CSI: {problem}" if problem else ""
    claim = view.claims.get(Key(namespace, name))
    if claim is None:
        return f'PersistentVolumeClaim "{name}" does not exist'
    if volume.ephemeral is not None and not owns(pod, claim):
        return f"PVC {namespace}/{name} was not created for pod {namespace}/{pod.metadata.name} (pod is not owner)"
    if claim.status.phase != BOUND or not claim.spec.volume_name:
        return f'PersistentVolumeClaim "{name}" is not bound'
    return _obstacle_of_claim(view, claim)


def _obstacle_of_claim(view: View, claim: PersistentVolumeClaim) -> str:
    """claim: a bound one."""
    found, named = claim.spec.volume_name, f'of PersistentVolumeClaim "{claim.metadata.name}"'
    pv = view.volumes.get(Key("", found))
    if pv is None:
        return f'PersistentVolume "{found}" {named} does not exist'
    if pv.spec.claim_ref is None or pv.spec.claim_ref.uid != claim.metadata.uid:
        return f'PersistentVolume "{found}" {named} is not reserved for it'
    return ""


class Unresolved:
    """Tells pods, once for each reason and again after a while; a pod that misses nothing any more is forgotten."""

    def __init__(self, view: View, recorder: EventRecorder, clock: Clock) -> None:
        self._view, self._once, self._clock = view, EventOnce(recorder, clock, REMIND_S), clock
        self._since: dict[Key, tuple[str, Instant]] = {}

    async def reconcile(self, key: Key) -> Result:
        pod = self._view.pods.get(key)
        obstacles = [] if pod is None else list(obstacles_of(self._view, pod))
        if pod is None or not obstacles:
            self._forget(key)
            return Result(why.Resolved())
        because = why.LeadsNowhere("; ".join(f"{name}: {text}" for name, text in obstacles))
        left_s = self._left_s(key, pod)
        if left_s > 0:
            return Result(because, after_s=left_s)
        return Result(because, after_s=REMIND_S + SLACK_S if self._tell(pod, obstacles) else AGAIN_S)

    def _left_s(self, key: Key, pod: Pod) -> float:
        """Seconds until it is told. Another pod of that name waits anew."""
        uid, now = pod.metadata.uid, self._clock.now()
        if self._since.get(key, ("", now))[0] != uid:
            self._forget(key)
            self._since[key] = uid, now
        return self._since[key][1] + TELL_AFTER_S - now

    def _forget(self, key: Key) -> None:
        uid, _ = self._since.pop(key, ("", 0.0))
        self._once.forget(uid)

    def _tell(self, pod: Pod, obstacles: list[tuple[str, str]]) -> bool:
        """False when there was no room for an event."""
        ref = reference_to(pod, "Pod")
        messages = [f'AttachVolume.Attach failed for volume "{name}" : {text}' for name, text in obstacles]
        return all(self._once.tell(ref, "FailedAttachVolume", message, about=message) for message in messages)
