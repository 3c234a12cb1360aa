"""The custom kinds of CSI snapshots: the fields, checks and columns of the real definitions, and no word of theirs
about them.
"""

from __future__ import annotations

import copy
from typing import Any, Final

Json = dict[str, Any]

_GROUP: Final = "snapshot.storage.k8s.io"
_TEXT: Final[Json] = {"type": "string"}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}
_BOOLEAN: Final[Json] = {"type": "boolean"}
_POLICY: Final[Json] = {"type": "string", "enum": ["Delete", "Retain"]}
_AMOUNT: Final[Json] = {
    "type": "string",
    "x-kubernetes-int-or-string": True,
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|"
        r"(\.[0-9]+))))?$"
    ),
}


def _object(properties: Json, *required: str, rules: list[tuple[str, str]] | None = None, **more: Any) -> Json:
    found = {"type": "object", "properties": properties, **more}
    if required:
        found["required"] = list(required)
    return _checked(found, rules or [])


def _checked(schema: Json, rules: list[tuple[str, str]]) -> Json:
    """rules: CEL expressions with what is said when they don't hold."""
    if not rules:
        return schema
    return {**schema, "x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in rules]}


def _constant(name: str) -> Json:
    return _checked(_TEXT, [("self == oldSelf", f"{name} is immutable")])


def _kept(name: str) -> tuple[str, str]:
    return f"!has(oldSelf.{name}) || has(self.{name})", f"{name} is required once set"


def _one_of(first: str, second: str) -> Json:
    either = f"(has(self.{first}) && !has(self.{second})) || (!has(self.{first}) && has(self.{second}))"
    rules = [_kept(first), _kept(second), (either, f"exactly one of {first} and {second} must be set")]
    return _object({first: _constant(first), second: _constant(second)}, rules=rules)


_ERROR: Final = _object({"message": _TEXT, "time": _TIME})
_REFERENCE: Final = _object(
    dict.fromkeys(("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid"), _TEXT),
    rules=[
        (
            "has(self.name) && has(self.__namespace__)",
            "both spec.volumeSnapshotRef.name and spec.volumeSnapshotRef.namespace must be set",
        )
    ],
    **{"x-kubernetes-map-type": "atomic"},
)

_CLASS: Final = _object(
    {"deletionPolicy": _POLICY, "driver": _TEXT, "parameters": {"type": "object", "additionalProperties": _TEXT}},
    "deletionPolicy",
    "driver",
)

_SNAPSHOT: Final = _object(
    {
        "spec": _object(
            {
                "source": _one_of("volumeSnapshotContentName", "persistentVolumeClaimName"),
                "volumeSnapshotClassName": _checked(
                    _TEXT, [("size(self) > 0", "volumeSnapshotClassName must not be the empty string when set")]
                ),
            },
            "source",
        ),
        "status": _object(
            {
                "boundVolumeSnapshotContentName": _TEXT,
                "creationTime": _TIME,
                "error": _ERROR,
                "readyToUse": _BOOLEAN,
                "restoreSize": _AMOUNT,
                "volumeGroupSnapshotName": _TEXT,
            }
        ),
    },
    "spec",
)

_CONTENT: Final = _object(
    {
        "spec": _object(
            {
                "deletionPolicy": _POLICY,
                "driver": _TEXT,
                "source": _one_of("volumeHandle", "snapshotHandle"),
                "sourceVolumeMode": _constant("sourceVolumeMode"),
                "volumeSnapshotClassName": _TEXT,
                "volumeSnapshotRef": _REFERENCE,
            },
            "deletionPolicy",
            "driver",
            "source",
            "volumeSnapshotRef",
            rules=[_kept("sourceVolumeMode")],
        ),
        "status": _object(
            {
                "creationTime": {"type": "integer", "format": "int64"},
                "error": _ERROR,
                "readyToUse": _BOOLEAN,
                "restoreSize": {"type": "integer", "format": "int64", "minimum": 0},
                "snapshotHandle": _TEXT,
                "volumeGroupSnapshotHandle": _TEXT,
            }
        ),
    },
    "spec",
)


def _definition(
    kind: str,
    short_names: list[str],
    schema: Json,
    columns: list[tuple[str, str, str]],
    *,
    namespaced: bool = False,
    group: str = _GROUP,
    pull: int = 814,
) -> Json:
    singular = kind.lower()
    plural = f"{singular}es" if singular.endswith("s") else f"{singular}s"
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": singular, "shortNames": short_names}
    head = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": {"type": "object"}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {**schema, "properties": {**head, **schema["properties"]}}},
        "additionalPrinterColumns": [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in columns],
        "subresources": {"status": {}} if "status" in schema["properties"] else {},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {
                "api-approved.kubernetes.io": f"https://github.com/kubernetes-csi/external-snapshotter/pull/{pull}"
            },
        },
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }


_AGE: Final = ("Age", "date", ".metadata.creationTimestamp")

SNAPSHOT_CRDS: Final = (
    _definition(
        "VolumeSnapshotClass",
        ["vsclass", "vsclasses"],
        _CLASS,
        [("Driver", "string", ".driver"), ("DeletionPolicy", "string", ".deletionPolicy"), _AGE],
    ),
    _definition(
        "VolumeSnapshot",
        ["vs"],
        _SNAPSHOT,
        [
            ("ReadyToUse", "boolean", ".status.readyToUse"),
            ("SourcePVC", "string", ".spec.source.persistentVolumeClaimName"),
            ("SourceSnapshotContent", "string", ".spec.source.volumeSnapshotContentName"),
            ("RestoreSize", "string", ".status.restoreSize"),
            ("SnapshotClass", "string", ".spec.volumeSnapshotClassName"),
            ("SnapshotContent", "string", ".status.boundVolumeSnapshotContentName"),
            ("CreationTime", "date", ".status.creationTime"),
            _AGE,
        ],
        namespaced=True,
    ),
    _definition(
        "VolumeSnapshotContent",
        ["vsc", "vscs"],
        _CONTENT,
        [
            ("ReadyToUse", "boolean", ".status.readyToUse"),
            ("RestoreSize", "integer", ".status.restoreSize"),
            ("DeletionPolicy", "string", ".spec.deletionPolicy"),
            ("Driver", "string", ".spec.driver"),
            ("VolumeSnapshotClass", "string", ".spec.volumeSnapshotClassName"),
            ("VolumeSnapshot", "string", ".spec.volumeSnapshotRef.name"),
            ("VolumeSnapshotNamespace", "string", ".spec.volumeSnapshotRef.namespace"),
            _AGE,
        ],
    ),
)
"""Definitions as an API server takes them."""


# -- groups

_GROUPS: Final = f"group{_GROUP}"
_GROUP_COMMON: Final[Json] = {"group": _GROUPS, "pull": 1337}
_NUMBER: Final[Json] = {"type": "integer", "format": "int64"}
_FIXED: Final = ("self == oldSelf", "field is immutable")


def _either(first: str, first_schema: Json, second: str, second_schema: Json) -> Json:
    either = f"(has(self.{first}) && !has(self.{second})) || (!has(self.{first}) && has(self.{second}))"
    rules = [_kept(first), _kept(second), (either, f"exactly one of {first} and {second} must be set")]
    return _object({first: _checked(first_schema, [_FIXED]), second: _checked(second_schema, [_FIXED])}, rules=rules)


_SELECTOR: Final = _object(
    {
        "matchLabels": {"type": "object", "additionalProperties": _TEXT},
        "matchExpressions": {
            "type": "array",
            "items": _object(
                {"key": _TEXT, "operator": _TEXT, "values": {"type": "array", "items": _TEXT}}, "key", "operator"
            ),
        },
    }
)

_GROUP_SNAPSHOT: Final = _object(
    {
        "spec": _object(
            {
                "source": _either("selector", _SELECTOR, "volumeGroupSnapshotContentName", _TEXT),
                "volumeGroupSnapshotClassName": _TEXT,
            },
            "source",
        ),
        "status": _object(
            {
                "boundVolumeGroupSnapshotContentName": _checked(_TEXT, [_FIXED]),
                "creationTime": _TIME,
                "error": _ERROR,
                "readyToUse": _BOOLEAN,
            }
        ),
    },
    "spec",
)

_HANDLES: Final = _object(
    {"volumeGroupSnapshotHandle": _TEXT, "volumeSnapshotHandles": {"type": "array", "items": _TEXT}},
    "volumeGroupSnapshotHandle",
    "volumeSnapshotHandles",
)
_INFO: Final = _object(
    {
        "creationTime": _NUMBER,
        "readyToUse": _BOOLEAN,
        "restoreSize": _NUMBER,
        "snapshotHandle": _TEXT,
        "volumeHandle": _TEXT,
    }
)

_GROUP_CONTENT: Final = _object(
    {
        "spec": _object(
            {
                "deletionPolicy": _POLICY,
                "driver": _TEXT,
                "source": _either("volumeHandles", {"type": "array", "items": _TEXT}, "groupSnapshotHandles", _HANDLES),
                "volumeGroupSnapshotClassName": _TEXT,
                "volumeGroupSnapshotRef": _REFERENCE,
            },
            "deletionPolicy",
            "driver",
            "source",
            "volumeGroupSnapshotRef",
        ),
        "status": _object(
            {
                "creationTime": _TIME,
                "error": _ERROR,
                "readyToUse": _BOOLEAN,
                "volumeGroupSnapshotHandle": _checked(_TEXT, [_FIXED]),
                "volumeSnapshotInfoList": {"type": "array", "items": _INFO},
            }
        ),
    },
    "spec",
)

GROUP_CRDS: Final = (
    _definition("VolumeGroupSnapshotClass", ["vgsclass", "vgsclasses"], _CLASS, [_AGE], **_GROUP_COMMON),
    _definition("VolumeGroupSnapshot", ["vgs"], _GROUP_SNAPSHOT, [_AGE], namespaced=True, **_GROUP_COMMON),
    _definition("VolumeGroupSnapshotContent", ["vgsc", "vgscs"], _GROUP_CONTENT, [_AGE], **_GROUP_COMMON),
)
"""The kinds of group snapshots."""


def group_crds_in(*versions: str) -> list[Json]:
    """The kinds of groups as the definitions of an older snapshot controller serve them; the last version is the stored
    one.
    """
    return [
        {
            **crd,
            "spec": {**crd["spec"], "versions": [_in_version(crd, name, name == versions[-1]) for name in versions]},
        }
        for crd in GROUP_CRDS
    ]


def _in_version(crd: Json, name: str, stored: bool) -> Json:
    made: Json = {**copy.deepcopy(crd["spec"]["versions"][0]), "name": name, "storage": stored}
    fields: Json = made["schema"]["openAPIV3Schema"]["properties"].get("status", {}).get("properties", {})
    if name == "v1beta1" and "volumeSnapshotInfoList" in fields:
        fields["volumeSnapshotHandlePairList"] = fields.pop("volumeSnapshotInfoList")
    return made
