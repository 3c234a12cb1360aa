"""The columns of each kind; those of a custom kind from its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.apiserver.custom.jsonpath import printed
from mooring.apiserver.printers import column, core, storage, workloads
from mooring.apiserver.printers.column import AGE, CREATED, DEFAULT, NAME, Cell, Column, at, plain
from mooring.apiserver.resource import Custom, Json, Resource


def _custom_columns(custom: Custom) -> tuple[Column, ...]:
    """The name, and what is declared; the age where nothing is."""
    if not custom.columns:
        return (NAME, CREATED)
    declared = (
        Column(
            column.name,
            _cell(column.cell, column.type),
            column.description,
            column.type,
            column.format,
            column.priority,
        )
        for column in custom.columns
    )
    return (NAME, *declared)


def _cell(value_of: Callable[[dict[str, Any]], Any], kind: str) -> Cell:
    def cell(obj: dict[str, Any], now: float) -> Any:
        value = value_of(obj)
        if value is None:
            return None
        if kind == "string":
            return printed(value)
        return _date(value, now) if kind == "date" else _typed(value, kind)

    return cell


def _typed(value: Any, kind: str) -> Any:
    """The value, when it is of that type."""
    match kind, value:
        case ("boolean", bool()):
            return value
        case (_, bool()):
            return None
        case ("integer", int() | float()):
            return int(value)
        case ("number", int() | float()):
            return float(value)
    return None


def _date(value: Any, now: float) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return column.age_of(value, now)
    except ValueError:
        return "<invalid>"


_NAMESPACE: Final = (NAME, Column("Status", at("status", "phase"), "Whether it is there, or going."), AGE)
_SECRET: Final = (
    NAME,
    Column("Type", at("type"), "What it is for."),
    Column("Data", plain(lambda secret: len(secret.get("data") or ())), "How many values it holds."),
    AGE,
)
_CONFIG_MAP: Final = (
    NAME,
    Column(
        "Data",
        plain(lambda found: len(found.get("data") or ()) + len(found.get("binaryData") or ())),
        "How many values it holds.",
    ),
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
    ("", "Event"): core.EVENT,
    ("", "Namespace"): _NAMESPACE,
    ("", "Node"): core.NODE,
    ("", "PersistentVolume"): storage.PERSISTENT_VOLUME,
    ("", "PersistentVolumeClaim"): storage.PERSISTENT_VOLUME_CLAIM,
    ("", "Pod"): core.POD,
    ("", "Secret"): _SECRET,
    ("", "ServiceAccount"): _SERVICE_ACCOUNT,
    ("apps", "ControllerRevision"): workloads.CONTROLLER_REVISION,
    ("apps", "Deployment"): workloads.DEPLOYMENT,
    ("apps", "ReplicaSet"): workloads.REPLICA_SET,
    ("apps", "StatefulSet"): workloads.STATEFUL_SET,
    ("batch", "Job"): workloads.JOB,
    ("coordination.k8s.io", "Lease"): _LEASE,
    ("events.k8s.io", "Event"): core.NEW_EVENT,
    ("storage.k8s.io", "CSIDriver"): storage.CSI_DRIVER,
    ("storage.k8s.io", "CSINode"): storage.CSI_NODE,
    ("storage.k8s.io", "StorageClass"): storage.STORAGE_CLASS,
    ("storage.k8s.io", "VolumeAttachment"): storage.VOLUME_ATTACHMENT,
    ("storage.k8s.io", "VolumeAttributesClass"): storage.VOLUME_ATTRIBUTES_CLASS,
}


_ROW_CONDITIONS: Final[Mapping[tuple[str, str], Callable[[Json], list[Json]]]] = {("", "Pod"): core.row_conditions}


def row_conditions_of(resource: Resource) -> Callable[[Json], list[Json]]:
    """The conditions of a kind's rows; most kinds have none."""
    return _ROW_CONDITIONS.get((resource.group, resource.kind), lambda _obj: [])


def empty_rows_of(resource: Resource) -> bytes:
    """The rows of a table without any: null where the real one has no columns of its own for a built-in kind."""
    return b"[]" if resource.custom is not None or (resource.group, resource.kind) in _COLUMNS else b"null"


def columns_of(resource: Resource) -> tuple[Column, ...]:
    if resource.body_version:
        return _SCALE  # (no other form is shown of a custom kind)
    if resource.custom is not None:
        return _custom_columns(resource.custom)
    return _COLUMNS.get((resource.group, resource.kind), DEFAULT)
