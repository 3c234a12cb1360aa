"""The status of a pod: what it says of the containers, addresses and claims of devices."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import addresses, checks, podsecurity

_RESOURCES: Final = "allocatedResourcesStatus"
_HEALTH: Final = ("Healthy", "Unhealthy", "Unknown")
_MESSAGE_MAX: Final = 1024
_NO_CLAIM: Final = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
_MAPPED: Final = ("containerName", "resourceName", "requestName")
_CONTAINERS: Final = "spec.initContainers{0} or spec.containers{0}"
_STATUSES: Final = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
    "ephemeralContainerStatuses": "",
}
"""By the part of the status the part of the spec; "" for containers that never restart."""


def validate(new: Json, old: Json) -> Iterator[FieldCause]:
    status, before = new["status"], old["status"]
    if before.get("qosClass") and status.get("qosClass") != before["qosClass"]:
        yield field_errors.immutable("status.qosClass", status.get("qosClass"))
    if status.get("nominatedNodeName"):
        yield from checks.named(status["nominatedNodeName"], "status.nominatedNodeName", names.dns_subdomain)
        if new["spec"].get("nodeName") and status["nominatedNodeName"] != before.get("nominatedNodeName"):
            yield field_errors.forbidden(
                "status.nominatedNodeName", "may not be set on pods that are already bound to a node"
            )
    yield from _validate_addresses(status, before)
    for number, condition in enumerate(status.get("conditions") or []):
        yield from checks.not_negative(
            condition.get("observedGeneration"), f"status.conditions[{number}].observedGeneration"
        )
        yield from checks.named(condition["type"], f"status.conditions[{number}].Type", names.qualified_name)
    yield from checks.not_negative(status.get("observedGeneration"), "status.observedGeneration")
    for part in _STATUSES:
        yield from _validate_states(status, before, part, old["spec"])
        yield from _validate_users(status.get(part), f"status.{part}", new["spec"])
    yield from _validate_claims(status.get("resourceClaimStatuses") or [], new["spec"], "status.resourceClaimStatuses")
    if "extendedResourceClaimStatus" in status:
        yield from _validate_extended(
            status["extendedResourceClaimStatus"], new["spec"], "status.extendedResourceClaimStatus"
        )
    yield from _validate_health(
        status.get("containerStatuses"), new["spec"].get("containers"), "status.containerStatuses"
    )
    yield from _validate_health(
        status.get("initContainerStatuses"), new["spec"].get("initContainers"), "status.initContainerStatuses"
    )
    for number, state in enumerate(status.get("ephemeralContainerStatuses") or []):
        if state.get(_RESOURCES):
            field = f"status.ephemeralContainerStatuses[{number}].{_RESOURCES}"
            yield field_errors.forbidden(field, "must not be specified in container status")


def keep_generations(status: Json, before: Json) -> None:
    """What does not say which generation it has observed keeps the one that was said: also each condition, the first of a type first."""
    _keep_generation(status, before)
    known: dict[str, deque[Json]] = {}
    for condition in before.get("conditions") or ():
        known.setdefault(condition["type"], deque()).append(condition)
    for condition in status.get("conditions") or ():
        if known.get(condition["type"]):
            _keep_generation(condition, known[condition["type"]].popleft())


def _keep_generation(new: Json, old: Json) -> None:
    if not new.get("observedGeneration") and old.get("observedGeneration"):
        new["observedGeneration"] = old["observedGeneration"]


def _validate_health(states: list[Json] | None, containers: list[Json] | None, field: str) -> Iterator[FieldCause]:
    """How the resources are that containers have asked for. A status may say anything about containers that the spec doesn't have."""
    asked = {container["name"]: container.get("resources") or {} for container in containers or []}
    for number, state in enumerate(states or []):
        for at, told in checks.each(state.get(_RESOURCES), f"{field}[{number}].{_RESOURCES}"):
            if state["name"] in asked:
                yield from _validate_asked_for(told["name"], asked[state["name"]], f"{at}.name")
            yield from _validate_parts(told.get("resources") or [], f"{at}.resources")


def _validate_asked_for(name: str, asked: Json, field: str) -> Iterator[FieldCause]:
    claims = asked.get("claims") or []
    own = {
        f"claim:{claim['name']}/{claim['request']}" if claim.get("request") else f"claim:{claim['name']}"
        for claim in claims
    }
    if name.startswith("claim:"):
        if name not in own:
            yield field_errors.invalid(field, name, _NO_CLAIM)
    elif name not in (asked.get("requests") or {}):
        yield field_errors.invalid(field, name, "must match one of the container's resource requests")


def _validate_parts(parts: list[Json], field: str) -> Iterator[FieldCause]:
    twice = checks.repeated([part["resourceID"] for part in parts])
    for number, part in enumerate(parts):
        if number in twice:
            yield field_errors.duplicate(f"{field}[{number}].resourceID", part["resourceID"])
        yield from checks.one_of(part.get("health", ""), f"{field}[{number}].health", _HEALTH)
        if part.get("message") == "":
            yield field_errors.required(f"{field}[{number}].message", "must be non-empty if specified")
        elif len(part.get("message", "").encode()) > _MESSAGE_MAX:
            yield field_errors.too_long(f"{field}[{number}].message", _MESSAGE_MAX)


def _validate_addresses(status: Json, before: Json) -> list[FieldCause]:
    """An old address may stay, whatever it is."""
    found = []
    for part in ("podIPs", "hostIPs"):
        given, old = status.get(part) or [], {one["ip"] for one in before.get(part) or ()}
        wrong = [
            cause
            for at, one in checks.each(given, f"status.{part}")
            if one["ip"] not in old
            for cause in addresses.validate(one["ip"], at)
        ]
        if not wrong and len({":" in one["ip"] for one in given}) < len(given):
            wrong.append(
                field_errors.invalid(f"status.{part}", given, "may specify no more than one IP for each IP family")
            )
        found += wrong
    hosts = status.get("hostIPs") or []
    if hosts and status.get("hostIP", "") != hosts[0]["ip"]:
        found.append(field_errors.invalid("status.hostIPs[0].ip", hosts[0]["ip"], "must be equal to `hostIP`"))
    return found


def _validate_states(status: Json, before: Json, part: str, spec: Json) -> Iterator[FieldCause]:
    """A container that has ended for good does not come back."""
    containers = {container["name"]: container for container in spec.get(_STATUSES[part]) or []}
    for field, was in checks.each(before.get(part), f"status.{part}"):
        end, name = was["state"].get("terminated"), was["name"]
        back = any(now["name"] == name and not now["state"].get("terminated") for now in status.get(part) or [])
        if end and back and not (name in containers and _may_restart(containers[name], spec, end["exitCode"])):
            yield field_errors.forbidden(f"{field}.state", "may not be transitioned to non-terminated state")


def _may_restart(container: Json, spec: Json, exit_code: int) -> bool:
    """By a rule of its own, or of another one that restarts them all; else by its own policy, else by the pod's."""
    every = [
        rule
        for part in ("initContainers", "containers")
        for one in spec.get(part) or []
        for rule in one.get("restartPolicyRules") or []
    ]
    if any(rule.get("action") == "RestartAllContainers" for rule in every):
        return True
    for rule in container.get("restartPolicyRules") or [] if "restartPolicy" in container else []:
        if (exit_code in (rule["exitCodes"].get("values") or [])) == (rule["exitCodes"]["operator"] == "In"):
            return True
    policy = container.get("restartPolicy", spec["restartPolicy"])
    return bool(policy == "Always" or (policy == "OnFailure" and exit_code))


def _validate_users(states: list[Json] | None, field: str, spec: Json) -> Iterator[FieldCause]:
    """The ids of the users that containers run as. A pod for Windows has none."""
    for at, state in checks.each(states, field):
        user = (state.get("user") or {}).get("linux")
        if user is None:
            continue
        if (spec.get("os") or {}).get("name") == "windows":
            yield field_errors.forbidden(f"{at}.user.linux", "cannot be set for a windows pod")
            continue
        for part in ("uid", "gid"):
            yield from podsecurity.user_id(user[part], f"{at}.user.linux.{part}")
        for place, group in checks.each(user.get("supplementalGroups"), f"{at}.user.linux.supplementalGroups"):
            yield from podsecurity.user_id(group, place)


def _validate_claims(claims: list[Json], spec: Json, field: str) -> Iterator[FieldCause]:
    """Each is of an entry of the spec, and another one's."""
    known = {claim["name"] for claim in spec.get("resourceClaims") or []}
    twice = checks.repeated([claim["name"] for claim in claims])
    for number, claim in enumerate(claims):
        at = f"{field}[{number}]"
        if claim["name"] not in known:
            yield field_errors.invalid(
                f"{at}.name", claim["name"], "must match the name of an entry in `spec.resourceClaims`"
            )
        if number in twice:
            yield field_errors.duplicate(f"{at}.name", claim["name"])
        if "resourceClaimName" in claim:
            yield from checks.named(claim["resourceClaimName"], f"{at}.resourceClaimName", names.dns_subdomain)


def _validate_extended(told: Json, spec: Json, field: str) -> Iterator[FieldCause]:
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


def _validate_asked(mapping: Json, spec: Json, at: str) -> Iterator[FieldCause]:
    containers = {one["name"]: one for part in ("initContainers", "containers") for one in spec.get(part) or ()}
    name, resource = mapping["containerName"], mapping["resourceName"]
    if name not in containers:
        yield field_errors.invalid(
            f"{at}.containerName", name, f"must match the name of an entry in {_CONTAINERS.format('.name')}"
        )
    elif resource not in ((containers[name].get("resources") or {}).get("requests") or {}):
        entry = f"an entry in {_CONTAINERS.format('.resources.requests')}"
        yield field_errors.invalid(f"{at}.resourceName", resource, f"must match the extended resource name of {entry}")
