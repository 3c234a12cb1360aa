"""CSI requests about snapshots and groups of them, from contents and their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.api.core import SecretReference
from mooring.api.meta import annotation
from mooring.api.snapshot import VolumeSnapshotContent
from mooring.api.snapshot_kinds import SINGLES, Content, class_name_of, ref_of, row_of, volumes_of
from mooring.api.snapshot_names import (
    PREFIX,
    ClassParameterError,
    for_driver,
    is_group_content,
    secret_of,
    without_ours,
)
from mooring.base.errors import MooringError
from mooring.base.text import quoted
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.options import SnapshotterOptions
from mooring.sidecars.snapshotter.view import View

UUID_LENGTH_MAX: Final = 32


class RequestError(MooringError):
    """The objects can't be expressed as a CSI request: a part is missing or wrong. class_name: of the class that is
    missing.
    """

    def __init__(self, text: str, class_name: str = "") -> None:
        super().__init__(text)
        self.class_name = class_name


def snapshot_name(prefix: str, uuid_length: int, uid: str) -> str:
    """The snapshot's name in requests, the same at each try. uuid_length: -1 takes the uid as it is."""
    return f"{prefix}-{uid if uuid_length == -1 else uid.replace('-', '')[:uuid_length]}"


def name_of(content: Content, options: SnapshotterOptions) -> str:
    """The name of its snapshot, or group, in requests."""
    uid = ref_of(content).uid
    if row_of(content) is SINGLES:
        return snapshot_name(options.snapshot_name_prefix, options.snapshot_name_uuid_length, uid)
    return snapshot_name(options.groupsnapshot_name_prefix, options.groupsnapshot_name_uuid_length, uid)


def extra_metadata(content: Content) -> Mapping[str, str]:
    """The parameters that tell the driver which objects the snapshot is of."""
    ref, prefix = ref_of(content), f"{PREFIX}{row_of(content).prefix}"
    return {
        f"{prefix}/name": ref.name,
        f"{prefix}/namespace": ref.namespace,
        f"{prefix}content/name": content.metadata.name,
    }


def parameters_of(view: View, content: Content, replayed: bool) -> dict[str, str]:
    """The parameters of the content's request. Raises RequestError.

    replayed: the content goes, and the name counts most: a class that is gone or broken keeps nobody from finding what
    was made. Parameters that were sent before are sent again, as far as they are known.
    """
    found, class_name, noun = view.class_of(content), class_name_of(content), row_of(content).noun
    extra = dict(extra_metadata(content)) if view.options.extra_create_metadata else {}
    if found is None and not replayed:
        text = (
            f"failed to get {noun} class {class_name}: {_class_missing(content)}"
            if class_name
            else f"the content names no {noun} class"
        )
        raise RequestError(text, class_name)
    if not ref_of(content).uid:
        raise RequestError(f"{noun} content {content.metadata.name} is not bound to a {noun}")
    if found is None or found.driver != view.driver.name:
        sent = view.memory.of(content.metadata.uid).parameters
        return extra if sent is None else dict(sent)
    try:
        return {**(without_ours(found.parameters) if replayed else for_driver(found.parameters)), **extra}
    except ClassParameterError as error:
        raise RequestError(str(error)) from error


def _class_missing(content: Content) -> str:
    """The API server's words on a class that is not there."""
    kind = row_of(content).classes
    return f'{kind.name.lower()}.{kind.group} "{class_name_of(content)}" not found'


def creation_secret(content: Content) -> SecretReference | None:
    """The Secret that the annotations name, for making and deleting; None unless both are there. Raises RequestError
    for an empty one.
    """
    noted, row = content.metadata.annotations or {}, row_of(content)
    if row.secret_name not in noted or row.secret_namespace not in noted:
        return None
    ref = SecretReference(
        name=annotation(content, row.secret_name), namespace=annotation(content, row.secret_namespace)
    )
    if not ref.name or not ref.namespace:
        raise RequestError(
            f"cannot get credentials for {row.noun} content {quoted(content.metadata.name)}: name or namespace is empty"
        )
    return ref


def question_secret(view: View, content: Content) -> SecretReference | None:
    """The Secret of a question about the content: a group's member has no class, and notes the one of its group.

    No snapshot is at hand, so that templates may name the content alone. Raises RequestError.
    """
    found, class_name = view.class_of(content), class_name_of(content)
    row, named = row_of(content), f"{row_of(content).noun} content {content.metadata.name}"
    if not class_name:
        is_member = isinstance(content, VolumeSnapshotContent) and is_group_content(content)
        return creation_secret(content) if is_member else None
    if found is None:
        raise RequestError(
            f"failed to get {row.noun} class {class_name} for {named}: {_class_missing(content)}", class_name
        )
    tokens = {f"{row.prefix}content.name": content.metadata.name}
    try:
        return secret_of(row.question_secret, found.parameters, name_tokens=tokens, namespace_tokens=tokens)
    except ClassParameterError as error:
        raise RequestError(f"failed to get secret reference for {named}: {error}") from error


class CreateOrder(msgspec.Struct, frozen=True):
    """A snapshot to make, or a group of as many as it has volumes; complete but for the values of its secret."""

    name: str
    volumes: tuple[str, ...]
    parameters: Mapping[str, str]

    def request(self, secrets: Mapping[str, str]) -> csi.CreateSnapshotRequest:
        [volume] = self.volumes
        return csi.CreateSnapshotRequest(
            name=self.name, source_volume_id=volume, parameters=self.parameters, secrets=secrets
        )

    def group_request(self, secrets: Mapping[str, str]) -> csi.CreateVolumeGroupSnapshotRequest:
        return csi.CreateVolumeGroupSnapshotRequest(
            name=self.name, source_volume_ids=self.volumes, parameters=self.parameters, secrets=secrets
        )


def create_order(view: View, content: Content, *, replayed: bool) -> CreateOrder:
    """The order for the content's snapshot, or group. replayed: as in `parameters_of`. Raises RequestError."""
    return CreateOrder(name_of(content, view.options), volumes_of(content), parameters_of(view, content, replayed))


class Made(msgspec.Struct, frozen=True):
    """A snapshot that is made; or a group with its snapshots: the driver may need both to find them."""

    handle: str
    members: tuple[str, ...] = ()

    def delete_request(self, secrets: Mapping[str, str]) -> csi.DeleteSnapshotRequest:
        return csi.DeleteSnapshotRequest(snapshot_id=self.handle, secrets=secrets)

    def list_request(self, secrets: Mapping[str, str]) -> csi.ListSnapshotsRequest:
        """The request that lists this snapshot alone."""
        return csi.ListSnapshotsRequest(snapshot_id=self.handle, secrets=secrets)

    def get_request(self, secrets: Mapping[str, str]) -> csi.GetSnapshotRequest:
        return csi.GetSnapshotRequest(snapshot_id=self.handle, secrets=secrets)

    def get_group_request(self, secrets: Mapping[str, str]) -> csi.GetVolumeGroupSnapshotRequest:
        return csi.GetVolumeGroupSnapshotRequest(
            group_snapshot_id=self.handle, snapshot_ids=self.members, secrets=secrets
        )

    def delete_group_request(self, secrets: Mapping[str, str]) -> csi.DeleteVolumeGroupSnapshotRequest:
        return csi.DeleteVolumeGroupSnapshotRequest(
            group_snapshot_id=self.handle, snapshot_ids=self.members, secrets=secrets
        )
