"""The driver's end of the line: what one incarnation of the provisioner calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mooring.api.core import SECRETS
from mooring.csi.capabilities import DriverInfo
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from tests.sim.mortal import Mortal
from tests.sim.provisioning.backend import Found, Wish
from tests.sim.provisioning.habits import KEY, OTHER_KEY, DriverHabits
from tests.sim.provisioning.laws import InFlight
from tests.sim.provisioning.plan import DRIVER, NAMESPACE, SECRETS_OF, Plan

T = TypeVar("T")
_RPC = csi.ControllerServiceCapability.RPC
_SERVICE = csi.PluginCapability.Service


def info_of(plan: Plan) -> DriverInfo:
    controller: set[int] = {
        _RPC.CREATE_DELETE_VOLUME,
        _RPC.LIST_VOLUMES,
        _RPC.CLONE_VOLUME,
        _RPC.CREATE_DELETE_SNAPSHOT,
    }
    if plan.publishes:
        controller.add(_RPC.PUBLISH_UNPUBLISH_VOLUME)
    plugin: set[int] = {_SERVICE.CONTROLLER_SERVICE}
    habits = getattr(plan, "habits", None)  # a plan of the whole plane has none
    if habits is not None and habits.zoned:
        plugin.add(_SERVICE.VOLUME_ACCESSIBILITY_CONSTRAINTS)
    return DriverInfo(DRIVER, "1", frozenset(plugin), frozenset(), frozenset(controller))


def wish_of(request: csi.CreateVolumeRequest, habits: DriverHabits, token: str) -> Wish:
    """token: of the Secret, "" for none."""
    preferred = request.accessibility_requirements.preferred
    zones = [one.segments.get(KEY, "") for one in preferred]
    zone = zones[0] if zones else ""
    if habits.outgrown:
        zone = next((one for one in zones if one != habits.full), zone)
    owner = token if "secret" in request.parameters else ""
    account = owner if habits.tenants else ""
    scope = f"{account}:{zone if habits.zonal else ''}".strip(":")
    return Wish(request.name, request.parameters.get("flavour", ""), scope, zone, owner)


class Endpoint:
    """A plugin for InProcessDriver."""

    def __init__(self, world: Any, mortal: Mortal) -> None:
        self._world, self._mortal = world, mortal

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        what = f"create {request.name}"
        await self._begin(what)
        call = self._world.laws.create_begins(self._mortal.number, request)
        backend = self._world.backend
        wish, owed = wish_of(request, backend.habits, request.secrets.get("token", "")), backend.owed
        if "secret" in request.parameters and not request.secrets and not self._has_secrets():
            owed.unreachable.add(request.name)
        error: BaseException | None = None
        answer: csi.CreateVolumeResponse | None = None
        try:
            wants_secret, secrets = "secret" in request.parameters, dict(request.secrets)
            found = await self._arrives(what, lambda: backend.create(wish, wants_secret, secrets))
            await self._mortal.point(f"after {what}")
            answer = self._answer(request, found)
        except DriverError as failed:
            error = failed if self._mortal.alive else None
            self._tell(f"{what}: {failed}")
            raise
        finally:
            if answer is None:
                owed.ended(wish.name, wish.scope, error)
            else:
                owed.answered(wish.name, wish.scope, answer.volume.volume_id)
            self._end(call)
        self._tell(f"{what}: {answer.volume.volume_id}{', too small' if found.is_small else ''}")
        return answer

    def _has_secrets(self) -> bool:
        return all(self._world.truth.get(SECRETS, name, NAMESPACE) is not None for name in SECRETS_OF)

    def _answer(self, request: csi.CreateVolumeRequest, found: Found) -> csi.CreateVolumeResponse:
        required = request.capacity_range.required_bytes
        volume = csi.Volume(
            volume_id=found.handle or f"{request.name}/gone",
            capacity_bytes=required // 2 if found.is_small else required or 1 << 30,
        )
        if request.HasField("volume_content_source"):
            volume.content_source.CopyFrom(request.volume_content_source)
        habits, zone = self._world.backend.habits, self._world.backend.zones.get(found.handle, "")
        if habits.zoned and zone:
            volume.accessible_topology.add(segments={OTHER_KEY if habits.other_key else KEY: zone})
        return csi.CreateVolumeResponse(volume=volume)

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        what, name = f"delete {request.volume_id}", request.volume_id.partition("/")[0]
        await self._begin(what)
        call = self._world.laws.delete_begins(self._mortal.number, name, request.volume_id)
        try:
            handle, secrets = request.volume_id, dict(request.secrets)
            await self._arrives(what, lambda: self._world.backend.delete(handle, secrets))
            await self._mortal.point(f"after {what}")
        except DriverError as error:
            self._tell(f"{what}: {error}")
            raise
        finally:
            self._end(call)
        self._tell(f"{what}: ok")
        return csi.DeleteVolumeResponse()

    async def _begin(self, what: str) -> None:
        await self._mortal.point(f"before {what}")
        self._mortal.sends(what)
        self._tell(what)
        self._world.laws.done(self._mortal.number, what, self._world.clock.now())

    async def _arrives(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        """No call ends without the others having had their turn."""

        async def done() -> T:
            await self._world.clock.sleep(0)
            return await work()

        return await self._mortal.outside(done, what)

    def _end(self, call: InFlight) -> None:
        if self._mortal.alive:
            self._world.laws.call_ends(call)

    def _tell(self, what: str) -> None:
        self._world.story.tell(self._mortal.who, what)
