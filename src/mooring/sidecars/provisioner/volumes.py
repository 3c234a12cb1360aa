"""The PersistentVolume of a provisioned volume: begun before the driver is asked, completed by its answer."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

import msgspec

from mooring.api.core import PersistentVolumeClaim, SecretReference
from mooring.api.quantity import Quantity
from mooring.api.storage import StorageClass
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims.parameters import SecretKind
from mooring.sidecars.provisioner.topology import node_affinity

Json: TypeAlias = dict[str, Any]

_REFS: Final[Mapping[SecretKind, str]] = {
    SecretKind.CONTROLLER_PUBLISH: "controllerPublishSecretRef",
    SecretKind.NODE_STAGE: "nodeStageSecretRef",
    SecretKind.NODE_PUBLISH: "nodePublishSecretRef",
    SecretKind.CONTROLLER_EXPAND: "controllerExpandSecretRef",
    SecretKind.NODE_EXPAND: "nodeExpandSecretRef",
}

_NOTES: Final = (
    names.DELETION_SECRET_NAME,
    names.DELETION_SECRET_NAMESPACE,
    names.MODIFY_SECRET_NAME,
    names.MODIFY_SECRET_NAMESPACE,
)
"""Annotations that name secrets."""


def begun(
    name: str,
    claim: PersistentVolumeClaim,
    class_name: str,
    storage_class: StorageClass,
    secrets: Mapping[SecretKind, SecretReference | None],
    *,
    driver_name: str,
    fs_type: str,
    read_only: bool,
    attributes_class: str,
) -> Json:
    """The object as far as claim and class determine it. fs_type: "" for none, and for blocks.

    Differs from external-provisioner, which puts its finalizer on every volume and takes it off those that are to be retained.
    """
    keeps = storage_class.reclaim_policy or "Retain"  # the API server's default for volumes
    source: Json = {"driver": driver_name}
    if fs_type:
        source["fsType"] = fs_type
    if read_only:
        source["readOnly"] = True
    for kind, field in _REFS.items():
        secret = secrets.get(kind)
        if secret is not None:
            source[field] = {"name": secret.name, "namespace": secret.namespace}
    spec: Json = {
        "accessModes": list(claim.spec.access_modes or ()),
        "persistentVolumeReclaimPolicy": keeps,
        "storageClassName": class_name,
        "claimRef": _reference(claim),
        "csi": source,
    }
    if storage_class.mount_options:
        spec["mountOptions"] = list(storage_class.mount_options)
    if claim.spec.volume_mode is not None:
        spec["volumeMode"] = claim.spec.volume_mode
    if attributes_class:
        spec["volumeAttributesClassName"] = attributes_class
    metadata: Json = {"name": name, "annotations": _annotations(storage_class.provisioner, secrets)}
    if keeps == "Delete":
        metadata["finalizers"] = [names.VOLUME_FINALIZER]
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


def _reference(claim: PersistentVolumeClaim) -> Json:
    meta = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }


def _annotations(provisioner: str, secrets: Mapping[SecretKind, SecretReference | None]) -> dict[str, str]:
    """The deletion's secret is noted even when there is none, so that the deletion need not read the class."""
    deletion = secrets.get(SecretKind.PROVISIONER) or SecretReference()
    modify = secrets.get(SecretKind.CONTROLLER_MODIFY)
    notes = {
        names.PROVISIONED_BY: provisioner,
        names.DELETION_SECRET_NAME: deletion.name,
        names.DELETION_SECRET_NAMESPACE: deletion.namespace,
    }
    if modify is not None:
        notes[names.MODIFY_SECRET_NAME] = modify.name
        notes[names.MODIFY_SECRET_NAMESPACE] = modify.namespace
    return notes


def completed(text: str, volume: csi.Volume, required_bytes: int, identity: str, uses_topology: bool) -> Json:
    """The object with the driver's answer. text: the begun object, as JSON."""
    body: Json = msgspec.json.decode(text)
    spec = body["spec"]
    spec["capacity"] = {"storage": bytes_text(volume.capacity_bytes or required_bytes)}
    spec["csi"]["volumeHandle"] = volume.volume_id
    spec["csi"]["volumeAttributes"] = {names.IDENTITY: identity, **volume.volume_context}
    affinity = node_affinity(topology.segments for topology in volume.accessible_topology) if uses_topology else None
    if affinity is not None:
        spec["nodeAffinity"] = affinity
    return body


def with_secrets_of(text: str, other: str) -> str:
    """The object that was begun, with the secrets of another one. Both as JSON."""
    body, newer = msgspec.json.decode(text), msgspec.json.decode(other)
    for fields, others, keys in (
        (body["metadata"]["annotations"], newer["metadata"]["annotations"], _NOTES),
        (body["spec"]["csi"], newer["spec"]["csi"], _REFS.values()),
    ):
        for key in keys:
            fields.pop(key, None)
            if key in others:
                fields[key] = others[key]
    return text_of(body)


def retained(text: str) -> str:
    """The object that was begun, to be kept whatever its class says. Both as JSON."""
    body = msgspec.json.decode(text)
    body["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
    body["metadata"].pop("finalizers", None)
    return text_of(body)


def retains(text: str) -> bool:
    """True when the object that was begun keeps its volume after the claim is deleted. JSON."""
    policy: str = msgspec.json.decode(text)["spec"]["persistentVolumeReclaimPolicy"]
    return policy == "Retain"


def text_of(body: Json) -> str:
    return msgspec.json.encode(body).decode()


def bytes_text(size: int) -> str:
    """`1Gi`, as the API server writes a binary quantity."""
    return str(Quantity(Decimal(size), "binary"))
