"""The environment of a container: variables, and where they come from.

Variables and files may refer to fields of the pod itself, and to the resources of its containers, by the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from mooring.api import names
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks
from mooring.apiserver.rules.secret import key_reasons

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
    *(
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ),
)
_OLD_NODE_NAME: Final = "spec.host"
_AMOUNTS: Final = tuple(
    f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE: Final = ("limits.hugepages-", "requests.hugepages-")
_BYTES: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_CORES: Final = ("1m", "1")

_NAME: Final = re.compile(r"[ -<>-~]+")
_NAME_TEXT: Final = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_TWO_FIELDS: Final = "may not have more than one field specified at a time"


def validate(container: Json, field: str, volumes: Sequence[Json] = ()) -> Iterator[FieldCause]:
    """volumes: the pod's, whose files may be read."""
    for at, variable in checks.each(container.get("env"), f"{field}.env"):
        if not variable["name"]:
            yield field_errors.required(f"{at}.name")
        elif not _NAME.fullmatch(variable["name"]):
            yield field_errors.invalid(f"{at}.name", variable["name"], _NAME_TEXT)
        if "valueFrom" in variable:
            yield from _validate_source(variable, f"{at}.valueFrom")
    for number, source in enumerate(container.get("envFrom") or []):
        yield from _validate_all_of(source, f"{field}.envFrom", number)
    yield from _validate_files(container, field, volumes)


def _validate_files(container: Json, field: str, volumes: Sequence[Json]) -> Iterator[FieldCause]:
    """Files that variables are read from lie in volumes that begin empty."""
    if not any("fileKeyRef" in (variable.get("valueFrom") or {}) for variable in container.get("env") or []):
        return
    by_name = {volume["name"]: volume for volume in volumes}
    for number, variable in enumerate(container.get("env") or []):
        source = (variable.get("valueFrom") or {}).get("fileKeyRef")
        if source is None:
            continue
        name, at = source["volumeName"], f"{field}.env[{number}].valueFrom.fileKeyRef.volumeName"
        volume = by_name.get(name)
        if volume is None:
            yield field_errors.not_found(at, name)
        elif "emptyDir" not in volume:
            yield field_errors.invalid(at, name, "referenced volume must be of type emptyDir")


def _validate_file(source: Json, field: str) -> Iterator[FieldCause]:
    key, volume, path = source["key"], source["volumeName"], source["path"]
    yield from (field_errors.required(f"{field}.{part}") for part in ("key", "volumeName", "path") if not source[part])
    if key and not _NAME.fullmatch(key):
        yield field_errors.invalid(f"{field}.key", key, _NAME_TEXT)
    if volume:
        yield from checks.named(volume, f"{field}.volumeName", names.dns_label)
    if ".." in path.split("/"):
        yield field_errors.invalid(f"{field}.path", path, "must not contain '..'")


def _validate_source(variable: Json, field: str) -> Iterator[FieldCause]:
    source = variable["valueFrom"]
    given = [name for name in _SOURCES if name in source]
    if not given:
        named = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield field_errors.invalid(field, "", f"must specify one of: {named}")
        return
    if "fieldRef" in source:
        yield from validate_field(source["fieldRef"], f"{field}.fieldRef", _FIELDS)
    if "resourceFieldRef" in source:
        yield from validate_amount(source["resourceFieldRef"], f"{field}.resourceFieldRef")
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in source:
            yield from _validate_key(source[name], f"{field}.{name}")
    if "fileKeyRef" in source:
        yield from _validate_file(source["fileKeyRef"], f"{field}.fileKeyRef")
    if variable.get("value"):
        yield field_errors.invalid(field, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield field_errors.invalid(field, "", _TWO_FIELDS)


def _validate_key(reference: Json, field: str) -> list[FieldCause]:
    found = checks.named(reference.get("name", ""), f"{field}.name", names.dns_subdomain)
    if not reference["key"]:
        return [*found, field_errors.required(f"{field}.key")]
    return found + checks.named(reference["key"], f"{field}.key", key_reasons)


def _validate_all_of(source: Json, field: str, number: int) -> list[FieldCause]:
    given = [name for name in ("configMapRef", "secretRef") if name in source]
    found = [] if given else [field_errors.invalid(field, "", "must specify one of: `configMapRef` or `secretRef`")]
    found += [field_errors.invalid(field, "", _TWO_FIELDS)] if len(given) > 1 else []
    prefix = source.get("prefix", "")
    if prefix and not _NAME.fullmatch(prefix):
        found.append(field_errors.invalid(f"{field}[{number}].prefix", prefix, _NAME_TEXT))
    for part in given:
        name, at = source[part].get("name", ""), f"{field}[{number}].{part}.name"
        found += checks.named(name, at, names.prefix_of(names.dns_subdomain)) if name else [field_errors.required(at)]
    return found


def validate_field(reference: Json, field: str, allowed: Sequence[str]) -> list[FieldCause]:
    """allowed: the fields that may be referred to here; of labels and annotations always one alone, by its key."""
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
        return checks.named(key.lower() if whole == _ANNOTATIONS else key, field, names.qualified_name)
    if path not in (*_KNOWN, _OLD_NODE_NAME):
        return [field_errors.invalid(at, path, f"error converting fieldPath: field label not supported: {path}")]
    return checks.one_of("spec.nodeName" if path == _OLD_NODE_NAME else path, at, allowed)


def validate_amount(reference: Json, field: str, *, of_container: bool = False) -> Iterator[FieldCause]:
    """of_container: it has to say of which."""
    resource = reference["resource"]
    if of_container and not reference.get("containerName"):
        yield field_errors.required(f"{field}.containerName")
    elif not resource:
        yield field_errors.required(f"{field}.resource")
    elif not resource.startswith(_HUGE):
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
    elif (resource in _AMOUNTS or resource.startswith(_HUGE)) and divisor not in _BYTES:
        kind = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}.get(name, "hugepages")
        yield field_errors.invalid(
            field, resource, f"only divisor's values {', '.join(_BYTES)} are supported with the {kind} resource"
        )
