"""The storage behind the driver: which volumes there are. Calls, locks and most fates are those of the attacher's backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.csi.capabilities import DriverInfo
from mooring.csi.codes import Code, DriverError
from mooring.csi.proto import csi_pb2 as csi
from tests.sim.backend import Backend, Fate, Operation, _one_of
from tests.sim.mortal import Mortal
from tests.sim.provisioning.plan import DRIVER, Plan

CREATE, DELETE = "create", "delete"
UNSURE: Final = (Code.UNAVAILABLE, Code.ABORTED, Code.CANCELED, Code.DEADLINE_EXCEEDED)
"""What a driver may answer while its volume is there, or is about to be."""

LINGERS_S_MAX: Final = 5.0

_RPC = csi.ControllerServiceCapability.RPC


def info_of(plan: Plan) -> DriverInfo:
    controller: set[int] = {_RPC.CREATE_DELETE_VOLUME}
    if plan.publishes:
        controller.add(_RPC.PUBLISH_UNPUBLISH_VOLUME)
    return DriverInfo(DRIVER, "1", frozenset({csi.PluginCapability.Service.CONTROLLER_SERVICE}), frozenset(), frozenset(controller))


class VolumeBackend(Backend):
    """volumes: handle -> name, the truth. Handles begin with the name; a volume made again has another one. flavours: handle -> its own.

    owned: handles that were made with a Secret. lingers, tenants: as of a plan.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.volumes: dict[str, str] = {}
        self.flavours: dict[str, str] = {}
        self.owned: set[str] = set()
        self.lingers, self.tenants = 0.0, False
        self._lingering: set[str] = set()
        self.token = "token0"
        self._made_count = 0

    def handle_of(self, name: str) -> str:
        return next((handle for handle, other in self.volumes.items() if other == name), "")

    async def create(self, name: str, flavour: str, wants_secret: bool, secrets: Mapping[str, str]) -> str:
        """The handle. Raises DriverError."""
        self._check(wants_secret, secrets)
        await self.call(CREATE, name, flavour, {})
        handle = self.handle_of(name)
        if wants_secret:
            self.owned.add(handle)
        return handle

    async def delete(self, handle: str, secrets: Mapping[str, str]) -> None:
        """Raises DriverError."""
        if self.tenants and handle in self.owned and dict(secrets) != {"token": self.token}:
            raise DriverError(Code.NOT_FOUND, "no such volume in this account")
        if handle in self._lingering:
            raise DriverError(Code.ABORTED, "a deletion is at work")
        if self.faulty and self._randomness.happens(self.lingers):
            self._lingering.add(handle)
            self._group.create_task(self._linger(handle), name=f"backend/linger/{handle}/{self._clock.now()}")
            raise DriverError(Code.DEADLINE_EXCEEDED, "still at it")
        await self.call(DELETE, handle.partition("/")[0], handle, {})

    async def _linger(self, handle: str) -> None:
        """Until then the volume is there for everybody who asks for it."""
        await self._clock.sleep(self._randomness.uniform(0.0, LINGERS_S_MAX))
        self._lingering.discard(handle)
        if self.volumes.pop(handle, None) is not None:
            self._story.tell("backend", f"late effect of delete {handle}: {sorted(self.volumes)}")

    def _check(self, wants_secret: bool, secrets: Mapping[str, str]) -> None:
        if wants_secret and dict(secrets) != {"token": self.token}:
            raise DriverError(Code.UNAUTHENTICATED, "wrong token")

    def _take_effect(self, operation: Operation) -> DriverError | None:
        """What is to be deleted stands in the operation as node_id, and so does the flavour of what is to be made."""
        operation.done = True
        handle = self.handle_of(operation.handle)
        if operation.verb == DELETE:
            self.volumes.pop(operation.node_id, None)
        elif not handle:
            self._made_count += 1
            handle = f"{operation.handle}/{self._made_count}"
            self.volumes[handle], self.flavours[handle] = operation.handle, operation.node_id
        elif self.flavours[handle] != operation.node_id:
            return DriverError(Code.ALREADY_EXISTS, f"{handle} has flavour {self.flavours[handle]}")
        self._story.tell("backend", f"effect of {operation}: {sorted(self.volumes)}")
        return None

    def _fate(self) -> Fate:
        """A call that took effect is never answered with an error that says it did not.

        One whose volume is there already may fail of anything: requests are judged before anybody looks for the name.
        """
        fate = super()._fate()
        if fate.error is None or fate.error in UNSURE:
            return fate
        if not fate.takes_effect and fate.error is not Code.NOT_FOUND:  # a deletion that finds nothing is over
            return fate
        return Fate(fate.before_s, fate.after_s, fate.takes_effect, _one_of(UNSURE, self._randomness))


class Endpoint:
    """A plugin for InProcessDriver: what one incarnation of the provisioner calls."""

    def __init__(self, world: Any, mortal: Mortal) -> None:
        self._world, self._mortal = world, mortal

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        what = f"create {request.name}"
        await self._begin(what)
        self._world.laws.create_begins(self._mortal.number, request)
        flavour, wants_secret = request.parameters.get("flavour", ""), "secret" in request.parameters
        try:
            handle = await self._world.backend.create(request.name, flavour, wants_secret, request.secrets)
            await self._mortal.point(f"after {what}")
        except DriverError as error:
            self._tell(f"{what}: {error}")
            raise
        finally:
            self._end(request.name)
        self._tell(f"{what}: {handle}")
        return csi.CreateVolumeResponse(volume={"volume_id": handle or f"{request.name}/gone", "capacity_bytes": 1 << 30})

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        what, name = f"delete {request.volume_id}", request.volume_id.partition("/")[0]
        await self._begin(what)
        self._world.laws.delete_begins(self._mortal.number, name, request.volume_id)
        try:
            await self._world.backend.delete(request.volume_id, request.secrets)
            await self._mortal.point(f"after {what}")
        except DriverError as error:
            self._tell(f"{what}: {error}")
            raise
        finally:
            self._end(name)
        self._tell(f"{what}: ok")
        return csi.DeleteVolumeResponse()

    async def _begin(self, what: str) -> None:
        await self._mortal.point(f"before {what}")
        self._tell(what)
        self._world.laws.done(self._mortal.number, what, self._world.clock.now())
        await self._world.clock.sleep(0)

    def _end(self, name: str) -> None:
        if self._mortal.alive:
            self._world.laws.call_ends(self._mortal.number, name)

    def _tell(self, what: str) -> None:
        self._world.story.tell(self._mortal.who, what)
