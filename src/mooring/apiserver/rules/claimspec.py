"""The spec of a PersistentVolumeClaim, which pods' ephemeral volumes have, too: shape, defaults, what is valid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.api.quantity import parse_quantity
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, selectors

MESSAGES: Final = META_MESSAGES.extended("""
PersistentVolumeClaimTemplate: 1 metadata ObjectMeta!, 2 spec PersistentVolumeClaimSpec!+
PersistentVolumeClaimSpec: 1 accessModes *s, 4 selector LabelSelector?, 2 resources VolumeResourceRequirements!, 3 volumeName s, 5 storageClassName s?, 6 volumeMode s?, 7 dataSource TypedLocalObjectReference?, 8 dataSourceRef TypedObjectReference?, 9 volumeAttributesClassName s?
VolumeResourceRequirements: 1 limits {q}, 2 requests {q}
TypedLocalObjectReference=: 1 apiGroup s!?, 2 kind s!, 3 name s!
TypedObjectReference: 1 apiGroup s!?, 2 kind s!, 3 name s!, 4 namespace s?
""")  # noqa: E501

_OWN_SOURCES: Final = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def default(spec: Json) -> None:
    spec.setdefault("volumeMode", "Filesystem")
    for part in ("limits", "requests"):
        checks.default_amounts(spec["resources"].get(part))


def prepare(spec: Json, old: Json | None = None) -> None:
    """Drops unsupported sources, and copies one source to the other. old: the spec before an update; what had a source
    may get any.
    """
    if (spec.get("dataSourceRef") or {}).get("namespace") and "dataSourceRef" not in (old or {}):
        del spec["dataSourceRef"]
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    had_one = any(part in (old or {}) for part in ("dataSource", "dataSourceRef"))
    if (
        source is not None
        and ref is None
        and not had_one
        and (source["apiGroup"] or "", source["kind"]) not in _OWN_SOURCES
    ):
        del spec["dataSource"]
    elif source is not None and ref is None:
        spec["dataSourceRef"] = dict(source)
    elif ref is not None and source is None and not ref.get("namespace"):
        spec["dataSource"] = _without_namespace(ref)


def warnings(spec: Json, field: str) -> list[str]:
    """Warnings about valid specs."""
    return checks.fraction_warnings(spec["resources"], f"{field}.resources")


def validate(spec: Json, field: str, old: Json | None = None) -> Iterator[FieldCause]:
    """All problems. old: the spec before an update; if one of its sources names an API group, new groups are not
    validated.
    """
    yield from selectors.validate_labels(spec.get("selector") or {}, f"{field}.selector")
    yield from checks.access_modes(
        spec.get("accessModes") or [], f"{field}.accessModes", "at least 1 access mode is required"
    )
    yield from _validate_request(spec["resources"].get("requests") or {}, f"{field}.resources")
    if spec.get("storageClassName"):
        yield from field_errors.named(spec["storageClassName"], f"{field}.storageClassName", names.dns_subdomain)
    yield from checks.one_of(spec["volumeMode"], f"{field}.volumeMode", ("Block", "Filesystem"))
    ratchets = any((old or {}).get(part, {}).get("apiGroup") is not None for part in ("dataSource", "dataSourceRef"))
    yield from _validate_sources(spec, field, ratchets)
    if spec.get("volumeAttributesClassName"):
        yield from field_errors.named(
            spec["volumeAttributesClassName"], f"{field}.volumeAttributesClassName", names.dns_subdomain
        )


def _validate_request(requests: Json, field: str) -> list[FieldCause]:
    if "storage" not in requests:
        return [field_errors.required(f"{field}[storage]")]
    if parse_quantity(requests["storage"]).value <= 0:
        return [field_errors.invalid(f"{field}[storage]", requests["storage"], "must be greater than zero")]
    return []


def _validate_sources(spec: Json, field: str, ratchets: bool) -> Iterator[FieldCause]:
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        yield from _validate_source(source, f"{field}.dataSource", ratchets)
    if ref is not None:
        yield from _validate_source(ref, f"{field}.dataSourceRef", ratchets)
        if ref.get("namespace"):
            yield from field_errors.named(ref["namespace"], f"{field}.dataSourceRef.namespace", names.dns_label)
    if source is not None and ref is not None and ref.get("namespace"):
        yield field_errors.invalid(field, source, "may not be specified when dataSourceRef.namespace is specified")
    elif source is not None and ref is not None and source != _without_namespace(ref):
        yield field_errors.invalid(field, source, "must match dataSourceRef")


def _without_namespace(ref: Json) -> Json:
    return {part: value for part, value in ref.items() if part != "namespace"}


def _validate_source(source: Json, field: str, ratchets: bool) -> Iterator[FieldCause]:
    yield from (field_errors.required(f"{field}.{part}") for part in ("name", "kind") if not source[part])
    if not source["apiGroup"] and source["kind"] != "PersistentVolumeClaim":
        text = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield field_errors.invalid(field, source["kind"], text)
    if source["apiGroup"] and not ratchets:
        yield from field_errors.named(source["apiGroup"], f"{field}.apiGroup", names.dns_subdomain)
