"""The link of a volume that is attached to a node: who has it there, and when its next move comes. For one that nobody
wants there the attach/detach controller's own judgement is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from mooring.api.core import Node
from mooring.api.meta import Key, is_deleting
from mooring.api.nodes import is_out_of_service
from mooring.api.pods import Pod
from mooring.api.storage import VolumeAttachment
from mooring.cluster.attachdetach import reasons as why
from mooring.cluster.attachdetach.facts import Place
from mooring.cluster.attachdetach.identity import identity_of
from mooring.cluster.nodehealth.eviction.decide import Evict, decide_eviction
from mooring.cluster.nodehealth.view import no_execute_taints
from mooring.inspect.render import counted
from mooring.inspect.scene import Scene
from mooring.inspect.why.attaching import attachment_link
from mooring.inspect.why.chain import Link, Mover, State
from mooring.inspect.why.judged import Judged, in_time, judged
from mooring.inspect.why.nodes import CONTROLLER, silent_since_s

EVICTION: Final = "taint eviction (kube-controller-manager, or mooring controller)"


def held_link(scene: Scene, attachment: VolumeAttachment) -> Link:
    """The link of an attachment to a node that is there."""
    node, pv = (
        attachment.spec.node_name,
        scene.volumes.get(Key("", attachment.spec.source.persistent_volume_name or "")),
    )
    link = attachment_link(
        scene, f"volume {attachment.spec.source.persistent_volume_name or attachment.metadata.name}", attachment
    )
    identity = identity_of(pv) if pv is not None else None
    if identity is None or is_deleting(attachment) or not attachment.status.attached:
        return link
    found = judged(scene, identity.unique, node)
    place = found.volume.place
    if place.attachment is not attachment:
        return link
    if place.wishes:
        return _used_link(scene, link, found, place)
    because = found.decision.because
    unused = _Unused(link.name, str(because), found, place, silent_since_s(scene, node))
    return UNUSED.get(because.__class__, _by_controller)(unused)


class _Unused(msgspec.Struct, frozen=True):
    """A volume that no pod surely wants on its node. text: the controller's."""

    name: str
    text: str
    judged: Judged
    place: Place
    since_s: float

    def waits(self, text: str, who: str, retry: str = "") -> Link:
        return Link(self.name, State.WAITING, text, Mover.CLUSTER, who, self.since_s, retry=retry)


def _by_controller(case: _Unused) -> Link:
    return case.waits(case.text, CONTROLLER)


def _by_kubelet(case: _Unused) -> Link:
    return case.waits(case.text, f"the kubelet of node {case.place.node.name}")


def _by_force(case: _Unused) -> Link:
    """The controller's own text has the seconds as if they began now."""
    forced = case.judged.forced(case.place)
    text = f"no pod wants it; the node has it mounted, and does not report: it is detached {forced}"
    return case.waits(text, CONTROLLER, forced)


UNUSED: Final[Mapping[type, Callable[[_Unused], Link]]] = {
    why.MayBeWanted: _by_kubelet,
    why.Mounted: _by_kubelet,
    why.Unheard: _by_kubelet,
    why.ForcedLater: _by_force,
    why.NeverForced: _by_force,
}
"""The links for reasons whose end is not the attach/detach controller's next step."""


def _used_link(scene: Scene, link: Link, found: Judged, place: Place) -> Link:
    """A pod wants it there. On a node that does not report the pod has to go first."""
    refs = [wish.ref for wish in place.wishes]
    more = f", and {counted(len(refs) - 1, 'other')}" if len(refs) > 1 else ""
    text, node = (
        f'attached; the pod "{refs[0].namespace}/{refs[0].name}" has it{more}',
        scene.nodes.get(Key("", place.node.name)),
    )
    if place.node.is_healthy:
        return Link(link.name, State.DONE, text)
    pods = [pod for ref in refs if (pod := scene.pods.get(Key(ref.namespace, ref.name))) is not None]
    moves = [_eviction(scene, pod, node) for pod in pods]
    goes, who = max(moves, default=(math.inf, "", CONTROLLER))[1:]
    after = "then it is detached at once" if is_out_of_service(node) else f"then it is detached {found.forced(place)}"
    return Link(
        link.name,
        State.WAITING,
        f"{text}; {goes}; {after}",
        Mover.CLUSTER,
        who,
        silent_since_s(scene, place.node.name),
        retry=goes,
    )


def _eviction(scene: Scene, pod: Pod, node: Node | None) -> tuple[float, str, str]:
    """In how many seconds the pod leaves a node that does not report; that as text; and whose move it is."""
    if is_out_of_service(node):
        return 0.0, "the node is tainted out-of-service: the pod is deleted now", "pod collection"
    if is_deleting(pod):
        text = "the pod is being deleted, which only its node can confirm"
        return math.inf, text, f"the kubelet of node {pod.spec.node_name}, or whoever fences it"
    taints = no_execute_taints(node)
    decision = decide_eviction(pod, node, None, scene.now_s, scene.now_s)
    if any(isinstance(one, Evict) for one in decision.actions):
        return 0.0, "the pod is evicted now", EVICTION
    if decision.after_s is not None:
        return decision.after_s, f"the pod is evicted {in_time(decision.after_s)}", EVICTION
    if taints:
        return math.inf, "the pod tolerates that for ever: it stays until somebody deletes it", "the owner of the pod"
    return (
        math.inf,
        "the node has no taint yet by which the pod would leave",
        "node lifecycle (kube-controller-manager)",
    )
