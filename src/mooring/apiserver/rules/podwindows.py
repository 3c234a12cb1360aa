"""Pods for Windows: the options of their security contexts, and the fields that go with one system alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks

_SPEC_KIB_MAX: Final = 64
_DOMAIN_MAX: Final = 256
_USER_MAX: Final = 104
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DOMAIN: Final = re.compile(rf'[^\\/:*?"<>|.][^\\/:*?"<>|]{{0,14}}|{_LABEL}(?:\.{_LABEL})*')
"""As NetBIOS or DNS names it."""
_DOTS_AND_SPACES: Final = re.compile(r"[. ]+")
_NOT_IN_USERS: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_NOT_OF_WINDOWS: Final = "cannot be set for a windows pod"
_HOST_PARTS: Final = ("hostPID", "hostIPC", "hostUsers", "shareProcessNamespace")
_POD_PARTS: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser", "runAsGroup"),
    *("supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
)
_CONTAINER_PARTS: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)


def validate_options(options: Json, field: str) -> Iterator[FieldCause]:
    """Those of a pod's or a container's security context."""
    if "gmsaCredentialSpecName" in options:
        yield from checks.named(options["gmsaCredentialSpecName"], f"{field}.gmsaCredentialSpecName", names.dns_subdomain)
    text, at = options.get("gmsaCredentialSpec"), f"{field}.gmsaCredentialSpec"
    if text == "":
        yield field_errors.invalid(at, text, "gmsaCredentialSpec cannot be an empty string")
    elif text is not None and len(text.encode()) > _SPEC_KIB_MAX * 1024:
        yield field_errors.invalid(at, text, f"gmsaCredentialSpec size must be under {_SPEC_KIB_MAX} KiB")
    if "runAsUserName" in options:
        name = options["runAsUserName"]
        yield from (field_errors.invalid(f"{field}.runAsUserName", name, f"runAsUserName{why}") for why in _wrong_with(name))


def _wrong_with(name: str) -> Iterator[str]:
    """name: `user` or `domain\\user`."""
    domain, backslash, user = name.rpartition("\\")
    if not name:
        yield " cannot be an empty string"
    elif _CONTROL.search(name):
        yield " cannot contain control characters"
    elif "\\" in domain:
        yield " cannot contain more than one backslash"
    else:
        yield from _wrong_with_parts(domain if backslash else None, user)


def _wrong_with_parts(domain: str | None, user: str) -> Iterator[str]:
    if domain is not None and len(domain.encode()) >= _DOMAIN_MAX:
        yield f"'s Domain length must be under {_DOMAIN_MAX} characters"
    if domain is not None and not _DOMAIN.fullmatch(domain):
        yield "'s Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "'s User cannot be empty"
    elif len(user.encode()) > _USER_MAX:
        yield f"'s User length must not be longer than {_USER_MAX} characters"
    if _DOTS_AND_SPACES.fullmatch(user):
        yield "'s User cannot contain only periods or spaces"
    if _NOT_IN_USERS.search(user):
        yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def validate_pod(spec: Json) -> Iterator[FieldCause]:
    """The pod as a whole: its processes on the host, and the parts that its system has not."""
    yield from _validate_host_process(spec)
    system = (spec.get("os") or {}).get("name")
    contexts = [("spec.securityContext", spec["securityContext"]), *_contexts(spec)]
    if system == "linux":
        for field, context in contexts:
            if "windowsOptions" in context:
                yield field_errors.forbidden(f"{field}.windowsOptions", "windows options cannot be set for a linux pod")
    elif system == "windows":
        given = [f"spec.{part}" for part in _HOST_PARTS if spec.get(part) or (part in spec and part not in ("hostPID", "hostIPC"))]
        for field, context in contexts:
            parts = _POD_PARTS if context is spec["securityContext"] else _CONTAINER_PARTS
            given += [f"{field}.{part}" for part in parts if part in context]
        yield from (field_errors.forbidden(field, _NOT_OF_WINDOWS) for field in given)


def _contexts(spec: Json) -> Iterator[tuple[str, Json]]:
    """The security context of each container, {} where it has none."""
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for field, container in checks.each(spec.get(part), f"spec.{part}"):
            yield f"{field}.securityContext", container.get("securityContext") or {}


def _validate_host_process(spec: Json) -> Iterator[FieldCause]:
    pods = (spec["securityContext"].get("windowsOptions") or {}).get("hostProcess")
    on_host = []
    for field, context in _contexts(spec):
        own = (context.get("windowsOptions") or {}).get("hostProcess")
        if None not in (pods, own) and pods != own:
            text = f"pod hostProcess value must be identical if both are specified, was {str(pods).lower()}"
            yield field_errors.invalid(f"{field}.windowsOptions.hostProcess", own, text)
        on_host.append(bool(pods if own is None else own))
    if any(on_host):
        if not all(on_host):
            text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
            yield field_errors.invalid("spec", "", text)
        if not spec.get("hostNetwork"):
            text = "hostNetwork must be true if pod contains any hostProcess containers"
            yield field_errors.invalid("spec.hostNetwork", False, text)
