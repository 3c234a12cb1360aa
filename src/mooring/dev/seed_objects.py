"""Objects to begin with: a claim and what it needs, seeds of a cluster, and examples to try."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from mooring.api.core import NODES, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, STORAGE_CLASSES
from mooring.apiserver.codecs.yamlbody import dump_yaml
from mooring.base.errors import ConfigError
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call, Driver
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import NotFound

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def csi_driver(driver_name: str, *, attaches: bool, takes_inline: bool = False) -> dict[str, Any]:
    """attaches: its volumes are attached by the controller first. takes_inline: pods may bring volumes of their own, too."""
    spec: dict[str, Any] = {"attachRequired": attaches}
    if takes_inline:
        spec |= {"podInfoOnMount": True, "volumeLifecycleModes": ["Persistent", "Ephemeral"], "fsGroupPolicy": "File"}
    return _object("storage.k8s.io/v1", "CSIDriver", driver_name, spec)


def csi_node(driver_name: str, node_name: str) -> dict[str, Any]:
    """For a driver without a node service: the node's id is its name."""
    return _object("storage.k8s.io/v1", "CSINode", node_name, {"drivers": [{"name": driver_name, "nodeID": node_name}]})


def node(name: str, segments: Mapping[str, str]) -> dict[str, Any]:
    """As a ready kubelet would write it. segments: its topology, {} for none; they become labels."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "there is no kubelet, but an agent of mooring dev"}
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


WAITS: Final = "-wait"
"""Ends the name of the class whose volumes are made when their first pod has a node."""
VOLUME_BYTES: Final = 1 << 30
CAPABILITY: Final = csi.VolumeCapability(mount={}, access_mode={"mode": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER})
_CALL: Final = Call(timeout_s=5.0)


def class_name(*, reference: bool) -> str:
    """The class of the plane's driver. Somebody's own driver has the same one whatever its name is, so that examples can name it."""
    return "hostpath" if reference else "dev"


async def register(
    cluster: Cluster,
    driver: DriverCapabilities,
    nodes: Collection[str],
    topology: Mapping[str, Mapping[str, str]],
    *,
    reference: bool,
    has_agents: bool,
    default_class: bool = False,
) -> None:
    """Creates the driver's CSIDriver and classes, and the Nodes.

    topology: the segments of the reference driver's nodes, {} for none. has_agents: the nodes' agents write the CSINodes; where there
    are none, each node is entered with its name as its id.
    """
    name, class_of_driver = driver.name, class_name(reference=reference)
    wanted = csi_driver(name, attaches=driver.publishes, takes_inline=reference)
    await _make(cluster, CSI_DRIVERS.whole(), wanted, lambda there: there["spec"].get("attachRequired", True) is driver.publishes)
    for one in (storage_class(name, class_of_driver, default=default_class), storage_class(name, class_of_driver + WAITS, waits=True)):
        await _make(cluster, STORAGE_CLASSES.whole(), one, lambda there: there["provisioner"] == name)
    for node_name in dict.fromkeys(nodes):
        await _register_node(cluster, node_name, topology.get(node_name, {}))
        if not has_agents:
            await _make(cluster, CSI_NODES.whole(), csi_node(name, node_name), lambda there: _names(there, name))


async def _register_node(cluster: Cluster, node_name: str, segments: Mapping[str, str]) -> None:
    if await _make(cluster, NODES.whole(), node(node_name, segments)):
        await cluster.patch(NODES, node_name, Patch(PatchType.MERGE, {"spec": {"taints": None}}))  # a new node begins as not ready
    labels = (await cluster.get(NODES.whole(), node_name))["metadata"].get("labels") or {}
    if not segments.items() <= labels.items():
        await cluster.patch(NODES, node_name, Patch(PatchType.MERGE, {"metadata": {"labels": dict(segments)}}))


def _names(there: Mapping[str, Any], driver_name: str) -> bool:
    """True for a CSINode that has the driver."""
    return any(one["name"] == driver_name for one in there["spec"].get("drivers") or ())


async def make_volume(cluster: Cluster, driver: Driver, driver_name: str, name: str) -> None:
    """The driver's volume of this name, made unless it is there, and a PersistentVolume of the same name. Raises ConfigError."""
    request = csi.CreateVolumeRequest(name=name, capacity_range={"required_bytes": VOLUME_BYTES}, volume_capabilities=[CAPABILITY])
    try:
        answer = await driver.create_volume(request, _CALL)
    except DriverError as error:
        raise ConfigError(f"volume: the driver can't make {name!r}: {error.message}") from error
    place = next((dict(one.segments) for one in answer.volume.accessible_topology), {})
    await _make(cluster, PERSISTENT_VOLUMES.whole(), persistent_volume(driver_name, name, answer.volume.volume_id, place))


async def _make(
    cluster: Cluster, kind: Kind[dict[str, Any]], obj: dict[str, Any], fits: Callable[[dict[str, Any]], bool] = lambda _: True
) -> bool:
    """True when it was made. A kept state has it from the last time, perhaps changed since: it stays, unless what can't be changed there
    does not fit any more."""
    name = obj["metadata"]["name"]
    try:
        if fits(await cluster.get(kind, name)):
            return False
        await cluster.delete(kind, name)
    except NotFound:
        pass
    await cluster.create(kind, obj)
    return True


CLAIM: Final = "my-claim"
POD: Final = "my-pod"
WAITING_CLAIM: Final = "my-waiting-claim"
WAITING_POD: Final = "my-waiting-pod"


def examples(storage_class_name: str, kubeconfig: str) -> str:
    """A script. kubeconfig: its path, "" for unknown. Each line fits 80 columns, unless that path is long."""
    return "\n".join(_lines(storage_class_name, kubeconfig)) + "\n"


def _lines(storage_class_name: str, kubeconfig: str) -> Iterator[str]:
    if kubeconfig:
        yield f"export KUBECONFIG={shlex.quote(kubeconfig)}"
    else:
        yield "# First, as mooring dev shows: export KUBECONFIG=..."
    yield from ("", "# A claim: a volume is made for it, and bound.")
    yield from _applied(claim(CLAIM, storage_class_name))
    yield _bound(CLAIM)
    yield "kubectl get pvc,pv"
    yield from ("", "# A pod with it: attached to its node, staged, published; then it runs.")
    yield from _applied(pod(POD, CLAIM))
    yield f"kubectl wait --for=condition=Ready pod/{POD}"
    yield "kubectl get pods,volumeattachments -o wide"
    yield from ("", "# Taken from the pod, unstaged, detached; then the pod is gone. Deleted.")
    yield f"kubectl delete pod {POD}"
    yield f"kubectl delete pvc {CLAIM}"
    yield from ("", f"# Volumes of {storage_class_name}{WAITS} are made where their first pod goes.")
    yield from _applied(claim(WAITING_CLAIM, f"{storage_class_name}{WAITS}"), pod(WAITING_POD, WAITING_CLAIM))
    yield f"kubectl wait --for=condition=Ready pod/{WAITING_POD}"
    yield "kubectl get pods,pvc -o wide"
    yield f"kubectl delete pod {WAITING_POD}"
    yield f"kubectl delete pvc {WAITING_CLAIM}"


def _applied(*objects: dict[str, Any]) -> Iterator[str]:
    yield "kubectl apply -f - <<'EOF'"
    yield from "---\n".join(dump_yaml(one).decode() for one in objects).splitlines()
    yield "EOF"


def _bound(claim_name: str) -> str:
    return f"kubectl wait --for=jsonpath='{{.status.phase}}'=Bound pvc/{claim_name}"
