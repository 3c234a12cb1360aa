"""The driver's end of the line: what one incarnation of the attacher calls, in front of the one backend."""

from __future__ import annotations

from typing import Final

from mooring.csi.capabilities import DriverInfo
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from tests.sim.backend import PUBLISH, UNPUBLISH
from tests.sim.habits import NO_ARRAY, ArrayHabits
from tests.sim.mortal import Mortal
from tests.sim.plan import DRIVER, Plan
from tests.sim.world import SimWorld

BARE: Final = frozenset("13579")
"""How the ids of machines end whose driver gives no publish context, where it does that."""
STRANGER: Final = "nobodys"
_RPC = csi.ControllerServiceCapability.RPC


def info_of(plan: Plan) -> DriverInfo:
    """What the driver says of itself."""
    controller: set[int] = {_RPC.PUBLISH_UNPUBLISH_VOLUME, _RPC.LIST_VOLUMES}
    if plan.lists_published:
        controller.add(_RPC.LIST_VOLUMES_PUBLISHED_NODES)
    if plan.single_node_multi_writer:
        controller.add(_RPC.SINGLE_NODE_MULTI_WRITER)
    plugin: set[int] = {csi.PluginCapability.Service.CONTROLLER_SERVICE}
    return DriverInfo(DRIVER, "1", frozenset(plugin), frozenset(), frozenset(controller))


def device_of(handle: str, node_id: str, array: ArrayHabits = NO_ARRAY) -> dict[str, str]:
    """The publish_context of a publication."""
    return {} if array.bare and node_id[-1:] in BARE else {"device": f"{handle} at {node_id}"}


class Endpoint:
    """A plugin for InProcessDriver."""

    def __init__(self, world: SimWorld, mortal: Mortal) -> None:
        self._world, self._mortal = world, mortal
        self._array: ArrayHabits = getattr(world.plan, "array", NO_ARRAY)

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        await self._call(PUBLISH, request.volume_id, request.node_id, dict(request.secrets))
        return csi.ControllerPublishVolumeResponse(
            publish_context=device_of(request.volume_id, request.node_id, self._array)
        )

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        await self._call(UNPUBLISH, request.volume_id, request.node_id, dict(request.secrets))
        return csi.ControllerUnpublishVolumeResponse()

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        """The state at the beginning of the call, or at its end: a driver does not say."""
        await self._mortal.point("before list volumes")
        self._world.laws.done(self._mortal.number, "list volumes", self._world.clock.now())
        early = self._world.randomness["backend"].happens(0.5)
        page = self._page(request.starting_token)
        await self._world.backend.answer_time()
        page = page if early else self._page(request.starting_token)
        shown = {entry.volume.volume_id: list(entry.status.published_node_ids) for entry in page.entries}
        self._tell(f"list volumes, as of the {'beginning' if early else 'end'}: {shown}")
        return page

    async def _call(self, verb: str, handle: str, node_id: str, secrets: dict[str, str]) -> None:
        what = f"{verb} {handle} {node_id}"
        laws = self._world.laws
        await self._mortal.point(f"before {what}")
        self._mortal.sends(what)
        self._tell(what)
        laws.done(self._mortal.number, what, self._world.clock.now())
        laws.call_begins(self._mortal.number, verb, handle, node_id)
        ok, outcome = False, "gave up waiting"
        try:
            await self._mortal.outside(lambda: self._arrives(verb, handle, node_id, secrets), what)
            await self._mortal.point(f"after {what}")
            ok, outcome = True, "ok"
        except DriverError as error:
            outcome = str(error)
            raise
        finally:
            if self._mortal.alive:
                self._tell(f"{what}: {outcome}")
                laws.call_ends(self._mortal.number, verb, handle, node_id, ok)

    async def _arrives(self, verb: str, handle: str, node_id: str, secrets: dict[str, str]) -> None:
        await self._world.clock.sleep(0)  # no call ends without the others having had their turn
        await self._world.backend.call(verb, handle, node_id, secrets)

    def _page(self, token: str) -> csi.ListVolumesResponse:
        published, size = self._published(), self._world.plan.page_size
        if self._array.strangers:
            published = {STRANGER: {STRANGER}, **{handle: {*nodes, STRANGER} for handle, nodes in published.items()}}
        handles = sorted(published)
        start = int(token or 0)
        end = start + size if size else len(handles)
        entries = [
            {"volume": {"volume_id": handle}, "status": {"published_node_ids": sorted(published[handle])}}
            for handle in handles[start:end]
        ]
        return csi.ListVolumesResponse(entries=entries, next_token=str(end) if end < len(handles) else "")

    def _published(self) -> dict[str, set[str]]:
        """What the driver lists."""
        return self._world.backend.published

    def _tell(self, what: str) -> None:
        self._world.story.tell(f"attacher#{self._mortal.number}", what)
