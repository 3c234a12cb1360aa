"""Names that claims, volumes and the programs around them share, and small questions about one object."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from mooring.api.classes import CLASS_BETA
from mooring.api.core import ObjectReference, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, Object, key_of
from mooring.api.pods import Pod, Volume
from mooring.api.quantity import parse_quantity
from mooring.api.storage import StorageClass

PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
PROVISIONER_BETA: Final = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
IS_DEFAULT: Final = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
PRE_RESIZE_CAPACITY: Final = "volume.alpha.kubernetes.io/pre-resize-capacity"
YES: Final = "yes"
_UID_LENGTH: Final = len("00000000-0000-0000-0000-000000000000")

PVC_PROTECTION: Final = "kubernetes.io/pvc-protection"
PV_PROTECTION: Final = "kubernetes.io/pv-protection"
VAC_PROTECTION: Final = "kubernetes.io/vac-protection"

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
IN_TREE: Final = "kubernetes.io/"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
FILESYSTEM: Final = "Filesystem"

PENDING: Final = "Pending"
AVAILABLE: Final = "Available"
BOUND: Final = "Bound"
RELEASED: Final = "Released"
FAILED: Final = "Failed"
LOST: Final = "Lost"
RETAIN, DELETE, RECYCLE = "Retain", "Delete", "Recycle"


def has_annotation(obj: Object, name: str) -> bool:
    return name in (obj.metadata.annotations or {})


# -- claims


def has_no_class(claim: PersistentVolumeClaim) -> bool:
    """True when no class was chosen: then it may get the default class. "" is a choice."""
    return claim.spec.storage_class_name is None and not has_annotation(claim, CLASS_BETA)


def request_of(claim: PersistentVolumeClaim) -> Decimal:
    """Bytes asked for."""
    return amount((claim.spec.resources.requests or {}).get("storage", ""))


def own_volume_name(claim: PersistentVolumeClaim) -> str:
    """The name that external-provisioner's default gives to the volume that it makes for the claim, and to no other."""
    return f"pvc-{claim.metadata.uid}"


def claim_uid_in(pv_name: str) -> str:
    """The uid at the end of a name that external-provisioner gave with whatever `--volume-name-prefix`, "" for none.
    With `--volume-name-uuid-length` a name has only a part of it, and none is found.
    """
    prefix, dash, uid = pv_name[: -_UID_LENGTH - 1], pv_name[-_UID_LENGTH - 1 : -_UID_LENGTH], pv_name[-_UID_LENGTH:]
    return uid if prefix and dash == "-" else ""


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """True when the scheduler takes the claim for bound; the phase does not count."""
    return bool(claim.spec.volume_name) and has_annotation(claim, BIND_COMPLETED)


def is_delayed(storage_class: StorageClass | None) -> bool:
    """True for claims of this class, which wait for their first pod."""
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


# -- volumes


def capacity_of(pv: PersistentVolume) -> Decimal:
    """The volume's size in bytes."""
    return amount((pv.spec.capacity or {}).get("storage", ""))


def mode_of(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    return obj.spec.volume_mode or FILESYSTEM


def names_claim(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """True when the volume is reserved for this claim: by its name, and by its uid where there is one."""
    ref = pv.spec.claim_ref
    return ref is not None and claim_key(ref) == key_of(claim) and ref.uid in ("", claim.metadata.uid)


def claim_key(ref: ObjectReference) -> Key:
    return Key(ref.namespace, ref.name)


# -- pods


def is_of_claim(volume: Volume) -> bool:
    """True for a pod's volume that stands for a claim."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def claim_name_of(pod: Pod, volume: Volume) -> str:
    """The claim behind a pod's volume, "" for a volume of another sort."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""


def claims_of(pod: Pod) -> tuple[Key, ...]:
    """The claims that a pod names."""
    found = (claim_name_of(pod, volume) for volume in pod.spec.volumes or ())
    return tuple(dict.fromkeys(Key(pod.metadata.namespace, name) for name in found if name))


def owns(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """True when the pod is the claim's controlling owner: an ephemeral volume of its own."""
    return any(owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references or ())


def is_finished(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def not_owner_text(pod: Pod, claim: PersistentVolumeClaim) -> str:
    return f"PVC {key_of(claim)} was not created for pod {key_of(pod)} (pod is not owner)"


def amount(text: str) -> Decimal:
    """0 for a text that is no quantity: the API server accepts none."""
    try:
        return parse_quantity(text).value
    except ValueError:
        return Decimal(0)
