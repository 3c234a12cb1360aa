"""The resizer: a claim and its volume in every step of a growth and of a change of class, and what the backend has made
of it.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.quantity import parse_quantity
from mooring.csi.capabilities import DriverInfo
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.controller import Resizer
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.wire.grpc.codes import Code
from tests.sim.states.run import Complaint
from tests.sim.states.space import Axis, Space, State
from tests.sim.states.world import StateWorld
from tests.support.builders import DRIVER, Json, a_claim, a_pod, a_pv, a_reference, an_attributes_class
from tests.support.resizing import ResizingDriver, claim_status, condition
from tests.support.scripted_driver import RPC, Fail, ScriptedDriver

OTHER: Final = "other.csi.test"
_AT: Final = "2026-01-01T00:00:00Z"
_GIB: Final = 1 << 30
_STATUS: Final[dict[str, Json]] = {
    "small": claim_status(1),
    "grown": claim_status(2),
    "bare": {"phase": "Bound"},
    "begun": claim_status(1, 2, names.CONTROLLER_IN_PROGRESS, conditions=[condition(names.RESIZING)]),
    "begun-larger": claim_status(1, 3, names.CONTROLLER_IN_PROGRESS),
    "infeasible": claim_status(
        1, 2, names.CONTROLLER_INFEASIBLE, conditions=[condition(names.CONTROLLER_ERROR, message="no")]
    ),
    "infeasible-larger": claim_status(1, 3, names.CONTROLLER_INFEASIBLE),
    "on-node": claim_status(1, 2, names.NODE_PENDING, conditions=[condition(names.FS_PENDING)]),
    "node-begun": claim_status(1, 2, names.NODE_IN_PROGRESS),
    "node-infeasible": claim_status(1, 2, names.NODE_INFEASIBLE),
    "unknown-step": claim_status(1, 2, "SomethingNew"),
    "allocated-alone": claim_status(1, 2),
    "pending": {"phase": "Pending"},
    "lost": {"phase": "Lost"},
    "unknown-phase": {"phase": "Moving", "capacity": {"storage": "1Gi"}},
}  # fmt: skip
_PV: Final[dict[str, Json | None]] = {
    "small": {},
    "grown": {"size": "2Gi"},
    "larger": {"size": "3Gi"},
    "absent": None,
    "deleting": {"deleting": True, "finalizers": ["kubernetes.io/pv-protection"]},
    "marked": {"size": "2Gi", "annotations": {names.PRE_RESIZE: "1Gi"}},
    "foreign": {"source": {"csi": {"driver": OTHER, "volumeHandle": "h"}}},
    "unclaimed": {"claimRef": None},
    "former": {"uid_of_claim": "uid-former"},
    "secret-lost": {"source": {"csi": {"driver": DRIVER, "volumeHandle": "h",
                                       "controllerExpandSecretRef": {"name": "lost", "namespace": "default"}}}},
}  # fmt: skip
_MODIFY: Final[dict[str, tuple[str | None, Json]]] = {
    "none": (None, {}),
    "wanted": ("gold", {}),
    "has": ("gold", {"currentVolumeAttributesClassName": "gold"}),
    "pending": ("gold", {"modifyVolumeStatus": {"status": "Pending", "targetVolumeAttributesClassName": "gold"}}),
    "begun": ("gold", {"modifyVolumeStatus": {"status": "InProgress", "targetVolumeAttributesClassName": "gold"}}),
    "begun-other": (
        "gold",
        {"modifyVolumeStatus": {"status": "InProgress", "targetVolumeAttributesClassName": "silver"}},
    ),
    "begun-blank": ("gold", {"modifyVolumeStatus": {"status": "InProgress", "targetVolumeAttributesClassName": ""}}),
    "infeasible": ("gold", {"modifyVolumeStatus": {"status": "Infeasible", "targetVolumeAttributesClassName": "gold"}}),
    "taken-back": (None, {"modifyVolumeStatus": {"status": "InProgress", "targetVolumeAttributesClassName": "gold"}}),
    "unknown": ("gold", {"modifyVolumeStatus": {"status": "Wondering", "targetVolumeAttributesClassName": "gold"}}),
}
_CLASS: Final[dict[str, Json | None]] = {"there": {}, "absent": None, "other-driver": {"driverName": OTHER}}
_BACKEND: Final = ("small", "grown", "larger", "refuses", "in-use")


class ResizerRoom:
    """want: the size that the claim asks for. pod: one that uses the claim."""

    name = "resizer"
    rounds = ()
    space = Space(
        Axis("status", tuple(_STATUS)),
        Axis("pv", tuple(_PV)),
        Axis("modify", tuple(_MODIFY)),
        Axis("want", ("2Gi", "1Gi", "3Gi")),
        Axis("class", tuple(_CLASS)),
        Axis("backend", _BACKEND),
        Axis("pod", ("none", "runs")),
    )

    def bodies(self, state: State) -> list[Json]:
        wanted, modifying = _MODIFY[state["modify"]]
        status = {**_STATUS[state["status"]], **modifying}
        claim = a_claim("claim", size=state["want"], volume="pv", uid="uid-claim", volumeAttributesClassName=wanted)
        claim["status"] = status
        made = [claim]
        if (fields := _PV[state["pv"]]) is not None:
            more = dict(fields)
            reference = a_reference("claim", more.pop("uid_of_claim", "uid-claim"))
            made.append(a_pv("pv", "h", storageClassName="sc", **{"claimRef": reference, **more}))
        if (fields := _CLASS[state["class"]]) is not None:
            made.append(an_attributes_class("gold", **fields))
        if state["pod"] == "runs":
            made.append(a_pod("pod", "claim", node="n1", phase="Running"))
        return made

    def driver(self, state: State) -> ScriptedDriver:
        return _Grower(state["backend"])

    def parts(self, world: StateWorld, state: State) -> list[Coroutine[Any, Any, None]]:
        capabilities = frozenset({RPC.EXPAND_VOLUME, RPC.MODIFY_VOLUME})
        service = frozenset({csi.PluginCapability.Service.CONTROLLER_SERVICE})
        info = DriverInfo(DRIVER, "1", service, frozenset(), capabilities)
        port = InProcessDriver(world.driver, clock=world.clock)
        return [Resizer(world.runtime, port, info, ResizerOptions(workers=1), world.recorder("resizer")).run()]

    def complaints(self, world: StateWorld, state: State) -> Iterator[Complaint]:
        claim, pv, driver = (
            world.find(PERSISTENT_VOLUME_CLAIMS, "claim"),
            world.find(PERSISTENT_VOLUMES, "pv"),
            world.driver,
        )
        assert claim is not None
        assert isinstance(driver, _Grower)
        told = world.told("claim")
        status, spec = claim["status"], claim["spec"]
        ours = pv is not None and pv["spec"].get("csi", {}).get("driver") == DRIVER and status.get("phase") == "Bound"
        ref = (pv or {}).get("spec", {}).get("claimRef") or {}
        if not ours or pv is None or ref.get("uid") != "uid-claim":
            return  # that a claim's volume is another's, or nobody's, is told by the binder
        wanted, has = (
            _bytes(spec["resources"]["requests"]["storage"]),
            _bytes(status.get("capacity", {}).get("storage", "0")),
        )
        of_node = status.get("allocatedResourceStatuses", {}).get("storage", "").startswith("Node")
        if (
            wanted > has > 0
            and not of_node
            and not any("esiz" in text or "expan" in text or "grow" in text for text in told)
        ):
            yield "silence", f"{wanted} bytes are wanted, {has} there: {status}, told {told}"
        if _bytes(pv["spec"]["capacity"]["storage"]) > driver.sizes["h"]:
            before = (_PV[state["pv"]] or {}).get("size", "1Gi")
            if before != pv["spec"]["capacity"]["storage"]:
                yield (
                    "size-lies",
                    f"the volume says {pv['spec']['capacity']['storage']}, the backend {driver.sizes['h']}",
                )
        target = spec.get("volumeAttributesClassName")
        if target != status.get("currentVolumeAttributesClassName") and target and not told:
            yield "silence", f"class {target} is wanted, nobody says what keeps it: {status}"


class _Grower(ResizingDriver):
    """backend: the size that the volume has in it, or how it refuses."""

    def __init__(self, backend: str) -> None:
        super().__init__(node_step=False)
        self.sizes["h"] = {"grown": 2, "larger": 3}.get(backend, 1) * _GIB
        self._refusal = {"refuses": Fail(Code.OUT_OF_RANGE), "in-use": Fail(Code.FAILED_PRECONDITION)}.get(backend)

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        if self._refusal is not None:
            self.script("ControllerExpandVolume", self._refusal)
        return await super().controller_expand_volume(request)


def _bytes(text: str) -> int:
    return int(parse_quantity(text).value)
