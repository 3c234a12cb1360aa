"""The steps of a raw block volume, and the folders, links and locks around it.

As with file systems, the record is there before the driver is called, and goes last.

volumeDevices/SPEC/data/vol_data.json     the record
volumeDevices/SPEC/dev/POD                a file, from before the first call for the pod until after the last; the
                                          device is mounted on it, and a loop device over it is the lock
volumeDevices/staging/SPEC                a folder, the driver's staging path
volumeDevices/publish/SPEC/POD            the device file that the driver makes
pods/POD/volumeDevices/.../SPEC           a link to it
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from mooring.base.folders import sync_folder
from mooring.mounts import loops, system
from mooring.mounts.mountinfo import MountTable
from mooring.mounts.trees import remove_tree
from mooring.node.layout import KubeletLayout
from mooring.node.volumes.state.actual import Device, Stand, VolumeState
from mooring.node.volumes.state.desired import PodUse, Volume
from mooring.node.volumes.state.folders import (
    LeftOver,
    make_folders,
    mounts_of,
    remove_folder,
    remove_record,
    remove_target,
    write_record,
)
from mooring.node.volumes.steps import requests
from mooring.node.volumes.steps.stages import StageSteps
from mooring.node.volumes.steps.tools import StepContext

_MODE: Final = 0o750


class BlockSteps(StageSteps):
    """Raw devices. Each method raises StepFailed."""

    reason = "FailedMapVolume"

    def __init__(self, around: StepContext, files: BlockFiles | None = None) -> None:
        super().__init__(around)
        self._files = files or BlockFiles(around.layout)

    async def stage(self, state: VolumeState, use: PodUse) -> None:
        """The device is on this node afterwards, for any pod."""
        volume, step = state.volume, "SetUpDevice"
        driver, able = await self._able(volume, step)
        stages = requests.STAGES in able
        begin = partial(self._files.begin, volume.spec_name, self._publish_record(volume, ""), stages=stages)
        if stages:
            end = partial(self._files.end, volume.spec_name)
            await self._stage(state, use, step, driver, able, begin, end)
            return
        state.device = Device.UNCERTAIN if state.may_be_staged else Device.BEGUN
        await self._on_disk(volume, step, begin)
        state.device = Device.READY

    async def publish(self, state: VolumeState, volume: Volume, use: PodUse) -> None:
        """The pod's device file, and the link to it, are there afterwards. volume: as the pod's own PersistentVolume
        has it.
        """
        step = "MapPodDevice"
        driver, able = await self._able(volume, step)
        if requests.STAGES in able and state.device is Device.READY:  # the driver has come to stage volumes since
            await self.stage(state, use)
        begin, end = (
            partial(work, volume.spec_name, use.uid) for work in (self._files.begin_publish, self._files.end_publish)
        )
        await self._publish(state, volume, use, step, driver, able, begin, end)
        await self._on_disk(volume, step, self._files.map, volume.spec_name, use.uid, pod=use.uid)
        if not state.publications[use.uid].is_there:
            self._tell_mapped(state, use)
        self._published(state, use)

    async def unpublish(self, state: VolumeState, uid: str) -> None:
        """Unpublish the device, and leave nothing of it for the pod."""
        volume, step = state.volume, "UnmapVolume"
        spec_name = state.publications[uid].spec_name
        driver = self._driver(volume, step)
        state.publications[uid].stand = Stand.UNCERTAIN
        await self._on_disk(volume, step, self._files.unmap, spec_name, uid, pod=uid)
        await self._unpublish(state, uid, step, driver, partial(self._files.end_publish, spec_name, uid))

    async def unstage(self, state: VolumeState) -> None:
        """The device has left this node afterwards."""
        volume, step = state.volume, "UnmapDevice"
        if pods := await self._on_disk(volume, step, self._files.in_use_by, volume.spec_name):
            mapped = self._layout.block_map(volume.spec_name)
            raise self._failed(step, f"the device {mapped} is still referenced from other Pods {list(pods)}")
        driver, able = await self._able(volume, step) if state.may_be_staged else (None, frozenset[int]())
        await self._unstage(state, step, driver, able, partial(self._files.end, volume.spec_name))

    def _tell_mapped(self, state: VolumeState, use: PodUse) -> None:
        spec_name = state.volume.spec_name
        paths = (
            ("globalMapPath", self._layout.block_map(spec_name)),
            ("volumeMapPath", self._layout.block_link(use.uid, spec_name).parent),
        )
        for name, path in paths:
            text = f'MapVolume.MapPodDevice succeeded for volume "{spec_name}" {name} "{path}"'
            self._around.tell(use, "Normal", "SuccessfulMountVolume", text)


class BlockFiles:
    """Everything here blocks, and runs on a thread of the driver's. mount_table: what is mounted now, None for the
    truth.
    """

    def __init__(self, layout: KubeletLayout, mount_table: Callable[[], MountTable] | None = None) -> None:
        self._layout, self._mount_table = layout, mount_table or (lambda: mounts_of(layout))

    def begin(self, spec_name: str, record: Mapping[str, str], *, stages: bool) -> None:
        """Makes the record and, for a driver that stages, its folder. Raises OSError."""
        data = self._layout.block_record_folder(spec_name)
        make_folders(data)
        write_record(data, record)
        if stages:
            make_folders(self._layout.block_staging(spec_name))

    def begin_publish(self, spec_name: str, uid: str) -> None:
        """Makes the folder in which the driver makes the device file, and, durably, the file that says for which pod.
        Raises OSError.
        """
        make_folders(self._layout.block_publish(spec_name, uid).parent)
        mapped = self._layout.block_map(spec_name) / uid
        make_folders(mapped.parent)
        if self._mount_table().at(str(mapped)) is None:
            os.close(os.open(mapped, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, _MODE))
            sync_folder(mapped.parent)

    def map(self, spec_name: str, uid: str) -> None:
        """Puts the device where the pod's runtime looks for it, and locks it. Raises OSError, ToolFailed, LeftOver."""
        device = self._layout.block_publish(spec_name, uid)
        if not stat.S_ISBLK(device.stat().st_mode):
            raise LeftOver(f"the driver has published {device}, and it is no block device")
        mapped = self._layout.block_map(spec_name) / uid
        if self._mount_table().at(str(mapped)) is None:
            system.bind(device, mapped)
        link = self._layout.block_link(uid, spec_name)
        make_folders(link.parent)
        with contextlib.suppress(FileNotFoundError):
            link.unlink()
        link.symlink_to(device)
        loops.any_device(mapped)

    def unmap(self, spec_name: str, uid: str) -> None:
        """Takes all of that away again; the file stays, for the driver may still have something there. Raises OSError,
        ToolFailed.
        """
        mapped = self._layout.block_map(spec_name) / uid
        loops.release(mapped)
        link = self._layout.block_link(uid, spec_name)
        if link.is_symlink():
            link.unlink()
        while self._mount_table().at(str(mapped)) is not None:
            system.unmount(mapped)

    def end_publish(self, spec_name: str, uid: str) -> None:
        """Removes the folders of the pod's device, as far as they are empty, and the file that told of it. Raises
        LeftOver, OSError.
        """
        device = self._layout.block_publish(spec_name, uid)
        if self._mount_table().at(str(device)) is not None:
            raise LeftOver(f"{device} is still mounted")
        remove_target(device)
        for folder in (self._layout.pod_devices(uid), self._layout.pod_devices(uid).parent):
            with contextlib.suppress(LeftOver):
                remove_folder(folder)
        with contextlib.suppress(FileNotFoundError):
            (self._layout.block_map(spec_name) / uid).unlink()

    def in_use_by(self, spec_name: str) -> tuple[str, ...]:
        """The pods whose device files are still mapped."""
        folder = self._layout.block_map(spec_name)
        return tuple(sorted(entry.name for entry in os.scandir(folder))) if folder.is_dir() else ()

    def end(self, spec_name: str) -> None:
        """Removes what `begin` made, and the empty folders around it; the record last. What the driver has left in its
        staging folder goes with that, as by a kubelet. Raises LeftOver, OSError.
        """
        for folder, remove in (
            (self._layout.block_staging(spec_name), remove_tree),
            (self._layout.block_publish(spec_name, "pod").parent, remove_folder),
            (self._layout.block_map(spec_name), remove_folder),
        ):
            if below := self._mount_table().below(str(folder)):
                raise LeftOver(f"{below[-1].point} is still mounted")
            remove(folder)
        data = self._layout.block_record_folder(spec_name)
        remove_record(data)
        remove_folder(data)
        with contextlib.suppress(LeftOver):
            remove_folder(data.parent)
