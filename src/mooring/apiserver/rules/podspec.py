"""The rules of a pod's spec beside its volumes and containers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors, metadata
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import (
    addresses,
    checks,
    podcontainers,
    podplacement,
    podresources,
    podsecurity,
    podvolumes,
)

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_SECONDS_MAX: Final = 2**31 - 1
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
_NOT_EPHEMERAL: Final = (
    *("ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"),
    *("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"),
)
_NAMESERVERS_MAX: Final = 3
_SEARCHES_MAX: Final = 32
_SEARCH_LETTERS_MAX: Final = 2048
_SUBDOMAIN_MAX: Final = 253
_HOSTNAME_BYTES_MAX: Final = 64


def validate(spec: Json, name: str | None) -> Iterator[FieldCause]:
    """name: the pod's; None for a template."""
    found, volumes = podvolumes.examine(spec, name)
    yield from found
    yield from podcontainers.validate(spec, volumes)
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
        yield field_errors.invalid(
            "spec.activeDeadlineSeconds", seconds, f"must be between 1 and {_SECONDS_MAX}, inclusive"
        )
    if spec.get("hostUsers") is False:
        yield from (field_errors.forbidden(field, "when `hostUsers` is false") for field in _parts_of_the_host(spec))
    if "os" in spec:
        system = spec["os"]["name"]
        yield from (
            checks.one_of(system, "spec.os", ("linux", "windows"))
            if system
            else [field_errors.required("spec.os.name")]
        )
    yield from podsecurity.validate_system(spec)


def _parts_of_the_host(spec: Json) -> Iterator[str]:
    """The fields that give a pod a part of its host, which does not go with users of its own."""
    for field, part in (
        ("hostNetwork", "hostNetwork"),
        ("HostPID", "hostPID"),
        ("HostIPC", "hostIPC"),
    ):  # (so the real one names them)
        if spec.get(part):
            yield f"spec.{field}"
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for field, container in checks.each(spec.get(part), f"spec.{part}"):
            if container.get("volumeDevices"):
                yield f"{field}.volumeDevices"


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
        yield field_errors.required(
            "spec.dnsConfig.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None"
        )
    elif config is not None:
        yield from _validate_dns_config(config, "spec.dnsConfig")


def _validate_dns_config(config: Json, field: str) -> Iterator[FieldCause]:
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > _NAMESERVERS_MAX:
        yield field_errors.invalid(
            f"{field}.nameservers", servers, f"must not have more than {_NAMESERVERS_MAX} nameservers"
        )
    if len(searches) > _SEARCHES_MAX:
        yield field_errors.invalid(
            f"{field}.searches", searches, f"must not have more than {_SEARCHES_MAX} search paths"
        )
    if len(" ".join(searches).encode()) > _SEARCH_LETTERS_MAX:
        text = f"must not have more than {_SEARCH_LETTERS_MAX} characters (including spaces) in the search list"
        yield field_errors.invalid(f"{field}.searches", searches, text)
    for at, server in checks.each(servers, f"{field}.nameservers"):
        yield from addresses.validate(server, at)
    for at, search in checks.each(searches, f"{field}.searches"):
        name = search.removesuffix(".")
        if len(name.encode()) > _SUBDOMAIN_MAX:
            yield field_errors.invalid(at, search, f"must be no more than {_SUBDOMAIN_MAX} characters")
        if search != "." and not _SEARCH.fullmatch(name):
            yield field_errors.invalid(at, search, _SEARCH_TEXT)
    for number, option in enumerate(config.get("options") or []):
        if not option.get("name"):
            yield field_errors.required(f"spec.dnsConfig.options[{number}]", "must not be empty")


def _validate_lists(spec: Json) -> Iterator[FieldCause]:
    for number, alias in enumerate(spec.get("hostAliases") or []):
        yield from addresses.validate(alias["ip"], f"spec.hostAliases[{number}].ip")
        for index, name in enumerate(alias.get("hostnames") or []):
            yield from checks.named(name, f"spec.hostAliases[{number}].hostnames[{index}]", names.dns_subdomain)
    for number, gate in enumerate(spec.get("readinessGates") or []):
        yield from checks.named(
            gate["conditionType"], f"spec.readinessGates[{number}].conditionType", names.qualified_name
        )
    seen: set[str] = set()
    for number, claim in enumerate(spec.get("resourceClaims") or []):
        given = [part for part in ("resourceClaimName", "resourceClaimTemplateName") if part in claim]
        at = f"spec.resourceClaims[{number}]"
        if not claim["name"]:
            yield field_errors.required(f"{at}.name")
        elif claim["name"] in seen:
            yield field_errors.duplicate(f"{at}.name", claim["name"])
        else:
            yield from checks.named(claim["name"], f"{at}.name", names.dns_label)
        seen.add(claim["name"])
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
