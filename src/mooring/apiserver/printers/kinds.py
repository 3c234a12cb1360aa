"""Which kind has which columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mooring.apiserver.printers import event, node, pod, storage, volumes
from mooring.apiserver.printers.column import AGE, CREATED, DEFAULT, NAME, Column, Json, at, plain
from mooring.apiserver.printers.printer import printer_columns
from mooring.apiserver.resource import Resource

_NAMESPACE: Final = (NAME, Column("Status", at("status", "phase"), "Whether it is there, or going."), AGE)
_SECRET: Final = (
    NAME,
    Column("Type", at("type"), "What it is for."),
    Column("Data", plain(lambda secret: len(secret.get("data") or ())), "How many values it holds."),
    AGE,
)
_CONFIG_MAP: Final = (
    NAME,
    Column("Data", plain(lambda found: len(found.get("data") or ()) + len(found.get("binaryData") or ())), "How many values it holds."),
    AGE,
)
_SCALE: Final = (
    NAME,
    Column("Desired", at("spec", "replicas", default=0), "How many are wished for.", type="integer"),
    Column("Available", at("status", "replicas", default=0), "How many there are.", type="integer"),
    CREATED,
)
_SERVICE_ACCOUNT: Final = (NAME, AGE)
_LEASE: Final = (NAME, Column("Holder", at("spec", "holderIdentity"), "Who holds it."), AGE)

_COLUMNS: Final[Mapping[tuple[str, str], tuple[Column, ...]]] = {
    ("", "ConfigMap"): _CONFIG_MAP,
    ("", "Event"): event.EVENT,
    ("", "Namespace"): _NAMESPACE,
    ("", "Node"): node.NODE,
    ("", "PersistentVolume"): volumes.PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): volumes.PERSISTENT_VOLUME_CLAIM,
    ("", "Pod"): pod.POD,
    ("", "Secret"): _SECRET,
    ("", "ServiceAccount"): _SERVICE_ACCOUNT,
    ("coordination.k8s.io", "Lease"): _LEASE,
    ("events.k8s.io", "Event"): event.NEW_EVENT,
    ("storage.k8s.io", "CSIDriver"): storage.CSI_DRIVER,
    ("storage.k8s.io", "CSINode"): storage.CSI_NODE,
    ("storage.k8s.io", "StorageClass"): storage.STORAGE_CLASS,
    ("storage.k8s.io", "VolumeAttachment"): storage.VOLUME_ATTACHMENT,
    ("storage.k8s.io", "VolumeAttributesClass"): storage.VOLUME_ATTRIBUTES_CLASS,
}


_ROW_CONDITIONS: Final[Mapping[tuple[str, str], Callable[[Json], list[Json]]]] = {("", "Pod"): pod.row_conditions}


def row_conditions_of(resource: Resource) -> Callable[[Json], list[Json]]:
    """What the rows of a kind say beside their cells; of most kinds nothing."""
    return _ROW_CONDITIONS.get((resource.group, resource.kind), lambda _obj: [])


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """A kind's columns, in order."""
    if resource.body_version:
        return _SCALE  # (no other form is shown of a custom kind)
    if resource.custom is not None:
        return printer_columns(resource.custom)
    return _COLUMNS.get((resource.group, resource.kind), DEFAULT)
