"""The requests for one object, by Go's programs and by Mooring's: what they have in common.

Verbs, bodies and order come from the audit log of a kube-apiserver under the benches of the three flows. Go's programs
send and read protobuf for the built-in kinds, all else is JSON. Two things are left out: the uid in Mooring's patch of
a node, and uid and version in the claims that Go puts. `@claim.uid@` in a path or body stands for what an earlier
answer of the same chain said.
"""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import msgspec

from mooring.apiserver.rules import RESOURCES
from tests.support.protobuf import PROTOBUF, body

Json = dict[str, Any]

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

KINDS = {resource.kind: resource for resource in RESOURCES if resource.api_version != "events.k8s.io/v1"}
DRIVER = "bench.mooring.dev"
SNAPSHOT_GROUP = "snapshot.storage.k8s.io/v1"
TIME = "2026-11-26T12:00:00Z"


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One of a chain. keeps: under which name its answer's uid and version go on. stage: "prepare" is done before the
    clock starts, "load" makes the object, "wait" is what somebody waits for, "later" what nobody waits for. ends: with
    it the object is done. shows: in a watch, of which the time is of interest. serial: of the requests with
    the same word only one is under way, and what their answers say is common to all chains.
    """

    name: str
    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    keeps: str = ""
    stage: str = "wait"
    ends: bool = False
    shows: str = ""
    serial: str = ""

    def in_job(self) -> Json:
        return {**dataclasses.asdict(self), "body": self.body.decode("latin-1")}


Chain = tuple[Request, ...]


def path_of(kind: str, name: str = "", sub: str = "", namespace: str = "default") -> str:
    resource = KINDS[kind]
    root = f"/apis/{resource.api_version}" if resource.group else "/api/v1"
    path = f"{root}/namespaces/{namespace}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    return "/".join(part for part in (path, name, sub) if part)


def post(kind: str, obj: Json, *, go: bool = False, **more: Any) -> Request:
    """go: in protobuf."""
    resource = KINDS[kind]
    whole = {"apiVersion": resource.api_version, "kind": kind, **obj}
    form = PROTOBUF if go else JSON
    data = body(resource, whole) if go else msgspec.json.encode(whole)
    return Request(f"POST {resource.plural}", "POST", path_of(kind), data, form, form, **more)


def patch(path: str, change: Any, form: str, *, go: bool = False, note: str = "", **more: Any) -> Request:
    """note: in the table, where a chain has several of the kind. go: the answer is protobuf."""
    parts = path.split("/")
    plural, sub = (parts[-3], "/status") if parts[-1] == "status" else (parts[-2], "")
    return Request(
        f"PATCH {plural}{sub}{note}", "PATCH", path, msgspec.json.encode(change), form, PROTOBUF if go else JSON, **more
    )


def get(path: str, *, go: bool = False, **more: Any) -> Request:
    return Request(f"GET {path.split('/')[-2]}", "GET", path, accept=PROTOBUF if go else JSON, **more)


def event(of: str, name: str, number: int, reason: str, message: str, component: str, *, go: bool) -> Request:
    """of: kind of the object of this name."""
    uid, version = uid_of(name), SNAPSHOT_GROUP if of == "VolumeSnapshot" else "v1"
    told = {
        "kind": of,
        "namespace": "default",
        "name": name,
        "uid": uid,
        "apiVersion": version,
        "resourceVersion": "1000",
    }
    times = {
        "firstTimestamp": TIME,
        "lastTimestamp": TIME,
        "count": 1,
        "type": "Normal",
        "reportingComponent": component,
    }
    text = {"reason": reason, "message": message, "source": {"component": component}}
    meta = {"name": f"{name}.18ebb1fc9fb1{number:04x}", "namespace": "default"}
    return post("Event", {"metadata": meta, "involvedObject": told, **text, **times}, go=go, stage="later")


def uid_of(name: str) -> str:
    """One that the API server does not check, such as that of the claim in a volume."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def same(kept: str) -> list[Json]:
    """Mooring's patches are for one object, not for another one of its name."""
    return [{"op": "test", "path": "/metadata/uid", "value": f"@{kept}.uid@"}]
