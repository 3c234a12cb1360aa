"""The links of a volume that changes: its growth, and the change of its class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.api.binding import amount, request_of
from mooring.api.classes import class_of
from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.api.migration import driver_and_handle
from mooring.cluster.binder.view import BY_CLAIM
from mooring.inspect.scene import Scene, moment_s
from mooring.inspect.why.chain import Command, Link, Mover, State
from mooring.inspect.why.diagnosis import diagnosed, failed_link
from mooring.inspect.why.leaders import silent_link

_STEPS: Final[Mapping[str, tuple[str, str]]] = {
    "ControllerResizeInProgress": ("the driver is to grow the volume on the storage", "csi-resizer"),
    "ControllerResizeInfeasible": ("the driver can't grow the volume to this size", "csi-resizer"),
    "NodeResizePending": ("the storage has grown; the node grows the file system when a pod uses the volume", "kubelet"),
    "NodeResizeInProgress": ("the node is growing the file system", "kubelet"),
    "NodeResizeInfeasible": ("the node can't grow the file system", "kubelet"),
}
"""What `allocatedResourceStatuses` says, and who works on it."""


def growth_link(scene: Scene, claim: PersistentVolumeClaim) -> Link | None:
    """The link of a claim that asks for more than it has; None where it doesn't."""
    size = (claim.status.capacity or {}).get("storage", "")
    if claim.status.phase != "Bound" or request_of(claim) <= amount(size):
        return None
    step, key, class_name = f"growth {claim.metadata.name}", key_of(claim), class_of(claim)
    storage_class = scene.classes.get(Key("", class_name))
    if storage_class is not None and not storage_class.allow_volume_expansion:
        text = f'its StorageClass "{class_name}" does not allow growth'
        line = f"kubectl patch storageclass {class_name} -p '{{\"allowVolumeExpansion\": true}}'"
        allow = Command(line, "safe, if the driver can grow volumes")
        return Link(step, State.FAILED, text, Mover.OPERATOR, "whoever keeps the class", commands=(allow,))
    phase = (claim.status.allocated_resource_statuses or {}).get("storage", "")
    text, program = _STEPS.get(phase, (f"{(claim.spec.resources.requests or {}).get('storage', '')} was asked for", "csi-resizer"))
    error, since_s = _last_error(scene, claim, "ResizeError", ("VolumeResizeFailed", "FileSystemResizeFailed"))
    if error:
        told = diagnosed(error, driver=_driver(scene, claim), namespace=key.namespace, program=program)
        smaller = Command(f"kubectl -n {key.namespace} edit pvc {key.name}", f"safe: a smaller size is allowed, above {size}")
        return failed_link(step, told, text, since_s, error, f"{program} tries again by itself", (smaller,))
    if phase == "NodeResizePending" and not scene.pods.by(BY_CLAIM, str(key)):
        return Link(step, State.WAITING, text, Mover.USER, "whoever creates a pod with this claim")
    if program == "kubelet":
        return Link(step, State.WAITING, text, Mover.CLUSTER, "the kubelet of its node")
    driver = _driver(scene, claim)
    return silent_link(scene, step, program, driver) or Link(step, State.WAITING, text, Mover.CLUSTER, f"{program} of {driver}")


def _last_error(scene: Scene, claim: PersistentVolumeClaim, condition: str, reasons: tuple[str, ...]) -> tuple[str, float]:
    """Of a condition of the claim whose type ends so, else of an Event; and since when. "" without one."""
    events = scene.events(claim, *reasons)
    found = next((one for one in claim.status.conditions or () if one.type.endswith(condition) and one.status == "True"), None)
    if found is not None:
        return found.message, moment_s(found.last_transition_time)
    return (events[0].message, events[0].first_s) if events else ("", 0.0)


def modification_link(scene: Scene, claim: PersistentVolumeClaim) -> Link | None:
    """The link of a claim that wants another VolumeAttributesClass; None where it doesn't."""
    wanted, has = claim.spec.volume_attributes_class_name or "", claim.status.current_volume_attributes_class_name or ""
    if claim.status.phase != "Bound" or wanted == has or not wanted:
        return None
    step, driver, modify = f"class {claim.metadata.name}", _driver(scene, claim), claim.status.modify_volume_status
    error, since_s = _last_error(scene, claim, "ModifyVolumeError", ("VolumeModifyFailed",))
    text = f'it is to get the VolumeAttributesClass "{wanted}"'
    if error or (modify is not None and modify.status == "Infeasible"):
        told = diagnosed(error, driver=driver, namespace=claim.metadata.namespace, program="csi-resizer")
        return failed_link(step, told, text, since_s, error, "csi-resizer tries again by itself")
    if modify is not None and modify.status == "Pending":
        look = Command("kubectl get volumeattributesclasses", "reads only: the classes that are there")
        text = f'the VolumeAttributesClass "{wanted}" does not exist'
        return Link(step, State.FAILED, text, Mover.USER, "the owner of the claim", commands=(look,))
    silent = silent_link(scene, step, "csi-resizer", driver)
    return silent or Link(step, State.WAITING, text, Mover.CLUSTER, f"csi-resizer of {driver}")


def _driver(scene: Scene, claim: PersistentVolumeClaim) -> str:
    pv = scene.volumes.get(Key("", claim.spec.volume_name))
    return driver_and_handle(pv)[0] if pv is not None else ""
