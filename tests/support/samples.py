"""Objects with every field set, made from the declarations: each value tells which field it belongs to.

Where a server wants more than the right type, RULES says what to write.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from mooring.apiserver.codecs.schema import Field, Message
from mooring.apiserver.resource import Resource
from mooring.apiserver.rules.volumesources import SOURCES
from tests.support.podsamples import EVERY, OMIT, POD_ONE_OF, POD_RULES
from tests.support.workloadsamples import WORKLOAD_RULES

Json = dict[str, Any]

_REFERENCE: Final = {"name": "a-name", "namespace": "a-namespace"}
_SCALARS: Final[Mapping[str, Any]] = {
    "b": True,
    "i32": 7,
    "i64": 7,
    "y": "AAEC",
    "time": "2024-01-02T03:04:05Z",
    "micro": "2024-01-02T03:04:05.000006Z",
    "q": "3Gi",
    "any": {"f:x": {}},
    "intstr": "a-port",
}

ONE_OF: Final = ("PersistentVolumeSource", "VolumeAttachmentSource", *POD_ONE_OF)
"""Messages of whose fields only one may be set: `choose` says which."""

RULES: Final[Mapping[str, Any]] = {
    # what the server writes, or refuses from clients
    **{f"ObjectMeta.{name}": OMIT for name in ("generateName", "selfLink", "uid", "resourceVersion", "managedFields")},
    **{f"ObjectMeta.{name}": OMIT for name in ("deletionTimestamp", "deletionGracePeriodSeconds")},
    "ObjectMeta.finalizers": ["example.com/hold"],
    # words and numbers that mean something
    "AzureDiskVolumeSource.cachingMode": "ReadOnly",
    "AzureDiskVolumeSource.diskURI": "https://example.com/disk.vhd",
    "AzureDiskVolumeSource.kind": "Dedicated",
    "CSIDriverSpec.fsGroupPolicy": "File",
    "CSIDriverSpec.nodeAllocatableUpdatePeriodSeconds": 60,
    "CSIDriverSpec.volumeLifecycleModes": ["Ephemeral"],
    "TokenRequest.expirationSeconds": 601,
    "FCVolumeSource.wwids": OMIT,
    "FlockerVolumeSource.datasetUUID": OMIT,
    "NodeStatus.declaredFeatures": ["AFeature"],
    "HostPathVolumeSource.path": "/a/path",
    "HostPathVolumeSource.type": "Socket",
    "LocalVolumeSource.path": "/b/path",
    "NFSVolumeSource.path": "/c/path",
    "ISCSIPersistentVolumeSource.iqn": "iqn.2001-04.com.example:storage.a",
    "ISCSIPersistentVolumeSource.initiatorName": "iqn.2001-04.com.example:storage.b",
    "LabelSelectorRequirement.operator": "In",
    "NodeSelectorRequirement.operator": "In",
    "NodeSelectorTerm.matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}],
    "PersistentVolumeSpec.capacity": {"storage": "5Gi"},
    "PersistentVolumeSpec.accessModes": ["ReadWriteMany"],
    "PersistentVolumeSpec.persistentVolumeReclaimPolicy": "Delete",
    "PersistentVolumeSpec.volumeMode": "Block",
    "PersistentVolumeClaimSpec.accessModes": ["ReadWriteMany"],
    "PersistentVolumeClaimSpec.volumeMode": "Block",
    "PersistentVolumeClaimSpec.dataSource": {
        "apiGroup": "snapshot.storage.k8s.io",
        "kind": "VolumeSnapshot",
        "name": "s",
    },
    "PersistentVolumeClaimSpec.dataSourceRef": OMIT,
    "VolumeResourceRequirements.limits": {"storage": "7Gi"},
    "VolumeResourceRequirements.requests": {"storage": "5Gi"},
    "QuobyteVolumeSource.registry": "a:1",
    "ServiceSpec.clusterIP": "10.0.0.77",
    "ServiceSpec.clusterIPs": ["10.0.0.77"],
    "ServiceSpec.type": "LoadBalancer",
    "ServiceSpec.externalIPs": ["192.0.2.1"],
    "ServiceSpec.sessionAffinity": "ClientIP",
    "ServiceSpec.loadBalancerIP": "192.0.2.2",
    "ServiceSpec.loadBalancerSourceRanges": ["192.0.2.0/24"],
    "ServiceSpec.externalName": OMIT,
    "ServiceSpec.externalTrafficPolicy": "Local",
    "ServiceSpec.healthCheckNodePort": 31777,
    "ServiceSpec.ipFamilyPolicy": "SingleStack",
    "ServiceSpec.ipFamilies": ["IPv4"],
    "ServiceSpec.loadBalancerClass": "example.com/a-class",
    "ServiceSpec.internalTrafficPolicy": "Local",
    "ServiceSpec.trafficDistribution": "PreferClose",
    "ServicePort.protocol": "TCP",
    "ServicePort.nodePort": 30777,
    "LoadBalancerIngress.ip": "192.0.2.3",
    "LoadBalancerIngress.ipMode": "VIP",
    "PortStatus.protocol": "TCP",
    "Condition.status": "True",
    "StorageClass.reclaimPolicy": "Retain",
    "StorageClass.volumeBindingMode": "WaitForFirstConsumer",
    "Secret.type": "example.com/kind",
    "VolumeAttachmentSource.persistentVolumeName": "a-volume",
    "NodeSpec.podCIDR": "10.0.0.0/24",
    "NodeSpec.podCIDRs": ["10.0.0.0/24"],
    "Taint.effect": "NoExecute",
    "PersistentVolumeClaimStatus.accessModes": ["ReadWriteOnce"],
    "PersistentVolumeClaimStatus.allocatedResourceStatuses": {"storage": "NodeResizePending"},
    "PersistentVolumeClaimStatus.allocatedResources": {"storage": "4Gi"},
    "PersistentVolumeClaimStatus.capacity": {"storage": "3Gi"},
    "ModifyVolumeStatus.status": "Pending",
    "NamespaceStatus.phase": "Active",
    "NamespaceSpec.finalizers": ["kubernetes", "example.com/more"],
    "SecretReference.namespace": "a-namespace",
    "SelectorAttributes.rawSelector": OMIT,
    "SubjectAccessReviewSpec.extra": {"a-key": ["a", "b"]},
    "SubjectAccessReviewSpec.nonResourceAttributes": OMIT,
    "SelfSubjectAccessReviewSpec.nonResourceAttributes": OMIT,
    "ResourceAttributes.namespace": "default",
    "UserInfo.extra": {"a-key": ["a", "b"]},
    **POD_RULES,
    **WORKLOAD_RULES,
}


_NOT_CSI: Final = {"PersistentVolumeSpec.volumeAttributesClassName": OMIT}
_VOLUME_RULES: Final[Mapping[str, Mapping[str, Any]]] = {"csi": {}, "local": {**_NOT_CSI}}
_INLINE: Final = {
    **{f"PersistentVolumeSpec.{name}": OMIT for name in ("capacity", "claimRef", "nodeAffinity", "storageClassName")},
    "PersistentVolumeSpec.persistentVolumeReclaimPolicy": "Retain",
    "PersistentVolumeSpec.volumeMode": "Filesystem",
}


@dataclasses.dataclass(frozen=True)
class Sample:
    """How an object is to be made. choose: by message, the one field that is set; its first field otherwise. rules:
    beside RULES.
    """

    resource: Resource
    choose: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rules: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.resource.name.partition(".")[0], *self.choose.values()])

    @property
    def has_status(self) -> bool:
        """One sample of each kind is enough for the status."""
        return not self.choose or "csi" in self.choose.values() or "grpc" in self.choose.values()

    def make(self, name: str) -> Json:
        made = _filled(self.resource.message, self)
        if self.resource.answer is not None:
            return {**made, "metadata": {}}
        made["metadata"]["name"] = name
        if self.resource.namespaced:
            made["metadata"]["namespace"] = "default"
        else:
            made["metadata"].pop("namespace")
        return made


def samples(resource: Resource) -> list[Sample]:
    """All that it takes to set each field of a kind once, but for those that RULES leaves out."""
    if resource.kind == "PersistentVolume":
        return [
            Sample(resource, {"PersistentVolumeSource": source}, _VOLUME_RULES.get(source, _NOT_CSI))
            for source in SOURCES
        ]
    if resource.kind == "VolumeAttachment":
        return [
            Sample(resource),
            Sample(resource, {"VolumeAttachmentSource": "inlineVolumeSpec", "PersistentVolumeSource": "csi"}, _INLINE),
        ]
    if resource.kind == "SubjectAccessReview":
        paths = {
            "SubjectAccessReviewSpec.resourceAttributes": OMIT,
            "SubjectAccessReviewSpec.nonResourceAttributes": None,
        }
        return [Sample(resource), Sample(resource, {"SubjectAccessReviewSpec": "nonResourceAttributes"}, paths)]
    if resource.path == ("events.k8s.io", "v1", "events"):
        old = ("deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount")
        name = resource.message.name
        rules = {f"{name}.{field}": OMIT for field in old} | {
            f"{name}.type": "Warning",
            f"{name}.reportingController": "a.b/c",
        }
        return [Sample(resource, rules=rules)]
    if resource.kind == "Pod":
        handlers = [("exec", "exec"), ("httpGet", "httpGet"), ("tcpSocket", "tcpSocket"), ("grpc", "sleep")]
        return [Sample(resource, {"ProbeHandler": probe, "LifecycleHandler": hook}) for probe, hook in handlers]
    return [Sample(resource)]


def _filled(message: Message, sample: Sample) -> Json:
    found: Json = {}
    for field in message.declared:
        inner = message.of(field)
        if field.name == "<>":
            assert inner is not None
            found.update(_filled(inner, sample))
        elif message.name not in ONE_OF or field.name == sample.choose.get(message.name, message.declared[0].name):
            value = {**RULES, **sample.rules}.get(f"{message.name}.{field.name}")
            if value is EVERY:
                value = _every(message, field, sample)
            elif value is None:
                value = _value(message, field, sample)
            if value is not OMIT:
                found[field.name] = value
    return found


def _every(message: Message, field: Field, sample: Sample) -> list[Json]:
    """An item for each choice there is; what is inlined or is a member stands for the item. Names tell them apart."""
    item = message.of(field)
    assert item is not None
    choices = next((inner for inner in map(item.of, item.declared) if inner is not None and inner.name in ONE_OF), item)
    made = []
    for number, choice in enumerate(choices.declared):
        chosen = dataclasses.replace(sample, choose={**sample.choose, choices.name: choice.name})
        made.append(_filled(item, chosen))
        if "name" in item.fields:
            made[-1]["name"] = f"v{number}"
    return made


def _value(message: Message, field: Field, sample: Sample) -> Any:
    inner = message.of(field)
    if inner is not None:
        one: Any = _filled(inner, sample)
    else:
        one = _SCALARS.get(field.type, f"{field.name.lower()}-{field.number}")
    return {"*": [one], "{": {f"{field.name.lower()}-key": one}, "": one}[field.shape]
