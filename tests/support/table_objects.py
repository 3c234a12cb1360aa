"""Objects as tables may show them: of each kind a plain one, and those that look otherwise."""

from __future__ import annotations

from typing import Any

from tests.support.builders import APP, a_job, a_lease, a_node, a_pv, a_template, a_va, a_workload
from tests.support.paths import APPS, CSI_DRIVERS, CSI_NODES, EVENTS, JOBS, LEASES, NAMESPACES, NODES, PVS, SECRETS, VAS

Json = dict[str, Any]

LONG_AGO = "2020-01-01T00:00:00Z"

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ATTRIBUTES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
CAPACITIES = "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities"
PVCS = "/api/v1/namespaces/default/persistentvolumeclaims"
PODS = "/api/v1/namespaces/default/pods"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SERVICES = "/api/v1/namespaces/default/services"
PORTS = [{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS = (
    f"{APPS}/{plural}" for plural in ("deployments", "replicasets", "statefulsets")
)
REVISIONS = f"{APPS}/controllerrevisions"
HOLD = "kit.example.com/hold"
BY_HAND = {"manualSelector": True, "selector": {"matchLabels": APP}, "template": a_template(restartPolicy="Never")}
"""A Job whose selector is not its uid."""
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "name": "web",
    "uid": "11111111-2222-3333-4444-555555555555",
    "controller": True,
}
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"

IS_DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}
INFO = dict.fromkeys(("machineID", "systemUUID", "bootID", "kubeProxyVersion", "operatingSystem"), "x")
FULL_INFO = {
    **INFO,
    "kernelVersion": "5.1",
    "osImage": "Linux",
    "containerRuntimeVersion": "c://2",
    "kubeletVersion": "v1",
    "architecture": "amd64",
}
PVC_SPEC = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "none-such",
}
ABOUT = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "c", "fieldPath": "spec.x"}
EVENT = {
    "involvedObject": ABOUT,
    "reason": "Tested",
    "message": "  a test\n",
    "type": "Normal",
    "source": {"component": "kit", "host": "h"},
}
NEW_EVENT = {
    "eventTime": "2020-05-06T07:08:09.123456Z",
    "regarding": {**ABOUT, "name": ""},
    "reason": "Tested",
    "note": "a test",
    "type": "Normal",
    "action": "Testing",
    "reportingController": "example.com/kit",
    "reportingInstance": "kit-1",
}


def a_container(name: str, **more: Any) -> Json:
    return {"name": name, "image": "i", **more}


def a_status(name: str, **more: Any) -> Json:
    return {"name": name, "image": "i", "imageID": "", "ready": False, "restartCount": 0, **more}


def ended(exit_code: int, **more: Any) -> Json:
    return {"terminated": {"exitCode": exit_code, "finishedAt": LONG_AGO, **more}}


WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}
RUNNING = {"running": {"startedAt": LONG_AGO}}
READY = [{"type": "Ready", "status": "True"}]
SIDECAR = {"initContainers": [a_container("s", restartPolicy="Always"), a_container("i")]}

PODS_BY_NAME: dict[str, tuple[Json, Json]] = {
    "new": ({"schedulerName": "nobody"}, {}),  # (another test may run a scheduler on the same server)
    "scheduled": ({"nodeName": "n1"}, {"phase": "Running", "podIPs": [{"ip": "10.0.0.5"}], "podIP": "10.0.0.5"}),
    "reason": ({}, {"phase": "Failed", "reason": "Evicted"}),
    "gated": ({"schedulingGates": [{"name": "example.com/g"}]}, {}),
    "succeeded": ({}, {"phase": "Succeeded", "containerStatuses": [a_status("c", state=ended(0, reason="Completed"))]}),
    "waiting": (
        {},
        {"phase": "Running", "containerStatuses": [a_status("c", state=WAITING, restartCount=3, lastState=ended(1))]},
    ),
    "signal": ({}, {"phase": "Running", "containerStatuses": [a_status("c", state=ended(137, signal=9))]}),
    "code": ({}, {"phase": "Running", "containerStatuses": [a_status("c", state=ended(3), restartCount=1)]}),
    "ready": (
        {},
        {"phase": "Running", "conditions": READY, "containerStatuses": [a_status("c", state=RUNNING, ready=True)]},
    ),
    "half": (
        {"containers": [a_container("c"), a_container("d")]},
        {
            "phase": "Running",
            "containerStatuses": [
                a_status("c", state=ended(0, reason="Completed")),
                a_status("d", state=RUNNING, ready=True),
            ],
        },
    ),
    "both": (
        {"containers": [a_container("c"), a_container("d")]},
        {
            "phase": "Running",
            "containerStatuses": [a_status("c", state=WAITING), a_status("d", state=ended(1, reason="Error"))],
        },
    ),
    "init": (
        {"initContainers": [a_container("i"), a_container("j")]},
        {
            "initContainerStatuses": [
                a_status("i", state=ended(0)),
                a_status("j", state={"waiting": {"reason": "PodInitializing"}}),
            ]
        },
    ),
    "init-fails": (
        {"initContainers": [a_container("i")]},
        {"initContainerStatuses": [a_status("i", state=ended(2), restartCount=4)]},
    ),
    "init-error": (
        {"initContainers": [a_container("i")]},
        {"initContainerStatuses": [a_status("i", state=ended(2, reason="Error"))]},
    ),
    "init-waits": ({"initContainers": [a_container("i")]}, {"initContainerStatuses": [a_status("i", state=WAITING)]}),
    "sidecar": (
        SIDECAR,
        {
            "phase": "Running",
            "conditions": [*READY, {"type": "Initialized", "status": "True"}],
            "initContainerStatuses": [
                a_status("s", state=RUNNING, ready=True, started=True, restartCount=2, lastState=ended(1)),
                a_status("i", state=ended(0)),
            ],
            "containerStatuses": [a_status("c", state=RUNNING, ready=True, restartCount=1)],
        },
    ),
    "gates": (
        {"readinessGates": [{"conditionType": "example.com/a"}, {"conditionType": "example.com/b"}]},
        {"conditions": [{"type": "example.com/a", "status": "True"}], "nominatedNodeName": "n2"},
    ),
}

OBJECTS: dict[str, tuple[str, Json, Json]] = {
    # what to call it: (where, the object, its status)
    "attachment": (VAS, a_va("x"), {"attached": True}),
    "csinode": (CSI_NODES, {"spec": {"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": None}]}}, {}),
    "csinode-empty": (CSI_NODES, {"spec": {"drivers": []}}, {}),
    "driver": (
        CSI_DRIVERS,
        {
            "spec": {
                "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
                "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            }
        },
        {},
    ),
    "driver-plain": (
        CSI_DRIVERS,
        {"spec": {"attachRequired": False, "podInfoOnMount": True, "storageCapacity": True}},
        {},
    ),
    "capacity": (CAPACITIES, {"storageClassName": "fast", "capacity": "1Gi"}, {}),
    "class": (CLASSES, {"provisioner": "d.example.com"}, {}),
    "class-default": (
        CLASSES,
        {
            "metadata": {"annotations": IS_DEFAULT},
            "provisioner": "d",
            "allowVolumeExpansion": True,
            "reclaimPolicy": "Retain",
        },
        {},
    ),
    "attributes": (ATTRIBUTES, {"driverName": "d.example.com", "parameters": {"a": "b"}}, {}),
    "volume": (PVS, a_pv("x"), {}),
    "volume-bound": (
        PVS,
        a_pv(
            "x",
            claimRef={"namespace": "n", "name": "c"},
            accessModes=["ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany"],
            storageClassName="fast",
            volumeAttributesClassName="gold",
            volumeMode="Block",
        ),
        {"phase": "Failed", "reason": "Why"},
    ),
    "volume-beta": (
        PVS,
        {**a_pv("x"), "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}},
        {},
    ),
    "claim": (
        PVCS,
        {"spec": PVC_SPEC},
        {"phase": "Pending", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}},
    ),
    "claim-bound": (
        PVCS,
        {"spec": {**PVC_SPEC, "volumeName": "v"}},
        {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}},
    ),
    "claim-half": (PVCS, {"spec": {**PVC_SPEC, "volumeName": "v", "volumeAttributesClassName": "gold"}}, {}),
    "node": (NODES, a_node("x"), {}),
    "node-ready": (
        NODES,
        {
            "metadata": {
                "labels": {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": "x", "kubernetes.io/role": "c"}
            },
            "spec": {"unschedulable": True},
            "status": {
                "conditions": READY,
                "nodeInfo": FULL_INFO,
                "addresses": [
                    {"type": "ExternalIP", "address": "1.2.3.4"},
                    {"type": "InternalIP", "address": "10.0.0.1"},
                ],
            },
        },
        {},
    ),
    "node-not-ready": (
        NODES,
        a_node("x", conditions=[{"type": "Ready", "status": "Unknown"}], nodeInfo={**FULL_INFO, "architecture": ""}),
        {},
    ),
    "deployment": (
        DEPLOYMENTS,
        a_workload("Deployment", replicas=3),
        {"readyReplicas": 1, "replicas": 3, "updatedReplicas": 2},
    ),
    "deployment-new": (DEPLOYMENTS, a_workload("Deployment"), {}),
    "replicaset": (REPLICA_SETS, a_workload("ReplicaSet", replicas=3), {"replicas": 2, "readyReplicas": 1}),
    "statefulset": (STATEFUL_SETS, a_workload("StatefulSet", replicas=3), {"replicas": 2, "readyReplicas": 1}),
    "revision": (REVISIONS, {"revision": 3, "data": {"a": "b"}}, {}),
    # (held: its owner is not there, and the collector would delete it)
    "revision-owned": (
        REVISIONS,
        {"metadata": {"ownerReferences": [OWNER], "finalizers": [HOLD]}, "revision": 3, "data": {"a": "b"}},
        {},
    ),
    "job": (JOBS, a_job("x", completions=3, parallelism=2, **BY_HAND), {"succeeded": 1, "startTime": LONG_AGO}),
    "job-open": (JOBS, a_job("x", parallelism=2, **BY_HAND), {}),
    "job-suspended": (
        JOBS,
        a_job("x", suspend=True, **BY_HAND),
        {"conditions": [{"type": "Suspended", "status": "True"}]},
    ),
    "namespace": (NAMESPACES, {}, {}),
    "secret": (SECRETS, {"stringData": {"a": "", "b": "c"}, "type": "example.com/x"}, {}),
    "config-map": (CONFIG_MAPS, {"data": {"a": "b", "c": ""}, "binaryData": {"d": "YQ=="}}, {}),
    "account": (ACCOUNTS, {"secrets": [{"name": "a"}]}, {}),
    "service-elsewhere": (SERVICES, {"spec": {"type": "ExternalName", "externalName": "a.example.com"}}, {}),
    "service": (SERVICES, {"spec": {"clusterIP": "None", "selector": {"b": "c", "a": "b"}, "ports": PORTS}}, {}),
    "lease": (LEASES, a_lease("x"), {}),
    "lease-free": (LEASES, {"spec": {}}, {}),
    "event": (EVENTS, {**EVENT, "count": 7, "lastTimestamp": LONG_AGO, "firstTimestamp": "2019-01-01T00:00:00Z"}, {}),
    "event-bare": (EVENTS, {"involvedObject": {"namespace": "default", "kind": "Pod"}}, {}),
    "event-series": (EVENTS, {**EVENT, "series": {"count": 5, "lastObservedTime": "2020-01-01T00:00:00.000000Z"}}, {}),
    "new-event": (NEW_EVENTS, NEW_EVENT, {}),
    "definition": (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "spec": {
                "group": "tables.test",
                "scope": "Cluster",
                "names": {"plural": "shown", "singular": "showing", "kind": "Showing", "listKind": "ShowingList"},
                "versions": [
                    {"name": "v1", "served": False, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
                ],
            }
        },
        {},
    ),
    **{
        f"pod-{name}": (PODS, {"spec": {"containers": [a_container("c")], **spec}}, status)
        for name, (spec, status) in PODS_BY_NAME.items()
    },
}
