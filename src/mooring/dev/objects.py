"""API objects that others would make in a cluster: kubelet, administrator, attach/detach controller."""

from __future__ import annotations

from typing import Any


def csi_driver(driver_name: str) -> dict[str, Any]:
    """What comes with a driver that attaches."""
    return _object("storage.k8s.io/v1", "CSIDriver", driver_name, {"attachRequired": True})


def csi_node(driver_name: str, node_name: str) -> dict[str, Any]:
    """What the kubelet would write for a driver on its node, whose id is its name."""
    driver = {"name": driver_name, "nodeID": node_name, "topologyKeys": []}
    return _object("storage.k8s.io/v1", "CSINode", node_name, {"drivers": [driver]})


def persistent_volume(driver_name: str, pv_name: str, handle: str) -> dict[str, Any]:
    """What an administrator would write for a volume of 1 GiB that is there."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": driver_name, "volumeHandle": handle},
    }
    return _object("v1", "PersistentVolume", pv_name, spec)


def volume_attachment(driver_name: str, va_name: str, pv_name: str, node_name: str) -> dict[str, Any]:
    """What the attach/detach controller would write for a pod on the node."""
    spec = {"attacher": driver_name, "nodeName": node_name, "source": {"persistentVolumeName": pv_name}}
    return _object("storage.k8s.io/v1", "VolumeAttachment", va_name, spec)


def _object(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
