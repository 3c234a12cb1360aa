"""Objects to begin with: a claim and what it needs, and seeds of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from mooring.api.core import NODES, PERSISTENT_VOLUMES
from mooring.api.group_snapshot import GROUP_SNAPSHOT_CLASSES
from mooring.api.meta import Key, Kind
from mooring.api.snapshot import VOLUME_SNAPSHOT_CLASSES
from mooring.api.snapshot_names import DEFAULT_CLASS as DEFAULT_CLASS_OF_SNAPSHOTS
from mooring.api.snapshot_names import GROUP_DEFAULT_CLASS
from mooring.api.storage import CSI_DRIVERS, CSI_NODES, LOG_PLACE, STORAGE_CLASSES, VOLUME_ATTRIBUTES_CLASSES
from mooring.apiserver.resource import StoredObjects
from mooring.base.errors import ConfigError
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.csi.driver import Call, Driver
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.extras import Extras
from mooring.kube.cluster import Cluster, Patch, PatchType
from mooring.kube.errors import NotFound

DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
TERMINAL: Final = "the terminal of mooring dev"


def republishes(store: StoredObjects, driver_name: str) -> bool:
    """True while the driver's CSIDriver has requiresRepublish."""
    drivers = store.resource(CSI_DRIVERS.group, CSI_DRIVERS.version, CSI_DRIVERS.plural)
    assert drivers is not None, "CSIDriver is a kind of the server's own"
    try:
        return bool(store.get(drivers, Key("", driver_name)).whole()["spec"].get("requiresRepublish"))
    except NotFound:
        return False


def csi_driver(
    driver_name: str, *, attaches: bool, takes_inline: bool = False, log_place: str = TERMINAL
) -> dict[str, Any]:
    """attaches: its volumes are attached by the controller first. takes_inline: pods may bring volumes of their own,
    too. log_place: where people find what the driver and the controllers do, for `mooring why`.
    """
    spec: dict[str, Any] = {"attachRequired": attaches}
    if takes_inline:
        spec |= {"podInfoOnMount": True, "volumeLifecycleModes": ["Persistent", "Ephemeral"], "fsGroupPolicy": "File"}
    made = _object("storage.k8s.io/v1", "CSIDriver", driver_name, spec)
    made["metadata"]["annotations"] = {LOG_PLACE: log_place}
    return made


def csi_node(driver_name: str, node_name: str) -> dict[str, Any]:
    """For a driver without a node service: the node's id is its name."""
    return _object("storage.k8s.io/v1", "CSINode", node_name, {"drivers": [{"name": driver_name, "nodeID": node_name}]})


def node(name: str, segments: Mapping[str, str]) -> dict[str, Any]:
    """As a ready kubelet would write it. segments: its topology, {} for none; they become labels."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "there is no kubelet, but an agent of mooring dev",
    }
    body = _object("v1", "Node", name, {})
    body["metadata"]["labels"] = {"kubernetes.io/hostname": name, **segments}
    return {**body, "status": {"conditions": [ready], "allocatable": {"pods": "110"}, "capacity": {"pods": "110"}}}


def storage_class(
    driver_name: str, name: str, *, waits: bool = False, default: bool = False, grows: bool = False, fs_type: str = ""
) -> dict[str, Any]:
    """waits: volumes are made where their first pod goes. default: for claims without a class. grows: its claims may
    ask for more. fs_type: of its volumes, "" for the driver's choice.
    """
    body: dict[str, Any] = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    if default:
        body["metadata"]["annotations"] = {DEFAULT_CLASS: "true"}
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    if fs_type:
        body["parameters"] = {"csi.storage.k8s.io/fstype": fs_type}
    growth = {"allowVolumeExpansion": True} if grows else {}
    return {**body, "provisioner": driver_name, "reclaimPolicy": "Delete", "volumeBindingMode": mode, **growth}


def snapshot_class(driver_name: str, name: str) -> dict[str, Any]:
    """For snapshots without a class, too."""
    return _default_class(
        "snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", DEFAULT_CLASS_OF_SNAPSHOTS, driver_name, name
    )


def group_snapshot_class(driver_name: str, name: str) -> dict[str, Any]:
    """For group snapshots without a class, too."""
    return _default_class(
        "groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshotClass", GROUP_DEFAULT_CLASS, driver_name, name
    )


def _default_class(api_version: str, kind: str, mark: str, driver_name: str, name: str) -> dict[str, Any]:
    meta = {"name": name, "annotations": {mark: "true"}}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": meta,
        "driver": driver_name,
        "deletionPolicy": "Delete",
    }


def attributes_class(driver_name: str, name: str, parameters: Mapping[str, str]) -> dict[str, Any]:
    """A VolumeAttributesClass. parameters: those that the driver can change."""
    body: dict[str, Any] = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttributesClass",
        "metadata": {"name": name},
    }
    return {**body, "driverName": driver_name, "parameters": dict(parameters)}


def claim(name: str, class_name: str, size: str = "1Gi", **more: Any) -> dict[str, Any]:
    """A user's claim. more: of its spec."""
    spec = {
        "storageClassName": class_name,
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        **more,
    }
    return _object("v1", "PersistentVolumeClaim", name, spec)


def snapshot(name: str, claim_name: str) -> dict[str, Any]:
    """A user's snapshot of a claim's volume, of the default class."""
    spec = {"source": {"persistentVolumeClaimName": claim_name}}
    return _object("snapshot.storage.k8s.io/v1", "VolumeSnapshot", name, spec)


def group_snapshot(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """A user's snapshot of the volumes of all claims with these labels, of the default class."""
    spec = {"source": {"selector": {"matchLabels": dict(labels)}}}
    return _object("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshot", name, spec)


def restored(snapshot_name: str) -> dict[str, Any]:
    """The field of a claim's spec that has its volume filled from a snapshot."""
    return {"dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot_name}}


def pod(name: str, claim_name: str) -> dict[str, Any]:
    """A user's pod with the claim's volume in a container."""
    container = {"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
    return _object("v1", "Pod", name, {"containers": [container], "volumes": [volume]})


def deployment(name: str, claim_name: str) -> dict[str, Any]:
    """A user's, of one such pod at a time: the next one begins when the last one is gone. Its pods have the label
    app=NAME.
    """
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod(name, claim_name)["spec"]}
    spec = {"replicas": 1, "strategy": {"type": "Recreate"}, "selector": {"matchLabels": labels}, "template": template}
    return _object("apps/v1", "Deployment", name, spec)


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


def _object(api_version: str, kind: str, name: str, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name},
        **({} if spec is None else {"spec": spec}),
    }


SERVICE_ACCOUNTS: Final[Kind[dict[str, Any]]] = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, dict)
WAITS: Final = "-wait"
"""Ends the name of the class whose volumes are made when their first pod has a node."""
ATTRIBUTES: Final = {"silver": "500", "gold": "5000"}
"""The names of the reference driver's VolumeAttributesClasses, with the parameter iops of each. It notes any
parameter, and heeds none.
"""
VOLUME_BYTES: Final = 1 << 30
CAPABILITY: Final = csi.VolumeCapability(
    mount={}, access_mode={"mode": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER}
)
_CALL: Final = Call(timeout_s=5.0)


def class_name(*, reference: bool) -> str:
    """The class of the plane's driver. Somebody's own driver has the same one whatever its name is, so that examples
    can name it.
    """
    return "hostpath" if reference else "dev"


async def register(
    cluster: Cluster,
    driver: DriverCapabilities,
    nodes: Collection[str],
    topology: Mapping[str, Mapping[str, str]],
    extras: Extras,
    *,
    reference: bool,
    has_agents: bool,
    default_class: bool = False,
    log_place: str = TERMINAL,
) -> None:
    """Creates the driver's CSIDriver and classes, the Nodes, and the account of pods that name none. log_place: as for
    `csi_driver`.

    topology: the segments of the reference driver's nodes, {} for none. extras: the kinds of classes that it has.
    has_agents: the nodes' agents write the CSINodes; where there are none, each node is entered with its name as its
    id.
    """
    name, class_of_driver = driver.name, class_name(reference=reference)
    wanted = csi_driver(name, attaches=driver.publishes, takes_inline=reference, log_place=log_place)
    await _make(
        cluster,
        CSI_DRIVERS.whole(),
        wanted,
        lambda there: there["spec"].get("attachRequired", True) is driver.publishes,
    )
    await _make(cluster, SERVICE_ACCOUNTS, _object("v1", "ServiceAccount", "default"), namespace="default")
    for one in (
        storage_class(name, class_of_driver, default=default_class, grows=extras.grows),
        storage_class(name, class_of_driver + WAITS, waits=True, grows=extras.grows),
    ):
        await _make(
            cluster,
            STORAGE_CLASSES.whole(),
            one,
            lambda there: there["provisioner"] == name and _says_growth(there, extras),
        )
    if extras.snapshots:
        wanted = snapshot_class(name, class_of_driver)
        await _make(cluster, VOLUME_SNAPSHOT_CLASSES.whole(), wanted, lambda there: there["driver"] == name)
    if extras.group_snapshots:
        wanted = group_snapshot_class(name, class_of_driver)
        await _make(cluster, GROUP_SNAPSHOT_CLASSES.whole(), wanted, lambda there: there["driver"] == name)
    if extras.modifies and reference:
        for attributes, iops in ATTRIBUTES.items():
            await _make(cluster, VOLUME_ATTRIBUTES_CLASSES.whole(), attributes_class(name, attributes, {"iops": iops}))
    for node_name in dict.fromkeys(nodes):
        await _register_node(cluster, node_name, topology.get(node_name, {}), has_agent=has_agents)
        if not has_agents:
            await _make(cluster, CSI_NODES.whole(), csi_node(name, node_name), lambda there: _names(there, name))


async def _register_node(cluster: Cluster, node_name: str, segments: Mapping[str, str], *, has_agent: bool) -> None:
    """A new node begins as not ready. Where it has no agent, nobody watches over it, who would take that taint off, nor
    let the controller attach volumes to it.
    """
    await _make(cluster, NODES.whole(), node(node_name, segments))
    if not has_agent:
        bare = {"metadata": {"annotations": {MANAGED: "true"}}, "spec": {"taints": None}}
        there = await cluster.get(NODES.whole(), node_name)
        if there["spec"].get("taints") or MANAGED not in (there["metadata"].get("annotations") or {}):
            await cluster.patch(NODES, node_name, Patch(PatchType.MERGE, bare))
    labels = (await cluster.get(NODES.whole(), node_name))["metadata"].get("labels") or {}
    if not segments.items() <= labels.items():
        await cluster.patch(NODES, node_name, Patch(PatchType.MERGE, {"metadata": {"labels": dict(segments)}}))


def _says_growth(there: Mapping[str, Any], extras: Extras) -> bool:
    """False for a class from a time when no volume could grow."""
    return "allowVolumeExpansion" in there or not extras.grows


def _names(there: Mapping[str, Any], driver_name: str) -> bool:
    """True for a CSINode that has the driver."""
    return any(one["name"] == driver_name for one in there["spec"].get("drivers") or ())


async def make_volume(cluster: Cluster, driver: Driver, driver_name: str, name: str) -> None:
    """The driver's volume of this name, made unless it is there, and a PersistentVolume of the same name. Raises
    ConfigError.
    """
    request = csi.CreateVolumeRequest(
        name=name, capacity_range={"required_bytes": VOLUME_BYTES}, volume_capabilities=[CAPABILITY]
    )
    try:
        answer = await driver.create_volume(request, _CALL)
    except DriverError as error:
        raise ConfigError(f"volume: the driver can't make {name!r}: {error.message}") from error
    place = next((dict(one.segments) for one in answer.volume.accessible_topology), {})
    await _make(
        cluster, PERSISTENT_VOLUMES.whole(), persistent_volume(driver_name, name, answer.volume.volume_id, place)
    )


async def _make(
    cluster: Cluster,
    kind: Kind[dict[str, Any]],
    obj: dict[str, Any],
    fits: Callable[[dict[str, Any]], bool] = lambda _: True,
    namespace: str = "",
) -> bool:
    """True when it was made. A kept state has it from the last time, perhaps changed since: it stays, unless what can't
    be changed there does not fit any more.
    """
    name = obj["metadata"]["name"]
    try:
        if fits(await cluster.get(kind, name, namespace)):
            return False
        await cluster.delete(kind, name, namespace)
    except NotFound:
        pass
    await cluster.create(kind, obj, namespace)
    return True
