"""Valid objects as people write them, for tests of API servers; and where they live."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

VAS = "/apis/storage.k8s.io/v1/volumeattachments"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
CSI_DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ATTRIBUTES_CLASSES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
PVS = "/api/v1/persistentvolumes"
PVCS = "/api/v1/namespaces/default/persistentvolumeclaims"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
SECRETS = "/api/v1/namespaces/default/secrets"
EVENTS = "/api/v1/namespaces/default/events"


def a_va(name: str, **metadata: Any) -> Json:
    spec = {"attacher": "d.example.com", "nodeName": "node-1", "source": {"persistentVolumeName": "pv-1"}}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def a_pv(name: str, **spec: Any) -> Json:
    csi = {"driver": "d.example.com", "volumeHandle": "handle-1"}
    full = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "csi": csi, **spec}
    return {"metadata": {"name": name}, "spec": full}


def a_csi_node(name: str, *drivers: Json) -> Json:
    return {"metadata": {"name": name}, "spec": {"drivers": list(drivers)}}


def a_secret(name: str, **metadata: Any) -> Json:
    return {"metadata": {"name": name, **metadata}}


def a_lease(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, **spec}}


def a_node(name: str, **status: Any) -> Json:
    return {"metadata": {"name": name}, "status": status}


def a_class(name: str, **fields: Any) -> Json:
    return {"metadata": {"name": name}, "provisioner": "d.example.com", **fields}


def an_attributes_class(name: str, **fields: Any) -> Json:
    return {"metadata": {"name": name}, "driverName": "d.example.com", "parameters": {"iops": "100"}, **fields}


def a_capacity(name: str, **fields: Any) -> Json:
    topology = {"matchLabels": {"zone": "a"}}
    return {"metadata": {"name": name}, "storageClassName": "fast", "nodeTopology": topology, "capacity": "1Gi", **fields}


def a_claim(name: str, **spec: Any) -> Json:
    """None takes a field away, so that a claim can have no class."""
    requests = {"requests": {"storage": "1Gi"}}
    full = {"accessModes": ["ReadWriteOnce"], "resources": requests, "storageClassName": "none-such", **spec}
    return {"metadata": {"name": name}, "spec": {field: value for field, value in full.items() if value is not None}}
