"""A snapshot's requests until it is ready to use, and what follows: snapshot, content, claim, three events."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import msgspec

from bench.bounds.requests import (
    DRIVER,
    JSON,
    JSON_PATCH,
    KINDS,
    MERGE_PATCH,
    SNAPSHOT_GROUP,
    TIME,
    Chain,
    Json,
    Request,
    event,
    get,
    patch,
    path_of,
    post,
    same,
)
from bench.claims import a_claim, a_volume
from bench.snapshots import CREATED, CREATED_NS, a_snapshot
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BEING_CREATED,
    BOUND_FINALIZER,
    CLAIM_FINALIZER,
    CONTENT_FINALIZER,
)
from tests.support.protobuf import PROTOBUF, body

CONTENTS = f"/apis/{SNAPSHOT_GROUP}/volumesnapshotcontents"
SNAPSHOTS = f"/apis/{SNAPSHOT_GROUP}/namespaces/default/volumesnapshots"


def snapshot(side: str, tag: str, number: int, *, alone: bool) -> Chain:
    """alone makes no difference."""
    name = f"{tag}-{number}"
    made = Request("POST volumesnapshots", "POST", SNAPSHOTS, keeps="vs", stage="load", shows=name)
    obj = {"apiVersion": SNAPSHOT_GROUP, "kind": "VolumeSnapshot", **a_snapshot(name, name, tag)}
    load = dataclasses.replace(made, body=msgspec.json.encode(obj))
    return (*_bound(name), load, *(_snapshot_by_go if side == "Go" else _snapshot_by_mooring)(name))


def _bound(name: str) -> Iterator[Request]:
    yield post("PersistentVolumeClaim", a_claim(name, DRIVER, name), stage="prepare", keeps="pvc")
    yield post("PersistentVolume", a_volume(name, DRIVER), stage="prepare")
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    yield patch(
        path_of("PersistentVolumeClaim", name, "status"), {"status": status}, MERGE_PATCH, stage="prepare", keeps="pvc"
    )


def _snapshot_by_mooring(name: str) -> Iterator[Request]:
    vs, vsc = f"{SNAPSHOTS}/{name}", f"{CONTENTS}/snapcontent-@vs.uid@"
    missing = {"op": "test", "path": "/metadata/finalizers", "value": None}
    held = {"op": "add", "path": "/metadata/finalizers", "value": [AS_SOURCE_FINALIZER, BOUND_FINALIZER]}
    yield patch(vs, [*same("vs"), *same("vs"), missing, held], JSON_PATCH, keeps="vs")
    yield get(path_of("PersistentVolumeClaim", name))
    yield _put_claim(name, held=True)
    yield _content(name, {"annotations": {BEING_CREATED: "yes"}, "finalizers": [CONTENT_FINALIZER]})
    no_status = {"op": "test", "path": "/status", "value": None}
    yield patch(f"{vsc}/status", [*same("vsc"), no_status, _made("add")], JSON_PATCH, keeps="vsc")
    mark = {"metadata": {"annotations": {BEING_CREATED: None}, "uid": "@vsc.uid@", "resourceVersion": "@vsc.rv@"}}
    ready = {"op": "add", "path": "/status", "value": _ready()}
    yield patch(f"{vs}/status", [*same("vs"), no_status, ready], JSON_PATCH, ends=True, shows=_SHOWN)
    yield patch(vsc, mark, MERGE_PATCH, note=" (mark off)", stage="later")
    yield _put_claim(name, held=False)
    yield from _snapshot_events(name, go=False)


def _snapshot_by_go(name: str) -> Iterator[Request]:
    vs, vsc = f"{SNAPSHOTS}/{name}", f"{CONTENTS}/snapcontent-@vs.uid@"
    yield _put_snapshot(name, [AS_SOURCE_FINALIZER])
    yield _put_claim(name, held=True, go=True)
    yield get(path_of("PersistentVolume", name), go=True)
    yield _content(name, {})
    yield patch(
        vsc,
        [{"op": "replace", "path": "/metadata/annotations", "value": {BEING_CREATED: "yes"}}],
        JSON_PATCH,
        note=" (mark on)",
    )
    yield get(vs)
    held = {"op": "add", "path": "/metadata/finalizers", "value": [CONTENT_FINALIZER]}
    yield patch(vsc, [held], JSON_PATCH, note=" (finalizer)")
    yield get(vsc)
    yield patch(f"{vsc}/status", [_made("replace")], JSON_PATCH)
    bound = {"boundVolumeSnapshotContentName": "snapcontent-@vs.uid@", "readyToUse": False}
    yield _put_snapshot(name, [AS_SOURCE_FINALIZER], bound)
    mark = {"op": "remove", "path": f"/metadata/annotations/{BEING_CREATED.replace('/', '~1')}"}
    yield patch(vsc, [mark], JSON_PATCH, note=" (mark off)", stage="later")
    bound_too = {"op": "add", "path": "/metadata/finalizers/-", "value": BOUND_FINALIZER}
    yield patch(vs, [bound_too], JSON_PATCH, keeps="vs")
    yield get(vs)
    yield get(vs)
    yield dataclasses.replace(
        _put_snapshot(name, [AS_SOURCE_FINALIZER, BOUND_FINALIZER], _ready()), ends=True, shows=_SHOWN
    )
    yield dataclasses.replace(get(path_of("PersistentVolumeClaim", name), go=True), stage="later")
    yield _put_claim(name, held=False, go=True)
    yield from _snapshot_events(name, go=True)


def _put_claim(name: str, *, held: bool, go: bool = False) -> Request:
    """A claim with our finalizer, or without it again."""
    obj = a_claim(name, DRIVER, name)
    obj["metadata"] |= {"namespace": "default", "creationTimestamp": TIME, "managedFields": _OWNED}
    obj["metadata"] |= {"finalizers": [CLAIM_FINALIZER]} if held else {}
    obj["metadata"] |= {} if go else {"uid": "@pvc.uid@", "resourceVersion": "@pvc.rv@"}
    obj["spec"] |= {"volumeMode": "Filesystem"}
    obj |= {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"]},
    }
    form = PROTOBUF if go else JSON
    data = body(KINDS["PersistentVolumeClaim"], obj) if go else msgspec.json.encode(obj)
    word, stage = ("on", "wait") if held else ("off", "later")
    label = f"PUT persistentvolumeclaims (finalizer {word})"
    return Request(
        label, "PUT", path_of("PersistentVolumeClaim", name), data, form, form, keeps="" if go else "pvc", stage=stage
    )


def _put_snapshot(name: str, finalizers: list[str], status: Json | None = None) -> Request:
    """As snapshot-controller writes it: whole. status: with one, to the subresource."""
    obj = {"apiVersion": SNAPSHOT_GROUP, "kind": "VolumeSnapshot", **a_snapshot(name, name, name.rpartition("-")[0])}
    obj["metadata"] |= {"uid": "@vs.uid@", "resourceVersion": "@vs.rv@", "namespace": "default", "generation": 1}
    obj["metadata"] |= {"creationTimestamp": TIME, "managedFields": _OWNED, "finalizers": finalizers}
    sub = "/status" if status else ""
    path = f"{SNAPSHOTS}/{name}{sub}"
    data = msgspec.json.encode({**obj, **({"status": status} if status else {})})
    note = " (bound)" if status and not status["readyToUse"] else ""
    return Request(f"PUT volumesnapshots{sub}{note}", "PUT", path, data, keeps="vs")


def _content(name: str, meta: Json) -> Request:
    ref = {
        "apiVersion": SNAPSHOT_GROUP,
        "kind": "VolumeSnapshot",
        "name": name,
        "namespace": "default",
        "uid": "@vs.uid@",
    }
    spec: Json = {"driver": DRIVER, "deletionPolicy": "Delete", "source": {"volumeHandle": f"vol-{name}"}}
    spec |= {"sourceVolumeMode": "Filesystem", "volumeSnapshotClassName": name.rpartition("-")[0]}
    spec["volumeSnapshotRef"] = {**ref, "resourceVersion": "@vs.rv@"}
    whole: Json = {"apiVersion": SNAPSHOT_GROUP, "kind": "VolumeSnapshotContent"}
    whole |= {"metadata": {"name": "snapcontent-@vs.uid@", **meta}, "spec": spec}
    path = CONTENTS
    return Request(
        "POST volumesnapshotcontents",
        "POST",
        path,
        msgspec.json.encode(whole),
        keeps="vsc",
        shows="snapcontent-@vs.uid@",
    )


def _made(op: str) -> Json:
    status = {
        "snapshotHandle": "snap-snapshot-@vs.uid@",
        "creationTime": CREATED_NS,
        "restoreSize": 1 << 30,
        "readyToUse": True,
    }
    return {"op": op, "path": "/status", "value": status}


def _ready() -> Json:
    return {
        "boundVolumeSnapshotContentName": "snapcontent-@vs.uid@",
        "creationTime": CREATED,
        "readyToUse": True,
        "restoreSize": "1Gi",
    }


def _snapshot_events(name: str, *, go: bool) -> Iterator[Request]:
    texts = {
        "CreatingSnapshot": f"Waiting for a snapshot default/{name} to be created by the CSI driver.",
        "SnapshotCreated": f"Snapshot default/{name} was successfully created by the CSI driver.",
        "SnapshotReady": f"Snapshot default/{name} is ready to use.",
    }
    for number, (reason, text) in enumerate(texts.items()):
        yield event("VolumeSnapshot", name, number, reason, text, "snapshot-controller", go=go)


def _owned(*paths: str) -> Json:
    """A record of a field owner, of the size that they have."""
    fields: Json = {}
    for path in paths:
        at = fields
        for part in path.split(" "):
            at = at.setdefault(f"f:{part}", {})
    entry = {
        "manager": "mooring-bench",
        "operation": "Update",
        "time": TIME,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**entry, "apiVersion": "v1"}


_SHOWN = f'"creationTime":"{CREATED}"'
"""Only in the status of a snapshot that is ready; a content has a number there."""

_OWNED = [
    _owned(
        "metadata labels app",
        "metadata annotations bench",
        "spec accessModes",
        "spec resources requests storage",
        "spec volumeName",
    ),
    {
        **_owned("status phase", "status accessModes", "status capacity storage"),
        "manager": "bench",
        "subresource": "status",
    },
]
