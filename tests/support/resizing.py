"""The resizer on in-process ports, in virtual time: claim `default/claim` on volume `pv` of driver `csi.test`, sizes in
GiB.

    world = await ResizerWorld().volume(2, 1)
    async with world.resizing():
        await world.state_is(1, 2, NODE_PENDING, 2)
    assert [MARK, EXPAND, SAVE_PV, MARK] == world.story

The nodes' part is done by hand (`node_done`). Sizes are written as in docs/behaviours/resizer.md: the one that the
claim asks for, has, was allocated, with its state; then the volume's.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import STORAGE_CLASSES, VOLUME_ATTRIBUTES_CLASSES
from mooring.apiserver.local import ServerFaults
from mooring.control.events import EventRecorder
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.session import probe_and_identify
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.controller import Resizer
from mooring.sidecars.resizer.options import ResizerOptions
from tests.support.builders import DRIVER, Json, a_claim, a_class, a_pv, a_reference, an_attributes_class
from tests.support.cluster_world import WAIT_S, ClusterWorld
from tests.support.scripted_driver import RPC, ScriptedDriver
from tests.support.volume_driver import GiB

EXPAND, MODIFY = "ControllerExpandVolume", "ControllerModifyVolume"
MARK, SAVE_PV, GET_SECRET = "patch persistentvolumeclaims/status", "patch persistentvolumes", "get secrets"
STD_EXPAND = [MARK, EXPAND, SAVE_PV, MARK]
STD_MODIFY = [MARK, MODIFY, SAVE_PV, MARK]
CLAIMS: Kind[Any] = PERSISTENT_VOLUME_CLAIMS
PVS: Kind[Any] = PERSISTENT_VOLUMES
VACS: Kind[Any] = VOLUME_ATTRIBUTES_CLASSES
OLD = "2020-01-01T00:00:00Z"
SECRET = {"controllerExpandSecretRef": {"name": "secret", "namespace": "default"}}

NODE_PENDING, NODE_PROGRESS, NODE_INFEASIBLE = names.NODE_PENDING, names.NODE_IN_PROGRESS, names.NODE_INFEASIBLE
PROGRESS, INFEASIBLE = names.CONTROLLER_IN_PROGRESS, names.CONTROLLER_INFEASIBLE


def size_of(amount: int | str | None) -> str | None:
    """2 is `2Gi`, a text itself."""
    return f"{amount}Gi" if isinstance(amount, int) else amount


def condition(kind: str, **more: Any) -> Json:
    return {"type": kind, "status": "True", "lastTransitionTime": OLD, **more}


def claim_status(
    cap: int | str | None = 1,
    alloc: int | str | None = None,
    step: str | None = None,
    *,
    phase: str = "Bound",
    conditions: Iterable[Json] = (),
    current: str | None = None,
    ms: str | None = None,
    target: str | None = None,
) -> Json:
    """ms: status of a modification, towards the class `target`."""
    modification = {"status": ms, "targetVolumeAttributesClassName": target} if ms else None
    status = {
        "phase": phase,
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size_of(cap)} if cap is not None else None,
        "allocatedResources": {"storage": size_of(alloc)} if alloc is not None else None,
        "allocatedResourceStatuses": {"storage": step} if step else None,
        "conditions": list(conditions) or None,
        "currentVolumeAttributesClassName": current,
        "modifyVolumeStatus": {k: v for k, v in modification.items() if v is not None} if modification else None,
    }
    return {name: value for name, value in status.items() if value is not None}


class ResizingDriver(ScriptedDriver):
    """node_step: growing needs the node as well. sizes, parameters: the truth of the backend, by handle. answers: the
    next, in bytes.
    """

    def __init__(
        self,
        controller: Iterable[int] = (RPC.EXPAND_VOLUME, RPC.MODIFY_VOLUME),
        *,
        node_step: bool = True,
        on_node: bool = False,
        expansion: Iterable[int] = (),
        name: str = DRIVER,
    ) -> None:
        super().__init__(name, controller)
        self.node_step, self.on_node, self.expansion = node_step, on_node, tuple(expansion)
        self.sizes: dict[str, int] = {}
        self.parameters: dict[str, dict[str, str]] = {}
        self.answers: list[int] = []

    async def get_plugin_capabilities(
        self, request: csi.GetPluginCapabilitiesRequest
    ) -> csi.GetPluginCapabilitiesResponse:
        answer = await super().get_plugin_capabilities(request)
        answer.capabilities.extend(csi.PluginCapability(volume_expansion={"type": kind}) for kind in self.expansion)  # type: ignore[dict-item]
        return answer

    async def node_get_capabilities(self, request: csi.NodeGetCapabilitiesRequest) -> csi.NodeGetCapabilitiesResponse:
        expands = [{"rpc": {"type": csi.NodeServiceCapability.RPC.EXPAND_VOLUME}}] if self.on_node else []
        return csi.NodeGetCapabilitiesResponse(capabilities=expands)

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        def expand() -> csi.ControllerExpandVolumeResponse:
            asked = request.capacity_range.required_bytes
            size = self.sizes[request.volume_id] = max(asked, self.sizes.get(request.volume_id, 0))
            answer = self.answers.pop(0) if self.answers else size
            return csi.ControllerExpandVolumeResponse(capacity_bytes=answer, node_expansion_required=self.node_step)

        return await self._call(EXPAND, request, request.volume_id, expand)

    async def controller_modify_volume(
        self, request: csi.ControllerModifyVolumeRequest
    ) -> csi.ControllerModifyVolumeResponse:
        def modify() -> csi.ControllerModifyVolumeResponse:
            self.parameters[request.volume_id] = dict(request.mutable_parameters)
            return csi.ControllerModifyVolumeResponse()

        return await self._call(MODIFY, request, request.volume_id, modify)


class ResizerWorld(ClusterWorld):
    """options: of the resizer."""

    def __init__(
        self, driver: ResizingDriver | None = None, faults: ServerFaults | None = None, **options: Any
    ) -> None:
        super().__init__(faults)
        self.look_s = 0.05
        self.driver = driver or ResizingDriver()
        self.driver.story = self.story
        self.options = ResizerOptions(**options)
        self.resizer: Resizer | None = None

    @contextlib.asynccontextmanager
    async def resizing(self) -> AsyncIterator[Resizer]:
        """A running resizer; cancelled at the end, as by kill -9."""
        port = InProcessDriver(self.driver, clock=self.clock)
        info = await probe_and_identify(port, clock=self.clock)
        events = EventRecorder(
            self.users, f"external-resizer {self.driver.name}", clock=self.clock, randomness=self.randomness
        )
        self.resizer = Resizer(self.runtime, port, info, self.options, events, on_node=self.driver.on_node)
        async with self.running(self.resizer.run()):
            await self.until(self._synced)
            yield self.resizer

    async def _synced(self) -> bool:
        return self.resizer is not None and self.resizer.has_synced

    # -- objects

    async def volume(
        self,
        spec: int | str = 1,
        cap: int | str | None = 1,
        alloc: int | str | None = None,
        step: str | None = None,
        pv: int | str = 1,
        *,
        name: str = "claim",
        vac: str | None = None,
        annotations: Mapping[str, str] | None = None,
        claim_ref: Mapping[str, str] | None = None,
        csi_fields: Mapping[str, Any] | None = None,
        of_pv: Mapping[str, Any] | None = None,
        **status: Any,
    ) -> ResizerWorld:
        """A claim and its volume, `pv` for the claim `claim`. claim_ref: fields unlike the true reference. status: the
        claim's.
        """
        pv_name = "pv" if name == "claim" else f"pv-{name}"
        if await self.find(STORAGE_CLASSES, "sc") is None:
            await self.create(a_class("sc", provisioner=self.driver.name, allowVolumeExpansion=True))
        body = a_claim(
            name, size=size_of(spec) or "", volume=pv_name, annotations=annotations, volumeAttributesClassName=vac
        )
        made = await self.create({**body, "status": claim_status(cap, alloc, step, **status)})
        source = {"csi": {"driver": self.driver.name, "volumeHandle": f"handle-{pv_name}", **(csi_fields or {})}}
        reference = {**a_reference(made), **(claim_ref or {})}
        wanted = {
            "size": size_of(pv),
            "source": source,
            "storageClassName": "sc",
            "claimRef": reference,
            **(of_pv or {}),
        }
        await self.create(a_pv(pv_name, **wanted))
        return self

    async def tear_away(self, kind: Kind[Any], name: str) -> None:
        """The object, finalizers and all."""
        await self.patch(kind, name, {"metadata": {"finalizers": None}})
        await self.remove(kind, name)

    async def make_class(self, name: str, **parameters: str) -> None:
        await self.create(
            an_attributes_class(name, parameters=parameters or {"class": name}, driverName=self.driver.name)
        )

    async def ask(self, amount: int | str, name: str = "claim") -> None:
        await self.patch(CLAIMS, name, {"spec": {"resources": {"requests": {"storage": size_of(amount)}}}})

    async def ask_class(self, name: str | None) -> None:
        await self.patch(CLAIMS, "claim", {"spec": {"volumeAttributesClassName": name}})

    async def set_status(self, status: Json, name: str = "claim") -> None:
        await self.patch(CLAIMS, name, {"status": status}, subresource="status")

    async def node_done(self, amount: int) -> None:
        """As a kubelet says it."""
        gone = [
            one
            for one in (await self.claim())["status"].get("conditions", [])
            if one["type"] not in names.RESIZE_CONDITIONS
        ]
        await self.set_status(
            {"capacity": {"storage": size_of(amount)}, "allocatedResourceStatuses": None, "conditions": gone or None}
        )

    # -- waiting, and what happened

    async def claim(self, name: str = "claim") -> Json:
        return await self.get(CLAIMS, name)

    async def pv(self, name: str = "pv") -> Json:
        return await self.get(PVS, name)

    async def state(self, name: str = "claim") -> tuple[str | None, ...]:
        """Has, was allocated, state; and the volume."""
        status = (await self.claim(name))["status"]
        pv = await self.find(PVS, "pv" if name == "claim" else f"pv-{name}")
        allocated = status.get("allocatedResources", {}).get("storage")
        step = status.get("allocatedResourceStatuses", {}).get("storage")
        return status["capacity"]["storage"], allocated, step, pv["spec"]["capacity"]["storage"] if pv else None

    async def state_is(
        self,
        cap: int | str,
        alloc: int | str | None,
        step: str | None,
        pv: int | str,
        name: str = "claim",
        wait_s: float = WAIT_S,
    ) -> None:
        wanted = (size_of(cap), size_of(alloc), step, size_of(pv))

        async def is_so() -> bool:
            return await self.state(name) == wanted

        await self.until(is_so, wait_s, f"the state {wanted}, which is {await self.state(name)}")

    async def conditions(self, name: str = "claim") -> dict[str, Json]:
        return {one["type"]: one for one in (await self.claim(name))["status"].get("conditions", [])}

    async def has_condition(self, kind: str) -> Json:
        async def is_there() -> Json | None:
            return (await self.conditions()).get(kind)

        found: Json = await self.until(is_there, what=kind)
        return found

    async def modification(self) -> tuple[str | None, ...]:
        """The claim's class, target, state; and the volume's class."""
        status = (await self.claim())["status"]
        under_way = status.get("modifyVolumeStatus", {})
        pv_class = (await self.pv())["spec"].get("volumeAttributesClassName")
        target, state = under_way.get("targetVolumeAttributesClassName"), under_way.get("status")
        return status.get("currentVolumeAttributesClassName"), target, state, pv_class

    async def modification_is(self, *wanted: str | None, wait_s: float = WAIT_S) -> None:
        async def is_so() -> bool:
            return await self.modification() == wanted

        await self.until(is_so, wait_s, f"the modification {wanted}, which is {await self.modification()}")

    async def told(self, name: str = "claim") -> list[tuple[str, str, str]]:
        """Type, reason and message of the claim's events, each as often as it happened."""
        found = await self.events_about(name)
        return [
            (event["type"], event["reason"], event["message"]) for event in found for _ in range(event.get("count", 1))
        ]

    async def event(self, reason: str, text: str = "") -> tuple[str, str]:
        """Type and message of the first such event, once there is one."""

        async def is_told() -> tuple[str, str] | None:
            return next(
                ((kind, message) for kind, why, message in await self.told() if why == reason and text in message), None
            )

        found: tuple[str, str] = await self.until(is_told, what=f"an event {reason}")
        return found

    async def called(self, method: str = EXPAND) -> None:
        """The driver is being called, or was."""

        async def is_called() -> bool:
            return bool(self.driver.made(method))

        await self.until(is_called, what=method)

    async def calls_made(self, method: str, count: int) -> None:
        async def are_made() -> bool:
            return len([call for call in self.driver.made(method) if call.code is not None]) >= count

        await self.until(are_made, what=f"{count} calls of {method}")

    @property
    def asked(self) -> list[int]:
        """GiB of each ControllerExpandVolume."""
        return [call.request.capacity_range.required_bytes // GiB for call in self.driver.made(EXPAND)]

    @property
    def classes(self) -> list[str]:
        """The classes whose parameters were sent."""
        return [call.request.mutable_parameters["class"] for call in self.driver.made(MODIFY)]

    def bodies(self, short: str) -> list[Any]:
        return [request.body for request in self.cluster.writes(short)]
