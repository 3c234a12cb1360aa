"""PersistentVolumes, their claims, and the kinds of storage.k8s.io."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.classes import CLASS_BETA
from mooring.apiserver.printers.column import AGE, NAME, UNSET, Cell, Column, at, is_deleted, is_true, plain
from mooring.apiserver.resource import Json

_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(given: Iterable[str] | None) -> str:
    """In the order of the short names, each once."""
    present = set(given or ())
    return ",".join(short for mode, short in _MODES.items() if mode in present)


def _class(obj: Json) -> Any:
    annotations = obj["metadata"].get("annotations") or {}
    return annotations[CLASS_BETA] if CLASS_BETA in annotations else obj["spec"].get("storageClassName", "")


def _phase(obj: Json) -> Any:
    return "Terminating" if is_deleted(obj) else obj["status"].get("phase", "")


def _claim(pv: Json) -> str:
    claim = pv["spec"].get("claimRef")
    return "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}"


def _of_bound(show: Cell) -> Cell:
    """A cell that is empty until the claim has a volume."""
    return lambda pvc, now: show(pvc, now) if pvc["spec"].get("volumeName") else ""


_STORAGE_CLASS: Final = Column("StorageClass", plain(_class), "The storage class.")
_ATTRIBUTES: Final = Column(
    "VolumeAttributesClass", at("spec", "volumeAttributesClassName", default=UNSET), "The attributes class."
)
_MODE: Final = Column("VolumeMode", at("spec", "volumeMode", default=UNSET), "Filesystem or raw block.", priority=1)

PERSISTENT_VOLUME: Final = (
    NAME,
    Column("Capacity", at("spec", "capacity", "storage", default="0"), "The size of the volume."),
    Column(
        "Access Modes",
        plain(lambda pv: _modes(pv["spec"].get("accessModes"))),
        "The ways in which the volume can be mounted.",
    ),
    Column(
        "Reclaim Policy",
        at("spec", "persistentVolumeReclaimPolicy"),
        "What happens to the volume when its claim is gone.",
    ),
    Column("Status", plain(_phase), "Whether the volume is available, bound, or released."),
    Column("Claim", plain(_claim), "The claim that the volume is bound to."),
    _STORAGE_CLASS,
    _ATTRIBUTES,
    Column("Reason", at("status", "reason"), "What has failed, in a word."),
    AGE,
    _MODE,
)

PERSISTENT_VOLUME_CLAIM: Final = (
    NAME,
    Column("Status", plain(_phase), "Whether the claim has a volume."),
    Column("Volume", at("spec", "volumeName"), "The volume behind the claim."),
    Column("Capacity", _of_bound(at("status", "capacity", "storage", default="0")), "The size of the volume."),
    Column(
        "Access Modes",
        _of_bound(plain(lambda pvc: _modes(pvc["status"].get("accessModes")))),
        "The ways in which the volume can be mounted.",
    ),
    _STORAGE_CLASS,
    _ATTRIBUTES,
    AGE,
    _MODE,
)


_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _class_name(storage_class: Json) -> str:
    name: str = storage_class["metadata"]["name"]
    return f"{name} (default)" if is_true(storage_class, *_DEFAULT_CLASS) else name


def _audiences(driver: Json) -> str:
    requests = driver["spec"].get("tokenRequests")
    return ",".join(request["audience"] for request in requests) if requests else UNSET


STORAGE_CLASS: Final = (
    Column("Name", plain(_class_name), NAME.description, format="name"),
    Column("Provisioner", at("provisioner"), "Who makes the volumes."),
    Column("ReclaimPolicy", at("reclaimPolicy", default="Delete"), "What happens to a volume when its claim is gone."),
    Column("VolumeBindingMode", at("volumeBindingMode", default="Immediate"), "When a claim gets its volume."),
    Column("AllowVolumeExpansion", at("allowVolumeExpansion", default=False), "Whether claims may grow."),
    AGE,
)

VOLUME_ATTRIBUTES_CLASS: Final = (NAME, Column("DriverName", at("driverName"), "The CSI driver."), AGE)

VOLUME_ATTACHMENT: Final = (
    NAME,
    Column("Attacher", at("spec", "attacher"), "The CSI driver that attaches.", format="name"),
    Column("PV", at("spec", "source", "persistentVolumeName"), "The volume."),
    Column("Node", at("spec", "nodeName"), "The node that it is attached to."),
    Column("Attached", at("status", "attached", default=False), "Whether it is attached.", type="boolean"),
    AGE,
)

CSI_NODE: Final = (
    NAME,
    Column(
        "Drivers",
        plain(lambda node: len(node["spec"]["drivers"] or ())),
        "How many drivers the node has.",
        type="integer",
    ),
    AGE,
)

CSI_DRIVER: Final = (
    NAME,
    Column(
        "AttachRequired",
        at("spec", "attachRequired", default=True),
        "Whether volumes are attached to nodes.",
        type="boolean",
    ),
    Column(
        "PodInfoOnMount",
        at("spec", "podInfoOnMount", default=False),
        "Whether the driver gets the pod's data.",
        type="boolean",
    ),
    Column(
        "StorageCapacity",
        at("spec", "storageCapacity", default=False),
        "Whether the driver tells its capacity.",
        type="boolean",
    ),
    Column("TokenRequests", plain(_audiences), "The audiences of the tokens that the driver wants."),
    Column(
        "RequiresRepublish",
        at("spec", "requiresRepublish", default=False),
        "Whether volumes are published again.",
        type="boolean",
    ),
    Column(
        "Modes",
        plain(lambda driver: ",".join(driver["spec"].get("volumeLifecycleModes") or ())),
        "The kinds of volumes it can make.",
    ),
    AGE,
)
