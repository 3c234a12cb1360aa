"""A CSI driver that does what a test says. Runs in process behind `InProcessDriver`, or on a socket through the SDK's
server.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

RPC = csi.ControllerServiceCapability.RPC
PUBLISH, UNPUBLISH = "ControllerPublishVolume", "ControllerUnpublishVolume"


@dataclasses.dataclass(frozen=True)
class Fail:
    """The call fails and changes nothing. unsent: it does not even reach the driver."""

    #: Any number that a driver may send, also one outside of the list.
    code: int
    message: str = "no"
    unsent: bool = False


@dataclasses.dataclass(frozen=True)
class Lose:
    """The call takes effect, its answer is lost."""

    code: int = Code.UNAVAILABLE
    message: str = "connection lost"


@dataclasses.dataclass(frozen=True)
class Wait:
    """The call takes its time, then does `then` (None: succeeds)."""

    seconds: float
    then: Fail | Lose | None = None


Step = Fail | Lose | Wait | None


@dataclasses.dataclass
class CallRecord:
    """One call. code: None while it runs."""

    method: str
    request: Any
    started_s: float
    ended_s: float = 0.0
    code: int | None = None


class ScriptedDriver:
    """published: volume handle -> node ids, the truth of the backend. story: short texts of the calls, shared with the
    API requests.
    """

    def __init__(
        self,
        name: str = "csi.test",
        controller: Iterable[int] = (RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.PUBLISH_READONLY),
        plugin: Iterable[int] = (csi.PluginCapability.Service.CONTROLLER_SERVICE,),
        story: list[str] | None = None,
    ) -> None:
        self.name = name
        self.controller, self.plugin = tuple(controller), tuple(plugin)
        self.story = story if story is not None else []
        self.published: dict[str, set[str]] = defaultdict(set)
        self.publish_context: dict[str, str] = {}
        self.calls: list[CallRecord] = []
        self.overlaps: list[str] = []
        self._running: dict[str, int] = defaultdict(int)
        self._scripts: dict[str, list[Step]] = defaultdict(list)
        self._always: dict[str, Callable[[Any], Step]] = {}
        self._gates: dict[str, asyncio.Event] = {}

    # -- what tests say

    def script(self, method: str, *steps: Step) -> None:
        self._scripts[method].extend(steps)

    def always(self, method: str, step: Step | Callable[[Any], Step]) -> None:
        self._always[method] = step if callable(step) else lambda request: step

    def forget_scripts(self) -> None:
        self._scripts.clear()
        self._always.clear()

    def gate(self, method: str) -> asyncio.Event:
        """Holds the calls until the event is set."""
        return self._gates.setdefault(method, asyncio.Event())

    def made(self, *methods: str) -> list[CallRecord]:
        return [call for call in self.calls if call.method in methods]

    # -- the services

    async def get_plugin_info(self, request: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self.name, vendor_version="1")

    async def get_plugin_capabilities(
        self, request: csi.GetPluginCapabilitiesRequest
    ) -> csi.GetPluginCapabilitiesResponse:
        return csi.GetPluginCapabilitiesResponse(capabilities=[{"service": {"type": value}} for value in self.plugin])

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        return csi.ProbeResponse()

    async def controller_get_capabilities(
        self, request: csi.ControllerGetCapabilitiesRequest
    ) -> csi.ControllerGetCapabilitiesResponse:
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[{"rpc": {"type": value}} for value in self.controller]
        )

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        def publish() -> csi.ControllerPublishVolumeResponse:
            self.published[request.volume_id].add(request.node_id)
            return csi.ControllerPublishVolumeResponse(publish_context=self.publish_context)

        return await self._call(PUBLISH, request, request.volume_id, publish)

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        def unpublish() -> csi.ControllerUnpublishVolumeResponse:
            if request.node_id:
                self.published[request.volume_id].discard(request.node_id)
            else:
                self.published[request.volume_id].clear()
            return csi.ControllerUnpublishVolumeResponse()

        return await self._call(UNPUBLISH, request, request.volume_id, unpublish)

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        def listed() -> csi.ListVolumesResponse:
            start = int(request.starting_token or 0)
            handles = sorted(self.published)
            end = start + request.max_entries if request.max_entries else len(handles)
            entries = [
                {"volume": {"volume_id": handle}, "status": {"published_node_ids": sorted(self.published[handle])}}
                for handle in handles[start:end]
            ]
            return csi.ListVolumesResponse(entries=entries, next_token=str(end) if end < len(handles) else "")

        return await self._call("ListVolumes", request, "", listed)

    # -- how a call goes

    async def _call(self, method: str, request: Any, volume: str, effect: Callable[[], Any]) -> Any:
        loop = asyncio.get_running_loop()
        record = CallRecord(method, request, loop.time())
        self.calls.append(record)
        self.story.append(method)
        if volume:
            self._running[volume] += 1
            if self._running[volume] > 1:
                self.overlaps.append(volume)
        try:
            answer = await self._step(method, request, effect)
            record.code = Code.OK
            return answer
        except DriverError as error:
            record.code = error.code
            raise
        except asyncio.CancelledError:
            record.code = Code.CANCELED
            raise
        finally:
            record.ended_s = loop.time()
            if volume:
                self._running[volume] -= 1

    async def _step(self, method: str, request: Any, effect: Callable[[], Any]) -> Any:
        if method in self._gates:
            await self._gates[method].wait()
        scripted = self._scripts[method]
        always = self._always.get(method)
        step = scripted.pop(0) if scripted else always(request) if always else None
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            step = step.then
        if isinstance(step, Fail):
            raise DriverError(step.code, step.message, unsent=step.unsent)
        answer = effect()
        if isinstance(step, Lose):
            raise DriverError(step.code, step.message)
        return answer
