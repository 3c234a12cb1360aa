"""The attacher: two volumes, two nodes, up to three attachments, and what the backend has published."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.csi.capabilities import DriverInfo
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.attacher.controller import Attacher
from mooring.sidecars.attacher.options import AttacherOptions
from tests.sim.states.run import Complaint
from tests.sim.states.space import Axis, Space, State
from tests.sim.states.world import StateWorld
from tests.support.builders import DRIVER, FINALIZER, NODE_ID_ANNOTATION, RWO, RWX, Json, a_csi_node, a_held_pv, a_va
from tests.support.scripted_driver import RPC, ScriptedDriver

FOREIGN: Final = "example.com/other"
OTHER: Final = "other.csi.test"
_DELETED: Final = "2026-01-01T00:00:00Z"

_PV1: Final[dict[str, Json | None]] = {
    "held": {},
    "fresh": {"finalizers": None},
    "absent": None,
    "deleting": {"deleting": True},
    "deleting-free": {"deleting": True, "finalizers": (FOREIGN,)},
    "shared": {"modes": RWX},
    "other-driver": {"driver": OTHER},
    "no-csi": {"source": {"nfs": {"server": "s", "path": "/"}}},
    "secret-lost": {"controllerPublishSecretRef": {"name": "lost", "namespace": "default"}},
}
_CLAIMED: Final[Json] = {"finalizers": (FINALIZER,), "annotations": {NODE_ID_ANNOTATION: "id1"}}
_ERROR: Final[Json] = {"message": "no", "time": _DELETED}
_VA1: Final[dict[str, Json | None]] = {
    "new": {},
    "absent": None,
    "claimed": _CLAIMED,
    "attached": {**_CLAIMED, "status": {"attached": True}},
    "failed": {**_CLAIMED, "status": {"attached": False, "attachError": _ERROR}},
    "torn": {"annotations": {NODE_ID_ANNOTATION: "id1"}, "status": {"attached": True}},
    "unnamed": {"finalizers": (FINALIZER,)},
    "former": {"finalizers": (FINALIZER,), "annotations": {NODE_ID_ANNOTATION: "id-old"}},
    "deleting": {**_CLAIMED, "deletionTimestamp": _DELETED, "status": {"attached": True}},
    "deleting-failed": {**_CLAIMED, "deletionTimestamp": _DELETED, "status": {"attached": True, "detachError": _ERROR}},
    "deleting-former": {"finalizers": (FINALIZER,), "annotations": {NODE_ID_ANNOTATION: "id-old"},
                        "deletionTimestamp": _DELETED},
    "deleting-free": {"annotations": {NODE_ID_ANNOTATION: "id1"}, "finalizers": (FOREIGN,),
                      "deletionTimestamp": _DELETED, "status": {"attached": True}},
    "foreign": {"attacher": OTHER},
}  # fmt: skip
_NODE: Final[dict[str, list[Json] | None]] = {
    "registered": [{"name": DRIVER, "nodeID": "id1", "topologyKeys": None}],
    "absent": None,
    "without": [],
    "renamed": [{"name": DRIVER, "nodeID": "id-new", "topologyKeys": None}],
}
_BACKEND: Final = {"none": (), "here": ("id1",), "there": ("id2",), "both": ("id1", "id2"), "former": ("id-old",)}
_VA2: Final = ("absent", "new", "attached", "claimed", "deleting")
_TWIN: Final = ("none", "same-handle", "own", "other-name")


class AttacherRoom:
    """va1 is of pv1 on node n1, va2 of pv1 on n2. twin: a third attachment, of a second volume."""

    name = "attacher"
    rounds = ()
    space = Space(
        Axis("pv", tuple(_PV1)),
        Axis("va", tuple(_VA1)),
        Axis("va2", _VA2),
        Axis("node", tuple(_NODE)),
        Axis("twin", _TWIN),
        Axis("backend", tuple(_BACKEND)),
    )

    def bodies(self, state: State) -> list[Json]:
        made = [a_csi_node("n2", {DRIVER: "id2"})]
        if (drivers := _NODE[state["node"]]) is not None:
            made.append(a_csi_node("n1", [{key: value for key, value in one.items() if value} for one in drivers]))
        if (pv := _PV1[state["pv"]]) is not None:
            made.append(a_held_pv("pv1", "h1", **{"modes": RWO, **pv}))
        if (va := _VA1[state["va"]]) is not None:
            made.append(a_va("va1", "pv1", "n1", **va))
        made += self._second(state["va2"])
        match state["twin"]:
            case "same-handle":
                made += [a_held_pv("pv2", "h1", modes=RWO), a_va("va3", "pv2", "n2")]
            case "own":
                made += [a_held_pv("pv2", "h2", modes=RWO), a_va("va3", "pv2", "n1")]
            case "other-name":
                made += [a_va("va3", "pv1", "n1")]
        return made

    def _second(self, value: str) -> list[Json]:
        claimed = {"finalizers": (FINALIZER,), "annotations": {NODE_ID_ANNOTATION: "id2"}}
        fields: dict[str, Json] = {
            "new": {},
            "claimed": claimed,
            "attached": {**claimed, "status": {"attached": True}},
            "deleting": {**claimed, "status": {"attached": True}, "deletionTimestamp": _DELETED},
        }
        return [a_va("va2", "pv1", "n2", **fields[value])] if value in fields else []

    def driver(self, state: State) -> ScriptedDriver:
        driver = ScriptedDriver()
        driver.published["h1"].update(_BACKEND[state["backend"]])
        return driver

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        service = frozenset({csi.PluginCapability.Service.CONTROLLER_SERVICE})
        info = DriverInfo(DRIVER, "1", service, frozenset(), frozenset({RPC.PUBLISH_UNPUBLISH_VOLUME}))
        world.driver = _Judged(world, world.driver)
        port = InProcessDriver(world.driver, clock=world.clock)
        world.laws.append(lambda resource, change: _released(world, resource, change))
        return [Attacher(world.runtime, port, info, AttacherOptions(worker_threads=1)).run()]

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        nodes = {node["metadata"]["name"]: _node_id(node) for node in world.all(CSI_NODES)}
        attachments = world.all(VOLUME_ATTACHMENTS)
        for va in attachments:
            if va["spec"]["attacher"] == DRIVER:
                yield from _attachment(world, va, nodes.get(va["spec"]["nodeName"], ""))
        named = {va["spec"]["source"]["persistentVolumeName"] for va in attachments}
        for pv in world.all(PERSISTENT_VOLUMES):
            meta = pv["metadata"]
            if "deletionTimestamp" in meta and FINALIZER in meta.get("finalizers", ()) and meta["name"] not in named:
                yield "volume-left", f"{meta['name']} is deleted, attached nowhere, and held"
        for node_id in sorted(world.driver.published["h1"] - set(_BACKEND[state["backend"]])):
            if not any(_claims(va, node_id) for va in attachments):
                yield "published-unwanted", f"h1 is published at {node_id}, no attachment says so"


class _Judged(ScriptedDriver):
    """The driver of a state, which looks at the store with each call."""

    def __init__(self, world: StateWorld, first: ScriptedDriver) -> None:
        super().__init__()
        self.published, self._world = first.published, world

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        handle, node_id = request.volume_id, request.node_id
        attachments = self._world.all(VOLUME_ATTACHMENTS)
        if not any(_claims(va, node_id) and "deletionTimestamp" not in va["metadata"] for va in attachments):
            self._world.fail("publish-no-finalizer", f"{handle} is published at {node_id}")
        if request.volume_capability.access_mode.mode == csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER:
            ours = min((va["metadata"]["name"] for va in attachments if _claims(va, node_id)), default="")
            for va in attachments:
                name, elsewhere = (
                    va["metadata"]["name"],
                    _claim(va) in self.published[handle] and va["spec"]["nodeName"] != _name(node_id),
                )
                # Two that hold the volume while neither is attached, as no attacher of ours leaves them: the lesser
                # name goes first.
                goes_first = (
                    ours < name
                    and not va.get("status", {}).get("attached")
                    and "deletionTimestamp" not in va["metadata"]
                )
                if elsewhere and not goes_first and _handle(self._world, va) == handle and _claims(va, _claim(va)):
                    self._world.fail(
                        "two-nodes", f"{handle} is published at {node_id}, {name} holds it at {_claim(va)}"
                    )
        return await super().controller_publish_volume(request)

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        for va in self._world.all(VOLUME_ATTACHMENTS):
            alive = "deletionTimestamp" not in va["metadata"] and va.get("status", {}).get("attached")
            if alive and _claims(va, request.node_id) and _handle(self._world, va) == request.volume_id:
                self._world.fail(
                    "unpublish-wanted",
                    f"{request.volume_id} is unpublished at {request.node_id} under {va['metadata']['name']}",
                )
        return await super().controller_unpublish_volume(request)


def _name(node_id: str) -> str:
    return "n2" if node_id == "id2" else "n1"


def _node_id(node: Json) -> str:
    return next((one["nodeID"] for one in node["spec"].get("drivers") or () if one["name"] == DRIVER), "")


def _claim(va: Json) -> str:
    return str((va["metadata"].get("annotations") or {}).get(NODE_ID_ANNOTATION, ""))


def _claims(va: Json, node_id: str) -> bool:
    return (
        va["spec"]["attacher"] == DRIVER and _claim(va) == node_id and FINALIZER in va["metadata"].get("finalizers", ())
    )


def _handle(world: StateWorld, va: Json) -> str:
    pv = world.find(PERSISTENT_VOLUMES, va["spec"]["source"]["persistentVolumeName"])
    return "" if pv is None else str(pv["spec"].get("csi", {}).get("volumeHandle", ""))


def _released(world: StateWorld, resource: Resource, change: StoredChange) -> None:
    """An attachment's finalizer goes while the backend has the volume there, and no other attachment holds it."""
    if resource.plural != "volumeattachments" or change.old is None:
        return
    old, new = change.old.whole(), {} if change.new is None else change.new.whole()
    if FINALIZER not in old["metadata"].get("finalizers", ()) or FINALIZER in new.get("metadata", {}).get(
        "finalizers", ()
    ):
        return
    handle, at = _handle(world, old), _claim(old)
    others = [va for va in world.all(VOLUME_ATTACHMENTS) if va["metadata"]["uid"] != old["metadata"]["uid"]]
    if (
        at
        and at in world.driver.published[handle]
        and not any(_claims(va, at) and _handle(world, va) == handle for va in others)
    ):
        world.fail("finalizer-dropped", f"{old['metadata']['name']} is released, {handle} is published at {at}")


def _attachment(world: StateWorld, va: Json, node_id: str) -> Iterator[Complaint]:
    meta, status, pv = va["metadata"], va.get("status", {}), va["spec"]["source"]["persistentVolumeName"]
    name, deleting, ours = meta["name"], "deletionTimestamp" in meta, FINALIZER in meta.get("finalizers", ())
    told = world.told(name)
    if deleting and not ours:
        if status.get("attached"):
            yield "attached-lies", f"{name} is detached, and says that it is attached"
    elif deleting or not status.get("attached"):
        others = {one["metadata"]["name"] for one in world.all(VOLUME_ATTACHMENTS)} - {name}
        if not any(
            word in text for text in told for word in (pv, va["spec"]["nodeName"], "pv spec", "secret", *others)
        ):
            yield (
                "silence",
                f"{name} is {'being deleted' if deleting else 'not attached'}, nothing names an obstacle: {told}",
            )
    elif ours and status.get("attachError"):
        yield "error-left", f"{name} is attached and shows {status['attachError']}"
