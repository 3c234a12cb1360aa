"""The columns of each kind; those of a custom kind from its definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.apiserver.custom.jsonpath import printed
from mooring.apiserver.printers import column, core, storage, workloads
from mooring.apiserver.printers.column import AGE, CREATED, DEFAULT, NAME, Cell, Column, plain, table
from mooring.apiserver.resource import Custom, Json, Resource
from mooring.apiserver.rules.podtemplate import selector_text


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


_NAMESPACE: Final = table("""
    Name
    Status  .status.phase  Whether it is there, or going.
    Age
""")
_SECRET: Final = table(
    """
    Name
    Type  .type  What it is for.
    Data  count  How many values it holds.
    Age
    """,
    count=plain(lambda secret: len(secret.get("data") or ())),
)
_CONFIG_MAP: Final = table(
    """
    Name
    Data  count  How many values it holds.
    Age
    """,
    count=plain(lambda found: len(found.get("data") or ()) + len(found.get("binaryData") or ())),
)


def _outer_address(service: Json) -> str:
    spec = service["spec"]
    return spec.get("externalName") or ",".join(spec.get("externalIPs") or ()) or column.NONE


def _port(port: Json) -> str:
    on_nodes = f":{port['nodePort']}" if "nodePort" in port else ""
    return f"{port['port']}{on_nodes}/{port['protocol']}"


_SERVICE: Final = table(
    """
    Name
    Type         .spec.type                Where it can be reached.
    Cluster-IP   .spec.clusterIP="<none>"  Its address inside of the cluster, if a client has set one.
    External-IP  outer                     Its addresses outside of the cluster.
    Port(s)      ports                     Its ports, those of the nodes, and their protocols.
    Age
    Selector*    selector                  The labels of its pods.
    """,
    outer=plain(_outer_address),
    ports=plain(lambda service: ",".join(map(_port, service["spec"].get("ports") or ())) or column.NONE),
    selector=plain(lambda service: selector_text({"matchLabels": service["spec"].get("selector")}) or column.NONE),
)
_SCALE: Final = (
    *table("""
    Name
    Desired:integer    .spec.replicas=0    How many are wished for.
    Available:integer  .status.replicas=0  How many there are.
    """),
    CREATED,
)
_SERVICE_ACCOUNT: Final = (NAME, AGE)
_LEASE: Final = table("""
    Name
    Holder  .spec.holderIdentity  Who holds it.
    Age
""")

_COLUMNS: Final[Mapping[str, tuple[Column, ...]]] = {
    "configmaps": _CONFIG_MAP,
    "events": core.EVENT,
    "namespaces": _NAMESPACE,
    "nodes": core.NODE,
    "persistentvolumes": storage.PERSISTENT_VOLUME,
    "persistentvolumeclaims": storage.PERSISTENT_VOLUME_CLAIM,
    "pods": core.POD,
    "secrets": _SECRET,
    "services": _SERVICE,
    "serviceaccounts": _SERVICE_ACCOUNT,
    "controllerrevisions.apps": workloads.CONTROLLER_REVISION,
    "deployments.apps": workloads.DEPLOYMENT,
    "replicasets.apps": workloads.REPLICA_SET,
    "statefulsets.apps": workloads.STATEFUL_SET,
    "jobs.batch": workloads.JOB,
    "leases.coordination.k8s.io": _LEASE,
    "events.events.k8s.io": core.NEW_EVENT,
    "csidrivers.storage.k8s.io": storage.CSI_DRIVER,
    "csinodes.storage.k8s.io": storage.CSI_NODE,
    "storageclasses.storage.k8s.io": storage.STORAGE_CLASS,
    "volumeattachments.storage.k8s.io": storage.VOLUME_ATTACHMENT,
    "volumeattributesclasses.storage.k8s.io": storage.VOLUME_ATTRIBUTES_CLASS,
}


def row_conditions_of(resource: Resource) -> Callable[[Json], list[Json]]:
    """The conditions of a kind's rows; most kinds have none."""
    return core.row_conditions if resource.name == "pods" else lambda _obj: []


def empty_rows_of(resource: Resource) -> bytes:
    """The rows of a table without any: null where the real one has no columns of its own for a built-in kind."""
    return b"[]" if resource.custom is not None or resource.name in _COLUMNS else b"null"


def columns_of(resource: Resource) -> tuple[Column, ...]:
    if resource.body_version:
        return _SCALE  # (no other form is shown of a custom kind)
    if resource.custom is not None:
        return _custom_columns(resource.custom)
    return _COLUMNS.get(resource.name, DEFAULT)
