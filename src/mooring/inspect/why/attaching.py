"""The link of one VolumeAttachment. The attacher's own judgement is asked; its reason gets advice here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.api.meta import is_deleting
from mooring.api.storage import VolumeAttachment
from mooring.base.clock import seconds_of
from mooring.base.units import format_duration
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.inspect.scene import Scene
from mooring.inspect.why.chain import Command, Link, Mover, State
from mooring.inspect.why.diagnosis import diagnosed, failed_link
from mooring.inspect.why.leaders import silent_link
from mooring.inspect.why.logs import log_command, log_outside_pods
from mooring.sidecars.attacher import reasons as why
from mooring.sidecars.attacher.decide import decide_attachment
from mooring.sidecars.attacher.memory import Memory
from mooring.sidecars.attacher.view import View

QUIET_S: Final = 60.0
BACK_OFF: Final = "csi-attacher tries again by itself, at most five minutes after the last try"


class _NoCalls:
    """Nobody outside of the attacher knows which calls are running."""

    in_flight: Mapping[str, str] = {}
    is_full = False


def attachment_link(scene: Scene, step: str, attachment: VolumeAttachment) -> Link:
    """The link of one VolumeAttachment."""
    name, status, driver = attachment.metadata.name, attachment.status, attachment.spec.attacher
    node, leaves = attachment.spec.node_name, is_deleting(attachment)
    if status.attached and not leaves:
        return Link(step, State.DONE, f"attached to node {node}")
    error = status.detach_error if leaves else status.attach_error
    if error is not None and error.message:
        told = diagnosed(error.message, driver=driver, namespace="", program="csi-attacher", scene=scene)
        text = f"the driver {driver} fails to {'detach it from' if leaves else 'attach it to'} node {node}"
        look = Command(f"kubectl get volumeattachment {name} -o yaml", "reads only: the attachment with its error")
        return failed_link(
            step, told, text, seconds_of(error.time) or asked_s(attachment), error.message, BACK_OFF, (look,)
        )
    silent = silent_link(scene, step, "csi-attacher", driver)
    if silent is not None:
        return silent
    view = View(
        DriverCapabilities(driver, publishes=True),
        scene.attachments,
        scene.volumes,
        scene.csi_nodes,
        _NoCalls(),
        Memory(),
    )
    decision = decide_attachment(view, name)
    return ADVICE[decision.because.__class__](scene, step, attachment, decision.because)


def asked_s(attachment: VolumeAttachment) -> float:
    return seconds_of(attachment.metadata.deletion_timestamp or attachment.metadata.creation_timestamp)


# -- advice for each reason of the attacher


def _done(scene: Scene, step: str, attachment: VolumeAttachment, because: Any) -> Link:
    return Link(step, State.DONE, str(because))


def _goes_on(scene: Scene, step: str, attachment: VolumeAttachment, because: Any) -> Link:
    return Link(
        step,
        State.WAITING,
        str(because),
        Mover.CLUSTER,
        f"csi-attacher of {attachment.spec.attacher}",
        asked_s(attachment),
    )


def _driver_works(scene: Scene, step: str, attachment: VolumeAttachment, because: Any) -> Link:
    since_s, driver = asked_s(attachment), attachment.spec.attacher
    if scene.now_s - since_s < QUIET_S:
        return _goes_on(scene, step, attachment, because)
    text = f"{because}; nothing was heard of it for {format_duration(float(round(scene.now_s - since_s)))}"
    look = log_command(scene, "csi-attacher", driver)
    return Link(
        step, State.WAITING, text, Mover.DRIVER, f"csi-attacher of {driver}, or that driver", since_s, commands=(look,)
    )


def _not_on_node(scene: Scene, step: str, attachment: VolumeAttachment, because: Any) -> Link:
    driver, node = attachment.spec.attacher, attachment.spec.node_name
    who, retry = f"whoever runs the driver {driver} on the nodes", "goes on by itself when the driver registers there"
    pods = Command(
        f"kubectl get pods -A --field-selector spec.nodeName={node}",
        "reads only: does the driver's node plugin run there?",
    )
    look = (
        Command(f"kubectl get csinode {node} -o yaml", "reads only: the drivers that are registered on the node"),
        log_outside_pods(scene) or pods,
    )
    return Link(step, State.FAILED, str(because), Mover.OPERATOR, who, asked_s(attachment), retry=retry, commands=look)


def _wrong_object(scene: Scene, step: str, attachment: VolumeAttachment, because: Any) -> Link:
    return Link(
        step,
        State.FAILED,
        str(because),
        Mover.OPERATOR,
        "whoever made the VolumeAttachment, or deletes its volume",
        asked_s(attachment),
        commands=(
            Command(f"kubectl get volumeattachment {attachment.metadata.name} -o yaml", "reads only: the attachment"),
        ),
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
