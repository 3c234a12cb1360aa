"""Applying to API servers: who says what, and what the servers then keep of it."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from mooring.apiserver.metadata import META_MESSAGES
from mooring.apiserver.resource import Custom, Resource
from tests.support.paths import (
    CSI_DRIVERS,
    CSI_NODES,
    LEASES,
    NAMESPACES,
    NODES,
    PVCS,
    PVS,
    SECRETS,
    STORAGE_CLASSES,
    VAS,
)
from tests.support.rest import Answer, Rest

APPLY_PATCH = "application/apply-patch+yaml"
PODS = "/api/v1/namespaces/default/pods"
SHAPES = "/apis/mooring.test/v1/shapes"

KINDS = {
    STORAGE_CLASSES: ("storage.k8s.io/v1", "StorageClass"),
    CSI_NODES: ("storage.k8s.io/v1", "CSINode"),
    CSI_DRIVERS: ("storage.k8s.io/v1", "CSIDriver"),
    VAS: ("storage.k8s.io/v1", "VolumeAttachment"),
    PVS: ("v1", "PersistentVolume"),
    PVCS: ("v1", "PersistentVolumeClaim"),
    NODES: ("v1", "Node"),
    NAMESPACES: ("v1", "Namespace"),
    SECRETS: ("v1", "Secret"),
    PODS: ("v1", "Pod"),
    LEASES: ("coordination.k8s.io/v1", "Lease"),
    SHAPES: ("mooring.test/v1", "Shape"),
}

SHAPE_DEFINITION: dict[str, Any] = {
    "metadata": {"name": "shapes.mooring.test"},
    "spec": {
        "group": "mooring.test",
        "scope": "Cluster",
        "names": {"plural": "shapes", "singular": "shape", "kind": "Shape", "listKind": "ShapeList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "text": {"type": "string"},
                                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "whole": {
                                        "type": "object",
                                        "x-kubernetes-map-type": "atomic",
                                        "additionalProperties": {"type": "string"},
                                    },
                                    "list": {"type": "array", "items": {"type": "string"}},
                                    "set": {
                                        "type": "array",
                                        "items": {"type": "string"},
                                        "x-kubernetes-list-type": "set",
                                    },
                                    "items": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                                        "items": {
                                            "type": "object",
                                            "required": ["port"],
                                            "properties": {
                                                "port": {"type": "integer"},
                                                "protocol": {"type": "string", "default": "TCP"},
                                                "name": {"type": "string"},
                                            },
                                        },
                                    },
                                    "size": {"x-kubernetes-int-or-string": True},
                                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                        },
                    }
                },
            }
        ],
    },
}
"""A custom kind with everything that apply treats in a way of its own."""

SHAPE_KIND = Resource(
    group="mooring.test",
    version="v1",
    kind="Shape",
    plural="shapes",
    namespaced=False,
    message=META_MESSAGES.extended("Shape: 1 metadata ObjectMeta!")["Shape"],
    custom=Custom(
        stored_in="v1",
        definition="shapes.mooring.test",
        singular="shape",
        list_kind="ShapeList",
        schema=SHAPE_DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
    ),
)
"""The same as a kind of ours, without what its definition makes of it beside the schema."""


@dataclasses.dataclass(frozen=True)
class Applying:
    """One object of one kind on one server."""

    api: Rest
    kind: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.kind}/{self.name}"

    def config(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body with what says which object it is."""
        version, kind = KINDS[self.kind]
        whole = {"apiVersion": version, "kind": kind, **copy.deepcopy(body)}
        whole["metadata"] = {"name": self.name, **whole.get("metadata", {})}
        return whole

    def apply(self, manager: str, body: dict[str, Any], subresource: str = "", **query: Any) -> Answer:
        path = f"{self.path}/{subresource}" if subresource else self.path
        return self.api.patch(path, self.config(body), APPLY_PATCH, fieldManager=manager, **query)

    def create_untracked(self, body: dict[str, Any]) -> None:
        """Creates it without a record of owners, whatever the server begins with."""
        self.api.post(self.kind, self.config(body)).ok(201)
        self.clear()

    def clear(self) -> dict[str, Any]:
        return self.api.patch(self.path, {"metadata": {"managedFields": [{}]}}).ok()

    def stored(self) -> dict[str, Any]:
        return self.api.get(self.path).ok()


def owners(obj: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The record of an object: fields by `manager`, `manager/status`; those of updaters with a `*`."""
    found = {}
    for entry in obj["metadata"].get("managedFields", []):
        assert entry["fieldsType"] == "FieldsV1"
        place = f"/{entry['subresource']}" if entry.get("subresource") else ""
        found[f"{entry['manager']}{place}{'*' if entry['operation'] == 'Update' else ''}"] = entry["fieldsV1"]
    return found
