"""Builders of API objects for all tests, as JSON values: one function for each kind, and a few for the usual states of
one.

Each gives no more than its arguments say, with defaults that make a valid object. Further keywords are fields: those of
metadata go there, `deleting=True` marks the object for deletion, all others go to the place that the function's
docstring names. A field that is None is left out. A namespace is only there where it is given: `typed` and the clusters
of tests put the others in `default`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from mooring.api.binding import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from mooring.api.coordination import LEASES
from mooring.api.core import EVENTS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, SECRETS
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CLASSES, GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES, VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS
from mooring.api.storage import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    VOLUME_ATTRIBUTES_CLASSES,
)
from mooring.api.workloads import CONTROLLER_REVISIONS, DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS

Json = dict[str, Any]
DRIVER, NS = "csi.test", "default"
FINALIZER = "external-attacher/csi-test"
NODE_ID_ANNOTATION = "csi.alpha.kubernetes.io/node-id"
DELETED = "2026-01-01T00:00:00Z"
WFFC = "WaitForFirstConsumer"
RWO, RWX = ("ReadWriteOnce",), ("ReadWriteMany",)
BOUND_CLAIM = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
CONTAINER = {"name": "c", "image": "example.com/image:1"}

_KINDS: tuple[Kind[Any], ...] = (
    *(
        PERSISTENT_VOLUME_CLAIMS,
        PERSISTENT_VOLUMES,
        STORAGE_CLASSES,
        PODS,
        NODES,
        CSI_NODES,
        CSI_DRIVERS,
        CSI_STORAGE_CAPACITIES,
    ),
    *(
        VOLUME_ATTACHMENTS,
        VOLUME_ATTRIBUTES_CLASSES,
        SECRETS,
        LEASES,
        EVENTS,
        NAMESPACES,
        VOLUME_SNAPSHOTS,
        VOLUME_SNAPSHOT_CONTENTS,
    ),
    *(VOLUME_SNAPSHOT_CLASSES, GROUP_SNAPSHOTS, GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOT_CLASSES),
    *(DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, CONTROLLER_REVISIONS, JOBS),
)
KINDS = {kind.name: kind for kind in _KINDS}
_METADATA = frozenset(
    {
        *(
            "annotations",
            "creationTimestamp",
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "finalizers",
            "generateName",
            "labels",
        ),
        *("managedFields", "namespace", "ownerReferences", "resourceVersion", "uid"),
    }
)


def typed(body: Mapping[str, Any]) -> Any:
    """The object as controllers see it."""
    metadata = {"namespace": namespace_of(body), **body["metadata"]}
    return msgspec.convert({**body, "metadata": metadata}, KINDS[body["kind"]].struct)


def namespace_of(body: Mapping[str, Any]) -> str:
    """Where it is created."""
    return str(body["metadata"].get("namespace", NS)) if KINDS[body["kind"]].namespaced else ""


def _object(kind: str, name: str, fields: Mapping[str, Any], below: str = "", **rest: Any) -> Json:
    """below: where fields go that are none of metadata; the object itself by default. rest: beside them."""
    given = {
        key: list(value) if isinstance(value, tuple) else value for key, value in fields.items() if value is not None
    }
    metadata = {"name": name, **{key: value for key, value in given.items() if key in _METADATA and value != ""}}
    if given.pop("deleting", False):
        metadata["deletionTimestamp"] = DELETED
    others = {key: value for key, value in given.items() if key not in _METADATA}
    return {
        "apiVersion": KINDS[kind].api_version,
        "kind": kind,
        "metadata": metadata,
        **({below: others} if below else others),
        **rest,
    }


# -- claims and volumes


def a_claim(
    name: str = "claim",
    *,
    size: str = "1Gi",
    sc: str | None = "sc",
    modes: Iterable[str] = RWO,
    volume: str | None = None,
    annotations: Mapping[str, str] | None = None,
    selected: str = "",
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """sc: None leaves the class out. volume: its volumeName. selected: the node chosen for it."""
    wanted = {
        "accessModes": list(modes),
        "resources": {"requests": {"storage": size}},
        "storageClassName": sc,
        "volumeName": volume,
    }
    noted = {**(annotations or {}), **({SELECTED_NODE: selected} if selected else {})}
    fields = {**wanted, "annotations": noted or None, **spec}
    return _object("PersistentVolumeClaim", name, fields, "spec", status={"phase": "Pending", **(status or {})})


def a_bound_claim(name: str = "claim", volume: str = "pv", **more: Any) -> Json:
    """Fully bound, as far as it knows."""
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    return a_claim(name, volume=volume, **{"annotations": BOUND_CLAIM, "status": status, "uid": f"uid-{name}", **more})


def a_reference(claim: str | Json, uid: str = "") -> Json:
    """To a claim: by its name alone, or with its uid."""
    if isinstance(claim, str) and not uid:
        return {"namespace": NS, "name": claim}
    name, uid = (claim, uid) if isinstance(claim, str) else (claim["metadata"]["name"], claim["metadata"]["uid"])
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NS, "name": name, "uid": uid}


def a_pv(
    name: str = "pv",
    handle: str = "",
    *,
    size: str = "1Gi",
    modes: Iterable[str] | None = RWO,
    source: Mapping[str, Any] | None = None,
    claim: str | Json | None = None,
    affinity: Mapping[str, str] | None = None,
    phase: str = "",
    **spec: Any,
) -> Json:
    """handle: as the name by default. source: in place of a csi source. claim: as for a reference. affinity: labels of
    its nodes.
    """
    wanted: Json = {
        "capacity": {"storage": size},
        **(source or {"csi": {"driver": DRIVER, "volumeHandle": handle or name or "handle"}}),
    }
    wanted["accessModes"] = None if modes is None else list(modes)
    if claim is not None:
        wanted["claimRef"] = a_reference(claim)
    if affinity:
        terms = [{"key": key, "operator": "In", "values": [value]} for key, value in affinity.items()]
        wanted["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
    return _object(
        "PersistentVolume", name, {**wanted, **spec}, "spec", **({"status": {"phase": phase}} if phase else {})
    )


def a_volume(
    name: str = "pv", *, sc: str | None = "sc", policy: str = "Retain", phase: str = "Available", **more: Any
) -> Json:
    """A PersistentVolume as the binder knows them: with a class and a policy. more: as for `a_pv`."""
    return a_pv(name, storageClassName=sc or None, persistentVolumeReclaimPolicy=policy, phase=phase, **more)


def a_held_pv(
    name: str = "pv1",
    handle: str = "handle1",
    *,
    modes: Iterable[str] | None = RWX,
    finalizers: Iterable[str] | None = (FINALIZER,),
    source: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    deleting: bool = False,
    spec: Mapping[str, Any] | None = None,
    **csi: Any,
) -> Json:
    """A PersistentVolume for any number of nodes that the attacher holds. csi: further fields of its csi source, spec:
    of its spec.
    """
    own = source or {"csi": {"driver": DRIVER, "volumeHandle": handle, **csi}}
    metadata = {
        "finalizers": finalizers and list(finalizers),
        "labels": labels,
        "annotations": annotations,
        "deleting": deleting,
    }
    return a_pv(name, source=own, modes=modes, **metadata, **(spec or {}))


# -- classes, drivers and capacity


def a_class(
    name: str = "sc", *, provisioner: str = DRIVER, wffc: bool = False, default: bool = False, **fields: Any
) -> Json:
    """wffc: volumes wait for the first consumer. default: for claims that name no class."""
    noted = {"storageclass.kubernetes.io/is-default-class": "true"} if default else None
    wanted = {"provisioner": provisioner, "volumeBindingMode": WFFC if wffc else None, "annotations": noted}
    return _object("StorageClass", name, {**wanted, **fields})


def an_attributes_class(name: str = "gold", **fields: Any) -> Json:
    return _object("VolumeAttributesClass", name, {"driverName": DRIVER, "parameters": {"iops": "100"}, **fields})


def a_csi_driver(name: str = DRIVER, **spec: Any) -> Json:
    return _object("CSIDriver", name, {"storageCapacity": True, **spec}, "spec")


def a_capacity(
    name: str, host: str | None = "a", capacity: str | None = "100Gi", sc: str = "sc", **fields: Any
) -> Json:
    """host: value of the node label `host`; "" for every node, None for no topology at all."""
    topology = None if host is None else {"matchLabels": {"host": host}} if host else {}
    return _object(
        "CSIStorageCapacity", name, {"storageClassName": sc, "nodeTopology": topology, "capacity": capacity, **fields}
    )


# -- nodes and pods


def a_node(name: str = "n1", spec: Mapping[str, Any] | None = None, **status: Any) -> Json:
    return _object("Node", name, status, "status", **({"spec": dict(spec)} if spec else {}))


def a_ready_node(
    name: str = "n1",
    *,
    ready: bool | None = True,
    taints: tuple[Json, ...] = (),
    unschedulable: bool = False,
    **labels: str,
) -> Json:
    """With room for many pods. ready: None for a node without that condition."""
    spec: Json = {**({"taints": list(taints)} if taints else {}), **({"unschedulable": True} if unschedulable else {})}
    room = {"pods": "110", "cpu": "64", "memory": "64Gi"}
    conditions = None if ready is None else [{"type": "Ready", "status": "True" if ready else "False"}]
    labels = {"kubernetes.io/hostname": name, **labels}
    return a_node(name, spec, labels=labels, capacity=room, allocatable=room, conditions=conditions)


def a_csi_node(
    name: str = "node1",
    drivers: Mapping[str, str] | Iterable[Json] | None = None,
    *,
    count: int | None = None,
    keys: Iterable[str] = (),
) -> Json:
    """drivers: the node's id by driver name, or whole entries. count, keys: what each driver allows, and its topology
    keys.
    """
    if drivers is None or isinstance(drivers, Mapping):
        limit = {} if count is None else {"allocatable": {"count": count}}
        ids = {DRIVER: "nodeID1"} if drivers is None else drivers
        drivers = [
            {"name": driver, "nodeID": node_id, "topologyKeys": list(keys) or None, **limit}
            for driver, node_id in ids.items()
        ]
    return _object("CSINode", name, {"drivers": list(drivers)}, "spec")


def a_pod(
    name: str = "pod",
    *claims: str,
    node: str | None = None,
    phase: str = "Pending",
    volumes: Iterable[Json] = (),
    **spec: Any,
) -> Json:
    """volumes: further ones beside those of the claims."""
    named = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    wanted = {"containers": [CONTAINER], "volumes": [*named, *volumes] or None, "nodeName": node or None}
    return _object("Pod", name, {**wanted, **spec}, "spec", status={"phase": phase})


def an_ephemeral_volume(name: str = "scratch", sc: str = "sc") -> Json:
    """A pod's volume that brings its claim."""
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": sc, "resources": {"requests": {"storage": "2Gi"}}}
    template = {"metadata": {"labels": {"l": "1"}, "annotations": {"a": "2"}}, "spec": spec}
    return {"name": name, "ephemeral": {"volumeClaimTemplate": template}}


# -- workloads

APP = {"app": "web"}


def a_template(*, image: str = CONTAINER["image"], labels: Mapping[str, str] = APP, **spec: Any) -> Json:
    """Of pods."""
    return {"metadata": {"labels": dict(labels)}, "spec": {"containers": [{**CONTAINER, "image": image}], **spec}}


def a_workload(
    kind: str, name: str = "web", replicas: int = 1, template: Mapping[str, Any] | None = None, **fields: Any
) -> Json:
    """A Deployment, a ReplicaSet or a StatefulSet."""
    wanted = {"replicas": replicas, "selector": {"matchLabels": APP}, "template": template or a_template()}
    return _object(
        kind, name, {**wanted, **({"serviceName": "web"} if kind == "StatefulSet" else {}), **fields}, "spec"
    )


def a_job(name: str = "sum", **fields: Any) -> Json:
    return _object("Job", name, {"template": a_template(labels={}, restartPolicy="Never"), **fields}, "spec")


# -- attachments


def a_va(
    name: str = "pv1-node1",
    pv: str | None = "pv1",
    node: str = "node1",
    *,
    attacher: str = DRIVER,
    inline: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> Json:
    """inline: the spec of a volume without an object."""
    source = {"persistentVolumeName": pv, "inlineVolumeSpec": inline}
    spec = {
        "attacher": attacher,
        "nodeName": node,
        "source": {key: value for key, value in source.items() if value is not None},
    }
    more = {"status": {"attached": False, **status}} if status else {}
    return _object("VolumeAttachment", name, metadata, spec=spec, **more)


def an_attached_va(name: str = "pv1-node1", *where: str | None, **more: Any) -> Json:
    """As an attacher leaves it: finalizer, node id, status."""
    left = {"finalizers": [FINALIZER], "annotations": {NODE_ID_ANNOTATION: "nodeID1"}, "status": {"attached": True}}
    return a_va(name, *where, **{**left, **more})


# -- snapshots


def a_snapshot(
    name: str = "snap",
    *,
    claim: str | None = None,
    content: str | None = None,
    snapshot_class: str | None = None,
    status: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> Json:
    """claim: it is of this one. content: the name of the one it is bound to, or is to be bound to where it has no
    status.
    """
    bound = {} if content is None else {"boundVolumeSnapshotContentName": content}
    source = {"persistentVolumeClaimName": claim} if claim else {"volumeSnapshotContentName": content or name}
    spec = {"source": source, **({"volumeSnapshotClassName": snapshot_class} if snapshot_class else {})}
    return _object("VolumeSnapshot", name, metadata, spec=spec, status={**bound, **(status or {})})


def a_new_snapshot(name: str = "snap", *, claim: str | None = "claim", content: str | None = None, **more: Any) -> Json:
    """As a user makes it: of a claim, with the class `snapclass`, or of a content."""
    given = {"claim": claim, "snapshot_class": "snapclass", **more} if content is None else {"content": content, **more}
    made = a_snapshot(name, **given)
    del made["status"]
    return made


def a_content(
    name: str, ref: Mapping[str, str] | None, *, driver: str = DRIVER, handle: str | None = "h", **spec: Any
) -> Json:
    """Of a snapshot. ref: to that."""
    wanted = {
        "driver": driver,
        "deletionPolicy": "Retain",
        "source": {"snapshotHandle": "h"},
        "volumeSnapshotRef": ref,
        **spec,
    }
    return _object("VolumeSnapshotContent", name, wanted, "spec", status={"snapshotHandle": handle, "readyToUse": True})


def a_new_content(
    name: str = "content",
    *,
    snapshot: Json | str = "snap",
    volume: str = "vol",
    handle: str | None = None,
    ref_uid: str | None = "uid-snap",
    policy: str = "Delete",
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """Of snapshot `snap`. handle: it was there before; else the driver is to make it of this volume. ref_uid: None for
    unbound.
    """
    named, ref_uid = (
        (snapshot, ref_uid)
        if isinstance(snapshot, str)
        else (snapshot["metadata"]["name"], snapshot["metadata"]["uid"])
    )
    ref = {"namespace": NS, "name": named, **({"uid": ref_uid} if ref_uid else {})}
    source = {"snapshotHandle": handle} if handle else {"volumeHandle": volume}
    wanted = {"driver": DRIVER, "deletionPolicy": policy, "source": source, "volumeSnapshotRef": ref, **spec}
    return _object(
        "VolumeSnapshotContent", name, wanted, "spec", **({} if status is None else {"status": dict(status)})
    )


def a_snapshot_class(name: str = "snapclass", *, default: bool = False, policy: str = "Delete", **fields: Any) -> Json:
    """default: for snapshots that name no class."""
    noted = {"snapshot.storage.kubernetes.io/is-default-class": "true"} if default else None
    return _object(
        "VolumeSnapshotClass", name, {"driver": DRIVER, "deletionPolicy": policy, "annotations": noted, **fields}
    )


def a_group_class(name: str = "groupclass", *, default: bool = False, policy: str = "Delete", **fields: Any) -> Json:
    """default: for group snapshots that name no class."""
    noted = {"groupsnapshot.storage.kubernetes.io/is-default-class": "true"} if default else None
    return _object(
        "VolumeGroupSnapshotClass", name, {"driver": DRIVER, "deletionPolicy": policy, "annotations": noted, **fields}
    )


def a_group_snapshot(
    name: str = "group", *, content: str | None = None, group_class: str | None = "groupclass", **metadata: Any
) -> Json:
    """Of all claims with the label app=web, or of a content."""
    source = {"volumeGroupSnapshotContentName": content} if content else {"selector": {"matchLabels": APP}}
    spec = {"source": source, **({"volumeGroupSnapshotClassName": group_class} if group_class else {})}
    return _object("VolumeGroupSnapshot", name, metadata, spec=spec)


def a_group_content(
    name: str = "groupcontent",
    *,
    volumes: Iterable[str] = ("vol-a", "vol-b"),
    ref_uid: str | None = "uid-group",
    policy: str = "Delete",
    **spec: Any,
) -> Json:
    """Of group snapshot `group`. ref_uid: that of the group, None for unbound."""
    ref = {"namespace": NS, "name": "group", **({"uid": ref_uid} if ref_uid else {})}
    wanted = {
        "driver": DRIVER,
        "deletionPolicy": policy,
        "source": {"volumeHandles": list(volumes)},
        "volumeGroupSnapshotRef": ref,
    }
    named = {"volumeGroupSnapshotClassName": "groupclass"}
    status = spec.pop("status", None)
    return _object(
        "VolumeGroupSnapshotContent",
        name,
        {**wanted, **named, **spec},
        "spec",
        **({"status": status} if status else {}),
    )


# -- the rest


def a_secret(name: str = "secret", data: Mapping[str, str] | None = None, **fields: Any) -> Json:
    """data: base64 text by key."""
    return _object("Secret", name, {"data": None if data is None else dict(data), **fields})


def a_lease(name: str, **spec: Any) -> Json:
    return _object("Lease", name, {"holderIdentity": "me", "leaseDurationSeconds": 15, **spec}, "spec")
