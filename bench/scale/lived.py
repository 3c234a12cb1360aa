"""The objects of a cluster that has lived, as etcd holds them: with ages, owners, statuses and managedFields.

Each volume has a claim, an attachment and a pod that runs with it; for two such pods there is one without a volume, for
ten volumes one snapshot, for twenty volumes one node. Everything is made of its number, so that the same size is the
same cluster.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mooring.api.snapshot_names import AS_SOURCE_FINALIZER, BOUND_FINALIZER, CONTENT_FINALIZER
from mooring.api.volume_names import attachment_name, unique_name
from mooring.cluster.attachdetach.identity import MANAGED

Json = dict[str, Any]

DRIVER = "scale.bench.mooring.dev"
CLASS = "scale"
SNAPSHOT_CLASS = "scale-snapshots"
NS = "default"
VOLUMES_PER_NODE = 20
VOLUMES_PER_SNAPSHOT = 10
NAMESPACES = 40
MANAGED_BYTES = 4096
"""Of managedFields in each object, about: as server-side apply and several controllers leave them."""

_ATTACHER_FINALIZER = f"external-attacher/{DRIVER.replace('.', '-')}"


@dataclasses.dataclass(frozen=True)
class Size:
    """volumes: that pods use. spares: bound volumes beside them that no pod has, for the load."""

    volumes: int
    spares: int

    @property
    def nodes(self) -> int:
        return max(10, self.volumes // VOLUMES_PER_NODE)

    @property
    def bare_pods(self) -> int:
        return self.volumes // 2

    @property
    def snapshots(self) -> int:
        return self.volumes // VOLUMES_PER_SNAPSHOT

    @property
    def patience_s(self) -> float:
        """After which a bench gives up what it waits for: a start reads every object."""
        return 180.0 + self.volumes / 50

    def volumes_of(self, node: int) -> range:
        """The numbers of the volumes that are attached there."""
        return range(node, self.volumes, self.nodes)

    @property
    def objects(self) -> int:
        """All of them, as `stored` gives them."""
        return NAMESPACES + 3 * self.nodes + 4 * self.volumes + self.bare_pods + 2 * self.snapshots + 2 * self.spares


def node_name(number: int) -> str:
    return f"node-{number}.zone-{number % 3}.example.com"


def spare_name(number: int) -> str:
    """Of a claim and its volume."""
    return f"spare-{number}"


def handle_of(volume: str) -> str:
    return f"vol-{uuid.uuid5(uuid.NAMESPACE_OID, volume).hex}"


def in_use(size: Size, node: int) -> list[str]:
    """What the kubelet of a node reports."""
    return sorted(unique_name(DRIVER, handle_of(_volume_name(number))) for number in size.volumes_of(node))


def stored(size: Size) -> Iterator[tuple[str, Json]]:
    """Key in etcd, and object."""
    for number in range(NAMESPACES):
        yield f"/registry/namespaces/team-{number}", _namespace(f"team-{number}")
    for number in range(size.nodes):
        name = node_name(number)
        yield f"/registry/minions/{name}", _node(size, number)
        yield f"/registry/csinodes/{name}", _csi_node(name)
        yield f"/registry/leases/kube-node-lease/{name}", _lease(name)
    for number in range(size.volumes):
        namespace, claim, volume, node = (
            f"team-{number % NAMESPACES}",
            f"data-web-{number}",
            _volume_name(number),
            node_name(number % size.nodes),
        )
        yield f"/registry/persistentvolumes/{volume}", _volume(volume, namespace, claim, number, used=True)
        yield f"/registry/persistentvolumeclaims/{namespace}/{claim}", _claim(namespace, claim, volume, number)
        attachment = attachment_name(DRIVER, handle_of(volume), node)
        yield f"/registry/volumeattachments/{attachment}", _attachment(attachment, volume, node, number)
        pod = f"web-{number}-0"
        yield f"/registry/pods/{namespace}/{pod}", _pod(namespace, pod, node, number, claim)
    for number in range(size.bare_pods):
        namespace, name = f"team-{number % NAMESPACES}", f"api-{number}"
        yield f"/registry/pods/{namespace}/{name}", _pod(namespace, name, node_name(number % size.nodes), number)
    for number in range(size.snapshots):
        namespace, name = f"team-{number % NAMESPACES}", f"nightly-{number}"
        snapshot = _snapshot(namespace, name, f"data-web-{number}", number)
        content = _content(snapshot, number)
        group = "/registry/snapshot.storage.k8s.io"
        yield f"{group}/volumesnapshots/{namespace}/{name}", snapshot
        yield f"{group}/volumesnapshotcontents/{content['metadata']['name']}", content
    for number in range(size.spares):
        name = spare_name(number)
        yield f"/registry/persistentvolumes/{name}", _volume(name, NS, name, number, used=False)
        yield f"/registry/persistentvolumeclaims/{NS}/{name}", _claim(NS, name, name, number)


# -- kinds


def _namespace(name: str) -> Json:
    labels = {"kubernetes.io/metadata.name": name}
    meta = _meta(name, 0, labels=labels)
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": meta,
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _node(size: Size, number: int) -> Json:
    name = node_name(number)
    names = in_use(size, number)
    status = {
        "capacity": {"cpu": "32", "memory": "131072Mi", "pods": "110", "ephemeral-storage": "100Gi"},
        "allocatable": {"cpu": "31", "memory": "128000Mi", "pods": "110", "ephemeral-storage": "90Gi"},
        "conditions": [
            {
                "type": kind,
                "status": "True" if kind == "Ready" else "False",
                "reason": f"Kubelet{kind}",
                "message": f"kubelet is posting {kind} status",
                "lastHeartbeatTime": _time(number),
                "lastTransitionTime": _time(number),
            }
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        ],
        "addresses": [{"type": "InternalIP", "address": _ip(number)}, {"type": "Hostname", "address": name}],
        "images": [
            {"names": [f"registry.example.com/team/image-{image}@sha256:{image:064x}"], "sizeBytes": 10**8 + image}
            for image in range(30)
        ],
        "nodeInfo": {
            "kubeletVersion": "v1.36.3",
            "osImage": "Linux",
            "architecture": "amd64",
            "operatingSystem": "linux",
        },
        "volumesAttached": [{"name": one, "devicePath": ""} for one in names] or None,
        "volumesInUse": names or None,
    }
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "node.kubernetes.io/instance-type": "large",
    }
    notes = {MANAGED: "true", "node.alpha.kubernetes.io/ttl": "15"}
    found = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _meta(name, number, labels=labels, annotations=notes),
        "spec": {},
    }
    return _managed({**found, "status": {key: value for key, value in status.items() if value is not None}}, "kubelet")


def _csi_node(name: str) -> Json:
    drivers = [{"name": DRIVER, "nodeID": name, "topologyKeys": None, "allocatable": {"count": 128}}]
    owner = [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": _uid(f"/{name}")}]
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": _meta(name, 0, uid=_uid(f"csinode/{name}"), ownerReferences=owner),
        "spec": {"drivers": drivers},
    }


def _lease(name: str) -> Json:
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2026-11-01T00:00:00.000000Z"}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": _meta(name, 0, "kube-node-lease"),
        "spec": spec,
    }


def _volume(name: str, namespace: str, claim: str, number: int, *, used: bool) -> Json:
    notes = {
        "pv.kubernetes.io/provisioned-by": DRIVER,
        "volume.kubernetes.io/provisioner-deletion-secret-name": "",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
    }
    finalizers = ["external-provisioner.volume.kubernetes.io/finalizer", "kubernetes.io/pv-protection"]
    meta = _meta(name, number, annotations=notes, finalizers=[*finalizers, *([_ATTACHER_FINALIZER] if used else [])])
    ref = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace,
        "name": claim,
        "uid": _uid(f"{namespace}/{claim}"),
    }
    identity = "1700000000000-8081-scale.bench.mooring.dev"
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {**ref, "resourceVersion": str(1000 + number)},
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": CLASS,
        "volumeMode": "Filesystem",
        "csi": {
            "driver": DRIVER,
            "volumeHandle": handle_of(name),
            "fsType": "ext4",
            "volumeAttributes": {
                "storage.kubernetes.io/csiProvisionerIdentity": identity,
                "pool": "gold",
                "backend": f"array-{number % 8}",
            },
        },
    }
    found = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": meta,
        "spec": spec,
        "status": {"phase": "Bound"},
    }
    return _managed(found, "csi-provisioner")


def _claim(namespace: str, name: str, volume: str, number: int) -> Json:
    notes = {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
        "volume.beta.kubernetes.io/storage-provisioner": DRIVER,
        "volume.kubernetes.io/storage-provisioner": DRIVER,
    }
    labels = {"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": f"web-{number % 100}"}
    meta = _meta(name, number, namespace, labels=labels, annotations=notes, finalizers=["kubernetes.io/pvc-protection"])
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": CLASS,
        "volumeMode": "Filesystem",
        "volumeName": volume,
    }
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    found = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec, "status": status}
    return _managed(found, "kube-controller-manager")


def _attachment(name: str, volume: str, node: str, number: int) -> Json:
    meta = _meta(name, number, annotations={"csi.alpha.kubernetes.io/node-id": node}, finalizers=[_ATTACHER_FINALIZER])
    spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": volume}}
    found = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": meta,
        "spec": spec,
        "status": {"attached": True},
    }
    return _managed(found, "csi-attacher")


def _pod(namespace: str, name: str, node: str, number: int, claim: str = "") -> Json:
    """Its owner is of a kind that neither server has: a garbage collector takes a pod for left over whose ReplicaSet is
    missing.
    """
    app = name.rpartition("-")[0]
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "WebApp",
        "name": app,
        "uid": _uid(f"app/{namespace}/{app}"),
        "controller": True,
    }
    token = {
        "name": "token",
        "projected": {
            "sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}],
            "defaultMode": 420,
        },
    }
    data = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    container = {
        "name": "app",
        "image": "registry.example.com/team/app:1.2.3",
        "env": [{"name": f"SETTING_{one}", "value": f"value-{one}"} for one in range(10)],
        "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "250m", "memory": "256Mi"}},
        "volumeMounts": [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in (token, *data)],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    spec = {
        "nodeName": node,
        "containers": [container],
        "volumes": [token, *data],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "enableServiceLinks": True,
        "priority": 0,
    }
    state = {"running": {"startedAt": _time(number)}}
    told = {
        "name": "app",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": container["image"],
        "state": state,
    }
    status = {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _time(number)}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "hostIP": _ip(number),
        "podIP": _ip(number + 7),
        "podIPs": [{"ip": _ip(number + 7)}],
        "startTime": _time(number),
        "qosClass": "Burstable",
        "containerStatuses": [
            {
                **told,
                "imageID": f"{container['image']}@sha256:{number:064x}",
                "containerID": f"containerd://{number:064x}",
            }
        ],
    }
    labels = {"app.kubernetes.io/name": "web", "pod-template-hash": f"{number % 100:08x}"}
    meta = _meta(name, number, namespace, labels=labels, ownerReferences=[owner])
    return _managed({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}, "kubelet")


def _snapshot(namespace: str, name: str, claim: str, number: int) -> Json:
    meta = _meta(name, number, namespace, finalizers=[AS_SOURCE_FINALIZER, BOUND_FINALIZER])
    spec = {"source": {"persistentVolumeClaimName": claim}, "volumeSnapshotClassName": SNAPSHOT_CLASS}
    bound = f"snapcontent-{meta['uid']}"
    status = {
        "boundVolumeSnapshotContentName": bound,
        "creationTime": _time(number),
        "restoreSize": "1Gi",
        "readyToUse": True,
    }
    found = {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": meta,
        "spec": spec,
        "status": status,
    }
    return _managed(found, "snapshot-controller")


def _content(snapshot: Json, number: int) -> Json:
    of = snapshot["metadata"]
    spec = {
        "driver": DRIVER,
        "deletionPolicy": "Delete",
        "source": {"volumeHandle": handle_of(_volume_name(number))},
        "sourceVolumeMode": "Filesystem",
        "volumeSnapshotClassName": SNAPSHOT_CLASS,
        "volumeSnapshotRef": {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            **{key: of[key] for key in ("name", "namespace", "uid")},
            "resourceVersion": str(1000 + number),
        },
    }
    status = {
        "snapshotHandle": f"snap-{number}",
        "creationTime": 1793491200 * 10**9,
        "restoreSize": 1 << 30,
        "readyToUse": True,
    }
    meta = _meta(f"snapcontent-{of['uid']}", number, finalizers=[CONTENT_FINALIZER])
    found = {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": meta,
        "spec": spec,
        "status": status,
    }
    return _managed(found, "csi-snapshotter")


# -- what all have


def _volume_name(number: int) -> str:
    return f"pvc-{_uid(f'team-{number % NAMESPACES}/data-web-{number}')}"


def _meta(name: str, number: int, namespace: str = "", **more: Any) -> Json:
    meta = {"name": name, "uid": _uid(f"{namespace}/{name}"), "creationTimestamp": _time(number), **more}
    return {**meta, "namespace": namespace} if namespace else meta


def _managed(found: Json, manager: str) -> Json:
    """With managedFields: who set which field. Managers are added until they take their bytes."""
    fields = _fields({key: value for key, value in found.items() if key not in ("apiVersion", "kind")})
    entry = {"apiVersion": found["apiVersion"], "fieldsType": "FieldsV1", "fieldsV1": fields, "operation": "Update"}
    size = len(json.dumps(entry))
    names = (
        manager,
        "kubectl-client-side-apply",
        "argocd-controller",
        "kyverno",
        "velero",
        "backup-operator",
        "cluster-autoscaler",
        "vpa",
    )
    count = min(len(names), max(1, round(MANAGED_BYTES / size)))
    made = [{**entry, "manager": one, "time": found["metadata"]["creationTimestamp"]} for one in names[:count]]
    return {**found, "metadata": {**found["metadata"], "managedFields": made}}


def _fields(value: Any) -> Json:
    """A value's tree of fields as FieldsV1 writes it; a list is one field."""
    if not isinstance(value, Mapping):
        return {}
    return {f"f:{key}": _fields(one) for key, one in value.items()}


def _uid(of: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, of))


def _time(number: int) -> str:
    """Some moment of three months."""
    return f"2026-{8 + number % 3:02}-{1 + number % 28:02}T{number % 24:02}:{number % 60:02}:00Z"


def _ip(number: int) -> str:
    return f"10.{number // 65536 % 256}.{number // 256 % 256}.{number % 256}"


def pages_told(size: Size, bytes_max: int, where: str) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    """As `pages`; tells on stderr how far the storing of them is. where: they are stored."""
    began = told = time.monotonic()
    done = taken = 0
    for page in pages(size, bytes_max):
        yield page
        done, taken = done + len(page), taken + sum(len(body) for _, body in page)
        if time.monotonic() - told > 5:
            told = time.monotonic()
            print(f"{done} of {size.objects} objects are in {where}, {taken >> 20} MiB", file=sys.stderr, flush=True)
    assert done == size.objects, f"{done} objects were stored, of {size.objects}"
    print(
        f"{done} objects, {taken >> 20} MiB, in {where} after {time.monotonic() - began:.0f} s",
        file=sys.stderr,
        flush=True,
    )


def pages(size: Size, bytes_max: int) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    """What is to be stored, as keys and JSON, in portions of at most so many bytes."""
    page: list[tuple[bytes, bytes]] = []
    taken = 0
    for key, found in stored(size):
        body = json.dumps(found, separators=(",", ":")).encode()
        if page and taken + len(body) > bytes_max:
            yield page
            page, taken = [], 0
        page.append((key.encode(), body))
        taken += len(body)
    if page:
        yield page
