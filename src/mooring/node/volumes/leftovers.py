"""Looks again, at growing intervals, at whatever is left on the disk and can't be removed, or read, at once.

Folders are removed bottom up, as far as nothing is in them that could be anybody's. Source: kubelet 1.36,
kubelet_volumes.go. A kubelet that had a pod before leaves folders of its own beside the volumes. Differs: what is in
the way is named, and looked at again.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from mooring.api.volume_names import split_unique_name
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.queue import BackOff
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.node.layout import TARGET, BadName, KubeletLayout
from mooring.node.metrics import NodeMetrics
from mooring.node.volumes import reasons as why
from mooring.node.volumes.state.actual import ActualState
from mooring.node.volumes.state.desired import DesiredState
from mooring.node.volumes.state.folders import (
    BadRecord,
    LeftOver,
    mounts_of,
    read_record,
    remove_folder,
    remove_record,
    remove_target,
)
from mooring.node.volumes.state.in_use import UnreadPlaces
from mooring.node.volumes.state.on_disk import OnDisk, entries_in, find_device, find_in_pod, folders_in

_log = logger(__name__)

BACK_OFF: Final = BackOff(5.0, 600.0)
USED_S: Final = 300.0
"""Seconds between two looks at a folder that a volume has come to use."""

_STAYS: Final = "A folder without a volume's record can't be removed, and is tried again; look what is in it"
_UNREAD: Final = (
    "A raw device's record can't be read, and is looked at again; put it right, or remove it and what is mounted "
    "beside it"
)
_POD_STAYS: Final = "The folder of a pod that is gone can't be removed, and is tried again; look what is in it"

_OF_KUBELET: Final = ("containers", "etc-hosts")
"""The kubelet's own files for a pod's containers: ends of their logs, and their /etc/hosts. Nothing there is a
volume's.
"""

_READY: Final = "plugins"
"""Empty files by which a kubelet marks volumes as set up."""


class UnremovedFolders:
    """Folders without a volume's record that could not be removed at a start.

    By the folder of a volume: the folders in it, inner ones first, and itself. A volume that comes back has its folder
    back.

    gone: called when one of them is left behind no more.
    """

    def __init__(
        self,
        runtime: Runtime,
        layout: KubeletLayout,
        desired: DesiredState,
        actual: ActualState,
        gone: Callable[[], None],
    ) -> None:
        self._layout, self._desired, self._actual, self._gone = layout, desired, actual, gone
        self._folders: dict[str, tuple[Path, ...]] = {}
        self.controller: Controller[str] = Controller(
            runtime, "node-volume-folders", self._remove, workers=1, backoff=BACK_OFF, label="folder", log=_log
        )

    def begin(self, left: Iterable[tuple[Path, ...]]) -> None:
        for folders in left:
            self._folders[str(folders[-1])] = folders
            self.controller.add_after(str(folders[-1]), BACK_OFF.base_s)

    def has_of(self, unique: str) -> bool:
        """True while the folder of the volume of this name is left."""
        parts = split_unique_name(unique)
        if parts is None:
            return False
        try:
            return str(self._layout.staging(*parts).parent) in self._folders
        except BadName:
            return False

    async def _remove(self, folder: str) -> Result:
        """Raises Retry."""
        if Path(folder) in set(self._used()):
            return Result(why.FolderUsed(), after_s=USED_S)  # it may come to nothing, and the folder stays
        try:
            for one in self._folders[folder]:
                await asyncio.to_thread(remove_folder, one)
        except (OSError, LeftOver) as error:
            raise Retry(f"{_STAYS}: {error}") from None
        del self._folders[folder]
        self._gone()
        return Result(why.FolderGone())

    def _used(self) -> Iterator[Path]:
        """The folders of the volumes that are here or come here. One whose driver's name is no folder's has none."""
        states = (state.volume for state in self._actual.states.values())
        for volume in (*states, *self._desired.volumes):
            with contextlib.suppress(BadName):
                yield self._layout.block_volume(volume.spec_name)
                yield self._layout.staging(volume.driver, volume.handle).parent


class UnreadDevices:
    """Raw devices whose records can't be read, and that no pod tells of.

    By the name of a device's folder. adopt: called with the device once its record can be read.
    """

    def __init__(
        self, runtime: Runtime, layout: KubeletLayout, unread: UnreadPlaces, adopt: Callable[[OnDisk], None]
    ) -> None:
        self._layout, self._unread, self._adopt = layout, unread, adopt
        self.controller: Controller[str] = Controller(
            runtime, "node-unread-devices", self._look_again, workers=1, backoff=BACK_OFF, label="folder", log=_log
        )

    def begin(self) -> None:
        for folder in self._unread.devices:
            self.controller.add_after(folder, BACK_OFF.base_s)

    async def _look_again(self, folder: str) -> Result:
        """Raises Retry."""
        if folder not in self._unread.devices:
            return Result(why.DeviceRead())
        try:
            found = await asyncio.to_thread(find_device, self._layout, folder)
        except OSError as error:
            raise Retry(f"{_UNREAD}: {error}") from None
        if folder in found.unread.devices:
            raise Retry(f"{_UNREAD}: {self._layout.block_record_folder(folder)}")
        if folder in self._unread.devices:  # no pod has told what it is meanwhile
            self._adopt(found)
            self._unread.device_was_read(folder)
        return Result(why.DeviceRead())


class PodFolders:
    """The folders of pods that are gone, by the pods' uids. adopt: called with what is found in one."""

    def __init__(
        self,
        runtime: Runtime,
        layout: KubeletLayout,
        actual: ActualState,
        unread: UnreadPlaces,
        adopt: Callable[[OnDisk], None],
    ) -> None:
        self._layout, self._actual, self._unread, self._adopt = layout, actual, unread, adopt
        self._metrics = runtime.metrics.once(NodeMetrics)
        self.controller: Controller[str] = Controller(
            runtime, "node-pod-folders", self._clean_up, workers=1, backoff=BACK_OFF, label="pod_uid", log=_log
        )

    def begin(self, unlisted: Iterable[str]) -> None:
        """unlisted: pods whose folders could not be listed."""
        for uid in unlisted:
            self.controller.add_after(uid, BACK_OFF.base_s)

    async def remove_orphans(self) -> None:
        """Removes the folders of pods that are no more, as far as nothing is in them. The pods are known."""
        orphans = [
            uid
            for uid in await asyncio.to_thread(pod_folders, self._layout)
            if self._actual.pod(uid) is None and not any(self._actual.states_of_pod(uid))
        ]
        left = [uid for uid in orphans if not await self.remove(uid)]
        self._metrics.orphans(len(orphans), len(left))

    async def remove(self, uid: str) -> bool:
        """True when it is gone; else it is tried again."""
        try:
            await asyncio.to_thread(remove_pod_folder, self._layout, uid)
        except (OSError, BadRecord, LeftOver) as error:
            _log.error(_POD_STAYS, error=error, pod_uid=uid)
            self.controller.add_after(uid, BACK_OFF.base_s)
            return False
        self._unread.pod_was_read(uid, {})
        return True

    async def _clean_up(self, uid: str) -> Result:
        """Tries once more to remove the folder of a pod that is gone. Volumes that have records by now are taken back.
        Raises Retry.
        """
        if self._actual.keeps_pod(uid) or any(self._actual.states_of_pod(uid)):
            return Result(why.PodRuns())
        try:
            found = await asyncio.to_thread(find_in_pod, self._layout, uid)
            self._adopt(found)
            self._unread.pod_was_read(uid, found.unread.in_pods)
            if found.states:
                return Result(why.PodLeaves())
            await asyncio.to_thread(remove_pod_folder, self._layout, uid)
        except (OSError, BadRecord, LeftOver) as error:
            raise Retry(f"{_POD_STAYS}: {error}") from None
        return Result(why.PodGone())


def pod_folders(layout: KubeletLayout) -> list[str]:
    """The names of all. Raises OSError."""
    return sorted(entry.name for entry in layout.pods.iterdir()) if layout.pods.is_dir() else []


def remove_pod_folder(layout: KubeletLayout, uid: str) -> None:
    """Removes the folder of a pod that is no more; one that is not there is fine. Blocks.

    Raises OSError, BadRecord and LeftOver for a folder that has something in it, or has something mounted below it:
    beside what kubelets and drivers are known to leave, nothing is ever removed with what it holds.
    """
    folder, own = layout.pod(uid), (layout.pod_volumes(uid), layout.pod_devices(uid))
    if below := mounts_of(layout).below(str(folder)):
        raise LeftOver(
            f"{below[-1].point} is still mounted, and no record that can be read says of which volume: look what it is"
        )
    for path in (folder, own[0].parent, own[0], own[1].parent, own[1]):
        if path.is_symlink():
            raise OSError(
                errno.ELOOP, "a link in the place of a folder: look where it leads, and remove it by hand", str(path)
            )
    if not folder.is_dir():
        return
    for volume_folder in folders_in(own[0]):
        if (record := read_record(volume_folder)) is not None:
            raise LeftOver(f"{volume_folder} has the record of a volume: {record}")
        if not (target := volume_folder / TARGET).is_dir() or target.is_symlink():
            remove_target(target)  # as where the record was there
        remove_record(volume_folder)  # one that was not finished
    for path in _bottom_up(folder):
        if not stat.S_ISDIR(path.lstat().st_mode):
            _remove_kubelets_file(path, path.relative_to(folder).parts)
    for path in _bottom_up(folder):
        remove_folder(path)
    remove_folder(folder)


def _remove_kubelets_file(path: Path, parts: tuple[str, ...]) -> None:
    """Raises LeftOver for any other, OSError."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or (parts[0] not in _OF_KUBELET and (parts[0] != _READY or status.st_size)):
        raise LeftOver(f"{path} is in the way: look what it is, and remove it by hand")
    path.unlink()


def _bottom_up(folder: Path) -> Iterator[Path]:
    """All that is in the folder, each before what holds it, however deep; links are not followed. Raises OSError."""
    found, folders = [], [folder]
    while folders:
        for path, is_folder in entries_in(folders.pop()):
            found.append(path)
            if is_folder:
                folders.append(path)
    return reversed(found)
