"""The link between a pod's bound claim and its node. The attach/detach controller's own judgement is asked; its reason
gets advice here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.core import NODES, PERSISTENT_VOLUMES
from mooring.api.meta import Key, is_deleting
from mooring.api.nodes import is_out_of_service
from mooring.api.pods import Pod
from mooring.base.clock import seconds_of
from mooring.cluster.attachdetach import reasons as why
from mooring.cluster.attachdetach.decision import NoteBlock
from mooring.cluster.attachdetach.facts import Place, Volume
from mooring.cluster.attachdetach.identity import MANAGED, Identity, identity_of, is_managed
from mooring.cluster.attachdetach.unresolved import obstacles_of
from mooring.inspect.scene import Scene
from mooring.inspect.why.attaching import asked_s, attachment_link
from mooring.inspect.why.chain import Command, Link, Mover, State, unseen_link
from mooring.inspect.why.judged import Judged, judged
from mooring.inspect.why.nodes import CONTROLLER, silent_node_link


class Case(msgspec.Struct, frozen=True):
    """One volume that a pod waits for, judged on the pod's node. since_s: when the pod came there."""

    scene: Scene
    step: str
    pod: Pod
    judged: Judged
    error: str
    since_s: float

    @property
    def node(self) -> str:
        return self.pod.spec.node_name

    @property
    def volume(self) -> Volume:
        return self.judged.volume

    def waits(self, text: str, who: str, *commands: Command, mover: Mover = Mover.CLUSTER) -> Link:
        return Link(self.step, State.WAITING, text, mover, who, self.since_s, self.error, commands=commands)

    def failed(self, text: str, mover: Mover, who: str, *commands: Command) -> Link:
        return Link(self.step, State.FAILED, text, mover, who, self.since_s, self.error, commands=commands)


def attach_link(scene: Scene, pod: Pod, claim: Key) -> Link | None:
    """None where nothing has to be attached, or no volume is known yet."""
    held = scene.claims.get(claim)
    if held is None or not held.spec.volume_name or not pod.spec.node_name:
        return None
    step, pv_key = f"attach {claim.name}", Key("", held.spec.volume_name)
    pv = scene.volumes.get(pv_key)
    if pv is None:
        is_hidden = scene.is_hidden(PERSISTENT_VOLUMES, pv_key)
        return unseen_link(step, f'its volume "{pv_key.name}" could not be seen') if is_hidden else None
    identity = identity_of(pv)
    if identity is None or not _needs_attach(scene, identity.driver):
        return None
    case = _case(scene, step, pod, identity)
    because = case.judged.decision.because
    return ADVICE[because.__class__](case, because)


def _needs_attach(scene: Scene, driver: str) -> bool:
    """False for a driver whose CSIDriver says so; one without that object is attached."""
    found = scene.drivers.get(Key("", driver))
    return found is None or found.spec.attach_required is not False


def _case(scene: Scene, step: str, pod: Pod, identity: Identity) -> Case:
    found = judged(scene, identity.unique, pod.spec.node_name)
    failed = next(iter(scene.events(pod, "FailedAttachVolume")), None)
    error, since_s = (
        failed.message if failed is not None else "",
        seconds_of(pod.status.start_time or pod.metadata.creation_timestamp),
    )
    return Case(scene, step, pod, found, error, since_s)


# -- nobody is in the way


def _not_asked(case: Case, because: Any) -> Link:
    look = Command(
        "kubectl -n kube-system get lease kube-controller-manager", "reads only: whether that controller is alive"
    )
    text = "nobody has asked the attacher yet: there is no VolumeAttachment for this volume and node"
    return case.waits(text, CONTROLLER, look)


def _not_wanted(case: Case, because: Any) -> Link:
    """The controller does not see that the pod wants it."""
    node = case.scene.nodes.get(Key("", case.node))
    if node is not None and not is_managed(node):
        text = f"no controller attaches volumes to node {case.node}: its kubelet has not marked it with {MANAGED}"
        line = f"kubectl annotate node {case.node} {MANAGED}=true"
        mark = Command(
            line, "safe, unless its kubelet runs with enableControllerAttachDetach: false and attaches by itself"
        )
        return case.failed(text, Mover.OPERATOR, f"whoever runs the kubelet of node {case.node}", mark)
    if node is None and not case.scene.is_hidden(NODES, Key("", case.node)):
        return case.waits(
            f"its node {case.node} does not exist any more: the pod's object goes", "the pod garbage collector"
        )
    found = [text for _, text in obstacles_of(case.judged.view, case.pod)]
    if found:
        look = Command(
            f"kubectl -n {case.pod.metadata.namespace} get pvc,pv", "reads only: which claim has which volume"
        )
        return case.failed(str(why.LeadsNowhere("; ".join(found))), Mover.USER, "the owner of the claim", look)
    return _not_asked(case, because)


# -- it has an attachment


def _of_attacher(case: Case, because: Any) -> Link:
    """The link of the attachment: from here on it is the attacher's to say."""
    attachment = case.volume.place.attachment
    assert attachment is not None
    return attachment_link(case.scene, case.step, attachment)


def _detaching_first(case: Case, because: why.DetachingFirst) -> Link:
    link = _of_attacher(case, because)
    return link if link.state is State.FAILED else msgspec.structs.replace(link, text=str(because))


def _mismatch(case: Case, because: why.Mismatch) -> Link:
    look = Command(
        f"kubectl get volumeattachment {because.name} -o yaml", "reads only: what it is about, and who made it"
    )
    return case.failed(str(because), Mover.OPERATOR, "whoever made that VolumeAttachment", look)


# -- another node has it


def _blocked(case: Case, because: why.Blocked) -> Link:
    rivals = case.volume.rivals
    holder = next((place for place in rivals if place.is_held), rivals[0])
    (kind,) = (action.kind for action in case.judged.decision.actions if isinstance(action, NoteBlock))
    return HOLDERS[kind](case, because, holder)


def _by_pod(case: Case, because: why.Blocked, holder: Place) -> Link:
    near = [wish for wish in holder.wishes if wish.ref.namespace == case.pod.metadata.namespace]
    if not near:
        return case.failed(because.text, Mover.USER, "the owner of that pod")
    name, namespace = near[0].ref.name, near[0].ref.namespace
    end = Command(
        f"kubectl -n {namespace} delete pod {name}",
        "ends that pod; whatever made it may make it anew, on the node of the volume",
        safe=False,
    )
    text = f'the pod "{namespace}/{name}" has it on node {holder.node.name}'
    return case.failed(text, Mover.USER, f'the owner of the pod "{namespace}/{name}"', end)


def _by_update(case: Case, because: why.Blocked, holder: Place) -> Link:
    namespace, name = case.pod.metadata.namespace, holder.wishes[0].workload.removeprefix("Deployment ")
    patch = '{"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}}'
    recreate = Command(
        f"kubectl -n {namespace} patch deployment {name} -p '{patch}'",
        "ends the old pod before the new one begins, now and at each later update",
        safe=False,
    )
    return case.failed(because.text, Mover.USER, f'the owner of the Deployment "{namespace}/{name}"', recreate)


def _by_ending_pod(case: Case, because: why.Blocked, holder: Place) -> Link:
    if not holder.node.is_healthy:
        return _by_dead_node(case, because, holder)
    return case.waits(because.text, f"the kubelet of node {holder.node.name}")


def _by_finished_pod(case: Case, because: why.Blocked, holder: Place) -> Link:
    near = [ref for ref in holder.finished if ref.namespace == case.pod.metadata.namespace]
    end = Command(f"kubectl -n {near[0].namespace} delete pod {near[0].name}", "safe: that pod has ended")
    return case.waits(because.text, f"the kubelet of node {holder.node.name}", end)


def _by_unresolved(case: Case, because: why.Blocked, holder: Place) -> Link:
    look = Command(
        f"kubectl get pods -A --field-selector spec.nodeName={holder.node.name}", "reads only: the pods of that node"
    )
    return case.failed(because.text, Mover.USER, "the owner of that pod", look)


def _by_detach(case: Case, because: why.Blocked, holder: Place) -> Link:
    """The attacher says what its detach waits for."""
    attachment = holder.attachment
    if attachment is None or not is_deleting(attachment):
        return case.waits(because.text, CONTROLLER)
    link = attachment_link(case.scene, case.step, attachment)
    if link.state is State.FAILED:
        return link
    text = f"it is being detached from node {holder.node.name} first"
    return msgspec.structs.replace(link, text=text, since_s=asked_s(attachment), error=case.error)


def _by_finalizers(case: Case, because: why.Blocked, holder: Place) -> Link:
    assert holder.attachment is not None
    name = holder.attachment.metadata.name
    look = Command(f"mooring why volumeattachment/{name}", "reads only: what each of its finalizers waits for")
    return case.failed(because.text, Mover.OPERATOR, "whoever set those finalizers", look)


def _by_foreign(case: Case, because: why.Blocked, holder: Place) -> Link:
    name = holder.foreign[0]
    look = Command(f"kubectl get volumeattachment {name} -o yaml", "reads only: who made it, and when")
    end = Command(f"kubectl delete volumeattachment {name}", "detaches the volume, whoever uses it there", safe=False)
    return case.failed(because.text, Mover.OPERATOR, "whoever made that VolumeAttachment", look, end)


def _by_mount(case: Case, because: why.Blocked, holder: Place) -> Link:
    return case.waits(because.text, f"the kubelet of node {holder.node.name}")


def _by_dead_node(case: Case, because: why.Blocked, holder: Place) -> Link:
    """The link where a dead node has the volume: for a pod, or mounted for no pod any more."""
    node = holder.node.name
    if is_out_of_service(case.scene.nodes.get(Key("", node))):
        text = f"node {node} has it; the node is tainted out-of-service, so the volume is detached now"
        return case.waits(text, "the attach/detach controller")
    if not holder.node.is_there:
        return case.waits(because.text, "the attach/detach controller")
    text = f"{_held_by(case, holder)}, and the node does not report any more"
    return silent_node_link(case.scene, case.step, node, text, case.since_s, case.error, case.judged.forced(holder))


def _held_by(case: Case, holder: Place) -> str:
    near = [wish.ref for wish in holder.wishes if wish.ref.namespace == case.pod.metadata.namespace]
    return (
        f'the pod "{near[0].namespace}/{near[0].name}" has it on node {holder.node.name}'
        if near
        else f"node {holder.node.name} has it"
    )


HOLDERS: Final[Mapping[str, Callable[[Case, why.Blocked, Place], Link]]] = {
    "pod": _by_pod,
    "rolling_update": _by_update,
    "pod_deleting": _by_ending_pod,
    "pod_on_dead_node": _by_dead_node,
    "pod_unresolved": _by_unresolved,
    "pod_finished": _by_finished_pod,
    "mounted": _by_mount,
    "dead_node": _by_dead_node,
    "detaching": _by_detach,
    "detach_failed": _by_detach,
    "finalizers": _by_finalizers,
    "foreign": _by_foreign,
    "unanswered": _by_mount,
}
"""One for each kind of holder that the controller knows; a test of the house asks for all."""

ADVICE: Final[Mapping[type, Callable[[Case, Any], Link]]] = {
    why.Nothing: _not_wanted,
    why.MayBeWanted: _not_wanted,
    why.Mounted: _not_wanted,
    why.Unheard: _not_wanted,
    why.ForcedLater: _not_wanted,
    why.NeverForced: _not_wanted,
    why.AsksClass: _not_wanted,
    why.Unreporting: _not_wanted,
    why.WaitBegins: _not_wanted,
    why.WaitEnds: _of_attacher,
    why.Checking: _not_wanted,
    why.Released: _not_wanted,
    why.Forced: _not_wanted,
    why.Detaching: _not_wanted,
    why.Foreign: _not_wanted,
    why.Wanted: _not_asked,
    why.CreateUnknown: _not_asked,
    why.Attached: _of_attacher,
    why.Attaching: _of_attacher,
    why.AttachFailed: _of_attacher,
    why.Fencing: _of_attacher,
    why.DetachingFirst: _detaching_first,
    why.Mismatch: _mismatch,
    why.Blocked: _blocked,
}
"""One for each reason that the attach/detach controller has for a volume on a node; a test of the house asks for
all.
"""
