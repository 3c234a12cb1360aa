"""What is on a path of this machine, for the book's rules: from the mount table, and from the folder in which it stands.

A path on which something is mounted is never touched: a mount that is dead would hang. Everything here blocks for a moment.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from mooring.csi.book.exchange import Place
from mooring.mounts.mountinfo import Mount, MountTable
from mooring.mounts.targets import mount_table, plain

_DEVICES: Final = "devtmpfs"
"""A device's file that is bound to another path has the file system of /dev."""


class Sight:
    """Looks at paths. read: the mounts of this moment."""

    def __init__(self, read: Callable[[], MountTable] = mount_table) -> None:
        self._read = read

    def points(self) -> Mapping[str, int]:
        """How many mounts lie on each point now."""
        return Counter(mount.point for mount in self._read())

    def at(self, path: str, before: Mapping[str, int]) -> Place:
        """before: the points of mounts when the call began."""
        table, point = self._read(), str(plain(path))
        now = Counter(mount.point for mount in table)
        new = tuple(sorted(now.keys() - before.keys() - {point}))
        if (mount := table.at(point)) is None:
            return Place(_kind(point), elsewhere=new)
        kind = "device" if mount.fs_type == _DEVICES else _kind(point)
        return Place(kind, is_mount=True, readonly=_is_readonly(mount), elsewhere=new, covers=now[point] > before.get(point, 0) > 0)


def _is_readonly(mount: Mount) -> bool:
    return "ro" in mount.options.split(",") or "ro" in mount.super_options.split(",")


def _kind(path: str) -> str:
    """From the entry in the folder above, which is that below a mount: a folder is mounted on a folder, a file on a file."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder) as entries:
            entry = next((entry for entry in entries if entry.name == name), None)
        if entry is None:
            return ""
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else "device"
    except OSError:
        return ""
