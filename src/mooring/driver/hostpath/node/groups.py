"""A volume's files are given to a group, for a driver with VOLUME_MOUNT_GROUP. Everything here blocks."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def give_to_group(path: Path, group: int) -> None:
    """The group owns, reads and writes all that is in the folder, and what is made there later. Raises OSError."""
    with contextlib.closing(_Folder(path)) as top:
        _give(top.descriptor, group)
        for _, folders, files, folder in os.fwalk(".", dir_fd=top.descriptor, follow_symlinks=False):
            for name in (*folders, *files):
                _give_entry(folder, name, group)


class _Folder:
    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.descriptor)


def _give_entry(folder: int, name: str, group: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            os.chown(name, -1, group, dir_fd=folder, follow_symlinks=False)
            return
        descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            _give_path(f"/proc/self/fd/{descriptor}", status, group)
        finally:
            os.close(descriptor)


def _give(descriptor: int, group: int) -> None:
    _give_path(f"/proc/self/fd/{descriptor}", os.fstat(descriptor), group)


def _give_path(path: str, status: os.stat_result, group: int) -> None:
    os.chown(path, -1, group)
    is_folder = stat.S_ISDIR(status.st_mode)
    os.chmod(path, stat.S_IMODE(status.st_mode) | (0o2770 if is_folder else 0o660))
