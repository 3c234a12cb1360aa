"""The objects that a group snapshot leads to: its content, and a snapshot and a content for each of its volumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mooring.api.core import PersistentVolume
from mooring.api.group_snapshot import (
    GROUP_SNAPSHOT_CONTENTS,
    GROUP_SNAPSHOTS,
    VolumeGroupSnapshot,
    VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent,
    VolumeSnapshotInfo,
)
from mooring.api.meta import Key, Kind, Object
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BOUND_FINALIZER,
    CONTENT_FINALIZER,
    DELETE_POLICY,
    GROUP_CONTENT_FINALIZER,
    GROUP_HANDLE,
    GROUP_SECRET_NAME,
    GROUP_SECRET_NAMESPACE,
    IN_GROUP_FINALIZER,
    group_content_name,
    member_content_name,
    member_name,
)
from mooring.api.snapshot_parameters import ClassParameterError, SnapshotSecret, for_driver, secret_of
from mooring.cluster.snapshots.content import CantTell
from mooring.cluster.snapshots.view import BY_HANDLE, View, handle_key


def group_content(group: VolumeGroupSnapshot, found: VolumeGroupSnapshotClass, handles: Iterable[str]) -> dict[str, Any]:
    """Raises CantTell."""
    meta = group.metadata
    name = group_content_name(meta.uid)
    tokens = {"volumegroupsnapshotcontent.name": name, "volumegroupsnapshot.namespace": meta.namespace}
    try:
        for_driver(found.parameters)
        named = {**tokens, "volumegroupsnapshot.name": meta.name}
        secret = secret_of(SnapshotSecret.GROUP, found.parameters, name_tokens=named, namespace_tokens=tokens)
    except ClassParameterError as error:
        raise CantTell(f"failed to get input parameters to create group snapshot {meta.name}: {error}") from error
    notes = {} if secret is None else {GROUP_SECRET_NAME: secret.name, GROUP_SECRET_NAMESPACE: secret.namespace}
    spec = {
        "volumeGroupSnapshotRef": _reference(group, GROUP_SNAPSHOTS),
        "source": {"volumeHandles": list(handles)},
        "volumeGroupSnapshotClassName": found.metadata.name,
        "deletionPolicy": found.deletion_policy,
        "driver": found.driver,
    }
    return _object(GROUP_SNAPSHOT_CONTENTS, {"name": name, "finalizers": [GROUP_CONTENT_FINALIZER], **_noted(notes)}, spec)


def member(view: View, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent, info: VolumeSnapshotInfo) -> dict[str, Any]:
    """The snapshot of one volume. Of a volume without a claim it names none."""
    volume = _volume(view, content, info)
    claim = volume.spec.claim_ref if volume is not None else None
    owner = {
        "apiVersion": GROUP_SNAPSHOTS.api_version,
        "kind": GROUP_SNAPSHOTS.name,
        "name": group.metadata.name,
        "uid": group.metadata.uid,
    }
    bound = [BOUND_FINALIZER] if content.spec.deletion_policy == DELETE_POLICY else []
    meta = {
        "name": member_name(group.metadata.uid, info.volume_handle),
        "namespace": group.metadata.namespace,
        "finalizers": [AS_SOURCE_FINALIZER, *bound, IN_GROUP_FINALIZER],
        "ownerReferences": [owner],
    }
    return _object(VOLUME_SNAPSHOTS, meta, {"source": {"persistentVolumeClaimName": claim.name if claim is not None else ""}})


def member_content(view: View, snapshot: VolumeSnapshot, content: VolumeGroupSnapshotContent, info: VolumeSnapshotInfo) -> dict[str, Any]:
    """The content of one volume's snapshot. The annotation keeps its driver from making it alone."""
    handle = content.status.volume_group_snapshot_handle if content.status else None
    volume = _volume(view, content, info)
    mode = volume.spec.volume_mode if volume is not None and view.keeps_mode else None
    spec = {
        "volumeSnapshotRef": _reference(snapshot, VOLUME_SNAPSHOTS),
        "source": {"volumeHandle": info.volume_handle},
        "deletionPolicy": content.spec.deletion_policy,
        "driver": content.spec.driver,
        **({"sourceVolumeMode": mode} if mode else {}),
    }
    name = member_content_name(snapshot.metadata.name)
    return _object(
        VOLUME_SNAPSHOT_CONTENTS, {"name": name, "finalizers": [CONTENT_FINALIZER], **_noted({GROUP_HANDLE: handle or ""})}, spec
    )


def member_status(content: VolumeGroupSnapshotContent, info: VolumeSnapshotInfo) -> dict[str, Any]:
    """Of the content of one volume's snapshot."""
    handle = content.status.volume_group_snapshot_handle if content.status else None
    said = {
        "snapshotHandle": info.snapshot_handle,
        "creationTime": info.creation_time,
        "restoreSize": info.restore_size,
        "readyToUse": bool(info.ready_to_use) or (content.status is not None and content.status.ready_to_use is True),
        "volumeGroupSnapshotHandle": handle,
    }
    return {name: value for name, value in said.items() if value is not None}


def member_key(group: VolumeGroupSnapshot, info: VolumeSnapshotInfo) -> Key:
    return Key(group.metadata.namespace, member_name(group.metadata.uid, info.volume_handle))


def _volume(view: View, content: VolumeGroupSnapshotContent, info: VolumeSnapshotInfo) -> PersistentVolume | None:
    return next(iter(view.volumes.by(BY_HANDLE, handle_key(content.spec.driver, info.volume_handle))), None)


def _noted(annotations: Mapping[str, str]) -> dict[str, Any]:
    return {"annotations": dict(annotations)} if annotations else {}


def _object(kind: Kind[Any], metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": dict(metadata), "spec": dict(spec)}


def _reference(obj: Object, kind: Kind[Any]) -> dict[str, str]:
    meta = obj.metadata
    named = {"apiVersion": kind.api_version, "kind": kind.name, "namespace": meta.namespace, "name": meta.name}
    return {**named, "uid": meta.uid, "resourceVersion": meta.resource_version}
