"""Pods on a node with volumes that nobody can attach there: which ones, and why. They hear of it; upstream says nothing
of most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.binding import claim_name_of, owns
from mooring.api.core import PersistentVolumeClaim, PersistentVolumeSpec, reference_to
from mooring.api.inline_volumes import inline_volumes_of
from mooring.api.meta import Key
from mooring.api.pods import Pod, Volume
from mooring.api.volume_names import name_of_node_attached
from mooring.base.clock import Clock, Instant
from mooring.cluster.attachdetach import reasons as why
from mooring.cluster.attachdetach.identity import BOUND, pod_wants_volumes
from mooring.cluster.attachdetach.multi_attach import EXCLUSIVE, MULTI_ATTACH, REMIND_S
from mooring.cluster.attachdetach.node_attached import holders_of
from mooring.cluster.attachdetach.view import View
from mooring.control.events import SLACK_S, EventOnce
from mooring.control.result import Result

TELL_AFTER_S: Final = 10.0
"""How long a claim leads nowhere before its pod is told: objects made at one moment arrive in any order."""


def obstacles_of(view: View, pod: Pod) -> Iterator[tuple[str, str]]:
    """The volumes that the pod waits for in vain on its node, by name, each with the reason. Pure."""
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
        if problem:
            return f"failed to translate in-tree pv to CSI: {problem}"
        return _obstacle_of_source(view, pod, volume, volume.name)
    claim = view.claims.get(Key(namespace, name))
    if claim is None:
        return f'PersistentVolumeClaim "{name}" does not exist'
    if volume.ephemeral is not None and not owns(pod, claim):
        return f"PVC {namespace}/{name} was not created for pod {namespace}/{pod.metadata.name} (pod is not owner)"
    if claim.status.phase != BOUND or not claim.spec.volume_name:
        return f'PersistentVolumeClaim "{name}" is not bound'
    return _obstacle_of_claim(view, pod, claim)


def _obstacle_of_claim(view: View, pod: Pod, claim: PersistentVolumeClaim) -> str:
    """claim: a bound one."""
    found, named = claim.spec.volume_name, f'of PersistentVolumeClaim "{claim.metadata.name}"'
    pv = view.volumes.get(Key("", found))
    if pv is None:
        return f'PersistentVolume "{found}" {named} does not exist'
    if pv.spec.claim_ref is None or pv.spec.claim_ref.uid != claim.metadata.uid:
        return f'PersistentVolume "{found}" {named} is not reserved for it'
    return _obstacle_of_source(view, pod, pv.spec, found)


def _obstacle_of_source(view: View, pod: Pod, source: PersistentVolumeSpec | Volume, name: str) -> str:
    """Why a volume that exists can't be attached, "" for no obstacle. Where a FlexVolume's driver wants an attach call,
    the kubelet has the volume in use, and waits for the report.
    """
    flex, node = source.flex_volume, view.node(pod.spec.node_name)
    listed = {one.name for one in (node.status.volumes_attached if node else None) or ()}
    in_use = set((node.status.volumes_in_use if node else None) or ())
    if flex is not None and any(one.startswith(f"{flex.driver}/") for one in in_use - listed):
        return (
            f'FlexVolume driver "{flex.driver}" wants an attach call, and none is made: use the storage\'s CSI driver'
        )
    unique = name_of_node_attached(source)
    if unique and unique not in listed and holders_of(view, unique, besides=pod.spec.node_name):
        return f'{MULTI_ATTACH} "{name}" {EXCLUSIVE}'
    return ""


class Unresolved:
    """Tells pods, once for each reason and again after a while; a pod that misses nothing any more is forgotten."""

    def __init__(self, view: View, once: EventOnce, clock: Clock) -> None:
        self._view, self._once, self._clock = view, once, clock
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
        self._tell(pod, obstacles)
        return Result(because, after_s=REMIND_S + SLACK_S)

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

    def _tell(self, pod: Pod, obstacles: list[tuple[str, str]]) -> None:
        ref = reference_to(pod, "Pod")
        for name, text in obstacles:
            is_whole = text.startswith(MULTI_ATTACH)
            message = text if is_whole else f'AttachVolume.Attach failed for volume "{name}" : {text}'
            self._once.tell(ref, "FailedAttachVolume", message, about=message)
