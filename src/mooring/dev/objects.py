"""API objects that others would make in a cluster: kubelet, administrator, users, attach/detach controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def csi_driver(driver_name: str) -> dict[str, Any]:
    """What comes with a driver that attaches."""
    return _object("storage.k8s.io/v1", "CSIDriver", driver_name, {"attachRequired": True})


def csi_node(driver_name: str, node_name: str, segments: Mapping[str, str]) -> dict[str, Any]:
    """What the kubelet would write for a driver on its node, whose id is its name. segments: where it is, {} if that is all one."""
    driver = {"name": driver_name, "nodeID": node_name, "topologyKeys": sorted(segments)}
    return _object("storage.k8s.io/v1", "CSINode", node_name, {"drivers": [driver]})


def node(name: str, segments: Mapping[str, str]) -> dict[str, Any]:
    """What the kubelet would write at its start, once it is ready. segments: as for csi_node; they become labels."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "there is no kubelet: mooring dev says so"}
    body = _object("v1", "Node", name, {})
    body["metadata"]["labels"] = {"kubernetes.io/hostname": name, **segments}
    return {**body, "status": {"conditions": [ready], "allocatable": {"pods": "110"}, "capacity": {"pods": "110"}}}


def storage_class(driver_name: str, name: str, *, waits: bool = False, default: bool = False) -> dict[str, Any]:
    """What an administrator would write. waits: volumes are made where their first pod goes. default: for claims without a class."""
    body: dict[str, Any] = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    if default:
        body["metadata"]["annotations"] = {DEFAULT_CLASS: "true"}
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {**body, "provisioner": driver_name, "reclaimPolicy": "Delete", "volumeBindingMode": mode}


def claim(name: str, class_name: str) -> dict[str, Any]:
    """What a user would write who wants a volume of 1 GiB."""
    spec = {"storageClassName": class_name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return _object("v1", "PersistentVolumeClaim", name, spec)


def pod(name: str, claim_name: str) -> dict[str, Any]:
    """What a user would write who wants the claim's volume in a container."""
    container = {"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
    return _object("v1", "Pod", name, {"containers": [container], "volumes": [volume]})


def persistent_volume(driver_name: str, pv_name: str, handle: str, segments: Mapping[str, str]) -> dict[str, Any]:
    """What an administrator would write for a volume of 1 GiB that is there. segments: where it can be reached, {} for everywhere."""
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": driver_name, "volumeHandle": handle},
    }
    if segments:
        terms = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(segments.items())]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
    return _object("v1", "PersistentVolume", pv_name, spec)


def volume_attachment(driver_name: str, va_name: str, pv_name: str, node_name: str) -> dict[str, Any]:
    """What the attach/detach controller would write for a pod on the node."""
    spec = {"attacher": driver_name, "nodeName": node_name, "source": {"persistentVolumeName": pv_name}}
    return _object("storage.k8s.io/v1", "VolumeAttachment", va_name, spec)


def _object(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
