"""A driver with volumes, zones and a backend that cannot be trusted to answer; what it has is known all the same.

Calls are slow, fail with every code, take effect though they fail, outlast their caller's deadline, or go on after the
caller is gone. A final code says that this call did nothing, and no word about one before it: requests are judged
before anybody looks their name up. A second operation on a volume at work is Aborted. Each volume sees trouble a few
times at the most, so that every wish comes true at last.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, TypeVar

from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support import unreliable_driver
from tests.support.unreliable_driver import Fates

ZONE: Final = "topology.test/zone"
RPC = csi.ControllerServiceCapability.RPC
SERVICE = csi.PluginCapability.Service
T = TypeVar("T")
CREATE, DELETE = "create", "delete"

FINAL: Final = sorted({*unreliable_driver.FINAL, Code.RESOURCE_EXHAUSTED} - {Code.INVALID_ARGUMENT, Code.NOT_FOUND})
"""Of provisioning. After InvalidArgument a claim rests for five minutes; a volume that is not found counts as
deleted.
"""


@dataclasses.dataclass(frozen=True)
class Volume:
    """In the backend. name: what it was asked for by. zone: "" for everywhere."""

    name: str
    size: int
    zone: str


class UnreliableVolumes:
    """volumes: by handle, the truth. made: how often each name was made. codes: what callers saw.

    trouble: how often a call goes wrong, 0 to 1. slow_s: how long one takes at the most. hang_s: how long, when it
    hangs.
    """

    def __init__(
        self, name: str, randomness: Random, *, trouble: float, slow_s: float = 0.3, hang_s: float = 3.0
    ) -> None:
        self.name = name
        self.volumes: dict[str, Volume] = {}
        self.made: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self._fates = Fates(randomness, FINAL, trouble=trouble, slow_s=slow_s, hang_s=hang_s)
        self._at_work: set[str] = set()
        self._operations: set[asyncio.Task[Any]] = set()

    @property
    def is_idle(self) -> bool:
        return not self._operations

    async def get_plugin_info(self, request: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self.name, vendor_version="1")

    async def get_plugin_capabilities(
        self, request: csi.GetPluginCapabilitiesRequest
    ) -> csi.GetPluginCapabilitiesResponse:
        services = (SERVICE.CONTROLLER_SERVICE, SERVICE.VOLUME_ACCESSIBILITY_CONSTRAINTS)
        return csi.GetPluginCapabilitiesResponse(capabilities=[{"service": {"type": service}} for service in services])

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        return csi.ProbeResponse()

    async def controller_get_capabilities(
        self, request: csi.ControllerGetCapabilitiesRequest
    ) -> csi.ControllerGetCapabilitiesResponse:
        return csi.ControllerGetCapabilitiesResponse(capabilities=[{"rpc": {"type": RPC.CREATE_DELETE_VOLUME}}])

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        def create() -> csi.CreateVolumeResponse:
            handle = next((handle for handle, volume in self.volumes.items() if volume.name == request.name), "")
            if not handle:
                self.made[request.name] += 1
                handle = f"vol-{request.name}-{self.made[request.name]}"
                preferred = request.accessibility_requirements.preferred
                zone = preferred[0].segments[ZONE] if preferred else ""
                self.volumes[handle] = Volume(request.name, request.capacity_range.required_bytes, zone)
            volume = self.volumes[handle]
            topology = [csi.Topology(segments={ZONE: volume.zone})] if volume.zone else []
            made = csi.Volume(volume_id=handle, capacity_bytes=volume.size, accessible_topology=topology)
            return csi.CreateVolumeResponse(volume=made)

        return await self._call(CREATE, request.name, create)

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        def delete() -> csi.DeleteVolumeResponse:
            self.volumes.pop(request.volume_id, None)
            return csi.DeleteVolumeResponse()

        volume = self.volumes.get(request.volume_id)
        return await self._call(DELETE, request.volume_id if volume is None else volume.name, delete)

    async def _call(self, method: str, name: str, effect: Callable[[], T]) -> T:
        code = Code.CANCELED
        try:
            answer = await self._answer(method, name, effect)
            code = Code.OK
            return answer
        except DriverError as error:
            code = Code(error.code)
            raise
        finally:
            self.codes[code.name] += 1

    async def _answer(self, method: str, name: str, effect: Callable[[], T]) -> T:
        if name in self._at_work:
            raise DriverError(Code.ABORTED, f"an operation on {name} is pending")
        code, takes_effect, seconds = self._draw(method, name)
        self._at_work.add(name)
        operation = asyncio.create_task(
            self._operate(name, seconds, effect if takes_effect else None), name=f"{method}/{name}"
        )
        self._operations.add(operation)
        operation.add_done_callback(self._operations.discard)
        answer = await asyncio.shield(operation)
        if code is not Code.OK:
            raise DriverError(code, f"the array says {code.name.lower()}")
        assert answer is not None, "what succeeds takes effect"
        return answer

    def _draw(self, method: str, name: str) -> tuple[Code, bool, float]:
        return self._fates.draw(method, name)

    async def _operate(self, name: str, seconds: float, effect: Callable[[], T] | None) -> T | None:
        """The backend's part, which nobody can call back."""
        await asyncio.sleep(seconds)
        self._at_work.discard(name)
        return None if effect is None else effect()
