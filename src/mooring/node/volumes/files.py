"""Folders and records around a driver's mounts. Everything here blocks, and runs on a thread of the driver's own.

It reads mounts from the mount table, never by stat: a mount whose server is gone would hold the thread for ever. Folders are
removed one by one when they are empty and nothing is mounted on them; nothing is ever removed with what is in it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from mooring.base.errors import MooringError
from mooring.mounts import system
from mooring.mounts.mountinfo import MountTable, is_within, parse
from mooring.node import records

_MOUNTINFO: Final = Path("/proc/self/mountinfo")
_MODE: Final = 0o750
_OF_A_POD: Final = re.compile(r"/pods/[^/]+/(volumes/kubernetes\.io~csi|volume-subpaths)/")
"""Below the root folder of some node."""


class LeftOver(MooringError):
    """Something is in the way of a clean end: a mount, or files in a folder that should be empty."""


def read_mount_table(root: Path = Path("/")) -> MountTable:
    """The mounts now, in this process' mount namespace; nothing on systems without that table, where no driver mounts for us.

    root: where a link leads to it, what is mounted below has its points by way of the link, as drivers are told them (a driver in a
    container may see no other way); the kernel gives them without any link.
    """
    if sys.platform != "linux":
        return MountTable(())
    mounts = parse(_MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape"))
    real, given = os.path.realpath(root), str(root)
    if real == given:
        return MountTable(mounts)
    moved = (dataclasses.replace(one, point=given + one.point.removeprefix(real)) if is_within(one.point, real) else one for one in mounts)
    return MountTable(moved)


class VolumeFiles:
    """root: the node's. mount_table: what is mounted now, None for the truth."""

    def __init__(self, root: Path, mount_table: Callable[[], MountTable] | None = None) -> None:
        self._mount_table = mount_table or (lambda: read_mount_table(root))

    def begin(self, folder: Path, record: Mapping[str, str], own: str = "") -> None:
        """Makes the volume's folder and its record, durably. own: a folder in it, made where it is not mounted. Raises OSError."""
        point = folder / own
        try:
            point.mkdir(mode=_MODE, parents=True)
        except FileExistsError:
            if self.is_mounted(point):  # then nothing asks the mount itself, for that may hang
                records.write(folder, record)
                return
            if not point.is_dir():
                raise
        point.chmod(_MODE)
        records.write(folder, record)

    def is_mounted(self, path: Path) -> bool:
        return self._mount_table().at(str(path)) is not None

    def end(self, folder: Path, mounted: str) -> None:
        """Removes what `begin` made, with what the driver has left at `mounted` in it.

        The record goes last but for its folder: as long as it is there, the volume is found again. Raises LeftOver, with everything
        in place, when there still is a mount, or a file where none belongs; OSError.
        """
        point = folder / mounted
        if below := self._mount_table().below(str(point)):
            raise LeftOver(f"{below[-1].point} is still mounted")
        remove_target(point)
        records.remove(folder)
        with contextlib.suppress(LeftOver):
            remove_folder(folder)

    def end_sub_paths(self, folder: Path) -> None:
        """Takes away the parts of a volume that a kubelet has bound below this folder, and the empty files and folders under them.

        Raises ToolFailed, OSError; LeftOver for a link in the place of a folder, and for what is not empty.
        """
        for path in (folder, folder.parent):
            if path.is_symlink():
                raise LeftOver(f"{path} is a link in the place of a folder: look where it leads, and remove it by hand")
        if not folder.is_dir():
            return
        for mount in reversed(self._mount_table().below(str(folder))):
            system.unmount(Path(mount.point))
        for parent, folders, files in os.walk(folder, topdown=False):
            for name in files:
                _remove_empty_file(Path(parent, name))
            for name in folders:
                remove_folder(Path(parent, name))
        remove_folder(folder)
        with contextlib.suppress(LeftOver):
            remove_folder(folder.parent)

    def foreign_references(self, staging: Path, root: Path) -> tuple[str, ...]:
        """Other places where what is staged is mounted: those of another node of this machine, which has staged it for itself, aside."""
        part = str(staging).removeprefix(str(root))
        found = [point for point in self._mount_table().references(str(staging)) if part not in point]
        return tuple(point for point in found if is_within(point, str(root)) or not _OF_A_POD.search(point))


def remove_target(path: Path) -> None:
    """Removes what a driver may leave where nothing is mounted: an empty folder, an empty file, a device's file, a link.

    What a link leads to stays. Nothing there is fine. Raises LeftOver for what has content, OSError.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    kind = stat.S_IFMT(status.st_mode)
    if kind in (stat.S_IFLNK, stat.S_IFBLK, stat.S_IFCHR):
        path.unlink()
    elif kind == stat.S_IFREG:
        _remove_empty_file(path)
    else:
        remove_folder(path)


def _remove_empty_file(path: Path) -> None:
    """Raises LeftOver for any other, OSError."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or status.st_size:
        raise LeftOver(f"{path} is no empty file: look what it is, and remove it by hand")
    path.unlink()


def remove_folder(folder: Path) -> None:
    """An empty folder; one that is not there is fine. Raises LeftOver."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise LeftOver(f"{folder} is no folder: look what it is, and remove it by hand") from None
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EBUSY, errno.EEXIST):
            raise LeftOver(f"{folder} can't be removed ({error.strerror}): look what is in it, and remove it by hand") from None
        raise
