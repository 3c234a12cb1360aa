"""The rules of a pod's spec beside its volumes and containers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors, metadata
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks, podcontainers, podmounts, podplacement, podresources, podsecurity, podvolumes, podwindows

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_SECONDS_MAX: Final = 2**31 - 1
_IP_TEXT: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_SEARCH: Final = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")
_SEARCH_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
    f"and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SEARCH.pattern}')"
)
_NAMES: Final[tuple[tuple[str, Callable[[str], list[str]]], ...]] = (
    ("serviceAccountName", names.dns_subdomain),
    ("nodeName", names.dns_subdomain),
    ("hostname", names.dns_label),
    ("subdomain", names.dns_label),
    ("priorityClassName", names.dns_subdomain),
)
_NOT_EPHEMERAL: Final = ("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy")
_HOSTNAME_BYTES_MAX: Final = 64


def validate(pod: Json) -> Iterator[FieldCause]:
    spec = pod["spec"]
    yield from podvolumes.validate(spec, pod["metadata"].get("name", ""))
    yield from podcontainers.validate(spec)
    yield from podresources.validate_pod(spec)
    yield from checks.one_of(spec["restartPolicy"], "spec.restartPolicy", RESTART_POLICIES)
    for part, rule in _NAMES:
        if spec.get(part):
            yield from checks.named(spec[part], f"spec.{part}", rule)
    yield from _validate_hostname(spec)
    yield from _validate_dns(spec)
    yield from _validate_lists(spec)
    yield from _validate_gates(spec)
    yield from metadata.labels(spec.get("nodeSelector") or {}, "spec.nodeSelector")
    yield from podsecurity.validate_pod(spec["securityContext"], "spec.securityContext", spec)
    yield from podplacement.validate(spec)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds <= _SECONDS_MAX:
        yield field_errors.invalid("spec.activeDeadlineSeconds", seconds, f"must be between 1 and {_SECONDS_MAX}, inclusive")
    if spec.get("hostUsers") is False:
        yield from (field_errors.forbidden(field, "when `hostUsers` is false") for field in _parts_of_the_host(spec))
    if "os" in spec:
        yield from checks.one_of(spec["os"]["name"], "spec.os", ("linux", "windows"))
    yield from podwindows.validate_pod(spec)


def _parts_of_the_host(spec: Json) -> Iterator[str]:
    """The fields that give a pod a part of its host, which does not go with users of its own."""
    for field, part in (("hostNetwork", "hostNetwork"), ("HostPID", "hostPID"), ("HostIPC", "hostIPC")):  # (so the real one names them)
        if spec.get(part):
            yield f"spec.{field}"
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for field, container in checks.each(spec.get(part), f"spec.{part}"):
            if container.get("volumeDevices"):
                yield f"{field}.volumeDevices"


def address(text: str, field: str) -> list[FieldCause]:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return [field_errors.invalid(field, text, _IP_TEXT)]
    return []


def validate_ephemeral(spec: Json, field: str) -> Iterator[FieldCause]:
    """Also where none is allowed: a template's are looked at before they are refused."""
    targets = [container["name"] for part in ("containers", "initContainers") for container in spec.get(part) or []]
    seen = set(targets)
    for at, container in checks.each(spec.get("ephemeralContainers"), field):
        yield from podcontainers.validate_name(container["name"], f"{at}.name", seen)
        if container.get("targetContainerName") and container["targetContainerName"] not in targets:
            yield field_errors.not_found(f"{at}.targetContainerName", container["targetContainerName"])
        yield from (
            field_errors.forbidden(f"{at}.{part}", "cannot be set for an Ephemeral Container")
            for part in _NOT_EPHEMERAL
            if container.get(part)
        )
        if not container.get("image"):
            yield field_errors.required(f"{at}.image")
        yield from checks.one_of(container["imagePullPolicy"], f"{at}.imagePullPolicy", podcontainers.PULL_POLICIES)
        yield from podmounts.validate(container, at, spec.get("volumes") or [])


def _validate_hostname(spec: Json) -> Iterator[FieldCause]:
    name, field = spec.get("hostnameOverride"), "spec.hostnameOverride"
    if name is None:
        return
    for part in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(part):
            yield field_errors.forbidden(field, f"may not be specified when {part} is true")
    if len(name.encode()) > _HOSTNAME_BYTES_MAX:
        yield field_errors.too_long(field, _HOSTNAME_BYTES_MAX)
    yield from checks.named(name, field, names.dns_subdomain)


def _validate_dns(spec: Json) -> Iterator[FieldCause]:
    policy, config = spec["dnsPolicy"], spec.get("dnsConfig")
    yield from checks.one_of(policy, "spec.dnsPolicy", _DNS_POLICIES)
    if policy == "None" and config is None:
        yield field_errors.required("spec.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
    elif policy == "None" and config is not None and not config.get("nameservers"):
        yield field_errors.required("spec.dnsConfig.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
    for number, server in enumerate((config or {}).get("nameservers") or []):
        yield from address(server, f"spec.dnsConfig.nameservers[{number}]")
    for number, search in enumerate((config or {}).get("searches") or []):
        if search != "." and not _SEARCH.fullmatch(search.removesuffix(".")):
            yield field_errors.invalid(f"spec.dnsConfig.searches[{number}]", search, _SEARCH_TEXT)
    for number, option in enumerate((config or {}).get("options") or []):
        if not option.get("name"):
            yield field_errors.required(f"spec.dnsConfig.options[{number}]", "must not be empty")


def _validate_lists(spec: Json) -> Iterator[FieldCause]:
    for number, alias in enumerate(spec.get("hostAliases") or []):
        yield from address(alias["ip"], f"spec.hostAliases[{number}].ip")
        for index, name in enumerate(alias.get("hostnames") or []):
            yield from checks.named(name, f"spec.hostAliases[{number}].hostnames[{index}]", names.dns_subdomain)
    for number, gate in enumerate(spec.get("readinessGates") or []):
        yield from checks.named(gate["conditionType"], f"spec.readinessGates[{number}].conditionType", names.qualified_name)
    for number, claim in enumerate(spec.get("resourceClaims") or []):
        given = [part for part in ("resourceClaimName", "resourceClaimTemplateName") if part in claim]
        at = f"spec.resourceClaims[{number}]"
        yield from checks.named(claim["name"], f"{at}.name", names.dns_label) if claim["name"] else [field_errors.required(f"{at}.name")]
        for part in given:
            yield from checks.named(claim[part], f"{at}.{part}", names.dns_subdomain)
        if not given:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield field_errors.invalid(f"spec.resourceClaims[{number}]", claim, text)
        elif len(given) > 1:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield field_errors.invalid(f"spec.resourceClaims[{number}]", claim, text)


def _validate_gates(spec: Json) -> Iterator[FieldCause]:
    seen: set[str] = set()
    for field, gate in checks.each(spec.get("schedulingGates"), "spec.schedulingGates"):
        yield from checks.named(gate["name"], field, names.qualified_name)
        if gate["name"] in seen:
            yield field_errors.duplicate(field, gate["name"])
        seen.add(gate["name"])
