"""The storage behind the driver: the sizes and the classes of its volumes. Calls, locks and fates are those of the
attacher's backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.csi.capabilities import DriverInfo
from mooring.csi.errors import NON_FINAL, DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.sim.backend import Operation
from tests.sim.growth.habits import EXPAND, MODIFY
from tests.sim.growth.plan import DRIVER, INFEASIBLE_CLASS, Plan
from tests.sim.mortal import Mortal
from tests.sim.quirks import QuirkyBackend

STRANGER: Final = "of another tenant"
WHOLE: Final = 1 << 50
"""No storage has more, before somebody adds disks."""
_RPC: Final = csi.ControllerServiceCapability.RPC


def info_of(plan: Plan) -> DriverInfo:
    """What the driver says of itself."""
    controller = {*(() if plan.on_node else (_RPC.EXPAND_VOLUME,)), *((_RPC.MODIFY_VOLUME,) if plan.modifies else ())}
    way = csi.PluginCapability.VolumeExpansion
    plugin = frozenset({csi.PluginCapability.Service.CONTROLLER_SERVICE})
    return DriverInfo(
        DRIVER, "1", plugin, frozenset({way.OFFLINE if plan.offline else way.ONLINE}), frozenset(controller)
    )


class GrowthBackend(QuirkyBackend):
    """By volume handle. sizes: in bytes. systems: of the file systems on them. classes: the parameters that they have.

    limits: the most that the storage gives. in_use: a pod uses it. node_parts: of those that a node has a part of.
    laws: told of the effects and the answers, set by the world.
    """

    laws: Any

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sizes: dict[str, int] = {}
        self.systems: dict[str, int] = {}
        self.classes: dict[str, str] = {}
        self.limits: dict[str, int] = {}
        self.in_use: set[str] = set()
        self.node_parts: set[str] = set()
        self._whole = WHOLE

    def make(self, handle: str, size: int, *, on_node: bool) -> None:
        self.sizes[handle] = self.systems[handle] = size
        self.classes[handle] = ""
        if on_node:
            self.node_parts.add(handle)

    def drop(self, handle: str) -> None:
        """The volume is deleted; what is at work on it ends without effect."""
        for table in (self.sizes, self.systems, self.classes, self.limits, self.secrets):
            table.pop(handle, None)  # type: ignore[attr-defined]
        self.in_use.discard(handle)
        self.node_parts.discard(handle)

    async def expand(self, handle: str, size: int, secrets: Mapping[str, str]) -> int:
        """The new size. Raises DriverError."""
        self._asked = EXPAND, handle
        await self.call(EXPAND, handle, str(size), dict(secrets))
        if handle not in self.sizes:
            raise DriverError(Code.NOT_FOUND, f"no volume {handle}")
        return self.sizes[handle]

    async def modify(self, handle: str, level: str, secrets: Mapping[str, str]) -> None:
        """Raises DriverError."""
        self._asked = MODIFY, handle
        await self.call(MODIFY, handle, level, dict(secrets))

    def _take_effect(self, operation: Operation) -> DriverError | None:
        """The wanted size, or class, stands in the operation as node_id."""
        operation.done = True
        handle, wanted = operation.handle, operation.node_id
        if handle not in self.sizes:
            return DriverError(Code.NOT_FOUND, f"no volume {handle}")
        if operation.verb == MODIFY:
            if wanted == INFEASIBLE_CLASS:
                return DriverError(Code.INVALID_ARGUMENT, f"no volume is {wanted}")
            self.classes[handle] = wanted
        elif int(wanted) > self.sizes[handle]:
            error = self._refusal(handle, int(wanted))
            if error is not None:
                return error
            step = self._plan.granularity  # type: ignore[attr-defined]
            self.sizes[handle] = -(-int(wanted) // step) * step
            self.laws.has_grown(handle, int(wanted))
        self._story.tell("backend", f"effect of {operation}: {self.sizes[handle]} bytes, {self.classes[handle]!r}")
        return None

    def _refusal(self, handle: str, size: int) -> DriverError | None:
        if size > self.limits.get(handle, self._whole):
            return DriverError(
                Code.OUT_OF_RANGE, f"{handle} can't have more than {self.limits.get(handle, self._whole)} bytes"
            )
        if self._plan.offline and handle in self.in_use:  # type: ignore[attr-defined]
            return DriverError(Code.FAILED_PRECONDITION, f"{handle} is in use")
        return None

    # -- fates

    def _refuse_at_once(self, verb: str, handle: str, node_id: str, secrets: dict[str, str]) -> None:
        try:
            super()._refuse_at_once(verb, handle, node_id, secrets)
        except DriverError as error:
            if error.code == Code.UNAUTHENTICATED and self._plan.habits.tenants:  # type: ignore[attr-defined]
                raise DriverError(Code.NOT_FOUND, f"this tenant has no volume {handle}") from None
            raise

    def relent(self) -> None:
        self._whole = 2 * WHOLE
        super().relent()


class Endpoint:
    """A plugin for InProcessDriver: what one incarnation of the resizer calls."""

    def __init__(self, world: Any, mortal: Mortal) -> None:
        self._world, self._mortal, self._backend = world, mortal, world.backend

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        handle, asked = request.volume_id, request.capacity_range.required_bytes
        size = await self._call(EXPAND, handle, str(asked), self._backend.expand(handle, asked, request.secrets))
        if self._world.faulty and self._world.randomness["backend"].happens(self._world.plan.lies):
            size = (asked // 2, asked - 1)[self._world.randomness["backend"].below(2)]
        self._answered(EXPAND, handle, None if size >= asked else Code.INTERNAL)
        return csi.ControllerExpandVolumeResponse(
            capacity_bytes=size, node_expansion_required=handle in self._backend.node_parts
        )

    async def controller_modify_volume(
        self, request: csi.ControllerModifyVolumeRequest
    ) -> csi.ControllerModifyVolumeResponse:
        handle, level = request.volume_id, request.mutable_parameters["level"]
        await self._call(MODIFY, handle, level, self._backend.modify(handle, level, request.secrets))
        self._answered(MODIFY, handle, None)
        return csi.ControllerModifyVolumeResponse()

    async def _call(self, verb: str, handle: str, wanted: str, work: Any) -> Any:
        what = f"{verb} {handle} {wanted}"
        try:
            await self._mortal.point(f"before {what}")
            self._tell(what)
            self._world.laws.done(self._mortal.number, what, self._world.clock.now())
            self._world.laws.call_begins(self._mortal.number, verb, handle, wanted)
            await self._world.clock.sleep(0)
            answer = await work
            await self._mortal.point(f"after {what}")
        except DriverError as error:
            self._tell(f"{what}: {error}")
            self._answered(verb, handle, error.code)
            raise
        finally:
            work.close()
            if self._mortal.alive:
                self._world.laws.call_ends(self._mortal.number, handle)
        self._tell(f"{what}: {'ok' if answer is None else answer}")
        return answer

    def _answered(self, verb: str, handle: str, error: Code | None) -> None:
        """error: None for OK."""
        if error not in NON_FINAL:
            self._world.laws.answered(verb, handle, refused=error is not None, in_use=error == Code.FAILED_PRECONDITION)

    def _tell(self, what: str) -> None:
        self._world.story.tell(self._mortal.who, what)
