"""Carries out the steps of one volume: the driver's calls, the folders and records around them.

A record is on disk before the call that it stands for, and is removed after the driver has said that nothing is left. A call that failed
for sure leaves nothing; one that may have happened leaves everything, and counts as something that has to be taken back.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from mooring.api.meta import Key
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.node.drivers import CALL_S
from mooring.node.volumes.state.actual import Publication, Stand, VolumeState
from mooring.node.volumes.state.desired import PodUse, Volume
from mooring.node.volumes.state.folders import EPHEMERAL, PERSISTENT, VolumeFiles, read_record, staging_record
from mooring.node.volumes.steps import requests
from mooring.node.volumes.steps.fs_group import Walk
from mooring.node.volumes.steps.requests import POLICY_DEFAULT, VolumeRequests, sets_group, unsupported_mode
from mooring.node.volumes.steps.tools import StepContext, StepTools

SLOW_S: Final = 30.0


class FileSystemSteps(StepTools):
    """Volumes with a file system. Each method raises StepFailed."""

    def __init__(self, around: StepContext, files: VolumeFiles | None = None) -> None:
        super().__init__(around)
        self._files = files or VolumeFiles(around.layout.root)
        self._walking: set[asyncio.Task[None]] = set()
        self._is_ending = False

    # -- giving

    async def stage(self, state: VolumeState, use: PodUse) -> None:
        """The device is on this node afterwards, for any pod. A driver that does not stage needs nothing, and no folder.

        use: of the first pod, whose group and label the volume gets.
        """
        volume, step = state.volume, "MountDevice"
        driver, able = await self._able(volume, step)
        if requests.STAGES not in able:
            state.device, state.is_unstaged, state.label = Stand.DONE, True, use.label
            return
        secrets = await self._secret(volume.stage_secret, step)
        about = VolumeRequests(self._layout, volume, able, state.context or {})
        staging, before = about.staging, state.device
        record = staging_record(volume.driver, volume.handle, use.label)
        state.device, state.label = Stand.UNCERTAIN, use.label  # a folder without a record is left to be removed, too
        state.may_be_staged = True
        await self._on_disk(volume, step, self._files.begin, staging.parent, record, staging.name)
        try:
            await driver.rpc.node_stage_volume(about.stage(use, secrets), Call(CALL_S))
        except DriverError as error:
            self._forget_secret(volume.stage_secret)
            if error.final and before is Stand.ABSENT:
                await self._undo(volume, step, error, self._files.end, staging.parent, staging.name)
                state.device, state.may_be_staged = Stand.ABSENT, False
            raise self._failed(step, str(error), uncertain=not error.final) from None
        state.device, state.is_unstaged = Stand.DONE, False

    async def publish(self, state: VolumeState, volume: Volume, use: PodUse) -> None:
        """The volume is in the pod's folder afterwards. volume: as the pod's own PersistentVolume has it."""
        step = "SetUp"
        driver, able = await self._able(volume, step)
        policy = self._policy(volume, step)
        if (
            state.is_unstaged and requests.STAGES in able and not volume.is_inline
        ):  # the driver has come to stage volumes since
            await self.stage(state, use)
        injected = await self._injection(volume, use, step)
        secrets = await self._secret(volume.publish_secret, step)
        about = VolumeRequests(self._layout, volume, able, state.context or {})
        target = about.target(use.uid, volume.spec_name)
        publication = state.publications.setdefault(use.uid, Publication(volume.spec_name, Stand.ABSENT))
        before = publication.stand
        mode = EPHEMERAL if volume.is_inline else PERSISTENT
        publication.stand, state.label = Stand.UNCERTAIN, use.label
        await self._on_disk(
            volume, step, self._files.begin, target.parent, self._publish_record(volume, mode, use.label), pod=use.uid
        )
        try:
            await driver.rpc.node_publish_volume(about.publish(use, secrets, injected), Call(CALL_S))
        except DriverError as error:
            self._forget_secret(volume.publish_secret)
            if before is Stand.DONE:  # what the pod has is as it was
                publication.stand = Stand.DONE
            elif error.final and before is Stand.ABSENT:
                await self._undo(volume, step, error, self._files.end, target.parent, target.name, pod=use.uid)
                publication.stand = Stand.ABSENT
            raise self._failed(step, str(error), uncertain=not error.final) from None
        if sets_group(volume, use, policy, able):
            state.is_walked = True
            try:
                await self._set_group(volume, use, target, step)
            finally:
                state.is_walked = False
        self._published(state, use, before)

    # -- taking away

    async def unpublish(self, state: VolumeState, uid: str) -> None:
        """Nothing of the volume is in the pod's folder afterwards."""
        volume, step, publication = state.volume, "TearDown", state.publications[uid]
        about = VolumeRequests(self._layout, volume)
        target = about.target(uid, publication.spec_name)
        driver = self._driver(volume, step)
        publication.stand = Stand.UNCERTAIN
        await self._on_disk(
            volume, step, self._files.end_sub_paths, self._layout.sub_paths(uid, publication.spec_name), pod=uid
        )
        call = driver.rpc.node_unpublish_volume(about.unpublish(uid, publication.spec_name), Call(CALL_S))
        await self._take_back(volume, step, call, self._files.end, target.parent, target.name, pod=uid)
        state.was_given_back(uid, self._around.clock.now())

    async def unstage(self, state: VolumeState) -> None:
        """The device has left this node afterwards. Where neither a record nor a mount is there, it has left already."""
        volume, step = state.volume, "UnmountDevice"
        about = VolumeRequests(self._layout, volume)
        staging = about.staging
        record = await self._on_disk(volume, step, read_record, staging.parent)
        if record is None and not await self._on_disk(volume, step, self._files.is_mounted, staging):
            await self._on_disk(volume, step, self._files.end, staging.parent, staging.name)
            state.device, state.may_be_staged = Stand.ABSENT, False
            return
        driver, able = await self._able(volume, step)
        foreign = await self._on_disk(volume, step, self._files.foreign_references, staging, self._layout.root)
        names = volume.spec_name, volume.driver, volume.handle
        foreign += await self._on_disk(volume, step, self._files.mounted_targets, self._layout, *names)
        if foreign:
            text = f"the device mount path {str(staging)!r} is still mounted by other references {list(dict.fromkeys(foreign))}"
            raise self._failed(step, text)
        state.device = Stand.UNCERTAIN
        if requests.STAGES in able:
            call = driver.rpc.node_unstage_volume(about.unstage(), Call(CALL_S))
            await self._take_back(volume, step, call, self._files.end, staging.parent, staging.name)
        else:
            await self._on_disk(volume, step, self._files.end, staging.parent, staging.name)
        state.device, state.may_be_staged = Stand.ABSENT, False

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
        """On threads of their own, for a walk can take longer than anything else may wait for a thread."""
        assert use.fs_group is not None
        walk, failure = Walk(target, use.fs_group, use.fs_group_policy), ""
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
        if failure or walking.cancelled():
            raise self._failed(step, failure or "applyFSGroup was not finished: the agent ends", uncertain=True)

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
