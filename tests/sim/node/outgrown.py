"""More bugs to plant in the node agent: in what it knows of drivers that come back changed, and in what it tells users
of steps.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final
from unittest import mock

from mooring.kube.cluster import Patch
from mooring.kube.patch import strategic_patch
from mooring.node.drivers import RegisteredDriver
from mooring.node.volumes.decide import Do
from mooring.node.volumes.pods import controller as pods
from mooring.node.volumes.state.actual import Device, VolumeState
from mooring.node.volumes.state.desired import PodUse, Volume
from mooring.node.volumes.steps.announcements import Announcements, StepWatch
from mooring.node.volumes.steps.block import BlockSteps
from mooring.node.volumes.steps.file_system import FileSystemSteps
from tests.sim.planting import Bug, both

Planted = contextlib.AbstractContextManager[Any]


def _capabilities_are_kept() -> Planted:
    """A driver that comes back is treated as if it had the capabilities that it had before."""

    async def mind(self: RegisteredDriver, returned: Callable[[], None]) -> None:
        while True:
            await self.client.lost()
            await self.client.reconnected()
            returned()

    return mock.patch.object(RegisteredDriver, "mind", mind)


def _ready_devices_stay_unstaged() -> Planted:
    """A volume that was ready without staging counts as staged once its driver has come to stage."""

    def trusting(steps: Any) -> Planted:
        publish = steps.publish

        async def trusted(self: Any, state: VolumeState, volume: Volume, use: PodUse) -> None:
            before = state.device
            state.device = Device.STAGED if before is Device.READY else before
            try:
                await publish(self, state, volume, use)
            finally:
                state.device = before

        return mock.patch.object(steps, "publish", trusted)

    return both(trusting(FileSystemSteps), trusting(BlockSteps))


def _failures_are_not_told() -> Planted:
    """Pods whose step failed hear nothing."""
    return mock.patch.object(Announcements, "failed", return_value=None)


def _slowness_is_told_after_failures() -> Planted:
    """Users hear that a driver does not answer when its step has failed long ago."""
    around = StepWatch.around

    @contextlib.asynccontextmanager
    async def leaving(self: StepWatch, state: VolumeState, do: Do) -> AsyncIterator[None]:
        telling = asyncio.create_task(self._tell_when_slow(state, do))
        async with around(self, state, do):
            yield
        telling.cancel()

    return mock.patch.object(StepWatch, "around", leaving)


def _ended_pods_run() -> Planted:
    """That a pod runs is written over whatever has become of it since."""

    def unversioned(body: Mapping[str, Any], *, of: Any = None) -> Patch:
        return strategic_patch({**body, "metadata": {}}, of=of)

    return mock.patch.object(pods, "strategic_patch", unversioned)


OUTGROWN: Final[Mapping[str, Bug]] = {
    "capabilities-kept": Bug(_capabilities_are_kept, {"pod-stuck", "running-without"}),
    "failures-untold": Bug(_failures_are_not_told, {"untold"}),
    "slowness-told-late": Bug(_slowness_is_told_after_failures, {"told-astray"}),
    "ended-pods-run": Bug(_ended_pods_run, {"ended-runs", "group-left-out"}),
    "ready-unstaged": Bug(_ready_devices_stay_unstaged, {"pod-stuck", "running-without"}),
}
