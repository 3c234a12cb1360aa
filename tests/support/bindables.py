"""Builders of what binding works on, as JSON values; and a view of such objects for pure decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Key, Kind
from mooring.api.pods import PODS
from mooring.api.storage import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_ATTRIBUTES_CLASSES,
)
from mooring.controllers.binding import view as binder
from mooring.controllers.binding.available_volumes import AvailableVolumes
from mooring.controllers.binding.names import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from mooring.controllers.scheduler import view as scheduler
from mooring.controllers.scheduler.assumed_bindings import Plans
from mooring.kube.cache.store import Store

Json = dict[str, Any]
DRIVER = "csi.test"
NS = "default"
WFFC = "WaitForFirstConsumer"
BOUND_CLAIM = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}

KINDS: dict[str, Kind[Any]] = {
    kind.name: kind
    for kind in (
        PERSISTENT_VOLUME_CLAIMS,
        PERSISTENT_VOLUMES,
        STORAGE_CLASSES,
        PODS,
        NODES,
        CSI_NODES,
        CSI_DRIVERS,
        CSI_STORAGE_CAPACITIES,
        VOLUME_ATTACHMENTS,
        VOLUME_ATTRIBUTES_CLASSES,
    )
}


_EMPTY: tuple[Any, ...] = (None, "", {}, [])


def _object(kind: str, name: str, meta: Mapping[str, Any], **rest: Any) -> Json:
    known = KINDS[kind]
    metadata = {
        "name": name,
        **({"namespace": NS} if known.namespaced else {}),
        **{key: value for key, value in meta.items() if value not in _EMPTY},
    }
    return {"apiVersion": known.api_version, "kind": kind, "metadata": metadata, **rest}


def a_claim(
    name: str = "claim",
    *,
    size: str = "1Gi",
    sc: str | None = "sc",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    volume: str = "",
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    selected: str = "",
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """sc: None leaves the class out. volume: its volumeName. selected: the node chosen for it."""
    full: Json = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec}
    if sc is not None:
        full["storageClassName"] = sc
    if volume:
        full["volumeName"] = volume
    noted = {**(annotations or {}), **({SELECTED_NODE: selected} if selected else {})}
    body = _object("PersistentVolumeClaim", name, {"annotations": noted, "uid": uid, **(meta or {})}, spec=full)
    return {**body, "status": {"phase": "Pending", **(status or {})}}


def a_bound_claim(name: str = "claim", volume: str = "pv", **more: Any) -> Json:
    """Fully bound, as far as it knows."""
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    return a_claim(name, volume=volume, **{"annotations": BOUND_CLAIM, "status": status, "uid": f"uid-{name}", **more})


def a_volume(
    name: str = "pv",
    *,
    size: str = "1Gi",
    sc: str = "sc",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    claim: str | Json | None = None,
    phase: str = "Available",
    policy: str = "Retain",
    affinity: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """claim: a name (no uid), or a claim with its uid. affinity: labels of the nodes that reach it."""
    full: Json = {"capacity": {"storage": size}, "accessModes": list(modes), "persistentVolumeReclaimPolicy": policy}
    full |= {"csi": {"driver": DRIVER, "volumeHandle": name}, **({"storageClassName": sc} if sc else {}), **spec}
    if claim is not None:
        full["claimRef"] = a_reference(claim)
    if affinity:
        terms = [{"key": key, "operator": "In", "values": [value]} for key, value in affinity.items()]
        full["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
    body = _object("PersistentVolume", name, {"annotations": annotations, "labels": labels, **(meta or {})}, spec=full)
    return {**body, "status": {"phase": phase}}


def a_reference(claim: str | Json) -> Json:
    if isinstance(claim, str):
        return {"namespace": NS, "name": claim}
    meta = claim["metadata"]
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NS, "name": meta["name"], "uid": meta["uid"]}


def a_class(
    name: str = "sc", *, provisioner: str = DRIVER, wffc: bool = False, default: bool = False, created: str = "", **more: Any
) -> Json:
    noted = {"storageclass.kubernetes.io/is-default-class": "true"} if default else None
    mode = WFFC if wffc else "Immediate"
    meta = {"annotations": noted, "creationTimestamp": created}
    return _object("StorageClass", name, meta, provisioner=provisioner, volumeBindingMode=mode, **more)


def a_pod(
    name: str = "pod",
    *claims: str,
    node: str = "",
    phase: str = "Pending",
    uid: str = "",
    volumes: tuple[Json, ...] = (),
    meta: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """volumes: further ones beside those of the claims."""
    named = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    full = {"containers": [{"name": "c", "image": "none"}], "terminationGracePeriodSeconds": 0, "volumes": [*named, *volumes], **spec}
    if node:
        full["nodeName"] = node
    return {**_object("Pod", name, {"uid": uid, **(meta or {})}, spec=full), "status": {"phase": phase}}


def an_ephemeral_volume(name: str = "scratch", sc: str = "sc") -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": sc, "resources": {"requests": {"storage": "2Gi"}}}
    template = {"metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}}, "spec": spec}
    return {"name": name, "ephemeral": {"volumeClaimTemplate": template}}


def a_node(
    name: str = "n1", *, ready: bool | None = True, taints: tuple[Json, ...] = (), unschedulable: bool = False, **labels: str
) -> Json:
    """ready: None for a node that says nothing of it."""
    spec: Json = {**({"taints": list(taints)} if taints else {}), **({"unschedulable": True} if unschedulable else {})}
    room = {"pods": "110", "cpu": "64", "memory": "64Gi"}
    status: Json = {"capacity": room, "allocatable": room}
    if ready is not None:
        status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
    return _object("Node", name, {"labels": {"kubernetes.io/hostname": name, **labels}}, spec=spec, status=status)


def a_csi_node(name: str = "n1", count: int | None = None, driver: str = DRIVER) -> Json:
    entry = {"name": driver, "nodeID": name, "topologyKeys": None, **({"allocatable": {"count": count}} if count is not None else {})}
    return _object("CSINode", name, {}, spec={"drivers": [entry]})


def a_csi_driver(storage_capacity: bool = True, name: str = DRIVER) -> Json:
    return _object("CSIDriver", name, {}, spec={"storageCapacity": storage_capacity})


def a_capacity(name: str, host: str | None, capacity: str | None = "100Gi", sc: str = "sc", **more: Any) -> Json:
    """host: value of the node label `host`; None is no topology at all."""
    body = _object("CSIStorageCapacity", name, {}, storageClassName=sc, **more)
    if capacity:
        body["capacity"] = capacity
    if host is not None:
        body["nodeTopology"] = {"matchLabels": {"host": host}} if host else {}
    return body


def an_attachment(name: str, pv: str, node: str) -> Json:
    spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": pv}}
    return _object("VolumeAttachment", name, {}, spec=spec, status={"attached": True})


def typed(body: Json) -> Any:
    """The object as controllers see it."""
    return msgspec.convert(body, KINDS[body["kind"]].struct)


class Stores:
    """Caches with these objects in them; the second state of an object takes the place of the first."""

    def __init__(self, *bodies: Json) -> None:
        self._stores: dict[str, Store[Any]] = {kind: Store(_INDEXES.get(kind)) for kind in KINDS}
        self.available, self._version = AvailableVolumes(), 0
        for body in bodies:
            self.put(body)

    def put(self, body: Json) -> None:
        self._version += 1
        meta = {"uid": f"uid-{body['metadata']['name']}", **body["metadata"], "resourceVersion": str(self._version)}
        obj = typed({**body, "metadata": meta})
        store = self._stores[body["kind"]]
        old = store.get(Key(obj.metadata.namespace, obj.metadata.name))
        store.apply(obj)
        if body["kind"] == "PersistentVolume":
            self.available.move(old, obj)

    def of(self, kind: str) -> Store[Any]:
        return self._stores[kind]

    @property
    def volumes(self) -> binder.Volumes:
        return binder.Volumes(self.of("PersistentVolume"), self.available)

    def binder(self, taken: Mapping[str, Key] | None = None) -> binder.View:
        return binder.View(self.of("PersistentVolumeClaim"), self.volumes, self.of("StorageClass"), self.of("Pod"), taken or {})

    def scheduler(self, plans: Plans | None = None) -> scheduler.View:
        return scheduler.View(
            self.of("PersistentVolumeClaim"),
            self.volumes,
            self.of("StorageClass"),
            self.of("Pod"),
            self.of("Node"),
            self.of("CSINode"),
            self.of("CSIDriver"),
            self.of("CSIStorageCapacity"),
            self.of("VolumeAttachment"),
            plans or Plans(),
        )


_INDEXES: dict[str, Any] = {
    "PersistentVolumeClaim": binder.CLAIM_INDEXES,
    "PersistentVolume": binder.VOLUME_INDEXES,
    "Pod": binder.POD_INDEXES,
    "CSIStorageCapacity": scheduler.CAPACITY_INDEXES,
    "VolumeAttachment": scheduler.ATTACHMENT_INDEXES,
}
