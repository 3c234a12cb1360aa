"""Builders of API objects for tests: functions with defaults, in the words of the specification's base situation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mooring.api.core import PersistentVolume
from mooring.api.storage import CSINode, VolumeAttachment

DRIVER = "csi.test"
FINALIZER = "external-attacher/csi-test"
NODE_ID_ANNOTATION = "csi.alpha.kubernetes.io/node-id"
DELETED = "2026-01-01T00:00:00Z"


def a_pv(
    name: str = "pv1",
    handle: str = "handle1",
    *,
    modes: Iterable[str] | None = ("ReadWriteMany",),
    finalizers: Iterable[str] | None = (FINALIZER,),
    deleting: bool = False,
    source: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    **csi: Any,
) -> dict[str, Any]:
    """A PersistentVolume as JSON values. csi: further fields of its csi source; source: in its place."""
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {"capacity": {"storage": "1Gi"}, **(source or {"csi": {"driver": DRIVER, "volumeHandle": handle, **csi}}), **(spec or {})},
    }
    if modes is not None:
        body["spec"]["accessModes"] = list(modes)
    _fill(body["metadata"], finalizers, labels, annotations, deleting)
    return body


def a_va(
    name: str = "pv1-node1",
    pv: str | None = "pv1",
    node: str = "node1",
    *,
    attacher: str = DRIVER,
    inline: Mapping[str, Any] | None = None,
    finalizers: Iterable[str] | None = None,
    annotations: Mapping[str, str] | None = None,
    deleting: bool = False,
    status: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A VolumeAttachment as JSON values."""
    source: dict[str, Any] = {}
    if pv is not None:
        source["persistentVolumeName"] = pv
    if inline is not None:
        source["inlineVolumeSpec"] = inline
    body: dict[str, Any] = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": name},
        "spec": {"attacher": attacher, "nodeName": node, "source": source},
        "status": {"attached": False, **(status or {})},
    }
    _fill(body["metadata"], finalizers, None, annotations, deleting)
    return body


def an_attached_va(name: str = "pv1-node1", **kwargs: Any) -> dict[str, Any]:
    """As an attacher leaves it: finalizer, node id, status."""
    kwargs.setdefault("finalizers", (FINALIZER,))
    kwargs.setdefault("annotations", {NODE_ID_ANNOTATION: "nodeID1"})
    kwargs.setdefault("status", {"attached": True})
    return a_va(name, **kwargs)


def a_csi_node(name: str = "node1", drivers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A CSINode as JSON values. drivers: driver name -> node id."""
    entries = {DRIVER: "nodeID1"} if drivers is None else drivers
    listed = [{"name": driver, "nodeID": node_id, "topologyKeys": None} for driver, node_id in entries.items()]
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": listed}}


def a_secret(name: str = "secret", data: Mapping[str, str] | None = None, namespace: str = "default") -> dict[str, Any]:
    """data: base64 text per key."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": dict(data or {})}


def _fill(
    metadata: dict[str, Any],
    finalizers: Iterable[str] | None,
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
    deleting: bool,
) -> None:
    if finalizers is not None:
        metadata["finalizers"] = list(finalizers)
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    if deleting:
        metadata["deletionTimestamp"] = DELETED


def pv_struct(body: Mapping[str, Any]) -> PersistentVolume:
    return msgspec.convert(body, PersistentVolume)


def va_struct(body: Mapping[str, Any]) -> VolumeAttachment:
    return msgspec.convert(body, VolumeAttachment)


def csi_node_struct(body: Mapping[str, Any]) -> CSINode:
    return msgspec.convert(body, CSINode)
