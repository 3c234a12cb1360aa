"""Containers of a pod: their names, images, mounts and amounts. What only a kubelet reads is checked by type alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, podmounts, podresources, podvolumes

_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")


def validate(spec: Json, volumes: Mapping[str, Json]) -> Iterator[FieldCause]:
    """All but the ephemeral ones, which have an endpoint of their own. volumes: those with which nothing is wrong."""
    seen: set[str] = set()
    if not spec.get("containers"):
        yield field_errors.required("spec.containers")
    for part in ("containers", "initContainers"):
        for field, container in checks.each(spec.get(part), f"spec.{part}"):
            yield from validate_one(container, field, spec, volumes)
            if "restartPolicy" in container:
                yield from checks.one_of(container["restartPolicy"], f"{field}.restartPolicy", _RESTART_POLICIES)
            yield from name_once(container["name"], f"{field}.name", seen)


def name_once(name: str, field: str, seen: set[str]) -> list[FieldCause]:
    """Adds to the names seen."""
    if name in seen:
        return [field_errors.duplicate(field, name)]
    seen.add(name)
    return []


def validate_one(container: Json, field: str, spec: Json, volumes: Mapping[str, Json]) -> Iterator[FieldCause]:
    """What goes for containers of every sort."""
    yield from field_errors.required_name(container["name"], f"{field}.name", names.dns_label)
    if not container.get("image"):
        yield field_errors.required(f"{field}.image")
    yield from checks.one_of(
        container["terminationMessagePolicy"], f"{field}.terminationMessagePolicy", _MESSAGE_POLICIES
    )
    yield from checks.one_of(container["imagePullPolicy"], f"{field}.imagePullPolicy", podvolumes.PULL_POLICIES)
    yield from podmounts.validate(container, field, volumes)
    yield from podresources.validate(container["resources"], f"{field}.resources", spec)


def validate_images(spec: Json) -> Iterator[FieldCause]:
    """Applies to pods alone: templates have been stored with such images."""
    for part in ("containers", "initContainers"):
        for field, container in checks.each(spec.get(part), f"spec.{part}"):
            yield from validate_image(container, field)


def validate_image(container: Json, field: str) -> list[FieldCause]:
    image = container.get("image", "")
    trimmed = image == image.strip()
    return (
        []
        if trimmed
        else [field_errors.invalid(f"{field}.image", image, "must not have leading or trailing whitespace")]
    )
