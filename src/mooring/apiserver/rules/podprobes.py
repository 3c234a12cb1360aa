"""Probes and life-cycle hooks of containers, and the ports that they name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import Cause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_COUNTS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_HEADER: Final = re.compile(r"[-A-Za-z0-9]+")
_HEADER_TEXT: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
    f"regex used for validation is '{_HEADER.pattern}')"
)
_ONCE: Final = ("livenessProbe", "startupProbe")


def validate(container: Json, field: str, grace_s: int) -> list[Cause]:
    """grace_s: the pod's grace, in seconds."""
    found: list[Cause] = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            found += _validate_probe(name, container[name], f"{field}.{name}", grace_s)
    for name in ("postStart", "preStop"):
        handler = (container.get("lifecycle") or {}).get(name)
        if handler is not None:
            found += _validate_handler(handler, f"{field}.lifecycle.{name}", grace_s)
    return found


def port_number(port: int, field: str) -> list[Cause]:
    return [] if 1 <= port <= 65535 else [field_errors.invalid(field, port, "must be between 1 and 65535, inclusive")]


def port_name(name: str, field: str) -> list[Cause]:
    """At most 15 of small letters, digits and hyphens, one of them a letter."""
    wrong = []
    if len(name) > 15:
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


def _validate_probe(name: str, probe: Json, field: str, grace_s: int) -> list[Cause]:
    found = _validate_handler(probe, field, grace_s)
    for count in _COUNTS:
        found += checks.at_least(probe.get(count), f"{field}.{count}", 0)
    own_grace = probe.get("terminationGracePeriodSeconds")
    if own_grace is not None and own_grace <= 0:
        found.append(field_errors.invalid(f"{field}.terminationGracePeriodSeconds", own_grace, "must be greater than 0"))
    if name in _ONCE and probe["successThreshold"] != 1:
        found.append(field_errors.invalid(f"{field}.successThreshold", probe["successThreshold"], "must be 1"))
    if name == "readinessProbe" and own_grace is not None:
        text = "must not be set for readinessProbes"
        found.append(field_errors.invalid(f"{field}.terminationGracePeriodSeconds", own_grace, text))
    return found


def _validate_handler(handler: Mapping[str, Any], field: str, grace_s: int) -> list[Cause]:
    given = [name for name in _HANDLERS if name in handler]
    if not given:
        return [field_errors.required(field, "must specify a handler type")]
    kind, content, at = given[0], handler[given[0]], f"{field}.{given[0]}"
    found = [field_errors.forbidden(f"{field}.{other}", "may not specify more than 1 handler type") for other in given[1:]]
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


def _validate_http(content: Json, field: str) -> list[Cause]:
    found = [] if content["path"] else [field_errors.required(f"{field}.path")]
    found += _port(content["port"], f"{field}.port") + checks.one_of(content["scheme"], f"{field}.scheme", ("HTTP", "HTTPS"))
    for header in content.get("httpHeaders") or []:
        if not _HEADER.fullmatch(header["name"]):
            found.append(field_errors.invalid(f"{field}.httpHeaders", header["name"], _HEADER_TEXT))
    return found


def _port(port: int | str, field: str) -> list[Cause]:
    return port_name(port, field) if isinstance(port, str) else port_number(port, field)
