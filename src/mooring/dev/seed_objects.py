"""Objects to begin with: a claim and what it needs, seeds of a cluster, and examples to try."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from mooring.api.core import NODES, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, STORAGE_CLASSES
from mooring.apiserver.codecs.yamlbody import dump_yaml
from mooring.base.errors import ConfigError
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import NotFound

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def csi_driver(driver_name: str) -> dict[str, Any]:
    """The CSIDriver of a driver that attaches."""
    return _object("storage.k8s.io/v1", "CSIDriver", driver_name, {"attachRequired": True})


def csi_node(driver_name: str, node_name: str, segments: Mapping[str, str]) -> dict[str, Any]:
    """As the kubelet would write it; the node's id is its name. segments: its topology, {} for none."""
    driver = {"name": driver_name, "nodeID": node_name, "topologyKeys": sorted(segments)}
    return _object("storage.k8s.io/v1", "CSINode", node_name, {"drivers": [driver]})


def node(name: str, segments: Mapping[str, str]) -> dict[str, Any]:
    """As a ready kubelet would write it. segments: as for csi_node; they become labels."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "there is no kubelet: mooring dev says so"}
    body = _object("v1", "Node", name, {})
    body["metadata"]["labels"] = {"kubernetes.io/hostname": name, **segments}
    return {**body, "status": {"conditions": [ready], "allocatable": {"pods": "110"}, "capacity": {"pods": "110"}}}


def storage_class(driver_name: str, name: str, *, waits: bool = False, default: bool = False) -> dict[str, Any]:
    """waits: volumes are made where their first pod goes. default: for claims without a class."""
    body: dict[str, Any] = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    if default:
        body["metadata"]["annotations"] = {DEFAULT_CLASS: "true"}
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {**body, "provisioner": driver_name, "reclaimPolicy": "Delete", "volumeBindingMode": mode}


def claim(name: str, class_name: str) -> dict[str, Any]:
    """A user's claim for a volume of 1 GiB."""
    spec = {"storageClassName": class_name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return _object("v1", "PersistentVolumeClaim", name, spec)


def pod(name: str, claim_name: str) -> dict[str, Any]:
    """A user's pod with the claim's volume in a container."""
    container = {"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
    return _object("v1", "Pod", name, {"containers": [container], "volumes": [volume]})


def persistent_volume(driver_name: str, pv_name: str, handle: str, segments: Mapping[str, str]) -> dict[str, Any]:
    """An administrator's, for an existing volume of 1 GiB. segments: its topology, {} for everywhere."""
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
    """As the attach/detach controller would write it for a pod on the node."""
    spec = {"attacher": driver_name, "nodeName": node_name, "source": {"persistentVolumeName": pv_name}}
    return _object("storage.k8s.io/v1", "VolumeAttachment", va_name, spec)


def _object(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


CLASS: Final = "hostpath"
WAITING_CLASS: Final = "hostpath-wait"
"""Its volumes are made when their first pod has a node."""
VOLUME_BYTES: Final = 1 << 30
CAPABILITY: Final = csi.VolumeCapability(mount={}, access_mode={"mode": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER})
_CALL: Final = Call(timeout_s=5.0)


async def register(
    cluster: Cluster,
    driver_name: str,
    node_ids: Collection[str],
    topology: Mapping[str, Mapping[str, str]],
    *,
    default_class: bool = False,
) -> None:
    """Creates the driver's objects and classes, and the nodes with the driver's ids (their names) and topology ({} for none)."""
    await _make(cluster, CSI_DRIVERS.whole(), csi_driver(driver_name))
    await _make(cluster, STORAGE_CLASSES.whole(), storage_class(driver_name, CLASS, default=default_class))
    await _make(cluster, STORAGE_CLASSES.whole(), storage_class(driver_name, WAITING_CLASS, waits=True))
    for node_id in dict.fromkeys(node_ids):
        await _register_node(cluster, driver_name, node_id, topology.get(node_id, {}))


async def _register_node(cluster: Cluster, driver_name: str, node_id: str, segments: Mapping[str, str]) -> None:
    if await _make(cluster, NODES.whole(), node(node_id, segments)):
        await cluster.patch(NODES, node_id, Patch(PatchType.MERGE, {"spec": {"taints": None}}))  # a new node begins as not ready
    labels = (await cluster.get(NODES.whole(), node_id))["metadata"].get("labels") or {}
    if not segments.items() <= labels.items():
        await cluster.patch(NODES, node_id, Patch(PatchType.MERGE, {"metadata": {"labels": dict(segments)}}))
    wanted = csi_node(driver_name, node_id, segments)
    if not await _make(cluster, CSI_NODES.whole(), wanted):
        there = await cluster.get(CSI_NODES.whole(), node_id)
        if _topology_keys(there, driver_name) != _topology_keys(wanted, driver_name):  # what a driver has said there can't be changed
            await cluster.delete(CSI_NODES, node_id)
            await cluster.create(CSI_NODES.whole(), wanted)


def _topology_keys(node: Mapping[str, Any], driver_name: str) -> Collection[str]:
    return next((one.get("topologyKeys") or [] for one in node["spec"]["drivers"] if one["name"] == driver_name), [])


async def make_volume(cluster: Cluster, driver: Driver, driver_name: str, name: str) -> None:
    """The driver's volume of this name, made unless it is there, and a PersistentVolume of the same name. Raises ConfigError."""
    request = csi.CreateVolumeRequest(name=name, capacity_range={"required_bytes": VOLUME_BYTES}, volume_capabilities=[CAPABILITY])
    try:
        answer = await driver.create_volume(request, _CALL)
    except DriverError as error:
        raise ConfigError(f"volume: the driver can't make {name!r}: {error.message}") from error
    place = next((dict(one.segments) for one in answer.volume.accessible_topology), {})
    await _make(cluster, PERSISTENT_VOLUMES.whole(), persistent_volume(driver_name, name, answer.volume.volume_id, place))


async def _make(cluster: Cluster, kind: Kind[dict[str, Any]], obj: dict[str, Any]) -> bool:
    """True when it was made. A kept state has it from the last time, perhaps changed since."""
    try:
        await cluster.get(kind, obj["metadata"]["name"])
    except NotFound:
        await cluster.create(kind, obj)
        return True
    return False


CLAIM: Final = "my-claim"
POD: Final = "my-pod"
WAITING_CLAIM: Final = "my-waiting-claim"


def examples(driver_name: str, node_name: str, kubeconfig: str) -> str:
    """kubeconfig: its path, "" for unknown. Each line fits 80 columns, unless that path is long."""
    return "\n".join(_lines(driver_name, node_name, kubeconfig)) + "\n"


def _lines(driver_name: str, node_name: str, kubeconfig: str) -> Iterator[str]:
    if kubeconfig:
        yield f"export KUBECONFIG={shlex.quote(kubeconfig)}"
    else:
        yield "# First the line that mooring dev shows: export KUBECONFIG=..."
    yield from ("", "# A claim: a volume is made for it, and bound.")
    yield from _applied(claim(CLAIM, CLASS))
    yield _bound(CLAIM)
    yield "kubectl get pvc,pv"
    yield from ("", f"# Its volume on {node_name}, as an attach/detach controller does it for a pod.")
    yield f"PV=$(kubectl get pvc {CLAIM} -o jsonpath='{{.spec.volumeName}}')"
    attachment = f"{CLAIM}-on-{node_name}"
    yield from _applied(volume_attachment(driver_name, attachment, "$PV", node_name), quoted=False)
    yield "kubectl wait --for=jsonpath='{.status.attached}'=true \\"
    yield f"  volumeattachment/{attachment}"
    yield from ("", "# Detached, and deleted.")
    yield f"kubectl delete volumeattachment {attachment}"
    yield f"kubectl delete pvc {CLAIM}"
    yield from ("", f"# Volumes of {WAITING_CLASS} are made where their first pod goes.")
    yield from _applied(claim(WAITING_CLAIM, WAITING_CLASS), pod(POD, WAITING_CLAIM))
    yield _bound(WAITING_CLAIM)
    yield "kubectl get pods,pvc -o wide"
    yield from ("", "# Nothing ends a pod on a node without a kubelet: by force, then its claim.")
    yield f"kubectl delete pod {POD} --force --grace-period=0"
    yield f"kubectl delete pvc {WAITING_CLAIM}"


def _applied(*objects: dict[str, Any], quoted: bool = True) -> Iterator[str]:
    """quoted: the shell leaves it as it is."""
    yield "kubectl apply -f - <<" + ("'EOF'" if quoted else "EOF")
    yield from "---\n".join(dump_yaml(one).decode() for one in objects).splitlines()
    yield "EOF"


def _bound(claim_name: str) -> str:
    return f"kubectl wait --for=jsonpath='{{.status.phase}}'=Bound pvc/{claim_name}"
