"""Attach/detach controller and attacher: two pods, a claim with its volume, two nodes, attachments as each step leaves
them.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, Final

from mooring.api.core import NODES
from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.cluster.attachdetach.controller import AttachDetach
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.csi.capabilities import DriverInfo
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.attacher.controller import Attacher
from mooring.sidecars.attacher.options import AttacherOptions
from tests.sim.states.run import Complaint
from tests.sim.states.space import Axis, Space, State
from tests.sim.states.world import StateWorld
from tests.support.builders import (
    DRIVER,
    FINALIZER,
    NODE_ID_ANNOTATION,
    RWO,
    Json,
    a_bound_claim,
    a_claim,
    a_csi_driver,
    a_csi_node,
    a_held_pv,
    a_node,
    a_pod,
    a_va,
)
from tests.support.scripted_driver import RPC, ScriptedDriver

FOREIGN: Final = "example.com/other"
HEARD_S: Final = 300.0
"""Less than the time after which a detach is forced."""
_AT: Final = "2026-01-01T00:00:00Z"
_MANAGED: Final = {MANAGED: "true"}
UNIQUE: Final = unique_name(DRIVER, "h1")
VA1, VA2 = attachment_name(DRIVER, "h1", "n1"), attachment_name(DRIVER, "h1", "n2")
_RUNS: Final = {"phase": "Running", "containerStatuses": [
    {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": {"running": {}}}
]}  # fmt: skip
_POD: Final[dict[str, Json | None]] = {
    "starts": {"status": {"phase": "Pending"}},
    "absent": None,
    "runs": {"status": _RUNS},
    "ended": {"status": {"phase": "Succeeded"}},
    "leaves": {"status": _RUNS, "deletionTimestamp": _AT, "deletionGracePeriodSeconds": 30},
    "stopped": {"status": {"phase": "Running"}, "deletionTimestamp": _AT, "deletionGracePeriodSeconds": 30},
    "kept": {
        "status": {"phase": "Failed"},
        "deletionTimestamp": _AT,
        "deletionGracePeriodSeconds": 0,
        "finalizers": (FOREIGN,),
    },
    "unknown-phase": {"status": {"phase": "Wondering"}},
}
_NODE: Final = (
    "ready",
    "in-use",
    "listed",
    "in-use-listed",
    "silent-in-use",
    "tainted-in-use",
    "unmanaged",
    "absent",
    "bare",
)
_CLAIMS: Final = ("bound", "absent", "pending", "lost", "former", "no-driver")
_CLAIMED: Final[Json] = {"finalizers": (FINALIZER,), "annotations": {NODE_ID_ANNOTATION: "id1"}}
_VA: Final[dict[str, Json | None]] = {
    "absent": None,
    "new": {},
    "attached": {**_CLAIMED, "status": {"attached": True}},
    "torn": {"status": {"attached": True}},
    "failed": {**_CLAIMED, "status": {"attached": False, "attachError": {"message": "no", "time": _AT}}},
    "deleting": {**_CLAIMED, "status": {"attached": True}, "deletionTimestamp": _AT},
    "kept": {"finalizers": (FOREIGN,), "status": {"attached": True}, "deletionTimestamp": _AT},
    "mismatch": {"pv": "pv-other", **_CLAIMED, "status": {"attached": True}},
}
_VA2: Final = ("absent", "attached", "deleting", "other-name")
_POD2: Final = ("none", "starts", "same-node")


class NodesRoom:
    """pod is on node n1, pod2 on n2 (or on n1); both use the claim. node: n1; n2 is always well."""

    name = "nodes"
    rounds = ()
    space = Space(
        Axis("pod", tuple(_POD)),
        Axis("va", tuple(_VA)),
        Axis("node", _NODE),
        Axis("claim", _CLAIMS),
        Axis("va2", _VA2),
        Axis("pod2", _POD2),
    )

    def bodies(self, state: State) -> list[Json]:
        made = [
            a_csi_node("n1", {DRIVER: "id1"}),
            a_csi_node("n2", {DRIVER: "id2"}),
            *_node("n1", state["node"]),
            *_node("n2", "ready"),
        ]
        made += _claim(state["claim"])
        if state["claim"] != "no-driver":
            made.append(a_csi_driver())
        if (fields := _POD[state["pod"]]) is not None:
            more = dict(fields)
            status = more.pop("status")
            body = a_pod("pod", "claim", node="n1", **{key: value for key, value in more.items() if value is not None})
            made.append({**body, "status": status})
        if state["pod2"] != "none":
            made.append(a_pod("pod2", "claim", node="n1" if state["pod2"] == "same-node" else "n2"))
        if (fields := _VA[state["va"]]) is not None:
            more = dict(fields)
            made.append(a_va(VA1, more.pop("pv", "pv1"), "n1", **more))
        there = {"finalizers": (FINALIZER,), "annotations": {NODE_ID_ANNOTATION: "id2"}, "status": {"attached": True}}
        if state["va2"] != "absent":
            gone = {"deletionTimestamp": _AT} if state["va2"] == "deleting" else {}
            made.append(a_va("va-other" if state["va2"] == "other-name" else VA2, "pv1", "n2", **there, **gone))
        return made

    def driver(self, state: State) -> ScriptedDriver:
        driver = ScriptedDriver()
        if state["va"] in ("attached", "deleting", "torn"):
            driver.published["h1"].add("id1")
        if state["va2"] != "absent":
            driver.published["h1"].add("id2")
        return driver

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        service = frozenset({csi.PluginCapability.Service.CONTROLLER_SERVICE})
        info = DriverInfo(DRIVER, "1", service, frozenset(), frozenset({RPC.PUBLISH_UNPUBLISH_VOLUME}))
        port = InProcessDriver(world.driver, clock=world.clock)
        if state["node"] == "absent" and state["va"] == "attached":
            world.laws.append(lambda resource, change: _not_unheard(world, resource, change))
        return [
            AttachDetach(world.runtime, AttachDetachOptions(workers=1)).run(),
            Attacher(world.runtime, port, info, AttacherOptions(worker_threads=1)).run(),
        ]

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        nodes = {node["metadata"]["name"]: node for node in world.all(NODES)}
        attachments = world.all(VOLUME_ATTACHMENTS)
        wanted: set[str] = set()
        for pod in world.all(PODS):
            name, node = pod["metadata"]["name"], nodes.get(pod["spec"].get("nodeName", ""))
            if not _wants(pod):
                continue
            wanted.add(pod["spec"]["nodeName"])
            if node is None or node["metadata"].get("annotations", {}).get(MANAGED) != "true":
                continue
            its_name = VA1 if pod["spec"]["nodeName"] == "n1" else VA2
            has = any(va["metadata"]["name"] == its_name and va.get("status", {}).get("attached") for va in attachments)
            if not has and not world.told(name):
                yield "silence", f"{name} waits for its volume on {pod['spec']['nodeName']}, nobody says why"
        for va in attachments:
            yield from _attachment(world, va, nodes, wanted, state)


def _not_unheard(world: StateWorld, resource: Resource, change: StoredChange) -> None:
    """Nobody knows what a node has mounted whose Node was gone before: it keeps its volume as long as a silent one."""
    if resource.plural != "volumeattachments" or change.key.name != VA1 or change.old is None:
        return
    is_deleted = change.new is None or "deletionTimestamp" in change.new.whole()["metadata"]
    if is_deleted and world.clock.now() < HEARD_S:
        world.fail("deleted-unheard", f"{VA1} is deleted, and nobody has heard of the mounts of n1")


def _attachment(
    world: StateWorld, va: Json, nodes: dict[str, Json], wanted: set[str], state: State
) -> Iterator[Complaint]:
    meta, node = va["metadata"], nodes.get(va["spec"]["nodeName"])
    in_use = node is not None and UNIQUE in (node.get("status", {}).get("volumesInUse") or ())
    listed = node is not None and any(
        one["name"] == UNIQUE for one in node.get("status", {}).get("volumesAttached") or ()
    )
    if "deletionTimestamp" in meta:
        if FINALIZER in meta.get("finalizers", ()) and not world.told(meta["name"]):
            yield "silence", f"{meta['name']} is being deleted, nobody says what keeps it"
        return
    if meta["name"] not in (VA1, VA2) or va["spec"]["source"].get("persistentVolumeName") != "pv1":
        return  # not this controller's
    managed = node is not None and node["metadata"].get("annotations", {}).get(MANAGED) == "true"
    if va["spec"]["nodeName"] in wanted:
        if va.get("status", {}).get("attached") and managed and not listed and state["claim"] in ("bound", "no-driver"):
            if any(world.told(name) for name in ("pod", "pod2")):
                return  # another node lists it in use: this one hears of it when that is over
            yield "not-reported", f"{meta['name']} is attached and wanted, the node does not list it"
    elif not in_use and (node is None or managed):
        yield "unwanted-left", f"{meta['name']}: no pod wants it, the node does not use it"


def _wants(pod: Json) -> bool:
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    return "deletionTimestamp" not in pod["metadata"] or bool(pod["status"].get("containerStatuses"))


def _claim(value: str) -> list[Json]:
    pv = a_held_pv(
        "pv1", "h1", modes=RWO, spec={"claimRef": {"namespace": "default", "name": "claim", "uid": "uid-claim"}}
    )
    match value:
        case "absent":
            return [pv]
        case "pending":
            return [pv, a_claim("claim")]
        case "lost":
            return [a_bound_claim("claim", "pv1")]
        case "former":
            return [pv, a_bound_claim("claim", "pv1", uid="uid-new")]
    return [pv, a_bound_claim("claim", "pv1")]


def _node(name: str, value: str) -> list[Json]:
    if value == "absent":
        return []
    ready = "Unknown" if "silent" in value or "tainted" in value else "True"
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": _AT, "lastHeartbeatTime": _AT}]
    taints = (
        [{"key": OUT_OF_SERVICE_TAINT, "value": "nodeshutdown", "effect": "NoExecute"}] if "tainted" in value else None
    )
    status: Json = {} if value == "bare" else {"conditions": conditions}
    if "in-use" in value:
        status["volumesInUse"] = [UNIQUE]
    if "listed" in value:
        status["volumesAttached"] = [{"name": UNIQUE, "devicePath": ""}]
    noted = None if value == "unmanaged" else _MANAGED
    return [a_node(name, {"taints": taints} if taints else None, annotations=noted, **status)]
