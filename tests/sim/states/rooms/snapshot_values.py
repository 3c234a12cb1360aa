"""What the objects of a state of snapshots can be like: the values of their axes, and the objects that these stand
for.
"""

from __future__ import annotations

from typing import Final

from mooring.api import snapshot_names as names
from tests.support.builders import DRIVER, NS, Json, a_bound_claim, a_claim, a_new_content, a_pv, a_snapshot

FOREIGN: Final = "example.com/other"
OTHER: Final = "other.csi.test"
CONTENT: Final = "snapcontent-uid-snap"
HANDLE: Final = "h-snapshot-uid-snap"
_AT: Final = "2026-01-01T00:00:00Z"
_HELD: Final = (names.AS_SOURCE_FINALIZER, names.BOUND_FINALIZER)
_READY: Final = {
    "boundVolumeSnapshotContentName": CONTENT,
    "readyToUse": True,
    "creationTime": _AT,
    "restoreSize": "1Gi",
}
_GONE: Final = {"deletionTimestamp": _AT}
SNAPS: Final[dict[str, Json | None]] = {
    "new": {},
    "absent": None,
    "blank": {"status": {"boundVolumeSnapshotContentName": "", "readyToUse": False}},
    "held": {"finalizers": _HELD},
    "named": {"finalizers": _HELD, "status": {"boundVolumeSnapshotContentName": CONTENT, "readyToUse": False}},
    "made": {"finalizers": _HELD, "status": {**_READY, "readyToUse": False}},
    "ready": {"finalizers": _HELD, "status": _READY},
    "failed": {"finalizers": _HELD, "status": {"readyToUse": False, "error": {"message": "no", "time": _AT}}},
    "torn": {"status": _READY},
    "deleting": {"finalizers": _HELD, **_GONE},
    "deleting-ready": {"finalizers": _HELD, "status": _READY, **_GONE},
    "deleting-free": {"finalizers": (FOREIGN,), "status": _READY, **_GONE},
    "imports": {"content": CONTENT},
    "imported": {"content": CONTENT, "finalizers": _HELD, "status": _READY},
}
_CREATED: Final = {names.BEING_CREATED: names.YES}
_DELETED: Final = {names.BEING_DELETED: names.YES}
_CONTENT_HELD: Final = (names.CONTENT_FINALIZER,)
_MADE: Final = {
    "snapshotHandle": HANDLE,
    "creationTime": 1_700_000_000 * 10**9,
    "readyToUse": False,
    "restoreSize": 1 << 30,
}
_DONE: Final = {**_MADE, "readyToUse": True}
VSCS: Final[dict[str, Json | None]] = {
    "absent": None,
    "new": {"finalizers": _CONTENT_HELD},
    "free": {},
    "begun": {"finalizers": _CONTENT_HELD, "annotations": _CREATED},
    "failed": {
        "finalizers": _CONTENT_HELD,
        "annotations": _CREATED,
        "status": {"readyToUse": False, "error": {"message": "no", "time": _AT}},
    },
    "made": {"finalizers": _CONTENT_HELD, "annotations": _CREATED, "status": _MADE},
    "ready": {"finalizers": _CONTENT_HELD, "status": _DONE},
    "retained": {"finalizers": _CONTENT_HELD, "status": _DONE, "policy": "Retain"},
    "torn": {"status": _DONE},
    "former": {"finalizers": _CONTENT_HELD, "status": _DONE, "ref_uid": "uid-former"},
    "unbound": {"handle": HANDLE, "ref_uid": None},
    "blank": {
        "handle": HANDLE,
        "ref_uid": None,
        "volumeSnapshotClassName": "",
        "uid_blank": True,
        "status": {"snapshotHandle": ""},
    },
    "import": {"handle": HANDLE, "finalizers": _CONTENT_HELD, "status": _DONE},
    "marked": {"finalizers": _CONTENT_HELD, "status": _DONE, "annotations": _DELETED},
    "deleting": {"finalizers": _CONTENT_HELD, "status": _DONE, **_GONE},
    "deleting-begun": {"finalizers": _CONTENT_HELD, "annotations": _CREATED | _DELETED, **_GONE},
    "deleting-marked": {"finalizers": _CONTENT_HELD, "status": _DONE, "annotations": _DELETED, **_GONE},
    "deleting-retained": {
        "finalizers": _CONTENT_HELD,
        "status": _DONE,
        "annotations": _DELETED,
        "policy": "Retain",
        **_GONE,
    },
    "deleting-free": {"finalizers": (FOREIGN,), "status": _DONE, "annotations": _DELETED, **_GONE},
    "foreign": {"finalizers": _CONTENT_HELD, "driver": OTHER, "status": _DONE},
}
CLASSES: Final[dict[str, Json | None]] = {
    "there": {},
    "absent": None,
    "other-driver": {"driver": OTHER},
    "retain": {"policy": "Retain"},
    "secret-lost": {"parameters": {"csi.storage.k8s.io/snapshotter-secret-name": "lost",
                                   "csi.storage.k8s.io/snapshotter-secret-namespace": NS}},
}  # fmt: skip
CLAIMS: Final = ("bound", "absent", "pending", "held", "deleting", "lost", "other-driver", "former")
TWINS: Final = ("none", "unbound", "bound", "retained")
BACKENDS: Final = ("none", "made", "strange")


def claims(value: str) -> list[Json]:
    """former: the volume is bound to another claim, which had this name before."""
    held = {"finalizers": [names.CLAIM_FINALIZER]}
    match value:
        case "absent":
            return []
        case "pending":
            return [a_claim("claim")]
        case "lost":
            return [a_bound_claim("claim", "pv")]
    more = held if value in ("held", "deleting") else {}
    gone = {**more, "deletionTimestamp": _AT} if value == "deleting" else more
    claim = a_bound_claim("claim", "pv", **{key: text for key, text in gone.items() if key != "deletionTimestamp"})
    if "deletionTimestamp" in gone:
        claim["metadata"]["deletionTimestamp"] = _AT
    owner = {**claim, "metadata": {**claim["metadata"], "uid": "uid-former"}} if value == "former" else claim
    source = {"csi": {"driver": OTHER if value == "other-driver" else DRIVER, "volumeHandle": "vol"}}
    return [claim, a_pv("pv", source=source, claim=owner)]


def twins(value: str) -> list[Json]:
    if value == "none":
        return []
    fields: Json = {"handle": HANDLE, "snapshot": "snap2", "volumeSnapshotClassName": "snapclass"}
    if value == "unbound":
        return [a_new_content("content2", **fields, ref_uid=None)]
    held = {**fields, "ref_uid": "uid-snap2", "finalizers": _CONTENT_HELD, "status": _DONE}
    status = {**_READY, "boundVolumeSnapshotContentName": "content2"}
    snapshot = a_snapshot("snap2", status=status, finalizers=list(_HELD))
    snapshot["spec"] = {"source": {"volumeSnapshotContentName": "content2"}}
    if value == "bound":
        return [a_new_content("content2", **held), snapshot]
    return [a_new_content("content2", **held, policy="Retain")]
