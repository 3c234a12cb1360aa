"""What a file of the downward API refers to: fields of the pod itself, and the resources of its containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

_LABELS: Final = "metadata.labels"
_ANNOTATIONS: Final = "metadata.annotations"
_KNOWN: Final = (
    *(
        _ANNOTATIONS,
        _LABELS,
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
    ),
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_OLD_NODE_NAME: Final = "spec.host"
_FILES: Final = (_ANNOTATIONS, _LABELS, "metadata.name", "metadata.namespace", "metadata.uid")
_AMOUNTS: Final = tuple(
    f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_BYTES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_CORES: Final = ("1m", "1")


def validate_field(reference: Json, field: str) -> list[FieldCause]:
    """A file has one of a few fields; of labels and annotations also one alone, by its key."""
    path, version, at = reference["fieldPath"], reference["apiVersion"], f"{field}.fieldPath"
    if not path:
        return [field_errors.required(at)]
    if version != "v1":
        return [field_errors.invalid(at, path, f"error converting fieldPath: unsupported pod version: {version}")]
    whole, bracket, key = path.removesuffix("']").partition("['")
    if whole and bracket and path.endswith("']"):
        if whole not in (_LABELS, _ANNOTATIONS):
            return [
                field_errors.invalid(
                    at, path, f"error converting fieldPath: field label does not support subscript: {path}"
                )
            ]
        return field_errors.named(key.lower() if whole == _ANNOTATIONS else key, field, names.qualified_name)
    if path not in (*_KNOWN, _OLD_NODE_NAME):
        return [field_errors.invalid(at, path, f"error converting fieldPath: field label not supported: {path}")]
    return checks.one_of("spec.nodeName" if path == _OLD_NODE_NAME else path, at, _FILES)


def validate_amount(reference: Json, field: str) -> Iterator[FieldCause]:
    resource = reference["resource"]
    if not reference.get("containerName"):
        yield field_errors.required(f"{field}.containerName")
    elif not resource:
        yield field_errors.required(f"{field}.resource")
    else:
        yield from checks.one_of(resource, f"{field}.resource", _AMOUNTS)
    divisor = parse_quantity(reference["divisor"])
    if divisor.value:
        yield from _validate_divisor(resource, str(divisor), f"{field}.divisor")


def _validate_divisor(resource: str, divisor: str, field: str) -> Iterator[FieldCause]:
    name = resource.partition(".")[2]
    if resource in _AMOUNTS and name == "cpu":
        if divisor not in _CORES:
            yield field_errors.invalid(
                field, resource, "only divisor's values 1m and 1 are supported with the cpu resource"
            )
    elif resource in _AMOUNTS and divisor not in _BYTES:
        kind = "memory" if name == "memory" else "local ephemeral storage"
        yield field_errors.invalid(
            field, resource, f"only divisor's values {', '.join(_BYTES)} are supported with the {kind} resource"
        )
