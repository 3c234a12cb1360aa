"""The containers of a pod: what is valid in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, podenv, podmounts, podprobes, podresources, podsecurity

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_NOT_FOR_INIT: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_ONLY_ALWAYS: Final = "may not be set for init containers without restartPolicy=Always"
_RULE_ACTIONS: Final = ("Restart", "RestartAllContainers")


def validate(spec: Json) -> list[Cause]:
    """All but the ephemeral ones, which have an endpoint of their own."""
    found: list[Cause] = []
    seen: set[str] = set()
    if not spec.get("containers"):
        found.append(field_errors.required("spec.containers"))
    for part in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(part) or []):
            field = f"spec.{part}[{number}]"
            found += validate_name(container["name"], f"{field}.name", seen)
            found += validate_one(container, field, spec)
            if part == "initContainers" and container.get("restartPolicy") != "Always":
                found += [field_errors.forbidden(f"{field}.{name}", _ONLY_ALWAYS) for name in _NOT_FOR_INIT if name in container]
    return found + _validate_host_ports(spec)


def validate_name(name: str, field: str, seen: set[str]) -> list[Cause]:
    """Adds to the names seen."""
    if not name:
        return [field_errors.required(field)]
    found = checks.named(name, field, names.dns_label)
    if name in seen and not found:
        found.append(field_errors.duplicate(field, name))
    seen.add(name)
    return found


def validate_one(container: Json, field: str, spec: Json) -> list[Cause]:
    image = container.get("image", "")
    found = [] if image else [field_errors.required(f"{field}.image")]
    if image != image.strip():
        found.append(field_errors.invalid(f"{field}.image", image, "must not have leading or trailing whitespace"))
    found += checks.one_of(container["terminationMessagePolicy"], f"{field}.terminationMessagePolicy", _MESSAGE_POLICIES)
    found += checks.one_of(container["imagePullPolicy"], f"{field}.imagePullPolicy", PULL_POLICIES)
    found += _validate_ports(container.get("ports") or [], f"{field}.ports", on_host_network=spec.get("hostNetwork", False))
    found += podenv.validate(container, field, spec.get("volumes") or [])
    found += podmounts.validate(container, field, spec.get("volumes") or [])
    found += podprobes.validate(container, field, spec.get("terminationGracePeriodSeconds", 0))
    found += podresources.validate(container["resources"], f"{field}.resources", spec)
    found += _validate_restarts(container, field)
    return found + podsecurity.validate_container(container.get("securityContext") or {}, f"{field}.securityContext")


def _validate_restarts(container: Json, field: str) -> list[Cause]:
    found = podresources.validate_resize_policy(container.get("resizePolicy") or [], f"{field}.resizePolicy")
    rules = container.get("restartPolicyRules") or []
    if rules and not container.get("restartPolicy"):
        found.append(field_errors.required(f"{field}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    for number, rule in enumerate(rules):
        at, codes = f"{field}.restartPolicyRules[{number}]", rule.get("exitCodes")
        found += checks.one_of(rule.get("action", ""), f"{at}.action", _RULE_ACTIONS)
        if codes is not None:
            found += checks.one_of(codes.get("operator", ""), f"{at}.exitCodes.operator", ("In", "NotIn"))
    return found


def _validate_ports(ports: Sequence[Json], field: str, *, on_host_network: bool) -> list[Cause]:
    found: list[Cause] = []
    seen: set[str] = set()
    for number, port in enumerate(ports):
        at, name, inner, outer = f"{field}[{number}]", port.get("name", ""), port["containerPort"], port.get("hostPort", 0)
        if name:
            wrong = podprobes.port_name(name, f"{at}.name")
            found += wrong or ([field_errors.duplicate(f"{at}.name", name)] if name in seen else [])
            seen.add(name)
        if not inner:
            found.append(field_errors.required(f"{at}.containerPort"))
        else:
            found += podprobes.port_number(inner, f"{at}.containerPort")
        if outer:
            found += podprobes.port_number(outer, f"{at}.hostPort")
        if outer and on_host_network and outer != inner:
            found.append(field_errors.invalid(f"{at}.hostPort", outer, "must match `containerPort` when `hostNetwork` is true"))
        found += checks.one_of(port["protocol"], f"{at}.protocol", _PROTOCOLS)
    return found


def _validate_host_ports(spec: Json) -> list[Cause]:
    """Two containers of a pod can't have the same port of the host; init containers may follow one another."""
    found: list[Cause] = []
    seen: set[str] = set()
    for number, container in enumerate(spec.get("containers") or []):
        for index, port in enumerate(container.get("ports") or []):
            if not port.get("hostPort"):
                continue
            place = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
            if place in seen:
                found.append(field_errors.duplicate(f"spec.containers[{number}].ports[{index}].hostPort", place))
            seen.add(place)
    return found
