"""The status of a pod: its conditions and the states of its containers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

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
        yield from field_errors.named(status["nominatedNodeName"], "status.nominatedNodeName", names.dns_subdomain)
        if new["spec"].get("nodeName") and status["nominatedNodeName"] != before.get("nominatedNodeName"):
            yield field_errors.forbidden(
                "status.nominatedNodeName", "may not be set on pods that are already bound to a node"
            )
    for number, condition in enumerate(status.get("conditions") or []):
        yield from checks.not_negative(
            condition.get("observedGeneration"), f"status.conditions[{number}].observedGeneration"
        )
        yield from field_errors.named(condition["type"], f"status.conditions[{number}].Type", names.qualified_name)
    yield from checks.not_negative(status.get("observedGeneration"), "status.observedGeneration")
    for part in _STATUSES:
        yield from _validate_states(status, before, part, old["spec"])


def keep_generations(status: Json, before: Json) -> None:
    """What does not say which generation it has observed keeps the one that was said: also each condition, the first of
    a type first.
    """
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
        codes = rule.get("exitCodes") or {}
        if (exit_code in (codes.get("values") or [])) == (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy", spec["restartPolicy"])
    return bool(policy == "Always" or (policy == "OnFailure" and exit_code))
