"""What is refused at creation and on update, field by field: the same causes from both servers."""

from __future__ import annotations

import copy
from typing import Any

from tests.support.builders import Json, a_csi_node, a_lease, a_node, a_pv, a_secret, a_va
from tests.support.paths import CSI_DRIVERS, CSI_NODES, EVENTS, LEASES, NAMESPACES, NODES, PVS, SECRETS, VAS
from tests.support.rest import Rest
from tests.support.rows import each_row

INVALID, REQUIRED, FORBIDDEN = "FieldValueInvalid", "FieldValueRequired", "FieldValueForbidden"
UNSUPPORTED, DUPLICATE, TOO_LONG = "FieldValueNotSupported", "FieldValueDuplicate", "FieldValueTooLong"
Cause = tuple[str, str]
INLINE = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "d", "volumeHandle": "h"}}
ABOUT = {"kind": "Pod", "namespace": "default", "name": "p"}
SECRET_REF = {"name": "a", "namespace": "b"}


def with_spec(path: str, body: Json, **spec: Any) -> tuple[str, Json]:
    """The row's request: a valid body with some fields of its spec changed; None takes one away."""
    full = {**body["spec"], **spec}
    return path, {**body, "spec": {field: value for field, value in full.items() if value is not None}}


def va(**spec: Any) -> tuple[str, Json]:
    return with_spec(VAS, a_va(""), **spec)


def inline(**spec: Any) -> tuple[str, Json]:
    full = {field: value for field, value in {**INLINE, **spec}.items() if value is not None}
    return va(source={"inlineVolumeSpec": full})


def pv(**spec: Any) -> tuple[str, Json]:
    return with_spec(PVS, a_pv(""), **spec)


def csi_pv(**csi: Any) -> tuple[str, Json]:
    return pv(csi={"driver": "d", "volumeHandle": "h", **csi})


def affinity(**requirement: Any) -> tuple[str, Json]:
    return pv(nodeAffinity={"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}})


def csi_node(*drivers: Json) -> tuple[str, Json]:
    return CSI_NODES, a_csi_node("", [*drivers])


def csi_driver(**spec: Any) -> tuple[str, Json]:
    return CSI_DRIVERS, {"metadata": {}, "spec": spec}


def node(**spec: Any) -> tuple[str, Json]:
    return NODES, {"metadata": {}, "spec": spec}


def secret(**fields: Any) -> tuple[str, Json]:
    return SECRETS, {"metadata": {}, **fields}


def lease(**spec: Any) -> tuple[str, Json]:
    return with_spec(LEASES, a_lease(""), **spec)


def event(**fields: Any) -> tuple[str, Json]:
    return EVENTS, {"metadata": {}, "involvedObject": ABOUT, **fields}


def timed_event(**fields: Any) -> tuple[str, Json]:
    full = {"reason": "r", "action": "a", "reportingComponent": "a/b", "reportingInstance": "i", "type": "Normal"}
    return event(eventTime="2024-05-06T07:08:09.123456Z", **{**full, **fields})


def meta(**metadata: Any) -> tuple[str, Json]:
    return VAS, {**a_va(""), "metadata": metadata}


DRIVER = {"name": "d", "nodeID": "x"}
CONTROLLERS = [{"apiVersion": "v1", "kind": "Node", "name": n, "uid": n, "controller": True} for n in "ab"]
IN_SOURCE = "spec.source.inlineVolumeSpec"

REFUSED: dict[str, tuple[tuple[str, Json], list[Cause]]] = {
    # metadata, alike for all kinds
    "name": (meta(name="Capital"), [(INVALID, "metadata.name")]),
    "name_too_long": (meta(name="a" * 254), [(INVALID, "metadata.name")]),
    "no_name": (meta(name=""), [(REQUIRED, "metadata.name")]),
    "name_with_slash": (meta(name="a/b"), [(INVALID, "metadata.name")]),
    "generate_name": (meta(generateName="A_"), [(INVALID, "metadata.generateName")]),
    "label_key": (meta(labels={"a b": "c"}), [(INVALID, "metadata.labels")]),
    "label_value": (meta(labels={"a": "b c"}), [(INVALID, "metadata.labels")]),
    "annotation_key": (meta(annotations={"a b": "c"}), [(INVALID, "metadata.annotations")]),
    "annotations_too_large": (meta(annotations={"a": "x" * 262144}), [(TOO_LONG, "metadata.annotations")]),
    "finalizer": (meta(finalizers=["a b/c"]), [(INVALID, "metadata.finalizers")]),
    "finalizer_without_prefix": (meta(finalizers=["a"]), [(INVALID, "metadata.finalizers[0]")]),
    "orphan_and_foreground": (meta(finalizers=["orphan", "foregroundDeletion"]), [(INVALID, "metadata.finalizers")]),
    "owner": (
        meta(ownerReferences=[{"apiVersion": "a/b/c", "kind": "", "name": "", "uid": ""}]),
        [(INVALID, f"metadata.ownerReferences.{part}") for part in ("apiVersion", "kind", "name", "uid")],
    ),
    "owner_event": (
        meta(ownerReferences=[{"apiVersion": "v1", "kind": "Event", "name": "n", "uid": "u"}]),
        [(INVALID, "metadata.ownerReferences")],
    ),
    "two_controllers": (meta(ownerReferences=CONTROLLERS), [(INVALID, "metadata.ownerReferences")]),
    "generation": (meta(generation=-1), [(INVALID, "metadata.generation")]),
    # VolumeAttachment
    "va_attacher": (va(attacher=""), [(REQUIRED, "spec.attacher")]),
    "va_attacher_name": (va(attacher="a b"), [(INVALID, "spec.attacher")]),
    "va_attacher_too_long": (va(attacher="a" * 64), [(TOO_LONG, "spec.attacher")]),
    "va_node": (va(nodeName="a b"), [(INVALID, "spec.nodeName")]),
    "va_no_source": (va(source={}), [(REQUIRED, "spec.source")]),
    "va_two_sources": (
        va(source={"persistentVolumeName": "a", "inlineVolumeSpec": INLINE}),
        [(FORBIDDEN, "spec.source")],
    ),
    "va_empty_source": (
        va(source={"persistentVolumeName": ""}),
        [(REQUIRED, "spec.source.persistentVolumeName"), (INVALID, "spec.source.persistentVolumeName")],
    ),
    "inline_csi": (inline(csi=None, hostPath={"path": "/x"}), [(REQUIRED, f"{IN_SOURCE}.csi")]),
    "inline_no_path": (
        inline(csi=None, hostPath={"type": "x"}),
        [(REQUIRED, f"{IN_SOURCE}.csi"), (REQUIRED, f"{IN_SOURCE}.hostPath.path")],
    ),
    "inline_capacity": (inline(capacity={"storage": "1Gi"}), [(FORBIDDEN, f"{IN_SOURCE}.capacity")]),
    "inline_claim": (inline(claimRef={"name": "a", "namespace": "b"}), [(FORBIDDEN, f"{IN_SOURCE}.claimRef")]),
    "inline_class": (inline(storageClassName="a"), [(FORBIDDEN, f"{IN_SOURCE}.storageClassName")]),
    "inline_policy": (
        inline(persistentVolumeReclaimPolicy="Delete"),
        [(FORBIDDEN, f"{IN_SOURCE}.persistentVolumeReclaimPolicy")],
    ),
    "inline_mode": (inline(volumeMode="Block"), [(FORBIDDEN, f"{IN_SOURCE}.volumeMode")]),
    "inline_access": (inline(accessModes=None), [(REQUIRED, f"{IN_SOURCE}.accessModes")]),
    # CSINode
    "csinode_id": (csi_node({**DRIVER, "nodeID": ""}), [(REQUIRED, "spec.drivers[0].nodeID")]),
    "csinode_id_too_long": (csi_node({**DRIVER, "nodeID": "x" * 257}), [(INVALID, "spec.drivers[0].nodeID")]),
    "csinode_name": (csi_node({**DRIVER, "name": ""}), [(REQUIRED, "spec.drivers[0].name")]),
    "csinode_twice": (csi_node(DRIVER, DRIVER), [(DUPLICATE, "spec.drivers[1].name")]),
    "csinode_topology": (
        csi_node({**DRIVER, "topologyKeys": ["a", "a", "b c"]}),
        [(DUPLICATE, "spec.drivers[0]"), (INVALID, "spec.drivers[0]")],
    ),
    "csinode_count": (
        csi_node({**DRIVER, "allocatable": {"count": -1}}),
        [(INVALID, "spec.drivers[0].allocatable.count")],
    ),
    # CSIDriver
    "csidriver_mode": (csi_driver(volumeLifecycleModes=["Odd"]), [(UNSUPPORTED, "spec.volumeLifecycleModes")]),
    "csidriver_policy": (csi_driver(fsGroupPolicy="Odd"), [(UNSUPPORTED, "spec.fsGroupPolicy")]),
    "csidriver_audience": (
        csi_driver(tokenRequests=[{"audience": "a"}] * 2),
        [(DUPLICATE, "spec.tokenRequests[1].audience")],
    ),
    "csidriver_token": (
        csi_driver(tokenRequests=[{"audience": "a", "expirationSeconds": 599}]),
        [(INVALID, "spec.tokenRequests[0].expirationSeconds")],
    ),
    "csidriver_period": (
        csi_driver(nodeAllocatableUpdatePeriodSeconds=9),
        [(INVALID, "spec.nodeAllocatableUpdatePeriodSeconds")],
    ),
    "csidriver_secrets": (
        csi_driver(serviceAccountTokenInSecrets=True),
        [(INVALID, "spec.serviceAccountTokenInSecrets")],
    ),
    # PersistentVolume
    "pv_no_capacity": (pv(capacity=None), [(REQUIRED, "spec.capacity")]),
    "pv_size_zero": (pv(capacity={"storage": "0"}), [(INVALID, "spec.capacity[storage]")]),
    "pv_cpu": (pv(capacity={"storage": "1Gi", "cpu": "1"}), [(UNSUPPORTED, "spec.capacity")]),
    "pv_no_modes": (pv(accessModes=None), [(REQUIRED, "spec.accessModes")]),
    "pv_modes": (pv(accessModes=["Odd"]), [(UNSUPPORTED, "spec.accessModes")]),
    "pv_rwop": (pv(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]), [(FORBIDDEN, "spec.accessModes")]),
    "pv_no_source": (pv(csi=None), [(REQUIRED, "spec")]),
    "pv_two_sources": (pv(hostPath={"path": "/x"}), [(FORBIDDEN, "spec.csi")]),
    "pv_two_old": (
        pv(csi=None, cinder={"volumeID": "v"}, iscsi={"targetPortal": "t", "iqn": "iqn.2024-01.a:b", "lun": 1}),
        [(FORBIDDEN, "spec.cinder")],
    ),
    "pv_three_old": (
        pv(csi=None, cephfs={"monitors": ["m"]}, glusterfs={"endpoints": "e", "path": "p"}, local={"path": "/x"}),
        [(FORBIDDEN, "spec.cephFS"), (FORBIDDEN, "spec.local")],
    ),
    "pv_policy": (pv(persistentVolumeReclaimPolicy="Keep"), [(UNSUPPORTED, "spec.persistentVolumeReclaimPolicy")]),
    "pv_mode": (pv(volumeMode="Tape"), [(UNSUPPORTED, "spec.volumeMode")]),
    "pv_class": (pv(storageClassName="A b"), [(INVALID, "spec.storageClassName")]),
    "pv_driver": (csi_pv(driver=""), [(REQUIRED, "spec.csi.driver")]),
    "pv_handle": (csi_pv(volumeHandle=""), [(REQUIRED, "spec.csi.volumeHandle")]),
    "pv_secret": (
        csi_pv(controllerPublishSecretRef={"name": "A_b"}),
        [(INVALID, "spec.csi.controllerPublishSecretRef.name")],
    ),
    "pv_secret_namespace": (
        csi_pv(nodePublishSecretRef={"name": "a"}),
        [(REQUIRED, "spec.csi.nodePublishSecretRef.namespace")],
    ),
    "pv_expand_secret": (
        csi_pv(controllerExpandSecretRef={"namespace": "a"}),
        [(REQUIRED, "spec.csi.controllerExpandSecretRef.name")],
    ),
    "pv_no_terms": (
        pv(nodeAffinity={"required": {"nodeSelectorTerms": []}}),
        [(REQUIRED, "spec.nodeAffinity.required.nodeSelectorTerms")],
    ),
    "pv_affinity": (pv(nodeAffinity={}), [(REQUIRED, "spec.nodeAffinity.required")]),
    "pv_affinity_values": (
        affinity(key="a", operator="In"),
        [(REQUIRED, "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values")],
    ),
    "pv_affinity_operator": (
        affinity(key="a", operator="Odd"),
        [(INVALID, "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator")],
    ),
    "pv_attributes_class": (pv(volumeAttributesClassName=""), [(REQUIRED, "spec.volumeAttributesClassName")]),
    "pv_attributes_class_csi": (
        pv(csi=None, hostPath={"path": "/x"}, volumeAttributesClassName="a"),
        [(REQUIRED, "spec.csi")],
    ),
    "pv_local": (pv(csi=None, local={"path": "/x"}), [(REQUIRED, "spec.nodeAffinity")]),
    "pv_host_path": (pv(csi=None, hostPath={"path": "/x/../y", "type": "Odd"}), [(INVALID, "spec.hostPath.path")]),
    "pv_nfs": (
        pv(csi=None, nfs={"server": "", "path": "x"}),
        [(REQUIRED, "spec.nfs.server"), (INVALID, "spec.nfs.path")],
    ),
    # Node
    "node_taint": (
        node(taints=[{"key": "a b", "effect": "Odd"}]),
        [(INVALID, "metadata.taints[0].key"), (UNSUPPORTED, "metadata.taints[0].effect")],
    ),
    "node_taint_twice": (node(taints=[{"key": "a", "effect": "NoExecute"}] * 2), [(DUPLICATE, "metadata.taints[1]")]),
    "node_taint_effect": (node(taints=[{"key": "a", "effect": ""}]), [(REQUIRED, "metadata.taints[0].effect")]),
    "node_cidr_host": (node(podCIDR="10.0.0.1/24"), [(INVALID, "spec.podCIDRs[0]")]),
    "node_cidr": (node(podCIDR="x"), [(INVALID, "spec.podCIDRs[0]")]),
    "node_capacity": ((NODES, a_node("", capacity={"cpu": "-1"})), [(INVALID, "status.capacity.cpu")]),
    # Secret, Lease, Event, Namespace
    "secret_key": (secret(data={"a/b": ""}), [(INVALID, "data[a/b]")]),
    "secret_dots": (secret(data={".": "", "..a": ""}), [(INVALID, "data[.]"), (INVALID, "data[..a]")]),
    "secret_tls": (secret(type="kubernetes.io/tls"), [(REQUIRED, "data[tls.crt]"), (REQUIRED, "data[tls.key]")]),
    "secret_login": (
        secret(type="kubernetes.io/basic-auth"),
        [(REQUIRED, "data[username]"), (REQUIRED, "data[password]")],
    ),
    "lease_duration": (lease(leaseDurationSeconds=0), [(INVALID, "spec.leaseDurationSeconds")]),
    "lease_transitions": (lease(leaseTransitions=-1), [(INVALID, "spec.leaseTransitions")]),
    "event_namespace": (event(involvedObject={**ABOUT, "namespace": "other"}), [(INVALID, "involvedObject.namespace")]),
    "event_reason": (timed_event(reason=""), [(REQUIRED, "reason")]),
    "event_action": (timed_event(action="x" * 129), [(INVALID, "action")]),
    "event_reporter": (timed_event(reportingComponent="a b"), [(INVALID, "reportingComponent")]),
    "event_message": (timed_event(message="x" * 1025), [(INVALID, "message")]),
    "namespace_name": ((NAMESPACES, {"metadata": {"name": "a.b"}}), [(INVALID, "metadata.name")]),
    "namespace_finalizer": (
        (NAMESPACES, {"metadata": {}, "spec": {"finalizers": ["x"]}}),
        [(INVALID, "spec.finalizers")],
    ),
}


@each_row("row", REFUSED)
def test_creation_is_refused(api: Rest, name: str, row: str) -> None:
    (path, body), causes = REFUSED[row]
    body = copy.deepcopy(body)
    body["metadata"] = {
        "name": name,
        **{field: value for field, value in body["metadata"].items() if value or row == "no_name"},
    }
    api.post(path, body).refused(422, "Invalid", *causes)


EXTRA = {"controllerExpandSecretRef": SECRET_REF}
ZONE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}
FROZEN = {"metadata": {}, "data": {"a": "Yg=="}, "immutable": True}

# name: (path, object, merge patch, the causes that refuse it: none if it is allowed)
CHANGES: dict[str, tuple[str, Json, Json, list[Cause]]] = {
    "va_spec": (VAS, a_va(""), {"spec": {"attacher": "e"}}, [(INVALID, "spec")]),
    "va_finalizers": (VAS, a_va(""), {"metadata": {"finalizers": ["external-attacher/d"]}}, []),
    "csinode_more": (
        CSI_NODES,
        a_csi_node("", [DRIVER]),
        {"spec": {"drivers": [DRIVER, {"name": "e", "nodeID": "y"}]}},
        [],
    ),
    "csinode_less": (CSI_NODES, a_csi_node("", [DRIVER]), {"spec": {"drivers": []}}, []),
    "csinode_topology": (
        CSI_NODES,
        a_csi_node("", [DRIVER]),
        {"spec": {"drivers": [{**DRIVER, "topologyKeys": ["k"]}]}},
        [(INVALID, "spec.drivers")],
    ),
    "csidriver_modes": (
        CSI_DRIVERS,
        {"metadata": {}},
        {"spec": {"volumeLifecycleModes": ["Ephemeral"]}},
        [(INVALID, "spec.volumeLifecycleModes")],
    ),
    "csidriver_policy": (CSI_DRIVERS, {"metadata": {}}, {"spec": {"fsGroupPolicy": "File"}}, []),
    "pv_attributes": (
        PVS,
        a_pv(""),
        {"spec": {"csi": {"volumeAttributes": {"a": "b"}}}},
        [(FORBIDDEN, "spec.persistentvolumesource")],
    ),
    "pv_publish_secret": (
        PVS,
        a_pv(""),
        {"spec": {"csi": {"controllerPublishSecretRef": SECRET_REF}}},
        [(FORBIDDEN, "spec.persistentvolumesource")],
    ),
    "pv_mode": (PVS, a_pv(""), {"spec": {"volumeMode": "Block"}}, [(INVALID, "volumeMode")]),
    "pv_capacity": (PVS, a_pv(""), {"spec": {"capacity": {"storage": "1Mi"}}}, []),
    "pv_claim": (PVS, a_pv(""), {"spec": {"claimRef": {"name": "c", "namespace": "default"}}}, []),
    "pv_affinity_added": (PVS, a_pv(""), {"spec": {"nodeAffinity": ZONE}}, []),
    "pv_affinity_removed": (
        PVS,
        a_pv("", nodeAffinity=ZONE),
        {"spec": {"nodeAffinity": None}},
        [(INVALID, "nodeAffinity")],
    ),
    "pv_attributes_class_removed": (
        PVS,
        a_pv("", volumeAttributesClassName="gold"),
        {"spec": {"volumeAttributesClassName": None}},
        [(FORBIDDEN, "spec.volumeAttributesClassName")],
    ),
    "node_provider": (
        NODES,
        {"metadata": {}, "spec": {"providerID": "a"}},
        {"spec": {"providerID": "b"}},
        [(FORBIDDEN, "spec.providerID")],
    ),
    "node_cordoned": (NODES, {"metadata": {}}, {"spec": {"unschedulable": True}}, []),
    "secret_type": (SECRETS, a_secret(""), {"type": "other"}, [(INVALID, "type")]),
    "secret_frozen": (SECRETS, FROZEN, {"data": {"a": "eA=="}}, [(FORBIDDEN, "data")]),
    "secret_thawed": (SECRETS, FROZEN, {"immutable": False}, [(FORBIDDEN, "immutable")]),
    "event_count": (EVENTS, {"metadata": {}, "involvedObject": ABOUT}, {"count": 5, "message": "again"}, []),
    "uid": (VAS, a_va(""), {"metadata": {"uid": "x"}}, [(INVALID, "metadata.uid")]),
    "deletion": (
        VAS,
        a_va(""),
        {"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}},
        [(INVALID, "metadata.deletionTimestamp")],
    ),
}


@each_row("row", CHANGES)
def test_change_is_refused_or_made(api: Rest, name: str, row: str) -> None:
    path, body, change, causes = CHANGES[row]
    body = copy.deepcopy(body)
    body["metadata"]["name"] = name
    made = api.post(path, body).ok(201)
    answer = api.patch(f"{path}/{name}", change)
    if causes:
        answer.refused(422, "Invalid", *causes)
        assert made == api.get(f"{path}/{name}").ok()
    else:
        assert int(answer.ok()["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


WARNED: dict[str, tuple[tuple[str, Json], str]] = {
    "recycle": (pv(csi=None, hostPath={"path": "/tmp/x"}, persistentVolumeReclaimPolicy="Recycle"), "deprecated"),
    "tokens": (csi_driver(tokenRequests=[{"audience": "a"}]), "spec.serviceAccountTokenInSecrets is unset"),
    "owner_twice": (
        meta(
            ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}] * 2,
            finalizers=["example.com/hold"],
        ),
        "metadata.ownerReferences contains duplicate entries",
    ),
    "old_label": (
        affinity(key="failure-domain.beta.kubernetes.io/zone", operator="Exists"),
        "failure-domain.beta.kubernetes.io/zone is deprecated since v1.17",
    ),
}


@each_row("row", WARNED)
def test_what_is_odd_is_taken_with_a_warning(api: Rest, name: str, row: str) -> None:
    (path, body), text = WARNED[row]
    body = copy.deepcopy(body)
    body["metadata"]["name"] = name
    answer = api.post(path, body)
    answer.ok(201)
    (warning,) = answer.warnings
    assert warning.startswith('299 - "')
    assert text in warning


def test_a_driver_is_warned_of_its_tokens_when_they_change(api: Rest, name: str) -> None:
    body = {"metadata": {"name": name}, "spec": {"tokenRequests": [{"audience": "a"}]}}
    assert 1 == len(api.post(CSI_DRIVERS, body).warnings)
    assert [] == api.patch(f"{CSI_DRIVERS}/{name}", {"spec": {"podInfoOnMount": True}}).warnings
    assert 1 == len(api.patch(f"{CSI_DRIVERS}/{name}", {"spec": {"tokenRequests": [{"audience": "b"}]}}).warnings)


def test_all_errors_are_told_at_once(api: Rest) -> None:
    body = a_pv("Bad Name", capacity={"storage": "0"}, accessModes=["Odd"])
    causes = [(INVALID, "metadata.name"), (INVALID, "spec.capacity[storage]"), (UNSUPPORTED, "spec.accessModes")]
    status = api.post(PVS, body).refused(422, "Invalid", *causes)
    assert status["message"].startswith('PersistentVolume "Bad Name" is invalid: [')
    assert status["message"].endswith("]")


DEFAULTS: dict[str, tuple[tuple[str, Json], Json]] = {
    "csinode": (
        csi_node({"name": "d", "nodeID": "n"}),
        {"spec": {"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": None}]}},
    ),
    "csinode_of_nobody": (csi_node(), {"spec": {"drivers": None}}),
    "csidriver": (
        csi_driver(preventPodSchedulingIfMissing=True),
        {
            "spec": {
                "attachRequired": True,
                "podInfoOnMount": False,
                "volumeLifecycleModes": ["Persistent"],
                "storageCapacity": False,
                "fsGroupPolicy": "ReadWriteOnceWithFSType",
                "requiresRepublish": False,
                "seLinuxMount": False,
            }
        },
    ),
    "secret": (
        secret(data={"a": "Yg==", "c": "ZA=="}, stringData={"a": "new"}),
        {"type": "Opaque", "data": {"a": "bmV3", "c": "ZA=="}},
    ),
    "lease": ((LEASES, {"metadata": {}, "spec": {"strategy": "x", "preferredHolder": "y"}}), {"spec": {}}),
    "namespace": (
        (NAMESPACES, {"metadata": {}}),
        {"status": {"phase": "Active"}, "spec": {"finalizers": ["kubernetes"]}},
    ),
    "node": (
        (NODES, {"metadata": {}}),
        {"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}},
    ),
    "inline": (
        inline(),
        {"spec": {"attacher": "csi.test", "nodeName": "node1", "source": {"inlineVolumeSpec": INLINE}}},
    ),
    "quantity": (pv(capacity={"storage": "1024Mi"}), {}),
}


@each_row("row", DEFAULTS)
def test_what_is_left_out_is_filled_in(api: Rest, name: str, row: str) -> None:
    (path, body), wanted = DEFAULTS[row]
    body = copy.deepcopy(body)
    body["metadata"]["name"] = name
    made = api.post(path, body).ok(201)
    assert wanted == {field: made[field] for field in wanted}
    assert made == api.get(f"{path}/{name}").ok()
    if row == "quantity":
        assert {"storage": "1Gi"} == made["spec"]["capacity"]
