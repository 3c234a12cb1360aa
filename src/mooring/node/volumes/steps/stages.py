"""The stages of a volume by its driver's answers, for file systems and raw devices alike.

A record is on disk before the call that it stands for, and goes after the driver has said that nothing is left. A call
that was refused for good leaves nothing, unless an earlier one may have done something. One that may have happened
leaves everything, and counts as something that has to be taken back. docs/node-agent.md has the table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mooring.api.volume_names import attachment_name
from mooring.base.log import logger
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.kube.errors import ApiError
from mooring.node.drivers import CALL_S, RegisteredDriver
from mooring.node.volumes.state.actual import Device, Publication, Stand, VolumeState
from mooring.node.volumes.state.desired import PodUse, Volume
from mooring.node.volumes.state.folders import publish_record
from mooring.node.volumes.steps import requests
from mooring.node.volumes.steps.requests import Injected, VolumeRequests
from mooring.node.volumes.steps.tools import StepFailed, StepTools
from mooring.wire.grpc.codes import Code

_log = logger(__name__)


class StageSteps(StepTools):
    """begin, end: make and remove what is on the disk around a call. able: the driver's capabilities."""

    async def _stage(
        self,
        state: VolumeState,
        use: PodUse,
        step: str,
        driver: RegisteredDriver,
        able: frozenset[int],
        begin: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        """The driver has staged the volume afterwards. Raises StepFailed."""
        volume, before = state.volume, state.device
        secrets = await self._secret(volume.stage_secret, step)
        about = VolumeRequests(self._layout, volume, able, state.context or {})
        state.device = Device.UNCERTAIN
        await self._on_disk(volume, step, begin)
        try:
            await driver.rpc.node_stage_volume(about.stage(use, secrets), Call(CALL_S))
        except DriverError as error:
            self._forget_secret(volume.stage_secret)
            if error.final and before is Device.ABSENT:
                await self._undo(volume, step, error, end)
                state.device = Device.ABSENT
            raise self._failed(step, str(error)) from None
        state.device = Device.STAGED

    async def _publish(
        self,
        state: VolumeState,
        volume: Volume,
        use: PodUse,
        step: str,
        driver: RegisteredDriver,
        able: frozenset[int],
        begin: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        """The driver has published the volume to the pod afterwards; it counts as published after `_published`. Raises
        StepFailed.
        """
        injected = await self._injection(volume, use, step)
        secrets = await self._secret(volume.publish_secret, step)
        about = VolumeRequests(self._layout, volume, able, state.context or {})
        publication = state.publications.setdefault(use.uid, Publication(volume.spec_name, Stand.ABSENT))
        is_new = publication.stand is Stand.ABSENT
        if is_new:
            publication.stand = Stand.UNCERTAIN
        await self._on_disk(volume, step, begin, pod=use.uid)
        try:
            await driver.rpc.node_publish_volume(about.publish(use, secrets, injected), Call(CALL_S))
        except DriverError as error:
            self._forget_secret(volume.publish_secret)
            if error.final and is_new:
                await self._undo(volume, step, error, end, pod=use.uid)
                publication.stand = Stand.ABSENT
            raise self._failed(step, str(error)) from None

    def _published(self, state: VolumeState, use: PodUse) -> None:
        """The volume is in the pod. A pod that has just got it does not start before it has its size, unless it only
        reads.
        """
        publication, growth = state.publications[use.uid], state.volume.growth
        was_there, publication.stand = publication.is_there, Stand.DONE
        if not was_there and growth is not None and not growth.is_written and state.is_to_grow:
            publication.is_held = not use.read_only

    async def _unpublish(
        self, state: VolumeState, uid: str, step: str, driver: RegisteredDriver, end: Callable[[], None]
    ) -> None:
        """Unpublish the volume, and leave nothing of it for the pod. Raises StepFailed."""
        request = VolumeRequests(self._layout, state.volume).unpublish(uid, state.publications[uid].spec_name)
        await self._take_back(state.volume, step, driver.rpc.node_unpublish_volume(request, Call(CALL_S)), end, pod=uid)
        state.was_given_back(uid, self._around.clock.now())

    async def _unstage(
        self,
        state: VolumeState,
        step: str,
        driver: RegisteredDriver | None,
        able: frozenset[int],
        end: Callable[[], None],
    ) -> None:
        """The volume has left the node afterwards. driver: None for one that was never asked for it. Raises
        StepFailed.
        """
        volume = state.volume
        state.device = Device.UNCERTAIN if state.may_be_staged else Device.BEGUN
        if driver is not None and requests.STAGES in able:
            call = driver.rpc.node_unstage_volume(VolumeRequests(self._layout, volume).unstage(), Call(CALL_S))
            await self._take_back(volume, step, call, end)
        else:
            await self._on_disk(volume, step, end)
        state.device = Device.ABSENT

    # -- what these are made of

    async def _injection(self, volume: Volume, use: PodUse, step: str) -> Injected:
        try:
            return await self._around.injector.of(volume, use)
        except ApiError as error:
            raise self._failed(step, f"failed to get service account token attributes: {error}") from None

    def _publish_record(self, volume: Volume, mode: str, label: str = "") -> dict[str, str]:
        """mode: the volume's lifecycle mode, "" for a raw device. label: its SELinux label."""
        return publish_record(
            volume.driver,
            volume.handle,
            spec_name=volume.spec_name,
            node=self._around.node_name,
            attachment=attachment_name(volume.driver, volume.handle, self._around.node_name),
            mode=mode,
            label=label,
        )

    async def _undo(
        self, volume: Volume, step: str, error: DriverError, end: Callable[[], None], pod: str = ""
    ) -> None:
        """Removes what was made for a call that has failed and done nothing. Raises StepFailed, with both errors, for
        what it has left.
        """
        try:
            await self._on_disk(volume, step, end, pod=pod)
        except StepFailed as left:
            raise self._failed(step, f"{error}; it has left something behind: {left}") from None

    async def _take_back(
        self, volume: Volume, step: str, call: Awaitable[object], end: Callable[[], None], pod: str = ""
    ) -> None:
        """The driver takes the volume back, and what was made around it is removed. Raises StepFailed.

        A driver that does not know the volume any more has nothing to take back: then it is enough that nothing is
        mounted. Differs from kubelet: it asks such a driver for ever.
        """
        try:
            await call
        except DriverError as error:
            if error.code != Code.NOT_FOUND:
                raise self._failed(step, str(error), is_pending=error.code == Code.ABORTED) from None
            await self._undo(volume, step, error, end, pod=pod)
            _log.warning(
                "The driver does not know a volume, and nothing of it is mounted: it counts as taken back",
                volume=volume.unique,
            )
            return
        try:
            await self._on_disk(volume, step, end, pod=pod)
        except StepFailed as left:
            raise self._failed(step, f"the driver says that it has taken the volume back, but {left}") from None
