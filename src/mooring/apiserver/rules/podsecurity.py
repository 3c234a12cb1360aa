"""Security contexts, and the fields of a pod that go with one system alone.

Differs from kube-apiserver's default: privileged containers are allowed, as in every cluster with CSI drivers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mooring.api import names
from mooring.apiserver import field_errors
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json
from mooring.apiserver.rules import checks
from mooring.apiserver.rules.podvolumes import relative_path

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
    *(
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
    ),
    *("supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
)
_CONTAINER_PARTS: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)

_ID_MAX: Final = 2**31 - 1
_APP_ARMOR_MAX: Final = 4095
_IPC_SYSCTLS: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_SYSCTL: Final = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")


def validate_pod(context: Json, field: str, spec: Json) -> Iterator[FieldCause]:
    yield from _validate_common(context, field)
    yield from user_id(context.get("fsGroup"), f"{field}.fsGroup")
    for number, group in enumerate(context.get("supplementalGroups") or []):
        yield from user_id(group, f"{field}.supplementalGroups[{number}]")
    for name, allowed in (
        ("fsGroupChangePolicy", ("Always", "OnRootMismatch")),
        ("supplementalGroupsPolicy", ("Merge", "Strict")),
        ("seLinuxChangePolicy", ("Recursive",)),
    ):
        if name in context:
            yield from checks.one_of(context[name], f"{field}.{name}", allowed)
    yield from _validate_sysctls(context, field, spec)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield field_errors.invalid(f"{field}.shareProcessNamespace", True, text)


def validate_container(context: Json, field: str, spec: Json) -> Iterator[FieldCause]:
    yield from _validate_common(context, field)
    if "procMount" in context:
        yield from checks.one_of(context["procMount"], f"{field}.procMount", ("Default", "Unmasked"))
        if context["procMount"] == "Unmasked" and spec.get("hostUsers") is not False:
            yield field_errors.invalid(
                f"{field}.procMount", context["procMount"], "`hostUsers` must be false to use `Unmasked`"
            )
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            yield field_errors.invalid(
                field, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            )
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or []):
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield field_errors.invalid(field, context, text)


def user_id(value: int | None, field: str) -> list[FieldCause]:
    if value is None or 0 <= value <= _ID_MAX:
        return []
    return [field_errors.invalid(field, value, f"must be between 0 and {_ID_MAX}, inclusive")]


def _validate_common(context: Json, field: str) -> Iterator[FieldCause]:
    yield from user_id(context.get("runAsUser"), f"{field}.runAsUser")
    yield from user_id(context.get("runAsGroup"), f"{field}.runAsGroup")
    if "appArmorProfile" in context:
        yield from _validate_app_armor(context["appArmorProfile"], f"{field}.appArmorProfile")
    if "windowsOptions" in context:
        yield from _validate_windows_options(context["windowsOptions"], f"{field}.windowsOptions")
    profile, at = context.get("seccompProfile"), f"{field}.seccompProfile"
    if profile is None:
        return
    yield from _validate_seccomp(profile, at)


def _validate_seccomp(profile: Json, field: str) -> Iterator[FieldCause]:
    kind, local, at = profile["type"], profile.get("localhostProfile"), f"{field}.localhostProfile"
    if kind:
        yield from checks.one_of(kind, f"{field}.type", _PROFILES)
    else:
        yield field_errors.required(f"{field}.type", "type is required when seccompProfile is set")
    if kind == "Localhost" and local is None:
        yield field_errors.required(at, "must be set when seccomp type is Localhost")
    elif kind == "Localhost" and local is not None:
        yield from relative_path(local, at)
    elif local is not None:
        shown = {
            "Type": kind,
            "LocalhostProfile": local,
        }  # the real server's text has the fields of its struct, by their names in Go
        yield field_errors.invalid(at, shown, "can only be set when seccomp type is Localhost")


def _validate_app_armor(profile: Json, field: str) -> Iterator[FieldCause]:
    kind, local, at = profile["type"], profile.get("localhostProfile"), f"{field}.localhostProfile"
    if not kind:
        yield field_errors.required(f"{field}.type", "type is required when appArmorProfile is set")
        return
    yield from checks.one_of(kind, f"{field}.type", _PROFILES)
    if kind != "Localhost":
        if local is not None and kind in _PROFILES:
            yield field_errors.invalid(at, local, "can only be set when AppArmor type is Localhost")
    elif not local:
        yield field_errors.required(at, "must be set when AppArmor type is Localhost")
    else:
        if local != local.strip():
            yield field_errors.invalid(at, local, "must not be padded with whitespace")
        if len(local.encode()) > _APP_ARMOR_MAX:
            yield field_errors.too_long(at, _APP_ARMOR_MAX)


def _validate_shared_sysctl(name: str, field: str, spec: Json) -> Iterator[FieldCause]:
    """A pod may not set a sysctl of a namespace that it shares with the host."""
    dotted = name.replace("/", ".")
    if spec.get("hostNetwork") and dotted.startswith("net."):
        yield field_errors.invalid(field, name, "may not be specified when 'hostNetwork' is true")
    if spec.get("hostIPC") and (dotted.startswith(_IPC_SYSCTLS) or dotted == "kernel.sem"):
        yield field_errors.invalid(field, name, "may not be specified when 'hostIPC' is true")


def _validate_sysctls(context: Json, field: str, spec: Json) -> Iterator[FieldCause]:
    seen: set[str] = set()
    for number, sysctl in enumerate(context.get("sysctls") or []):
        name, at = sysctl["name"], f"{field}.sysctls[{number}].name"
        if not name:
            yield field_errors.required(at)
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            yield field_errors.invalid(
                at, name, f"must have at most 253 characters and match regex ^{_SYSCTL.pattern}$"
            )
        elif name in seen:
            yield field_errors.duplicate(at, name)
        yield from _validate_shared_sysctl(name, at, spec)
        seen.add(name)


def _validate_windows_options(options: Json, field: str) -> Iterator[FieldCause]:
    """Those of a pod's or a container's security context."""
    if "gmsaCredentialSpecName" in options:
        yield from checks.named(
            options["gmsaCredentialSpecName"], f"{field}.gmsaCredentialSpecName", names.dns_subdomain
        )
    text, at = options.get("gmsaCredentialSpec"), f"{field}.gmsaCredentialSpec"
    if text == "":
        yield field_errors.invalid(at, text, "gmsaCredentialSpec cannot be an empty string")
    elif text is not None and len(text.encode()) > _SPEC_KIB_MAX * 1024:
        yield field_errors.invalid(at, text, f"gmsaCredentialSpec size must be under {_SPEC_KIB_MAX} KiB")
    if "runAsUserName" in options:
        name = options["runAsUserName"]
        yield from (
            field_errors.invalid(f"{field}.runAsUserName", name, f"runAsUserName{why}") for why in _wrong_with(name)
        )


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


def validate_system(spec: Json) -> Iterator[FieldCause]:
    """The pod as a whole: its processes on the host, and the parts that its system has not."""
    yield from _validate_host_process(spec)
    system = (spec.get("os") or {}).get("name")
    contexts = [("spec.securityContext", spec["securityContext"]), *_contexts(spec)]
    if system == "linux":
        for field, context in contexts:
            if "windowsOptions" in context:
                yield field_errors.forbidden(f"{field}.windowsOptions", "windows options cannot be set for a linux pod")
    elif system == "windows":
        given = [
            f"spec.{part}"
            for part in _HOST_PARTS
            if spec.get(part) or (part in spec and part not in ("hostPID", "hostIPC"))
        ]
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
