"""The few fields of a pod that may change: images, an earlier deadline, more tolerations, gates that open."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, podclaims, podspec

FROZEN: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_RESOURCES: Final = "allocatedResourcesStatus"
_HEALTH: Final = ("Healthy", "Unhealthy", "Unknown")
_NO_CLAIM: Final = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty"
)
_OWN_RULES: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")


def validate(new: Json, old: Json) -> Iterator[Cause]:
    after, before = new["spec"], old["spec"]
    changed = [part for part in ("containers", "initContainers") if len(after.get(part) or []) != len(before.get(part) or [])]
    if changed:
        yield from (field_errors.forbidden(f"spec.{part}", "pod updates may not add or remove containers") for part in changed)
        return
    yield from _validate_deadline(after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    yield from _validate_tolerations(after, before)
    yield from _validate_gates(after, before)
    if _rest(after, before) != _rest(before, before):
        yield field_errors.forbidden("spec", FROZEN)


def validate_created(new: Json) -> Iterator[Cause]:
    """The rules for new pods alone."""
    spec = new["spec"]
    if spec.get("ephemeralContainers"):
        yield field_errors.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        yield field_errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def validate_status(new: Json, old: Json) -> Iterator[Cause]:
    status, before = new["status"], old["status"]
    if before.get("qosClass") and status.get("qosClass") != before["qosClass"]:
        yield field_errors.immutable("status.qosClass", status.get("qosClass"))
    if status.get("nominatedNodeName"):
        yield from checks.named(status["nominatedNodeName"], "status.nominatedNodeName", names.dns_subdomain)
        if new["spec"].get("nodeName") and status["nominatedNodeName"] != before.get("nominatedNodeName"):
            yield field_errors.forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    yield from _validate_addresses(status)
    for number, condition in enumerate(status.get("conditions") or []):
        yield from checks.named(condition["type"], f"status.conditions[{number}].Type", names.qualified_name)
    for part in ("containerStatuses", "initContainerStatuses"):
        yield from _validate_states(status.get(part) or [], before.get(part) or [], f"status.{part}", new["spec"])
    yield from podclaims.validate_statuses(status.get("resourceClaimStatuses") or [], new["spec"], "status.resourceClaimStatuses")
    if "extendedResourceClaimStatus" in status:
        yield from podclaims.validate_extended(status["extendedResourceClaimStatus"], new["spec"], "status.extendedResourceClaimStatus")
    yield from _validate_health(status.get("containerStatuses"), new["spec"].get("containers"), "status.containerStatuses")
    yield from _validate_health(status.get("initContainerStatuses"), new["spec"].get("initContainers"), "status.initContainerStatuses")
    for number, state in enumerate(status.get("ephemeralContainerStatuses") or []):
        if state.get(_RESOURCES):
            field = f"status.ephemeralContainerStatuses[{number}].{_RESOURCES}"
            yield field_errors.forbidden(field, "must not be specified in container status")


def _validate_health(states: list[Json] | None, containers: list[Json] | None, field: str) -> Iterator[Cause]:
    """How the resources are that containers have asked for. A status may say anything about containers that the spec doesn't have."""
    asked = {container["name"]: container.get("resources") or {} for container in containers or []}
    for number, state in enumerate(states or []):
        for place, told in enumerate(state.get(_RESOURCES) or [] if state["name"] in asked else []):
            yield from _validate_allocated(told, asked[state["name"]], f"{field}[{number}].{_RESOURCES}[{place}]")


def _validate_allocated(told: Json, asked: Json, field: str) -> Iterator[Cause]:
    name, claims = told["name"], asked.get("claims") or []
    own = {f"claim:{claim['name']}/{claim['request']}" if claim.get("request") else f"claim:{claim['name']}" for claim in claims}
    if name.startswith("claim:"):
        if name not in own:
            yield field_errors.invalid(f"{field}.name", name, _NO_CLAIM)
    elif name not in (asked.get("requests") or {}):
        yield field_errors.invalid(f"{field}.name", name, "must match one of the container's resource requests")
    parts = told.get("resources") or []
    twice = checks.repeated([part["resourceID"] for part in parts])
    for number, part in enumerate(parts):
        if number in twice:
            yield field_errors.duplicate(f"{field}.resources[{number}].resourceID", part["resourceID"])
        yield from checks.one_of(part.get("health", ""), f"{field}.resources[{number}].health", _HEALTH)


def _validate_deadline(after: int | None, before: int | None) -> list[Cause]:
    if before is None or after == before:
        return []
    field = "spec.activeDeadlineSeconds"
    if after is None:
        return [field_errors.invalid(field, None, "must not update from a positive integer to nil value")]
    return [field_errors.invalid(field, after, "must be less than or equal to previous value")] if after > before else []


def _validate_tolerations(after: Json, before: Json) -> list[Cause]:
    """Each old one is still there, for however long."""
    now = [_timeless(toleration) for toleration in after.get("tolerations") or []]
    if all(_timeless(toleration) in now for toleration in before.get("tolerations") or []):
        return []
    return [field_errors.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]


def _timeless(toleration: Json) -> Json:
    return {part: value for part, value in toleration.items() if part != "tolerationSeconds" or toleration.get("effect") != "NoExecute"}


def _validate_gates(after: Json, before: Json) -> Iterator[Cause]:
    known = [gate["name"] for gate in before.get("schedulingGates") or []]
    yield from (
        field_errors.forbidden(
            f"spec.schedulingGates[{number}].name", f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
        )
        for number, gate in enumerate(after.get("schedulingGates") or [])
        if gate["name"] not in known
    )


def _rest(spec: Json, before: Json) -> Json:
    """Everything that may not change."""
    rest = copy.deepcopy({part: value for part, value in spec.items() if part not in _OWN_RULES})
    for part in ("containers", "initContainers"):
        for container in rest.get(part) or []:
            container.pop("image", None)
    if before.get("schedulingGates"):
        rest.pop("affinity", None)
        chosen, was = rest.pop("nodeSelector", {}), before.get("nodeSelector") or {}
        rest["nodeSelector"] = {key: chosen.get(key) for key in was}  # (while a gate is shut, a choice may become narrower)
    return rest


def _validate_addresses(status: Json) -> list[Cause]:
    addresses, hosts, found = status.get("podIPs") or [], status.get("hostIPs") or [], []
    for part, given in (("podIPs", addresses), ("hostIPs", hosts)):
        for number, one in enumerate(given):
            found += podspec.address(one["ip"], f"status.{part}[{number}]")
    if not found and len({":" in one["ip"] for one in addresses}) < len(addresses):
        found.append(field_errors.invalid("status.podIPs", addresses, "may specify no more than one IP for each IP family"))
    if hosts and status.get("hostIP", "") != hosts[0]["ip"]:
        found.append(field_errors.invalid("status.hostIPs[0].ip", hosts[0]["ip"], "must be equal to `hostIP`"))
    return found


def _validate_states(states: list[Json], before: list[Json], field: str, spec: Json) -> Iterator[Cause]:
    """A container that has ended for good does not come back."""
    if spec["restartPolicy"] == "Always":
        return
    ended = {state["name"]: state["state"]["terminated"] for state in before if state["state"].get("terminated")}
    for number, state in enumerate(states):
        end = ended.get(state["name"])
        if end is None or state["state"].get("terminated") or (end["exitCode"] and spec["restartPolicy"] == "OnFailure"):
            continue
        yield field_errors.forbidden(f"{field}[{number}].state", "may not be transitioned to non-terminated state")
