"""The kinds that are asked for, and valid objects of each."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Final

from mooring.apiserver.resource import Resource, Status
from mooring.apiserver.rules import RESOURCES
from tests.differential.steps import Step
from tests.support import builders as plain
from tests.support import samples
from tests.support.applying import SHAPE_DEFINITION
from tests.support.builders import a_pod
from tests.support.snapshot_crds import SNAPSHOT_CRDS

Json = dict[str, Any]

SPACES: Final = ("one", "two")
DEFINITIONS: Final = (*SNAPSHOT_CRDS, SHAPE_DEFINITION)
DEFINITIONS_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclasses.dataclass(frozen=True)
class Subject:
    """A kind. base: what it takes to be valid. full: with all fields set, one of each kind of content. dry: its writes
    are dry runs.
    """

    api: str
    kind: str
    plural: str
    namespaced: bool
    base: tuple[Json, ...]
    full: tuple[Json, ...] = ()
    has_status: bool = False
    dry: bool = False
    lists: bool = True

    def collection(self, space: str) -> str:
        root = f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"
        return f"{root}/namespaces/{space}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"

    def everywhere(self) -> str:
        return (f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}") + f"/{self.plural}"

    def named(self, obj: Json, name: str, space: str = "") -> Json:
        """A copy of the object under this name. Without a space it names none."""
        made = {"apiVersion": self.api, "kind": self.kind, **copy.deepcopy(obj)}
        metadata = made["metadata"] = {**made.get("metadata", {}), "name": name}
        metadata.pop("namespace", None)
        if space and self.namespaced:
            metadata["namespace"] = space
        metadata.pop("ownerReferences", None)  # (who is collected goes at a moment of its own)
        return made


def read_before(step: Step) -> str:
    """The list to read before a step; "" for none. A read that names a version is answered from the real one's cache,
    which may lag behind; a list that names none waits until the cache has caught up.
    """
    if step.method != "GET" or all(name != "resourceVersion" for name, _ in step.query):
        return ""
    places = (place for subject in SUBJECTS for place in (*map(subject.collection, SPACES), subject.everywhere()))
    return max((place for place in places if f"{step.path}/".startswith(f"{place}/")), key=len, default="")


def _event(name: str) -> Json:
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "namespace": "one", "name": "p"},
        "reason": "R",
        "message": "m",
    }


def _new_event(name: str) -> Json:
    time = "2024-01-02T03:04:05.000006Z"
    return {
        "metadata": {"name": name},
        "eventTime": time,
        "reportingController": "a.b/c",
        "reportingInstance": "i",
        "action": "Acts",
        "reason": "R",
        "regarding": {"kind": "Pod", "namespace": "one", "name": "p"},
        "type": "Normal",
    }


_CLAIM_TEMPLATE: Final = {"metadata": {"name": "data"}, "spec": plain.a_claim("x")["spec"]}
_BASES: Final[dict[str, list[Json]]] = {
    "PersistentVolume": [plain.a_pv("x"), plain.a_pv("x", source={"hostPath": {"path": "/x"}})],
    "PersistentVolumeClaim": [
        plain.a_claim("x"),
        plain.a_claim("x", storageClassName=None),
        plain.a_claim("x", volumeName="a"),
    ],
    "StorageClass": [
        plain.a_class("x"),
        plain.a_class("x", allowVolumeExpansion=True, volumeBindingMode="WaitForFirstConsumer"),
    ],
    "VolumeAttributesClass": [plain.an_attributes_class("x")],
    "CSIStorageCapacity": [plain.a_capacity("x")],
    "VolumeAttachment": [plain.a_va("x")],
    "CSINode": [plain.a_csi_node("x", []), plain.a_csi_node("x", keys=["zone"])],
    "CSIDriver": [{"spec": {}}, {"spec": {"attachRequired": False, "podInfoOnMount": True}}],
    "Node": [
        plain.a_node("x"),
        plain.a_node("x", capacity={"cpu": "1"}, conditions=[{"type": "Ready", "status": "True"}]),
    ],
    "Pod": [
        a_pod("x"),
        a_pod("x", nodeName="a"),
        a_pod("x", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}]),
    ],
    "Secret": [plain.a_secret("x"), {"data": {"k": "AAEC"}, "stringData": {"s": "v"}}, {"immutable": True}],
    "ConfigMap": [{"data": {"k": "v"}}, {"binaryData": {"k": "AAEC"}}, {"immutable": True}],
    "ServiceAccount": [{}, {"secrets": [{"name": "s"}], "automountServiceAccountToken": False}],
    "Lease": [plain.a_lease("x")],
    "Namespace": [{}],
    "Deployment": [plain.a_workload("Deployment")],
    "ReplicaSet": [plain.a_workload("ReplicaSet")],
    "StatefulSet": [
        plain.a_workload("StatefulSet"),
        plain.a_workload("StatefulSet", volumeClaimTemplates=[_CLAIM_TEMPLATE]),
    ],
    "ControllerRevision": [{"data": {"a": "b"}, "revision": 1}],
    "Job": [plain.a_job("x"), plain.a_job("x", completions=3, parallelism=2, completionMode="Indexed")],
}

_CUSTOM_BASES: Final[dict[str, list[Json]]] = {
    "VolumeSnapshotClass": [{"deletionPolicy": "Delete", "driver": "d", "parameters": {"a": "b"}}],
    "VolumeSnapshot": [
        {"spec": {"source": {"persistentVolumeClaimName": "c"}, "volumeSnapshotClassName": "k"}},
        {"spec": {"source": {"volumeSnapshotContentName": "c"}}, "status": {"readyToUse": True, "restoreSize": "1Gi"}},
    ],
    "VolumeSnapshotContent": [
        {
            "spec": {
                "deletionPolicy": "Retain",
                "driver": "d",
                "source": {"snapshotHandle": "h"},
                "sourceVolumeMode": "Block",
                "volumeSnapshotRef": {"name": "s", "namespace": "one"},
            },
            "status": {
                "creationTime": 5,
                "restoreSize": 7,
                "readyToUse": False,
                "error": {"message": "m", "time": "2024-01-02T03:04:05Z"},
            },
        }
    ],
    "Shape": [
        {
            "spec": {
                "text": "a",
                "map": {"x": "1"},
                "list": ["a"],
                "set": ["a", "b"],
                "items": [{"port": 80}],
                "size": 1,
                "any": {"d": 1},
            }
        },
        {},
    ],
}


def _built_in(resource: Resource) -> Subject:
    dry = resource.kind in ("Namespace", "CustomResourceDefinition")
    if resource.kind == "Event":
        base = [_new_event("x") if resource.group else _event("x")]
    elif resource.kind == "CustomResourceDefinition":
        base = [_other_group(definition) for definition in DEFINITIONS]
    else:
        base = _BASES[resource.kind]
    full = (
        () if resource.kind == "CustomResourceDefinition" else tuple(one.make("x") for one in samples.samples(resource))
    )
    has_status = resource.status is not Status.NONE
    return Subject(
        resource.api_version, resource.kind, resource.plural, resource.namespaced, tuple(base), full, has_status, dry
    )


def _custom(definition: Json) -> Subject:
    spec = definition["spec"]
    version = spec["versions"][0]
    kind = spec["names"]["kind"]
    api = f"{spec['group']}/{version['name']}"
    has_status = "status" in version.get("subresources", {})
    base = tuple(_CUSTOM_BASES[kind])
    return Subject(api, kind, spec["names"]["plural"], spec["scope"] == "Namespaced", base, base, has_status)


def _other_group(definition: Json) -> Json:
    made = copy.deepcopy(definition)
    made["spec"]["group"] = "other.example.com"
    made["metadata"] = {"name": f"{made['spec']['names']['plural']}.other.example.com"}
    return made


SUBJECTS: Final = (
    # Services are not compared: the real server gives each one addresses and ports of its own.
    *(_built_in(resource) for resource in RESOURCES if resource.answer is None and resource.kind != "Service"),
    *(_custom(definition) for definition in DEFINITIONS),
)
