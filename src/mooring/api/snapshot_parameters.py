"""The parameters of a class of snapshots: ours, the driver's, and the secrets that they name.

Keys under `csi.storage.k8s.io/` are ours and never reach the driver; all others pass through untouched.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from mooring.api.core import SecretReference
from mooring.api.names import dns_label, dns_subdomain
from mooring.api.templates import InvalidTokens, expanded
from mooring.base.errors import MooringError

PREFIX: Final = "csi.storage.k8s.io/"


class ClassParameterError(MooringError):
    """The class's parameters can't be used. str() is shown to users as it is."""


class SnapshotSecret(enum.Enum):
    """The use of a secret, under the names of the error texts."""

    SNAPSHOTTER = ("Snapshotter", "snapshotter-")
    LIST = ("SnapshotterList", "snapshotter-list-")
    GROUP = ("GroupSnapshotter", "group-snapshotter-")
    GROUP_GET = ("GroupSnapshotterGet", "group-snapshotter-get-")

    def __init__(self, title: str, infix: str) -> None:
        self.title = title
        self.name_key = f"{PREFIX}{infix}secret-name"
        self.namespace_key = f"{PREFIX}{infix}secret-namespace"


_KNOWN: Final = frozenset(key for secret in SnapshotSecret for key in (secret.name_key, secret.namespace_key))


def for_driver(parameters: Mapping[str, str] | None) -> dict[str, str]:
    """The parameters without our own. Raises ClassParameterError for a key under our prefix that nobody knows."""
    given = parameters or {}
    for key in sorted(given):
        if key.startswith(PREFIX) and key not in _KNOWN:
            why = f'found unknown parameter key "{key}" with reserved namespace {PREFIX}'
            raise ClassParameterError(f"failed to remove CSI Parameters of prefixed keys: {why}")
    return without_ours(given)


def without_ours(parameters: Mapping[str, str] | None) -> dict[str, str]:
    """The parameters that have nothing of our prefix, known or not."""
    return {key: value for key, value in (parameters or {}).items() if not key.startswith(PREFIX)}


def secret_of(
    kind: SnapshotSecret, parameters: Mapping[str, str] | None, *, name_tokens: Mapping[str, str], namespace_tokens: Mapping[str, str]
) -> SecretReference | None:
    """The secret that the class names for this use; None without. The tokens: what templates may name. Raises ClassParameterError."""
    given = parameters or {}
    name, namespace = given.get(kind.name_key), given.get(kind.namespace_key)
    if name is None and namespace is None:
        return None
    failed = "failed to get name and namespace template from params: "
    if name is None or namespace is None:
        raise ClassParameterError(f"{failed}either name and namespace for {kind.title} secrets specified, Both must be specified")
    if not name or not namespace:
        raise ClassParameterError(f"{failed}{kind.title} secrets specified in parameters but value of either namespace or name is empty")
    in_namespace, named = _resolved(namespace, namespace_tokens), _resolved(name, name_tokens)
    if dns_label(in_namespace):
        raise ClassParameterError(_unusable(namespace, in_namespace, "namespace name"))
    if dns_subdomain(named):
        raise ClassParameterError(_unusable(name, named, "secret name"))
    return SecretReference(name=named, namespace=in_namespace)


def _resolved(template: str, known: Mapping[str, str]) -> str:
    try:
        return expanded(template, known)
    except InvalidTokens as error:
        raise ClassParameterError(f'error resolving value "{template}": {error}') from error


def _unusable(template: str, result: str, what: str) -> str:
    if template == result:
        return f'"{template}" is not a valid {what}'
    return f'"{template}" resolved to "{result}" which is not a valid {what}'
