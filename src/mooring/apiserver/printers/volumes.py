"""PersistentVolumes and their claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from mooring.api.classes import CLASS_BETA
from mooring.apiserver.printers.column import AGE, NAME, UNSET, Cell, Column, Json, at, is_deleted, plain

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
    """What a claim shows once it has a volume."""
    return lambda pvc, now: show(pvc, now) if pvc["spec"].get("volumeName") else ""


_STORAGE_CLASS: Final = Column("StorageClass", plain(_class), "The storage class.")
_ATTRIBUTES: Final = Column("VolumeAttributesClass", at("spec", "volumeAttributesClassName", default=UNSET), "The attributes class.")
_MODE: Final = Column("VolumeMode", at("spec", "volumeMode", default=UNSET), "Filesystem or raw block.", priority=1)

PERSISTENT_VOLUME: Final = (
    NAME,
    Column("Capacity", at("spec", "capacity", "storage", default="0"), "The size of the volume."),
    Column("Access Modes", plain(lambda pv: _modes(pv["spec"].get("accessModes"))), "The ways in which the volume can be mounted."),
    Column("Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy"), "What happens to the volume when its claim is gone."),
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
