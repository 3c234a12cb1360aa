"""The links of a volume that changes: its growth, and the change of its class. The resizer's own judgement is asked for
both.

A failure counts only while the claim is in the state in which it happened: a step that has begun since is newer than
its Event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.binding import amount, request_of
from mooring.api.classes import class_of
from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.api.migration import driver_and_handle
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES
from mooring.base.clock import seconds_of
from mooring.cluster.binder.view import BY_CLAIM
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.inspect.scene import Scene
from mooring.inspect.why.chain import Command, Link, Mover, State, unseen_link
from mooring.inspect.why.diagnosis import diagnosed, failed_link
from mooring.inspect.why.leaders import silent_link
from mooring.sidecars.resizer import decision as both
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.conditions import condition_of
from mooring.sidecars.resizer.expansion import decide as growing
from mooring.sidecars.resizer.expansion.decide import decide_expansion
from mooring.sidecars.resizer.modification import decide as modifying
from mooring.sidecars.resizer.modification.decide import decide_modification
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.sidecars.resizer.view import Memory, View

RESIZER: Final = "csi-resizer"
_NODES_STEPS: Final[Mapping[str, str]] = {
    names.NODE_IN_PROGRESS: "the node is growing the file system",
    names.NODE_INFEASIBLE: "the node can't grow the file system",
}


class _NoCalls:
    """Nobody outside of the resizer knows which calls are running."""

    in_flight: Mapping[str, str] = {}


class _Pods(msgspec.Struct, frozen=True):
    """The pods that were read."""

    scene: Scene
    wanted_at: float | None = None

    def users_of(self, claim: Key) -> tuple[str, ...]:
        return tuple(pod.metadata.name for pod in self.scene.pods.by(BY_CLAIM, str(claim)))

    def want(self) -> None:
        """Do nothing: the pods are read before."""


def _view(scene: Scene, claim: PersistentVolumeClaim) -> View:
    """The view of the resizer of the claim's driver. No object says whether that grows volumes without their nodes."""
    driver = DriverCapabilities(_driver(scene, claim) or "no CSI driver", expands=True, modifies=True)
    return View(
        driver, ResizerOptions(), scene.claims, scene.volumes, scene.attributes_classes,
        _Pods(scene), _NoCalls(), Memory(),
    )  # fmt: skip


def growth_link(scene: Scene, claim: PersistentVolumeClaim) -> Link | None:
    """The link of a claim that asks for more than it has; None where it doesn't."""
    size = (claim.status.capacity or {}).get("storage", "")
    if claim.status.phase != "Bound" or request_of(claim) <= amount(size):
        return None
    step, class_name = f"growth {claim.metadata.name}", class_of(claim)
    storage_class = scene.classes.get(Key("", class_name))
    if storage_class is not None and not storage_class.allow_volume_expansion:
        text = f'its StorageClass "{class_name}" does not allow growth'
        line = f"kubectl patch storageclass {class_name} -p '{{\"allowVolumeExpansion\": true}}'"
        allow = Command(line, "safe, if the driver can grow volumes")
        return Link(step, State.FAILED, text, Mover.OPERATOR, "whoever keeps the class", commands=(allow,))
    because = decide_expansion(_view(scene, claim), key_of(claim), scene.now_s).because
    return GROWTH[because.__class__](scene, step, claim, because)


def modification_link(scene: Scene, claim: PersistentVolumeClaim) -> Link | None:
    """The link of a claim that wants another VolumeAttributesClass; None where it doesn't."""
    status, wanted = claim.status, claim.spec.volume_attributes_class_name or ""
    is_settled = status.modify_volume_status is None and wanted in ("", status.current_volume_attributes_class_name)
    if status.phase != "Bound" or is_settled:
        return None
    because = decide_modification(_view(scene, claim), key_of(claim), scene.now_s).because
    return MODIFICATION[because.__class__](scene, f"class {claim.metadata.name}", claim, because)


def _driver(scene: Scene, claim: PersistentVolumeClaim) -> str:
    pv = scene.volumes.get(Key("", claim.spec.volume_name))
    return driver_and_handle(pv)[0] if pv is not None else ""


# -- failures, as the claim or its Events tell them


class _Failure(msgspec.Struct, frozen=True):
    error: str
    since_s: float


def _told(claim: PersistentVolumeClaim, *conditions: str) -> _Failure | None:
    """The failure by the first of these conditions that holds."""
    found = (condition_of(claim, one) for one in conditions)
    return next(
        (_Failure(one.message, seconds_of(one.last_transition_time)) for one in found if one and one.status == "True"),
        None,
    )


def _since_s(claim: PersistentVolumeClaim, condition: str) -> float:
    """Since when the claim is in this state; 0 where nothing says."""
    found = condition_of(claim, condition)
    return seconds_of(found.last_transition_time) if found is not None and found.status == "True" else 0.0


def _of_controller(scene: Scene, claim: PersistentVolumeClaim) -> _Failure | None:
    """The failure by a condition, which goes with a success; else by an Event of the growth that is under way."""
    told = _told(claim, names.CONTROLLER_ERROR)
    begun_s = _since_s(claim, names.RESIZING)
    events = (one for one in scene.events(claim, names.RESIZE_FAILED) if one.last_s >= begun_s)
    return told or next((_Failure(one.message, one.first_s) for one in events), None)


def _of_node(scene: Scene, claim: PersistentVolumeClaim) -> _Failure | None:
    """The node's failure. The kubelet's Events are about the pod. One about the claim is of the controller's step,
    unless it is newer than the node's.
    """
    told, begun_s = _told(claim, names.NODE_ERROR), _since_s(claim, names.FS_PENDING)
    reasons = ("FileSystemResizeFailed", names.RESIZE_FAILED)
    events = [one for pod in scene.pods.by(BY_CLAIM, str(key_of(claim))) for one in scene.events(pod, *reasons)]
    events += [one for one in scene.events(claim, *reasons) if begun_s and one.last_s > begun_s]
    newest = max(events, key=lambda one: one.last_s, default=None)
    return told or (_Failure(newest.message, newest.first_s) if newest is not None else None)


def _failed(
    scene: Scene, step: str, claim: PersistentVolumeClaim, text: str, program: str, failure: _Failure, *also: Command
) -> Link:
    told = diagnosed(
        failure.error, driver=_driver(scene, claim), namespace=claim.metadata.namespace, program=program, scene=scene
    )
    return failed_link(step, told, text, failure.since_s, failure.error, f"{program} tries again by itself", also)


def _smaller(claim: PersistentVolumeClaim) -> Command:
    key, size = key_of(claim), (claim.status.capacity or {}).get("storage", "")
    return Command(f"kubectl -n {key.namespace} edit pvc {key.name}", f"safe: a smaller size is allowed, above {size}")


# -- advice for each reason of growing


def _nothing(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> None:
    """No link: the claim does not grow, and is not modified."""


def _works(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    driver = _driver(scene, claim)
    silent = silent_link(scene, step, RESIZER, driver)
    return silent or Link(
        step, State.WAITING, str(because), Mover.CLUSTER, f"{RESIZER} of {driver}", _since_s(claim, names.RESIZING)
    )


def _grows(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    at = (claim.status.allocated_resource_statuses or {}).get(names.STORAGE)
    if at == names.NODE_INFEASIBLE:
        return _nodes_turn(scene, step, claim, because)
    failure = _of_controller(scene, claim)
    if failure is None:
        return _works(scene, step, claim, because)
    text = f"the driver {'can' if at == names.CONTROLLER_INFEASIBLE else 'does'} not grow the volume to this size"
    return _failed(scene, step, claim, text, RESIZER, failure, _smaller(claim))


def _nodes_turn(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    """The link where it is the pod's or the kubelet's move, whatever the controller's growth went through before."""
    at = (claim.status.allocated_resource_statuses or {}).get(names.STORAGE, "")
    text = _NODES_STEPS.get(at, str(because))
    failure = _of_node(scene, claim)
    if failure is not None:
        return _failed(scene, step, claim, text, "kubelet", failure, _smaller(claim))
    since_s, pods = _since_s(claim, names.FS_PENDING), scene.pods.by(BY_CLAIM, str(key_of(claim)))
    if not pods and at != names.NODE_IN_PROGRESS:
        return Link(step, State.WAITING, text, Mover.USER, "whoever creates a pod with this claim", since_s)
    node = next((f" {pod.spec.node_name}" for pod in pods if pod.spec.node_name), "")
    return Link(
        step,
        State.WAITING,
        text,
        Mover.CLUSTER,
        f"the kubelet of node{node}" if node else "the kubelet of its node",
        since_s,
    )


def _in_use(scene: Scene, step: str, claim: PersistentVolumeClaim, because: growing.InUse) -> Link:
    key, failure = key_of(claim), _of_controller(scene, claim)
    text = f"the driver grows it only while no pod uses it, and {_named(because.pods)}"
    end = Command(f"kubectl -n {key.namespace} delete pod {because.pods[0]}", "ends that pod", safe=False)
    return Link(
        step,
        State.FAILED,
        text,
        Mover.USER,
        "the owner of the pods",
        failure.since_s if failure else 0.0,
        failure.error if failure else "",
        retry=f"{RESIZER} tries again as soon as the pods have ended",
        commands=(end, _smaller(claim)),
    )


def _named(pods: tuple[str, ...]) -> str:
    return f'the pod "{pods[0]}" does' if len(pods) == 1 else f"the pods {', '.join(pods)} do"


def _too_large(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    return Link(step, State.FAILED, str(because), Mover.USER, "the owner of the claim", commands=(_smaller(claim),))


def _wrong_volume(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    look = Command(f"kubectl get pv {claim.spec.volume_name} -o yaml", "reads only: what the volume is, and whose")
    return Link(step, State.FAILED, str(because), Mover.OPERATOR, "whoever made the volume's object", commands=(look,))


def _volume_unseen(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    failure = _of_controller(scene, claim)
    if failure is not None:
        return _failed(scene, step, claim, "it does not grow", RESIZER, failure)
    if scene.is_hidden(PERSISTENT_VOLUMES, Key("", claim.spec.volume_name)):
        return unseen_link(step, f'its volume "{claim.spec.volume_name}" could not be seen')
    return _wrong_volume(scene, step, claim, because)


def _foreign(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    """No CSI driver has the volume, or none has been told to grow that of an in-tree plugin."""
    who = "the expand controller of kube-controller-manager"
    return Link(step, State.WAITING, "no CSI driver grows its volume: it has one of no CSI driver", Mover.CLUSTER, who)


Advice = Callable[[Scene, str, PersistentVolumeClaim, Any], Link | None]

GROWTH: Final[Mapping[type, Advice]] = {
    both.Gone: _nothing,
    both.NoVolume: _nothing,
    both.NotBound: _nothing,
    growing.Served: _nothing,
    both.VolumeMissing: _volume_unseen,
    both.Foreign: _foreign,
    growing.NotItsVolume: _wrong_volume,
    growing.NodesTurn: _nodes_turn,
    both.CallInFlight: _works,
    growing.PodsUnknown: _works,
    growing.Infeasible: _grows,
    growing.Growing: _grows,
    growing.GrowingOnNode: _grows,
    growing.InUse: _in_use,
    both.BadRequest: _wrong_volume,
    growing.TooLarge: _too_large,
}
"""One for each reason that the resizer has for a growth; a test of the house asks for all."""


# -- advice for each reason of a change of the class


def _modifies(scene: Scene, step: str, claim: PersistentVolumeClaim, because: Any) -> Link:
    begun_s = _since_s(claim, names.MODIFYING)
    events = (one for one in scene.events(claim, names.MODIFY_FAILED) if one.last_s >= begun_s)
    failure = _told(claim, names.MODIFY_ERROR) or next((_Failure(one.message, one.first_s) for one in events), None)
    if failure is None:
        return _works(scene, step, claim, because)
    wanted = claim.spec.volume_attributes_class_name or ""
    return _failed(
        scene, step, claim, f'the driver does not give it the VolumeAttributesClass "{wanted}"', RESIZER, failure
    )


def _class_missing(scene: Scene, step: str, claim: PersistentVolumeClaim, because: modifying.ClassMissing) -> Link:
    modify, hidden = claim.status.modify_volume_status, Key("", because.class_name)
    if scene.is_hidden(VOLUME_ATTRIBUTES_CLASSES, hidden) and (modify is None or modify.status != names.MODIFY_PENDING):
        return unseen_link(step, f'the VolumeAttributesClass "{because.class_name}" could not be seen')
    text = f'the VolumeAttributesClass "{because.class_name}" does not exist'
    retry = "goes on by itself when the class is created"
    return Link(
        step, State.FAILED, text, Mover.USER, "the owner of the claim", retry=retry, commands=(_ATTRIBUTES_CLASSES,)
    )


_ATTRIBUTES_CLASSES: Final = Command(
    "kubectl get volumeattributesclasses", "reads only: the classes that are there, and whose"
)

MODIFICATION: Final[Mapping[type, Advice]] = {
    both.Gone: _nothing,
    both.NoVolume: _nothing,
    both.NotBound: _nothing,
    modifying.Applied: _nothing,
    modifying.TakenBack: _nothing,
    both.VolumeMissing: _volume_unseen,
    both.Foreign: _foreign,
    modifying.Cancelling: _works,
    both.CallInFlight: _works,
    modifying.Infeasible: _modifies,
    modifying.Modifying: _modifies,
    modifying.ClassMissing: _class_missing,
    both.BadRequest: _wrong_volume,
    modifying.CannotModify: _modifies,
}
"""One for each reason that the resizer has for a change of the class; a test of the house asks for all."""
