"""What the status of a pod says of its claims of devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

_MAPPED: Final = ("containerName", "resourceName", "requestName")
_CONTAINERS: Final = "spec.initContainers{0} or spec.containers{0}"


def validate_statuses(claims: list[Json], spec: Json, field: str) -> Iterator[Cause]:
    """Each is of an entry of the spec, and another one's."""
    known = {claim["name"] for claim in spec.get("resourceClaims") or []}
    twice = checks.repeated([claim["name"] for claim in claims])
    for number, claim in enumerate(claims):
        at = f"{field}[{number}]"
        if claim["name"] not in known:
            yield field_errors.invalid(f"{at}.name", claim["name"], "must match the name of an entry in `spec.resourceClaims`")
        elif number in twice:
            yield field_errors.duplicate(f"{at}.name", claim["name"])
        if "resourceClaimName" in claim:
            yield from checks.named(claim["resourceClaimName"], f"{at}.resourceClaimName", names.dns_subdomain)


def validate_extended(told: Json, spec: Json, field: str) -> Iterator[Cause]:
    """The claim that the scheduler made for the extended resources of the containers, and which request is for which of them."""
    mappings, name = told.get("requestMappings") or [], told.get("resourceClaimName", "")
    if not mappings:
        yield field_errors.required(f"{field}.requestMappings", "at least one request mapping is required")
    twice = checks.repeated([tuple(mapping[part] for part in _MAPPED) for mapping in mappings])
    for number, mapping in enumerate(mappings):
        at = f"{field}.requestMappings[{number}]"
        yield from _validate_asked(mapping, spec, at)
        yield from checks.named(mapping["requestName"], f"{field}.requestName", names.dns_label)
        if number in twice:
            yield from (field_errors.duplicate(f"{at}.{part}", mapping[part]) for part in _MAPPED)
    if not name:
        yield field_errors.required(f"{field}.resourceClaimName")
    yield from checks.named(name, f"{field}.resourceClaimName", names.dns_subdomain) if name else ()


def _validate_asked(mapping: Json, spec: Json, at: str) -> Iterator[Cause]:
    containers = {one["name"]: one for part in ("initContainers", "containers") for one in spec.get(part) or ()}
    name, resource = mapping["containerName"], mapping["resourceName"]
    if name not in containers:
        yield field_errors.invalid(f"{at}.containerName", name, f"must match the name of an entry in {_CONTAINERS.format('.name')}")
    elif resource not in ((containers[name].get("resources") or {}).get("requests") or {}):
        entry = f"an entry in {_CONTAINERS.format('.resources.requests')}"
        yield field_errors.invalid(f"{at}.resourceName", resource, f"must match the extended resource name of {entry}")
