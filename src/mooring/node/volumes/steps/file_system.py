"""The steps of a volume with a file system, and the folders and records around them."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Final

from mooring.api.meta import Key
from mooring.mounts.fs_group import Walk
from mooring.node.volumes.state.actual import Device, Stand, VolumeState
from mooring.node.volumes.state.desired import PodUse, Volume
from mooring.node.volumes.state.folders import EPHEMERAL, PERSISTENT, VolumeFiles, read_record, staging_record
from mooring.node.volumes.steps import requests
from mooring.node.volumes.steps.requests import POLICY_DEFAULT, sets_group, unsupported_mode
from mooring.node.volumes.steps.stages import StageSteps
from mooring.node.volumes.steps.tools import StepContext

SLOW_S: Final = 30.0
WALK: Final = "volume_apply_access_control"
"""The kubelet's name of the operation in its metrics. A walk that was not needed is none."""


class FileSystemSteps(StageSteps):
    """Volumes with a file system. Each method raises StepFailed."""

    def __init__(self, around: StepContext, files: VolumeFiles | None = None) -> None:
        super().__init__(around)
        self._files = files or VolumeFiles(around.layout)
        self._walking: set[asyncio.Task[bool]] = set()
        self._is_ending = False

    # -- giving

    async def stage(self, state: VolumeState, use: PodUse) -> None:
        """The device is on this node afterwards, for any pod. A driver that does not stage needs nothing, and no
        folder.

        use: of the first pod, whose group and label the volume gets.
        """
        volume, step = state.volume, "MountDevice"
        driver, able = await self._able(volume, step)
        state.label = use.label
        if requests.STAGES not in able:
            state.device = Device.READY
            return
        staging = self._layout.staging(volume.driver, volume.handle)
        record = staging_record(volume.driver, volume.handle, use.label)
        begin = partial(self._files.begin, staging.parent, record, staging.name)
        await self._stage(state, use, step, driver, able, begin, partial(self._files.end, staging.parent, staging.name))

    async def publish(self, state: VolumeState, volume: Volume, use: PodUse) -> None:
        """The volume is in the pod's folder afterwards. volume: as the pod's own PersistentVolume has it."""
        step = "SetUp"
        driver, able = await self._able(volume, step)
        policy = self._policy(volume, step)
        if state.device is Device.READY and requests.STAGES in able:  # the driver has come to stage volumes since
            await self.stage(state, use)
        target, mode = self._layout.target(use.uid, volume.spec_name), EPHEMERAL if volume.is_inline else PERSISTENT
        record = self._publish_record(volume, mode, use.label)
        begin, end = (
            partial(self._files.begin, target.parent, record),
            partial(self._files.end, target.parent, target.name),
        )
        state.label = use.label
        await self._publish(state, volume, use, step, driver, able, begin, end)
        if sets_group(volume, use, policy, able):
            state.is_walked = True
            try:
                await self._set_group(volume, use, target, step)
            finally:
                state.is_walked = False
        self._published(state, use)

    # -- taking away

    async def unpublish(self, state: VolumeState, uid: str) -> None:
        """Unpublish the volume, and leave nothing of it in the pod's folder."""
        volume, step, publication = state.volume, "TearDown", state.publications[uid]
        target, driver = self._layout.target(uid, publication.spec_name), self._driver(volume, step)
        publication.stand = Stand.UNCERTAIN
        sub_paths = self._layout.sub_paths(uid, publication.spec_name)
        await self._on_disk(volume, step, self._files.end_sub_paths, sub_paths, pod=uid)
        await self._unpublish(state, uid, step, driver, partial(self._files.end, target.parent, target.name))

    async def unstage(self, state: VolumeState) -> None:
        """The device has left this node afterwards. Where neither a record nor a mount is there, it has left
        already.
        """
        volume, step = state.volume, "UnmountDevice"
        staging = self._layout.staging(volume.driver, volume.handle)
        end = partial(self._files.end, staging.parent, staging.name)
        record = await self._on_disk(volume, step, read_record, staging.parent)
        if record is None and not await self._on_disk(volume, step, self._files.is_mounted, staging):
            await self._on_disk(volume, step, end)
            state.device = Device.ABSENT
            return
        driver, able = await self._able(volume, step)
        foreign = await self._on_disk(volume, step, self._files.foreign_references, staging, self._layout.root)
        names = volume.spec_name, volume.driver, volume.handle
        foreign += await self._on_disk(volume, step, self._files.mounted_targets, self._layout, *names)
        if foreign:
            text = (
                f"the device mount path {str(staging)!r} is still mounted by other references "
                f"{list(dict.fromkeys(foreign))}"
            )
            raise self._failed(step, text)
        await self._unstage(state, step, driver, able, end)

    # -- what publishing is made of

    def _policy(self, volume: Volume, step: str) -> str:
        """The driver's fsGroupPolicy. Raises StepFailed for a driver that does not take volumes of this kind."""
        found = self._around.csi_drivers.store.get(Key("", volume.driver))
        modes = found.spec.volume_lifecycle_modes if found is not None else None
        if problem := unsupported_mode(volume, modes):
            raise self._failed(step, problem)
        return (found.spec.fs_group_policy if found is not None else None) or POLICY_DEFAULT

    def stop_walks(self) -> None:
        """The agent ends: walks that are under way are left, and are made anew by the next agent."""
        self._is_ending = True
        for walking in self._walking:
            walking.cancel()

    async def _set_group(self, volume: Volume, use: PodUse, target: Path, step: str) -> None:
        """Set the group, on threads of its own: a walk can take longer than anything else may wait for a thread."""
        assert use.fs_group is not None
        walk, failure, began = Walk(target, use.fs_group, use.fs_group_policy), "", self._around.clock.now()
        work = self._around.threads.run(
            f"{volume.driver}/fs-group", walk.run, limit_s=None, about=f"{volume.unique}/{use.uid}"
        )
        try:
            async with asyncio.TaskGroup() as group:
                walking = group.create_task(work, name=f"node/fs-group/{use.uid}")
                minding = group.create_task(self._mind(walk, use), name=f"node/fs-group/{use.uid}/minding")
                walking.add_done_callback(lambda _: minding.cancel())
                self._walking.add(walking)
                if self._is_ending:
                    walking.cancel()
        except* OSError as errors:
            failure = f"applyFSGroup failed for vol {volume.handle}: {errors.exceptions[0]}"
        finally:
            walk.stop()
            self._walking.discard(walking)
        if not walking.cancelled() and (failure or walking.result()):
            taken_s = self._around.clock.now() - began
            self._around.metrics.operation(volume.driver, WALK, taken_s, succeeded=not failure)
        if failure or walking.cancelled():
            raise self._failed(step, failure or "applyFSGroup was not finished: the agent ends")

    async def _mind(self, walk: Walk, use: PodUse) -> None:
        """Tells the pod's users of a walk that takes long, after SLOW_S and then every minute."""
        await self._around.clock.sleep(SLOW_S)
        where = f"{use.uid}/volumes/{use.volume_name}"
        text = f"Setting volume ownership for {where} is taking longer than expected, consider using OnRootMismatch"
        self._around.tell(
            use,
            "Warning",
            "VolumePermissionChangeInProgress",
            f"{text} - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/",
        )
        while True:
            await self._around.clock.sleep(60.0)
            self._around.tell(
                use, "Warning", "VolumePermissionChangeInProgress", f"{text}, processed {walk.count} files."
            )
