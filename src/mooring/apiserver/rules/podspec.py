"""The rules of a pod's spec beside its volumes and containers.

Differs from kube-apiserver: fields that nothing here reads (hosts, DNS, security, devices) are checked by type alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors, metadata
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import (
    checks,
    podcontainers,
    podplacement,
    podresources,
    podvolumes,
)

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_WHOLE_MAX: Final = 2**31 - 1
_NAMES: Final[tuple[tuple[str, Callable[[str], list[str]]], ...]] = (
    ("serviceAccountName", names.dns_subdomain),
    ("nodeName", names.dns_subdomain),
    ("hostname", names.dns_label),
    ("subdomain", names.dns_label),
    ("priorityClassName", names.dns_subdomain),
)
_NOT_EPHEMERAL: Final = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)


def validate(spec: Json, name: str | None) -> Iterator[FieldCause]:
    """name: the pod's; None for a template."""
    found, volumes = podvolumes.examine(spec, name)
    yield from found
    yield from podcontainers.validate(spec, volumes)
    yield from podresources.validate_pod(spec)
    yield from checks.one_of(spec["restartPolicy"], "spec.restartPolicy", RESTART_POLICIES)
    for part, rule in _NAMES:
        if spec.get(part):
            yield from field_errors.named(spec[part], f"spec.{part}", rule)
    yield from _validate_gates(spec)
    yield from metadata.labels(spec.get("nodeSelector") or {}, "spec.nodeSelector")
    yield from _validate_files_of(spec["securityContext"], "spec.securityContext")
    yield from podplacement.validate(spec)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= _WHOLE_MAX:
        yield field_errors.invalid(
            "spec.activeDeadlineSeconds", seconds, f"must be between 1 and {_WHOLE_MAX}, inclusive"
        )


def validate_ephemeral(spec: Json, name: str | None) -> Iterator[FieldCause]:
    """Also where none is allowed: a template's are looked at before they are refused. name: as in `validate`."""
    if not spec.get("ephemeralContainers"):
        return
    targets = [container["name"] for part in ("containers", "initContainers") for container in spec.get(part) or []]
    _, volumes = podvolumes.examine(spec, name)
    seen = set(targets)
    for at, container in checks.each(spec.get("ephemeralContainers"), "spec.ephemeralContainers"):
        yield from podcontainers.validate_one(container, at, spec, volumes)
        yield from podcontainers.validate_image(container, at)
        yield from podcontainers.name_once(container["name"], f"{at}.name", seen)
        if container.get("targetContainerName") and container["targetContainerName"] not in targets:
            yield field_errors.not_found(f"{at}.targetContainerName", container["targetContainerName"])
        yield from (
            field_errors.forbidden(f"{at}.{part}", "cannot be set for an Ephemeral Container")
            for part in _NOT_EPHEMERAL
            if part in container and (container[part] or part != "resources")
        )
        for place, mount in checks.each(container.get("volumeMounts"), f"{at}.volumeMounts"):
            for part in ("subPath", "subPathExpr"):
                if mount.get(part):
                    yield field_errors.forbidden(f"{place}.{part}", "cannot be set for an Ephemeral Container")


def _validate_files_of(context: Json, field: str) -> Iterator[FieldCause]:
    """The parts of the security context that the files of volumes get: their group, and how it is given to them."""
    group = context.get("fsGroup")
    if group is not None and not 0 <= group <= _WHOLE_MAX:
        yield field_errors.invalid(f"{field}.fsGroup", group, f"must be between 0 and {_WHOLE_MAX}, inclusive")
    for part, allowed in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("seLinuxChangePolicy", ("Recursive",)),
    ):
        if part in context:
            yield from checks.one_of(context[part], f"{field}.{part}", allowed)


def _validate_gates(spec: Json) -> Iterator[FieldCause]:
    seen: set[str] = set()
    for field, gate in checks.each(spec.get("schedulingGates"), "spec.schedulingGates"):
        yield from field_errors.named(gate["name"], field, names.qualified_name)
        if gate["name"] in seen:
            yield field_errors.duplicate(field, gate["name"])
        seen.add(gate["name"])
