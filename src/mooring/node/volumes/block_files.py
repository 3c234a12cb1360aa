"""Folders, links and locks around a raw block volume. Everything here blocks, and runs on a thread of the driver's own.

volumeDevices/SPEC/data/vol_data.json     the record
volumeDevices/SPEC/dev/POD                a file, from before the first call for the pod until after the last; the device is mounted
                                          on it, and a loop device over it is the lock
volumeDevices/staging/SPEC                a folder, the driver's staging path
volumeDevices/publish/SPEC/POD            the device file that the driver makes
pods/POD/volumeDevices/.../SPEC           a link to it
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Mapping
from typing import Final

from mooring.base.folders import sync_folder
from mooring.mounts import system
from mooring.mounts.mountinfo import MountTable
from mooring.node import records
from mooring.node.layout import Layout
from mooring.node.volumes.files import LeftOver, read_mount_table, remove_folder, remove_target

_MODE: Final = 0o750


class BlockFiles:
    """mount_table: what is mounted now, None for the truth."""

    def __init__(self, layout: Layout, mount_table: Callable[[], MountTable] | None = None) -> None:
        self._layout, self._mount_table = layout, mount_table or (lambda: read_mount_table(layout.root))

    def begin(self, spec_name: str, record: Mapping[str, str], *, stages: bool) -> None:
        """Makes the record and, for a driver that stages, its folder. Raises OSError."""
        data = self._layout.block_record_folder(spec_name)
        data.mkdir(mode=_MODE, parents=True, exist_ok=True)
        records.write(data, record)
        if stages:
            self._layout.block_staging(spec_name).mkdir(mode=_MODE, parents=True, exist_ok=True)

    def begin_publish(self, spec_name: str, uid: str) -> None:
        """Makes the folder in which the driver makes the device file, and, durably, the file that says for which pod. Raises OSError."""
        self._layout.block_publish(spec_name, uid).parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
        mapped = self._layout.block_map(spec_name) / uid
        mapped.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
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
        link.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            link.unlink()
        link.symlink_to(device)
        system.attach_loop(mapped)

    def unmap(self, spec_name: str, uid: str) -> None:
        """Takes all of that away again; the file stays, for the driver may still have something there. Raises OSError, ToolFailed."""
        mapped = self._layout.block_map(spec_name) / uid
        system.detach_loops(mapped)
        link = self._layout.block_link(uid, spec_name)
        if link.is_symlink():
            link.unlink()
        while self._mount_table().at(str(mapped)) is not None:
            system.unmount(mapped)

    def end_publish(self, spec_name: str, uid: str) -> None:
        """Removes the folders of the pod's device, as far as they are empty, and the file that told of it. Raises LeftOver, OSError."""
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
        """Removes what `begin` made, and the empty folders around it; the record last. Raises LeftOver, OSError."""
        for folder in (
            self._layout.block_staging(spec_name),
            self._layout.block_publish(spec_name, "pod").parent,
            self._layout.block_map(spec_name),
        ):
            if below := self._mount_table().below(str(folder)):
                raise LeftOver(f"{below[-1].point} is still mounted")
            remove_folder(folder)
        data = self._layout.block_record_folder(spec_name)
        records.remove(data)
        remove_folder(data)
        with contextlib.suppress(LeftOver):
            remove_folder(data.parent)
