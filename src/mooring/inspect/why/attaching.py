"""The link between a bound claim and the pod's node. The attacher's own judgement is asked about a VolumeAttachment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.api.binding import claims_of, is_finished
from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Key, is_deleting
from mooring.api.migration import driver_and_handle
from mooring.api.nodes import is_out_of_service, is_ready
from mooring.api.pods import Pod
from mooring.api.storage import VolumeAttachment
from mooring.api.volume_names import attachment_name, unique_name
from mooring.base.units import format_duration
from mooring.cluster.attachdetach.identity import MANAGED, is_managed
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.inspect.scene import Scene, moment_s
from mooring.inspect.why.chain import Command, Link, Mover, State, unseen_link
from mooring.inspect.why.diagnosis import diagnosed, failed_link
from mooring.inspect.why.leaders import silent_link
from mooring.inspect.why.nodes import silent_node_link
from mooring.sidecars.attacher import reasons as why
from mooring.sidecars.attacher.decide import decide_attachment
from mooring.sidecars.attacher.memory import Memory
from mooring.sidecars.attacher.view import View

FORCED_S: Final = 360.0
"""How long kube-controller-manager waits for a silent node before it detaches by force."""
QUIET_S: Final = 60.0
BACK_OFF: Final = "csi-attacher tries again by itself, at most five minutes after the last try"
SHARED: Final = ("ReadWriteMany", "ReadOnlyMany")


class _NoCalls:
    """Nobody outside of the attacher knows which calls are running."""

    in_flight: Mapping[str, str] = {}
    is_full = False


def attach_link(scene: Scene, pod: Pod, claim: Key) -> Link | None:
    """The link of one claim's volume to the pod's node; None where nothing has to be attached, or no volume is known yet."""
    held = scene.claims.get(claim)
    if held is None or not held.spec.volume_name or not pod.spec.node_name:
        return None
    step, node, pv_key = f"attach {claim.name}", pod.spec.node_name, Key("", held.spec.volume_name)
    pv = scene.volumes.get(pv_key)
    if pv is None:
        is_hidden = scene.is_hidden(PERSISTENT_VOLUMES, pv_key)
        return unseen_link(step, f'its volume "{pv_key.name}" could not be seen') if is_hidden else None
    driver, handle = driver_and_handle(pv)
    if not driver or not _needs_attach(scene, driver):
        return None
    attachment = scene.attachments.get(Key("", attachment_name(driver, handle, node)))
    if attachment is not None:
        return attachment_link(scene, step, attachment)
    return _held_elsewhere(scene, step, pod, claim, pv) or _not_asked(scene, step, pod, driver)


def _needs_attach(scene: Scene, driver: str) -> bool:
    """False for a driver whose CSIDriver says so; one without that object is attached."""
    found = scene.drivers.get(Key("", driver))
    return found is None or found.spec.attach_required is not False


def attachment_link(scene: Scene, step: str, attachment: VolumeAttachment) -> Link:
    """The link of one VolumeAttachment."""
    name, status, driver = attachment.metadata.name, attachment.status, attachment.spec.attacher
    node, leaves = attachment.spec.node_name, is_deleting(attachment)
    if status.attached and not leaves:
        return Link(step, State.DONE, f"attached to node {node}")
    error = status.detach_error if leaves else status.attach_error
    if error is not None and error.message:
        told = diagnosed(error.message, driver=driver, namespace="", program="csi-attacher")
        text = f"the driver {driver} fails to {'detach it from' if leaves else 'attach it to'} node {node}"
        look = Command(f"kubectl get volumeattachment {name} -o yaml", "reads only: the attachment with its error")
        return failed_link(step, told, text, moment_s(error.time) or _asked_s(attachment), error.message, BACK_OFF, (look,))
    silent = silent_link(scene, step, "csi-attacher", driver)
    if silent is not None:
        return silent
    view = View(DriverCapabilities(driver, publishes=True), scene.attachments, scene.volumes, scene.csi_nodes, _NoCalls(), Memory())
    decision = decide_attachment(view, name)
    return ADVICE[decision.because.__class__](scene, step, attachment, decision.because)


def _asked_s(attachment: VolumeAttachment) -> float:
    return moment_s(attachment.metadata.deletion_timestamp or attachment.metadata.creation_timestamp)


# -- no attachment yet


def _not_asked(scene: Scene, step: str, pod: Pod, driver: str) -> Link:
    who, node = "the attach/detach controller (kube-controller-manager, or mooring attachdetach)", pod.spec.node_name
    known = scene.nodes.get(Key("", node))
    if known is not None and not is_managed(known):
        text = f"no controller attaches volumes to node {node}: its kubelet has not marked it with {MANAGED}"
        line = f"kubectl annotate node {node} {MANAGED}=true"
        mark = Command(line, "safe, unless its kubelet runs with enableControllerAttachDetach: false and attaches by itself")
        return Link(step, State.FAILED, text, Mover.OPERATOR, f"whoever runs the kubelet of node {node}", commands=(mark,))
    failed = next(iter(scene.events(pod, "FailedAttachVolume")), None)
    return Link(
        step,
        State.WAITING,
        "nobody has asked the attacher yet: there is no VolumeAttachment for this volume and node",
        Mover.CLUSTER,
        who,
        moment_s(pod.status.start_time or pod.metadata.creation_timestamp),
        failed.message if failed is not None else "",
        commands=(Command("kubectl -n kube-system get lease kube-controller-manager", "reads only: whether that controller is alive"),),
    )


def _held_elsewhere(scene: Scene, step: str, pod: Pod, claim: Key, pv: PersistentVolume) -> Link | None:
    """The link of a volume for one node that another node has."""
    if any(mode in SHARED for mode in pv.spec.access_modes or ()):
        return None
    others = [one for one in scene.attachments.values() if one.spec.source.persistent_volume_name == pv.metadata.name]
    other = next((one for one in others if one.spec.node_name != pod.spec.node_name), None)
    if other is None:
        return None
    node = other.spec.node_name
    holders = [one for one in scene.pods.values() if one.spec.node_name == node and claim in claims_of(one)]
    error = next((one.message for one in scene.events(pod, "FailedAttachVolume") if "Multi-Attach" in one.message), "")
    since_s = moment_s(pod.status.start_time or pod.metadata.creation_timestamp)
    if holders:
        return _held_by_pod(scene, step, pod, holders[0], since_s, error)
    return _held_by_node(scene, step, pv, other, since_s, error)


def _held_by_pod(scene: Scene, step: str, pod: Pod, holder: Pod, since_s: float, error: str) -> Link:
    namespace, name, node = holder.metadata.namespace, holder.metadata.name, holder.spec.node_name
    text, is_over = f'the pod "{namespace}/{name}" has it on node {node}', is_finished(holder)
    if _is_silent(scene, node) and not is_over:
        return _dead_node(scene, step, node, text, since_s, error)
    if is_deleting(holder):
        return Link(step, State.WAITING, f"{text}, and is being deleted", Mover.CLUSTER, f"the kubelet of node {node}", since_s, error)
    if is_over:
        text += ", though it has ended"
    elif _controller_kind(pod) == _controller_kind(holder) == "ReplicaSet":
        text += ": a rolling update waits for the new pod, and this volume can only be on one node (use the strategy Recreate)"
    effect = "safe: that pod has ended" if is_over else "ends that pod; whatever made it may make it anew, on the node of the volume"
    end = Command(f"kubectl -n {namespace} delete pod {name}", effect, safe=is_over)
    return Link(step, State.FAILED, text, Mover.USER, f'the owner of the pod "{namespace}/{name}"', since_s, error, commands=(end,))


def _is_silent(scene: Scene, node: str) -> bool:
    known = scene.nodes.get(Key("", node))
    return known is not None and not is_ready(known)


def _controller_kind(pod: Pod) -> str:
    return next((one.kind for one in pod.metadata.owner_references or () if one.controller), "")


def _held_by_node(scene: Scene, step: str, pv: PersistentVolume, other: VolumeAttachment, since_s: float, error: str) -> Link:
    node, (driver, handle) = other.spec.node_name, driver_and_handle(pv)
    known, controller = scene.nodes.get(Key("", node)), "the attach/detach controller"
    if is_deleting(other):
        link = attachment_link(scene, step, other)
        text = f"it is being detached from node {node} first"
        is_failed = link.state is State.FAILED
        return link if is_failed else Link(step, State.WAITING, text, Mover.CLUSTER, f"csi-attacher of {driver}", _asked_s(other), error)
    if known is None:
        text = f"it is attached to node {node}, which does not exist any more: the detach begins once the controller has noticed"
        return Link(step, State.WAITING, text, Mover.CLUSTER, controller, since_s, error)
    if not is_ready(known):
        return _dead_node(scene, step, node, f"node {node} has it", since_s, error)
    is_mounted = unique_name(driver, handle) in (known.status.volumes_in_use or ())
    text = f"node {node} has it, no pod there wants it, and " + ("the kubelet still has it mounted" if is_mounted else "its detach is due")
    return Link(step, State.WAITING, text, Mover.CLUSTER, f"the kubelet of node {node}" if is_mounted else controller, since_s, error)


def _dead_node(scene: Scene, step: str, node: str, held: str, since_s: float, error: str) -> Link:
    if is_out_of_service(scene.nodes.get(Key("", node))):
        text = f"{held}; the node is tainted out-of-service, so the volume is detached now"
        return Link(step, State.WAITING, text, Mover.CLUSTER, "the attach/detach controller", since_s, error)
    retry = f"kube-controller-manager detaches by force {format_duration(FORCED_S)} after the pod's deletion, unless that is off"
    return silent_node_link(scene, step, node, f"{held}, and the node does not report any more", since_s, error, retry)


# -- advice for each reason of the attacher


def _done(scene: Scene, step: str, attachment: VolumeAttachment, because: Any) -> Link:
    return Link(step, State.DONE, str(because))


def _goes_on(scene: Scene, step: str, attachment: VolumeAttachment, because: Any) -> Link:
    return Link(step, State.WAITING, str(because), Mover.CLUSTER, f"csi-attacher of {attachment.spec.attacher}", _asked_s(attachment))


def _driver_works(scene: Scene, step: str, attachment: VolumeAttachment, because: Any) -> Link:
    asked_s, driver = _asked_s(attachment), attachment.spec.attacher
    if scene.now_s - asked_s < QUIET_S:
        return _goes_on(scene, step, attachment, because)
    text = f"{because}; nothing was heard of it for {format_duration(float(round(scene.now_s - asked_s)))}"
    look = Command("kubectl get pods -A | grep -i csi", f"reads only: finds the pods of {driver}, for kubectl logs")
    return Link(step, State.WAITING, text, Mover.DRIVER, f"the driver {driver}, or its attacher", asked_s, commands=(look,))


def _not_on_node(scene: Scene, step: str, attachment: VolumeAttachment, because: Any) -> Link:
    driver, node = attachment.spec.attacher, attachment.spec.node_name
    who, retry = f"whoever runs the driver {driver} on the nodes", "goes on by itself when the driver registers there"
    look = (
        Command(f"kubectl get csinode {node} -o yaml", "reads only: the drivers that are registered on the node"),
        Command(f"kubectl get pods -A --field-selector spec.nodeName={node}", "reads only: does the driver's node plugin run there?"),
    )
    return Link(step, State.FAILED, str(because), Mover.OPERATOR, who, _asked_s(attachment), retry=retry, commands=look)


def _wrong_object(scene: Scene, step: str, attachment: VolumeAttachment, because: Any) -> Link:
    return Link(
        step,
        State.FAILED,
        str(because),
        Mover.OPERATOR,
        "whoever made the VolumeAttachment, or deletes its volume",
        _asked_s(attachment),
        commands=(Command(f"kubectl get volumeattachment {attachment.metadata.name} -o yaml", "reads only: the attachment"),),
    )


Advice = Callable[[Scene, str, VolumeAttachment, Any], Link]

ADVICE: Final[Mapping[type, Advice]] = {
    why.Gone: _done,
    why.Attached: _done,
    why.AttachedWithoutCall: _done,
    why.Detached: _goes_on,
    why.ReleasedWithoutCall: _goes_on,
    why.Holding: _driver_works,
    why.Attaching: _driver_works,
    why.Detaching: _driver_works,
    why.TakingBack: _driver_works,
    why.CallInFlight: _driver_works,
    why.NoFreeCall: _driver_works,
    why.ReadingSecret: _driver_works,
    why.SharingSecret: _driver_works,
    why.HeldByAnother: _goes_on,
    why.HeldElsewhere: _wrong_object,
    why.Foreign: _wrong_object,
    why.VolumeMissing: _wrong_object,
    why.VolumeDeleting: _wrong_object,
    why.BadSpec: _wrong_object,
    why.NodeNotRegistered: _not_on_node,
    why.DriverNotOnNode: _not_on_node,
}
"""One for each reason that the attacher has for an attachment; a test of the house asks for all."""
