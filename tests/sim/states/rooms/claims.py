"""Binder and provisioner: a claim, a volume, a class, a pod, the claim's source, and what the backend has."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, Final

from mooring.api import binding as names
from mooring.api.core import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.snapshot import VOLUME_SNAPSHOTS
from mooring.cluster.binder import options
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.options import BinderOptions
from mooring.csi.capabilities import DriverInfo
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner.controller import Provisioner
from mooring.sidecars.provisioner.names import SNAPSHOT_FINALIZER
from mooring.sidecars.provisioner.options import ProvisionerOptions, Rules
from mooring.wire.grpc.codes import Code
from tests.sim.states.run import Complaint
from tests.sim.states.space import Axis, Space, State
from tests.sim.states.world import StateWorld
from tests.support.builders import (
    DRIVER,
    NS,
    RWO,
    WFFC,
    Json,
    a_claim,
    a_class,
    a_content,
    a_csi_driver,
    a_csi_node,
    a_pod,
    a_ready_node,
    a_snapshot,
    a_volume,
)
from tests.support.scripted_driver import RPC, Fail, ScriptedDriver
from tests.support.volume_driver import VolumeDriver

OTHER: Final = "other.csi.test"
_AT: Final = "2026-01-01T00:00:00Z"
_ASKED: Final = {names.PROVISIONER: DRIVER, names.PROVISIONER_BETA: DRIVER}
_BOUND: Final = {names.BIND_COMPLETED: "yes", names.BOUND_BY_CONTROLLER: "yes"}
_BOUND_STATUS: Final = {"phase": "Bound", "accessModes": list(RWO), "capacity": {"storage": "1Gi"}}
_HELD: Final = {"finalizers": [names.PVC_PROTECTION]}
_CLAIM: Final[dict[str, Json | None]] = {
    "new": _HELD,
    "absent": None,
    "torn": {},
    "asked": {**_HELD, "annotations": _ASKED},
    "placed": {**_HELD, "annotations": {**_ASKED, names.SELECTED_NODE: "n1"}},
    "placed-lost": {**_HELD, "annotations": {**_ASKED, names.SELECTED_NODE: "n-lost"}},
    "named": {**_HELD, "volume": "pv"},
    "half": {**_HELD, "volume": "pv", "annotations": _BOUND},
    "bound": {**_HELD, "volume": "pv", "annotations": _BOUND, "status": _BOUND_STATUS},
    "nameless": {**_HELD, "annotations": _BOUND, "status": {"phase": "Bound"}},
    "lost": {**_HELD, "volume": "pv", "annotations": _BOUND, "status": {"phase": "Lost"}},
    "unknown-phase": {**_HELD, "status": {"phase": "Moving"}},
    "classless": {**_HELD, "sc": None},
    "no-class": {**_HELD, "sc": ""},
    "deleting": {**_HELD, "deletionTimestamp": _AT, "annotations": _ASKED},
    "deleting-bound": {**_HELD, "deletionTimestamp": _AT, "volume": "pv", "annotations": _BOUND,
                       "status": _BOUND_STATUS},
}  # fmt: skip
_OURS: Final = {"annotations": {names.PROVISIONED_BY: DRIVER}, "policy": "Delete"}
_REF: Final = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "namespace": NS,
    "name": "claim",
    "uid": "uid-claim",
}
_FINALIZERS: Final = [names.PV_PROTECTION, "external-provisioner.volume.kubernetes.io/finalizer"]
_PV: Final[dict[str, Json | None]] = {
    "absent": None,
    "free": {"phase": "Available"},
    "phaseless": {"phase": ""},
    "reserved": {"phase": "Available", "claimRef": {"namespace": NS, "name": "claim"}},
    "nameless": {"phase": "Available", "claimRef": {"uid": "uid-claim"}},
    "bound": {**_OURS, "phase": "Bound", "claimRef": _REF, "finalizers": _FINALIZERS},
    "retained": {"phase": "Bound", "claimRef": _REF, "finalizers": _FINALIZERS[:1]},
    "former": {**_OURS, "phase": "Bound", "claimRef": {**_REF, "uid": "uid-former"}, "finalizers": _FINALIZERS},
    "released": {**_OURS, "phase": "Released", "claimRef": {**_REF, "uid": "uid-former"}, "finalizers": _FINALIZERS},
    "failed": {**_OURS, "phase": "Failed", "claimRef": {**_REF, "uid": "uid-former"}, "finalizers": _FINALIZERS},
    "unknown-phase": {**_OURS, "phase": "Moving", "claimRef": _REF, "finalizers": _FINALIZERS},
    "torn": {**_OURS, "phase": "Released", "claimRef": {**_REF, "uid": "uid-former"}},
    "deleting": {**_OURS, "phase": "Bound", "claimRef": _REF, "finalizers": _FINALIZERS, "deletionTimestamp": _AT},
    "deleting-released": {**_OURS, "phase": "Released", "claimRef": {**_REF, "uid": "uid-former"},
                          "finalizers": _FINALIZERS, "deletionTimestamp": _AT},
    "imported": {"phase": "Bound", "claimRef": {**_REF, "name": "other", "uid": "uid-other"},
                 "handle": "vol-pvc-uid-claim"},
    "small": {"phase": "Available", "size": "1Mi"},
}  # fmt: skip
_SECRET: Final = "csi.storage.k8s.io/provisioner-secret"
_CLASS: Final[dict[str, Json | None]] = {
    "immediate": {},
    "delayed": {"volumeBindingMode": WFFC},
    "absent": None,
    "other": {"provisioner": OTHER},
    "secret-lost": {"parameters": {f"{_SECRET}-name": "lost", f"{_SECRET}-namespace": NS}},
}  # fmt: skip
_POD: Final = ("none", "waits", "runs", "ended")
_SNAPSHOT: Final = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot"}
_SOURCE: Final[dict[str, Json | None]] = {
    "none": None,
    "clone": {"kind": "PersistentVolumeClaim", "name": "lost"},
    "snapshot": {**_SNAPSHOT, "name": "lost"},
    "former-content": {**_SNAPSHOT, "name": "snap"},
    "held-snapshot": {**_SNAPSHOT, "name": "snap"},
    "elsewhere": {**_SNAPSHOT, "name": "snap", "namespace": "other"},
}
"""The snapshot's content is that of a former one; it is held, and not ready; the one that is meant is in another
namespace, which grants nothing, and the claim's own has one of the same name.
"""
_BACKEND: Final = ("none", "made", "refuses")


class ClaimsRoom:
    """backend: `made` has a volume under the claim's name already, `refuses` says InvalidArgument to all."""

    name = "claims"
    rounds = ()
    space = Space(
        Axis("claim", tuple(_CLAIM)),
        Axis("pv", tuple(_PV)),
        Axis("class", tuple(_CLASS)),
        Axis("pod", _POD),
        Axis("source", tuple(_SOURCE)),
        Axis("backend", _BACKEND),
    )

    def bodies(self, state: State) -> list[Json]:
        made = [a_ready_node("n1"), a_csi_node("n1", {DRIVER: "id1"}), a_csi_driver(storageCapacity=False)]
        if (fields := _CLASS[state["class"]]) is not None:
            made.append(a_class("sc", **fields))
        if (fields := _CLAIM[state["claim"]]) is not None:
            source = {"dataSourceRef" if state["source"] == "elsewhere" else "dataSource": _SOURCE[state["source"]]}
            made.append(a_claim("claim", **{"uid": "uid-claim", **source, **fields}))
        made += _snapshots(state["source"])
        if (fields := _PV[state["pv"]]) is not None:
            made.append(a_volume("pv", **{"handle": "vol-pv", **fields}))
        node, phase = {"waits": (None, "Pending"), "runs": ("n1", "Running"), "ended": ("n1", "Succeeded")}.get(
            state["pod"], (None, "")
        )
        if phase:
            made.append(a_pod("pod", "claim", node=node, phase=phase))
        return made

    def driver(self, state: State) -> ScriptedDriver:
        driver = _Maker(
            refuses=state["backend"] == "refuses", controller=(RPC.CLONE_VOLUME, RPC.CREATE_DELETE_SNAPSHOT)
        )
        driver.volumes["vol-pv"] = 1 << 30
        if state["backend"] == "made":
            driver.names["pvc-uid-claim"] = "vol-pvc-uid-claim"
            driver.volumes["vol-pvc-uid-claim"] = 1 << 30
        return driver

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        driver = world.driver
        assert isinstance(driver, _Maker)
        driver.world = world
        info = DriverInfo(DRIVER, "1", frozenset(driver.plugin), frozenset(), frozenset(driver.controller))
        port = InProcessDriver(driver, clock=world.clock)
        given = ProvisionerOptions(Rules(cross_namespace_data_source=state["source"] == "elsewhere"), worker_threads=1)
        provisioner = Provisioner(world.runtime, port, info, given, world.recorder(DRIVER))
        parts = frozenset(options.PARTS) - {options.EPHEMERAL}
        return [make_binder(world.runtime, BinderOptions(parts=parts, workers=1)).run(), provisioner.run()]

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        driver = world.driver
        assert isinstance(driver, _Maker)
        volumes = {pv["metadata"]["name"]: pv for pv in world.all(PERSISTENT_VOLUMES)}
        claim = world.find(PERSISTENT_VOLUME_CLAIMS, "claim")
        if claim is not None:
            yield from _claim(world, claim, volumes, state)
        for name, pv in volumes.items():
            yield from _volume(world, name, pv)
        if (
            state["source"] == "held-snapshot"
            and claim is not None
            and _waits(claim)
            and state["class"] not in ("absent", "other")
        ):
            snapshot = world.find(VOLUME_SNAPSHOTS, "snap")
            if snapshot is None or SNAPSHOT_FINALIZER not in snapshot["metadata"].get("finalizers", ()):
                yield "source-freed", "a claim waits to be made from the snapshot, which nothing holds any more"
        handles = [pv["spec"]["csi"]["volumeHandle"] for pv in volumes.values()]
        named = set(handles)
        began = {"vol-pv", *(("vol-pvc-uid-claim",) if state["backend"] == "made" else ())}
        for handle in sorted(set(driver.volumes) - named - began):
            yield "leaked", f"{handle} is in the backend, no PersistentVolume names it"


class _Maker(VolumeDriver):
    """refuses: says InvalidArgument to each creation."""

    def __init__(self, *, refuses: bool, controller: tuple[int, ...]) -> None:
        super().__init__(controller=controller)
        self.world: StateWorld | None = None
        if refuses:
            self.always("CreateVolume", Fail(Code.INVALID_ARGUMENT, "not like this"))

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        if request.volume_content_source.HasField("snapshot"):
            assert self.world is not None
            self.world.fail(
                "strange-source",
                f"{request.name} is made from {request.volume_content_source}, which its claim does not mean",
            )
        return await super().create_volume(request)

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        assert self.world is not None
        for pv in self.world.all(PERSISTENT_VOLUMES):
            if pv["spec"]["csi"]["volumeHandle"] != request.volume_id:
                continue
            claim, ref = self.world.find(PERSISTENT_VOLUME_CLAIMS, "claim"), pv["spec"].get("claimRef") or {}
            if (
                claim is not None
                and ref.get("uid") == claim["metadata"]["uid"]
                and claim["spec"].get("volumeName") == pv["metadata"]["name"]
            ):
                self.world.fail(
                    "deleted-in-use", f"{request.volume_id} is deleted, the claim is bound to {pv['metadata']['name']}"
                )
            if pv["spec"]["persistentVolumeReclaimPolicy"] == "Retain":
                self.world.fail("deleted-kept", f"{request.volume_id} is deleted, its policy is to keep it")
        return await super().delete_volume(request)


def _snapshots(source: str) -> list[Json]:
    """None of them can be what the claim is made from."""
    ready = {"readyToUse": True, "restoreSize": "1Gi"}
    ref = {"namespace": NS, "name": "snap", "uid": "uid-snap"}
    match source:
        case "former-content":
            return [
                a_snapshot("snap", uid="uid-snap", content="content", status=ready),
                a_content("content", {**ref, "uid": "uid-former"}),
            ]
        case "held-snapshot":
            return [a_snapshot("snap", uid="uid-snap", claim="origin", finalizers=[SNAPSHOT_FINALIZER])]
        case "elsewhere":
            return [a_snapshot("snap", uid="uid-snap", content="content", status=ready), a_content("content", ref)]
    return []


def _waits(claim: Json) -> bool:
    status = claim.get("status", {}).get("phase")
    return "deletionTimestamp" not in claim["metadata"] and status == "Pending" and not claim["spec"].get("volumeName")


def _claim(world: StateWorld, claim: Json, volumes: dict[str, Json], state: State) -> Iterator[Complaint]:
    told, status, spec = world.told("claim"), claim.get("status", {}), claim["spec"]
    if "deletionTimestamp" in claim["metadata"]:
        if state["pod"] in ("waits", "runs") or told:
            return  # kubectl describe shows who uses it
        yield "claim-left", f"the claim was deleted, no pod uses it: {claim['metadata'].get('finalizers')}"
        return
    pv = volumes.get(spec.get("volumeName", ""))
    ref = (pv or {}).get("spec", {}).get("claimRef") or {}
    if status.get("phase") == "Bound" and ref.get("uid") == claim["metadata"]["uid"]:
        return
    warned = any(
        event["type"] == "Warning" and event["involvedObject"]["name"] == "claim" for event in world.all(EVENTS)
    )
    if any("retry_in_s" in line and '"default/claim"' in line for line in world.log.lines) and not warned:
        yield "warning-lost", "the log says that the claim is tried again and again, the claim itself no more"
    if status.get("phase") == "Bound":
        yield "bound-lies", f"the claim says Bound, {spec.get('volumeName') or 'nothing'} is of {ref or 'nobody'}"
    elif status.get("phase") != "Lost" and not told:  # that phase says it all: kubectl shows it, and the volume's name
        yield "silence", f"the claim is {status.get('phase')}, nobody says why: {spec}"


def _volume(world: StateWorld, name: str, pv: Json) -> Iterator[Complaint]:
    meta, status, spec = pv["metadata"], pv.get("status", {}), pv["spec"]
    claim, ref, told = world.find(PERSISTENT_VOLUME_CLAIMS, "claim"), spec.get("claimRef") or {}, world.told(name)
    wanted = claim is not None and ref.get("uid") == claim["metadata"]["uid"]
    is_reserved = (
        claim is not None and wanted and not claim["spec"].get("volumeName")
    )  # the claim comes first, a lost one never
    if status.get("phase") not in ("Available", "Bound", "Released", "Failed") and not is_reserved:
        yield "no-phase", f"{name} is {status.get('phase')!r}"
    if ref.get("uid") and not wanted and status.get("phase") == "Bound":
        yield "bound-lies", f"{name} says Bound, its claim {ref.get('uid')} is gone"
    is_ours = (
        meta.get("annotations", {}).get(names.PROVISIONED_BY) == DRIVER
        and spec["persistentVolumeReclaimPolicy"] == "Delete"
    )
    if is_ours and status.get("phase") == "Released" and not told:
        yield "volume-left", f"{name} is released, to be deleted, and still there, nobody says why"
    if "deletionTimestamp" in meta and not wanted and not told:
        yield "volume-left", f"{name} was deleted, no claim has it, held by {meta.get('finalizers')}"
