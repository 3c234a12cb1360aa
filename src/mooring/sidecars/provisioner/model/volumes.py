"""The PersistentVolume of a claim and its class: begun before the driver is asked, completed by its answer.

The class's keys under `csi.storage.k8s.io/` are ours and never reach the driver: the file system, and the secrets that
the object names. All other parameters pass through untouched, the old spellings of ours too. Templates, `${pvc.name}`
and its like: `api/templates.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

import msgspec

from mooring.api.core import PersistentVolumeClaim, SecretReference
from mooring.api.names import dns_label, dns_subdomain
from mooring.api.quantity import Quantity
from mooring.api.storage import StorageClass
from mooring.api.templates import InvalidTokens, expanded
from mooring.base.errors import MooringError
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.model.topology import node_affinity

PREFIX: Final = "csi.storage.k8s.io/"
FS_TYPE: Final = f"{PREFIX}fstype"


class ParameterError(MooringError):
    """The class's parameters can't be used. str() is the event's text, as external-provisioner has it."""


class SecretKind(enum.Enum):
    """The use of a secret, under the names of the error texts. new, old: the keys' prefixes; old is "" where there
    never was one.
    """

    DEFAULT = ("Default", "", "")
    PROVISIONER = ("Provisioner", "provisioner-", "csiProvisionerSecret")
    CONTROLLER_PUBLISH = ("ControllerPublish", "controller-publish-", "csiControllerPublishSecret")
    NODE_STAGE = ("NodeStage", "node-stage-", "csiNodeStageSecret")
    NODE_PUBLISH = ("NodePublish", "node-publish-", "csiNodePublishSecret")
    CONTROLLER_EXPAND = ("ControllerExpand", "controller-expand-", "")
    NODE_EXPAND = ("NodeExpand", "node-expand-", "")
    CONTROLLER_MODIFY = ("ControllerModify", "controller-modify-", "")

    def __init__(self, title: str, new: str, old: str) -> None:
        self.title = title
        self.name_keys = (f"{PREFIX}{new}secret-name", *([f"{old}Name"] if old else []))
        self.namespace_keys = (f"{PREFIX}{new}secret-namespace", *([f"{old}Namespace"] if old else []))
        self.keys = frozenset({*self.name_keys, *self.namespace_keys})


_KNOWN: Final = frozenset({FS_TYPE}.union(*(kind.keys for kind in SecretKind)))


class TemplateValues(msgspec.Struct, frozen=True):
    """The values that templates may name."""

    pv_name: str
    claim_namespace: str
    #: None in a deletion, where the claim is not known; so are its annotations.
    claim_name: str | None = None
    claim_annotations: Mapping[str, str] | None = None


def for_driver(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters without our own. Raises ParameterError for a key under our prefix that nobody knows."""
    for key in sorted(parameters):
        if key.startswith(PREFIX) and key not in _KNOWN:
            why = f'found unknown parameter key "{key}" with reserved namespace csi.storage.k8s.io/'
            raise ParameterError(f"failed to strip CSI Parameters of prefixed keys: {why}")
    return {key: value for key, value in parameters.items() if not key.startswith(PREFIX)}


def fs_type(parameters: Mapping[str, str], default: str) -> str:
    """The file system that the class asks for. Raises ParameterError when it does so twice."""
    found = [value for key, value in parameters.items() if key == FS_TYPE or key.lower() == "fstype"]
    if len(found) > 1:
        raise ParameterError(f'fstype specified in parameters with both "fstype" and "{FS_TYPE}" keys')
    return (found[0] if found else "") or default


def secret_of(kind: SecretKind, parameters: Mapping[str, str], values: TemplateValues) -> SecretReference | None:
    """The secret of that kind, or the default one; None without. Raises ParameterError."""
    templates = _templates(kind, parameters)
    if templates is None and kind is not SecretKind.DEFAULT:
        templates = _templates(SecretKind.DEFAULT, parameters)
    if templates is None:
        return None
    name, namespace = templates
    known = {"pv.name": values.pv_name, "pvc.namespace": values.claim_namespace}
    in_namespace = _resolved(namespace, known)
    if dns_label(in_namespace):
        raise ParameterError(_unusable(namespace, in_namespace, "namespace name"))
    if values.claim_name is not None:
        known["pvc.name"] = values.claim_name
        known.update({f"pvc.annotations['{key}']": value for key, value in (values.claim_annotations or {}).items()})
    named = _resolved(name, known)
    if dns_subdomain(named):
        raise ParameterError(_unusable(name, named, "secret name"))
    return SecretReference(name=named, namespace=in_namespace)


def _templates(kind: SecretKind, parameters: Mapping[str, str]) -> tuple[str, str] | None:
    """Name and namespace as the class has them."""
    if kind.keys.isdisjoint(parameters):
        return None
    names = [parameters[key] for key in kind.name_keys if key in parameters]
    namespaces = [parameters[key] for key in kind.namespace_keys if key in parameters]
    failed = "failed to get default name" if kind is SecretKind.DEFAULT else "failed to get name"
    failed += " and namespace template from params: "
    if len(names) > 1 or len(namespaces) > 1:
        why = f'{kind.title} secrets specified in parameters with both "csi" and "{PREFIX}" keys'
    elif not names or not namespaces:
        why = f"either name and namespace for {kind.title} secrets specified, Both must be specified"
    elif not names[0] or not namespaces[0]:
        why = f"{kind.title} secrets specified in parameters but value of either namespace or name is empty"
    else:
        return names[0], namespaces[0]
    raise ParameterError(failed + why)


def _resolved(template: str, known: Mapping[str, str]) -> str:
    try:
        return expanded(template, known)
    except InvalidTokens as error:
        raise ParameterError(f'error resolving value "{template}": {error}') from error


def _unusable(template: str, result: str, what: str) -> str:
    if template == result:
        return f'"{template}" is not a valid {what}'
    return f'"{template}" resolved to "{result}" which is not a valid {what}'


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

    Differs from external-provisioner, which puts its finalizer on every volume and takes it off those that are to be
    retained.
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
