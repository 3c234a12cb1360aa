"""The words of snapshot-controller and csi-snapshotter: finalizers, annotations, labels, names of objects, parameters
of classes.

They talk through contents alone: annotations one way, the status the other. In a class, keys under
`csi.storage.k8s.io/` are ours and never reach the driver; all others pass through untouched.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from typing import Final

from mooring.api.core import SecretReference
from mooring.api.meta import Object
from mooring.api.names import dns_label, dns_subdomain
from mooring.api.snapshot import VolumeSnapshot, VolumeSnapshotContent
from mooring.api.templates import InvalidTokens, expanded
from mooring.base.errors import MooringError

_SINGLE: Final = "snapshot.storage.kubernetes.io/"
_GROUP: Final = "groupsnapshot.storage.kubernetes.io/"

CLAIM_FINALIZER: Final = f"{_SINGLE}pvc-as-source-protection"
AS_SOURCE_FINALIZER: Final = f"{_SINGLE}volumesnapshot-as-source-protection"
BOUND_FINALIZER: Final = f"{_SINGLE}volumesnapshot-bound-protection"
IN_GROUP_FINALIZER: Final = f"{_SINGLE}volumesnapshot-in-group-protection"
CONTENT_FINALIZER: Final = f"{_SINGLE}volumesnapshotcontent-bound-protection"
GROUP_FINALIZER: Final = f"{_GROUP}volumegroupsnapshot-bound-protection"
GROUP_CONTENT_FINALIZER: Final = f"{_GROUP}volumegroupsnapshotcontent-bound-protection"

DEFAULT_CLASS: Final = f"{_SINGLE}is-default-class"
SECRET_NAME: Final = f"{_SINGLE}deletion-secret-name"
SECRET_NAMESPACE: Final = f"{_SINGLE}deletion-secret-namespace"
BEING_CREATED: Final = f"{_SINGLE}volumesnapshot-being-created"
BEING_DELETED: Final = f"{_SINGLE}volumesnapshot-being-deleted"
MANAGED_BY: Final = f"{_SINGLE}managed-by"
GROUP_HANDLE: Final = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle"
GROUP_DEFAULT_CLASS: Final = f"{_GROUP}is-default-class"
GROUP_SECRET_NAME: Final = f"{_GROUP}deletion-secret-name"
GROUP_SECRET_NAMESPACE: Final = f"{_GROUP}deletion-secret-namespace"
GROUP_BEING_CREATED: Final = f"{_GROUP}volumegroupsnapshot-being-created"
GROUP_BEING_DELETED: Final = f"{_GROUP}volumegroupsnapshot-being-deleted"
TOUCHED: Final = "mooring.dev/touched-at-version"
YES: Final = "yes"
_MEMBER: Final = "snapshot-"

SNAPSHOT_KIND: Final = "VolumeSnapshot"
GROUP_SNAPSHOT_KIND: Final = "VolumeGroupSnapshot"
DELETE_POLICY: Final = "Delete"


def content_name(snapshot: VolumeSnapshot) -> str:
    """The name of the content that is made for a dynamic snapshot."""
    return f"snapcontent-{snapshot.metadata.uid}"


def member_name(group_uid: str, volume_handle: str) -> str:
    """The name of the snapshot that a group has of this volume."""
    return f"{_MEMBER}{hashlib.sha256((group_uid + volume_handle).encode()).hexdigest()}"


def member_content_name(snapshot_name: str) -> str:
    """The name of the content of a group's member, "" for a name that no member has."""
    return f"snapcontent-{snapshot_name.removeprefix(_MEMBER)}" if snapshot_name.startswith(_MEMBER) else ""


def group_content_name(group_uid: str) -> str:
    return f"groupsnapcontent-{group_uid}"


def is_marked(obj: Object, mark: str) -> bool:
    """True when the annotation is there, whatever its value."""
    return mark in (obj.metadata.annotations or {})


def is_group_content(content: VolumeSnapshotContent) -> bool:
    """True for the content of a group's member: the driver is never asked to make it alone."""
    return is_marked(content, GROUP_HANDLE)


def is_member(snapshot: VolumeSnapshot) -> bool:
    """True for a snapshot that a group owns: no finalizer and no status says so."""
    return any(owner.kind == GROUP_SNAPSHOT_KIND for owner in snapshot.metadata.owner_references or ())


# -- the parameters of a class

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
    kind: SnapshotSecret,
    parameters: Mapping[str, str] | None,
    *,
    name_tokens: Mapping[str, str],
    namespace_tokens: Mapping[str, str],
) -> SecretReference | None:
    """The secret that the class names for this use; None without. The tokens: what templates may name. Raises
    ClassParameterError.
    """
    given = parameters or {}
    name, namespace = given.get(kind.name_key), given.get(kind.namespace_key)
    if name is None and namespace is None:
        return None
    failed = "failed to get name and namespace template from params: "
    if name is None or namespace is None:
        raise ClassParameterError(
            f"{failed}either name and namespace for {kind.title} secrets specified, Both must be specified"
        )
    if not name or not namespace:
        raise ClassParameterError(
            f"{failed}{kind.title} secrets specified in parameters but value of either namespace or name is empty"
        )
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
