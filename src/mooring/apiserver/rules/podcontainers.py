"""Containers of a pod, with their probes and life-cycle hooks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, podenv, podmounts, podresources, podsecurity

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER: Final = re.compile(r"[-A-Za-z0-9]+")
_HEADER_TEXT: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
    f"regex used for validation is '{_HEADER.pattern}')"
)
_ONCE: Final = ("livenessProbe", "startupProbe")


def _validate_probes(container: Json, field: str, grace_s: int) -> Iterator[FieldCause]:
    """grace_s: the pod's grace, in seconds."""
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            yield from _validate_probe(name, container[name], f"{field}.{name}", grace_s)
    for name in ("postStart", "preStop"):
        handler = (container.get("lifecycle") or {}).get(name)
        if handler is not None:
            yield from _validate_handler(handler, f"{field}.lifecycle.{name}", grace_s)


def port_number(port: int, field: str) -> list[FieldCause]:
    return [] if 1 <= port <= 65535 else [field_errors.invalid(field, port, "must be between 1 and 65535, inclusive")]


def port_name(name: str, field: str) -> list[FieldCause]:
    """At most 15 of small letters, digits and hyphens, one of them a letter."""
    wrong = []
    if len(name.encode()) > 15:
        wrong.append("must be no more than 15 characters")
    if not re.fullmatch(r"[-a-z0-9]+", name):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in name:
        wrong.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return [field_errors.invalid(field, name, reason) for reason in wrong]


def _validate_probe(name: str, probe: Json, field: str, grace_s: int) -> Iterator[FieldCause]:
    yield from _validate_handler(probe, field, grace_s)
    for count in _COUNTS:
        yield from checks.at_least(probe.get(count), f"{field}.{count}", 0)
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        yield field_errors.invalid(f"{field}.terminationGracePeriodSeconds", own_grace, "must be greater than 0")
    if name in _ONCE and probe["successThreshold"] != 1:
        yield field_errors.invalid(f"{field}.successThreshold", probe["successThreshold"], "must be 1")
    if name == "readinessProbe" and own_grace is not None:
        text = "must not be set for readinessProbes"
        yield field_errors.invalid(f"{field}.terminationGracePeriodSeconds", own_grace, text)


def _validate_handler(handler: Mapping[str, Any], field: str, grace_s: int) -> list[FieldCause]:
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        return [field_errors.required(field, "must specify a handler type")]
    kind, content, at = given[0], handler[given[0]], f"{field}.{given[0]}"
    found = [
        field_errors.forbidden(f"{field}.{other}", "may not specify more than 1 handler type") for other in given[1:]
    ]
    match kind:
        case "exec":
            found += [] if content.get("command") else [field_errors.required(f"{at}.command")]
        case "httpGet":
            found += _validate_http(content, at)
        case "sleep" if not 0 <= content["seconds"] <= grace_s:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
            found.append(field_errors.invalid(at, content["seconds"], text))
        case "tcpSocket" | "grpc":
            found += _port(content["port"], f"{at}.port")
    return found


def _validate_http(content: Json, field: str) -> list[FieldCause]:
    found = [] if content["path"] else [field_errors.required(f"{field}.path")]
    found += _port(content["port"], f"{field}.port") + checks.one_of(
        content["scheme"], f"{field}.scheme", ("HTTP", "HTTPS")
    )
    for header in content.get("httpHeaders") or []:
        if not _HEADER.fullmatch(header["name"]):
            found.append(field_errors.invalid(f"{field}.httpHeaders", header["name"], _HEADER_TEXT))
    return found


def _port(port: int | str, field: str) -> list[FieldCause]:
    return port_name(port, field) if isinstance(port, str) else port_number(port, field)


PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_NOT_FOR_INIT: Final = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_RESTARTS_ON: Final = "must not be set to 'RestartContainer' for non-sidecar initContainers"
_ONLY_ALWAYS: Final = "may not be set for init containers without restartPolicy=Always"
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_RULE_ACTIONS: Final = ("Restart", "RestartAllContainers")
_RULES_MAX: Final = 20
_CODES_MAX: Final = 255


def validate(spec: Json, volumes: Mapping[str, Json]) -> Iterator[FieldCause]:
    """All but the ephemeral ones, which have an endpoint of their own. volumes: those with which nothing is wrong."""
    seen: set[str] = set()
    if not spec.get("containers"):
        yield field_errors.required("spec.containers")
    for field, container in checks.each(spec.get("containers"), "spec.containers"):
        yield from validate_one(container, field, spec, volumes)
        yield from _validate_restarts(container, field)
        yield from name_once(container["name"], f"{field}.name", seen)
        yield from _validate_probes(container, field, spec.get("terminationGracePeriodSeconds", 0))
    yield from _validate_host_ports(spec.get("containers") or [], "spec.containers")
    if spec.get("hostNetwork"):
        yield from _validate_ports_of_host(spec)
    for field, container in checks.each(spec.get("initContainers"), "spec.initContainers"):
        yield from validate_one(container, field, spec, volumes)
        yield from _validate_restarts(container, field, is_init=True)
        yield from name_once(container["name"], f"{field}.name", seen)
        yield from _validate_host_ports([container], "spec.initContainers")
        if container.get("restartPolicy") == "Always":
            yield from _validate_probes(container, field, spec.get("terminationGracePeriodSeconds", 0))
        else:
            yield from (
                field_errors.forbidden(f"{field}.{name}", _ONLY_ALWAYS) for name in _NOT_FOR_INIT if name in container
            )
            for at, policy in checks.each(container.get("resizePolicy"), f"{field}.resizePolicy"):
                if policy["restartPolicy"] == "RestartContainer":
                    yield field_errors.invalid(f"{at}.restartPolicy", policy["restartPolicy"], _RESTARTS_ON)


def name_once(name: str, field: str, seen: set[str]) -> list[FieldCause]:
    """Adds to the names seen."""
    if name in seen:
        return [field_errors.duplicate(field, name)]
    seen.add(name)
    return []


def validate_one(container: Json, field: str, spec: Json, volumes: Mapping[str, Json]) -> Iterator[FieldCause]:
    """What goes for containers of every sort. None but those that go on running have probes and hooks."""
    name = container["name"]
    yield from (
        checks.named(name, f"{field}.name", names.dns_label) if name else [field_errors.required(f"{field}.name")]
    )
    if not container.get("image"):
        yield field_errors.required(f"{field}.image")
    yield from checks.one_of(
        container["terminationMessagePolicy"], f"{field}.terminationMessagePolicy", _MESSAGE_POLICIES
    )
    yield from checks.one_of(container["imagePullPolicy"], f"{field}.imagePullPolicy", PULL_POLICIES)
    yield from _validate_ports(container.get("ports") or [], f"{field}.ports")
    yield from podenv.validate(container, field, spec.get("volumes") or [])
    yield from podmounts.validate(container, field, volumes)
    yield from podresources.validate(container["resources"], f"{field}.resources", spec)
    yield from podresources.validate_resize_policy(
        container.get("resizePolicy") or [], f"{field}.resizePolicy", spec["restartPolicy"]
    )
    yield from podsecurity.validate_container(container.get("securityContext") or {}, f"{field}.securityContext", spec)


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


def _validate_restarts(container: Json, field: str, *, is_init: bool = False) -> Iterator[FieldCause]:
    rules = container.get("restartPolicyRules") or []
    if is_init and "restartPolicy" not in container:
        if rules:
            yield field_errors.required(
                f"{field}.restartPolicy", "must specify restartPolicy when restart rules are used"
            )
        return
    if "restartPolicy" in container:
        yield from checks.one_of(container["restartPolicy"], f"{field}.restartPolicy", _RESTART_POLICIES)
    elif rules:
        yield field_errors.required(f"{field}.restartPolicy", "must specify restartPolicy when restart rules are used")
    if len(rules) > _RULES_MAX:
        yield field_errors.too_many_items(f"{field}.restartPolicyRules", len(rules), _RULES_MAX)
    for number, rule in enumerate(rules):
        at, codes = f"{field}.restartPolicyRules[{number}]", rule.get("exitCodes")
        yield from checks.one_of(rule.get("action", ""), f"{at}.action", _RULE_ACTIONS)
        if codes is None:
            yield field_errors.required(f"{at}.exitCodes", "must be specified")
        else:
            yield from checks.one_of(codes.get("operator", ""), f"{at}.exitCodes.operator", ("In", "NotIn"))
            if len(codes.get("values") or ()) > _CODES_MAX:
                yield field_errors.too_many_items(f"{at}.exitCodes.values", len(codes["values"]), _CODES_MAX)


def _validate_ports(ports: Sequence[Json], field: str) -> Iterator[FieldCause]:
    seen: set[str] = set()
    for number, port in enumerate(ports):
        at, name, inner, outer = (
            f"{field}[{number}]",
            port.get("name", ""),
            port["containerPort"],
            port.get("hostPort", 0),
        )
        if name:
            wrong = port_name(name, f"{at}.name")
            yield from wrong or ([field_errors.duplicate(f"{at}.name", name)] if name in seen else [])
            seen.add(name)
        if not inner:
            yield field_errors.required(f"{at}.containerPort")
        else:
            yield from port_number(inner, f"{at}.containerPort")
        if outer:
            yield from port_number(outer, f"{at}.hostPort")
        yield from checks.one_of(port["protocol"], f"{at}.protocol", _PROTOCOLS)


def _validate_ports_of_host(spec: Json) -> Iterator[FieldCause]:
    """On the host's network a container has no other ports than the host; what a template leaves out its pods get."""
    for field, container in checks.each(spec.get("containers"), "spec.containers"):
        for at, port in checks.each(container.get("ports"), f"{field}.ports"):
            if port.get("hostPort") and port["hostPort"] != port["containerPort"]:
                text = "must match `containerPort` when `hostNetwork` is true"
                yield field_errors.invalid(f"{at}.hostPort", port["hostPort"], text)


def _validate_host_ports(containers: Sequence[Json], field: str) -> Iterator[FieldCause]:
    """Two containers of a pod can't have the same port of the host; init containers may follow one another, so each comes alone."""
    seen: set[str] = set()
    for number, container in enumerate(containers):
        for index, port in enumerate(container.get("ports") or []):
            if not port.get("hostPort"):
                continue
            place = f"{port['protocol']}/{port.get('hostIP', '')}/{port['hostPort']}"
            if place in seen:
                yield field_errors.duplicate(f"{field}[{number}].ports[{index}].hostPort", place)
            seen.add(place)
