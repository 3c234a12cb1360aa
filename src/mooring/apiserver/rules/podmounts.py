"""Mounts and devices of a container: each leads to a volume of the pod, and no two stand in one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks
from mooring.apiserver.rules.podvolumes import relative_path

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")
_BLOCK: Final = ("persistentVolumeClaim", "ephemeral")


def validate(container: Json, field: str, volumes: Mapping[str, Json]) -> Iterator[FieldCause]:
    """volumes: the pod's, those with which something is wrong left out."""
    mounts, devices = container.get("volumeMounts") or [], container.get("volumeDevices") or []
    privileged = (container.get("securityContext") or {}).get("privileged", False)
    yield from _validate_mounts(mounts, devices, f"{field}.volumeMounts", volumes, privileged=privileged)
    yield from _validate_devices(devices, mounts, f"{field}.volumeDevices", volumes)


def _validate_mounts(
    mounts: Sequence[Json], devices: Sequence[Json], field: str, volumes: Mapping[str, Json], *, privileged: bool
) -> Iterator[FieldCause]:
    paths: set[str] = set()
    for number, mount in enumerate(mounts):
        at, name, path = f"{field}[{number}]", mount["name"], mount["mountPath"]
        yield from _validate_place(name, f"{at}.name", path, f"{at}.mountPath", volumes)
        if path in paths:
            yield field_errors.invalid(f"{at}.mountPath", path, "must be unique")
        paths.add(path)
        yield from _validate_apart(name, path, devices, at, ("devicePath", "mountPath", "volumeDevices"))
        if mount.get("subPath"):
            yield from relative_path(mount["subPath"], f"{field}.subPath")
        if mount.get("subPathExpr"):
            yield from _validate_expression(mount, at, field)
        yield from _validate_propagation(mount, field, privileged=privileged)


def _validate_devices(
    devices: Sequence[Json], mounts: Sequence[Json], field: str, volumes: Mapping[str, Json]
) -> Iterator[FieldCause]:
    seen: set[str] = set()
    paths: set[str] = set()
    for number, device in enumerate(devices):
        at, name, path = f"{field}[{number}]", device["name"], device["devicePath"]
        if name in seen:
            yield field_errors.invalid(f"{at}.name", name, "must be unique")
        yield from _validate_place(name, f"{at}.name", path, f"{at}.devicePath", volumes)
        if name in volumes and not any(source in volumes[name] for source in _BLOCK):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield field_errors.invalid(f"{at}.name", name, text)
        if path in paths:
            yield field_errors.invalid(f"{at}.devicePath", path, "must be unique")
        if ".." in path.split("/"):
            yield field_errors.invalid(f"{at}.devicePath", path, "can not contain backsteps ('..')")
        else:
            paths.add(path)
        yield from _validate_apart(name, path, mounts, at, ("mountPath", "devicePath", "volumeMounts"))
        seen |= {name} - {""}


def _validate_place(
    name: str, name_field: str, path: str, path_field: str, volumes: Mapping[str, Json]
) -> list[FieldCause]:
    found = [] if name else [field_errors.required(name_field)]
    if name not in volumes:
        found.append(field_errors.not_found(name_field, name))
    return found + ([] if path else [field_errors.required(path_field)])


def _validate_apart(
    name: str, path: str, others: Sequence[Json], at: str, words: tuple[str, str, str]
) -> Iterator[FieldCause]:
    """A volume is mounted or a device, never both. words: the path's member there and here, and what the others are
    called.

    Of several others with one name the last counts.
    """
    there, here, called = words
    places = {other["name"]: other[there] for other in others}
    if name in places:
        yield field_errors.invalid(f"{at}.name", name, f"must not already exist in {called}")
    if path in places.values():
        yield field_errors.invalid(f"{at}.{here}", path, f"must not already exist as a path in {called}")


def _validate_expression(mount: Json, at: str, field: str) -> list[FieldCause]:
    text, expression = "subPathExpr and subPath are mutually exclusive", mount["subPathExpr"]
    both = [field_errors.invalid(f"{at}.subPathExpr", expression, text)] if mount.get("subPath") else []
    return both + relative_path(expression, f"{field}.subPathExpr")


def _validate_propagation(mount: Json, field: str, *, privileged: bool) -> Iterator[FieldCause]:
    propagation, recursive = mount.get("mountPropagation", "None"), mount.get("recursiveReadOnly", "Disabled")
    yield from checks.one_of(propagation, f"{field}.mountPropagation", _PROPAGATIONS)
    if propagation == "Bidirectional" and not privileged:
        text = "Bidirectional mount propagation is available only to privileged containers"
        yield field_errors.forbidden(f"{field}.mountPropagation", text)
    yield from checks.one_of(recursive, f"{field}.recursiveReadOnly", _RECURSIVE)
    if recursive in ("Enabled", "IfPossible") and not mount.get("readOnly"):
        yield field_errors.forbidden(f"{field}.recursiveReadOnly", "may only be specified when readOnly is true")
    if recursive in ("Enabled", "IfPossible") and propagation != "None":
        text = "may only be specified when mountPropagation is None or not specified"
        yield field_errors.forbidden(f"{field}.recursiveReadOnly", text)
