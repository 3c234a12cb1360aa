"""A pod's fsGroup on a volume: the walk that sets it.

Source: kubelet 1.36, pkg/volume/csi and pkg/volume/volume_linux.go. A driver that sets the group itself
(VOLUME_MOUNT_GROUP) gets it with the call, and there is no walk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ON_ROOT_MISMATCH: Final = "OnRootMismatch"
_WRITABLE: Final = 0o660
_FOLDER: Final = stat.S_ISGID | 0o110


class Walk:
    """Gives the group everything in the folder, the folder itself last.

    policy: of the pod; with OnRootMismatch nothing is done where the folder itself is right. Single files that can't be
    changed are passed over, as the kubelet does.

    A pod that has the volume may put links in the place of files and folders at any moment. So each folder is opened
    from the one above it, as a folder and not through a link, and what is changed was opened before: no path that the
    pod could change leads anywhere.
    """

    def __init__(self, folder: Path, group: int, policy: str) -> None:
        self._folder, self._group, self._policy = folder, group, policy
        self._stopped = threading.Event()
        self.count = 0

    def run(self) -> bool:
        """Blocks, for minutes on many files; `count` grows. False where the folder was right already, and nothing was
        done. Raises OSError when the folder can't be walked.
        """
        if not stat.S_ISDIR(self._folder.lstat().st_mode):  # a file or a link that the driver has made
            with _opened(self._folder.parent) as above:
                _change(above, self._folder.name, self._group)
            return True
        with _opened(self._folder) as root:
            if self._policy == ON_ROOT_MISMATCH and _is_right(os.fstat(root), self._group):
                return False
            folders: list[tuple[str, ...]] = [()]
            while folders and not self._stopped.is_set():
                folders.extend(self._in_folder(root, folders.pop()))
            if not self._stopped.is_set():
                _change(root, "", self._group)
        return True

    def stop(self) -> None:
        """`run` ends after the file that it is at; the folder itself is left as it was, so the next walk is a whole
        one.
        """
        self._stopped.set()

    def _in_folder(self, root: int, names: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Changes all that is in one folder, which these names lead to from the root. The folders in it. Raises
        OSError.
        """
        found: list[tuple[str, ...]] = []
        try:
            folder = _descended(root, names)
        except OSError as error:
            if names and error.errno in _GONE:
                return found
            raise
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if self._stopped.is_set():
                        break
                    if _change(folder, entry.name, self._group):
                        found.append((*names, entry.name))
                    self.count += 1
        finally:
            os.close(folder)
        return found


_GONE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""A folder that was removed, or has something else in its place, since it was listed."""

_AS_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_AS_ANYTHING: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_NOFOLLOW | os.O_CLOEXEC
"""Opens nothing that a device or a pipe would notice."""


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, _AS_FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _descended(root: int, names: tuple[str, ...]) -> int:
    """A folder below the root, opened. One folder after the other is, so that deep trees need no more than two
    descriptors.
    """
    folder = os.open(".", _AS_FOLDER, dir_fd=root)
    for name in names:
        above = folder
        try:
            folder = os.open(name, _AS_FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return folder


def _is_right(status: os.stat_result, group: int) -> bool:
    wanted = 0o770 | stat.S_ISGID
    return status.st_gid == group and status.st_mode & wanted == wanted


def _change(folder: int, name: str, group: int) -> bool:
    """Gives the group the file of this name, "" for the folder itself. True for a folder."""
    try:
        if stat.S_ISLNK(os.stat(name or ".", dir_fd=folder, follow_symlinks=False).st_mode):
            os.chown(name, -1, group, dir_fd=folder, follow_symlinks=False)
            return False
        descriptor = os.open(name or ".", _AS_ANYTHING, dir_fd=folder)
    except OSError:
        return False
    try:
        return _change_opened(descriptor, group)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _change_opened(descriptor: int, group: int) -> bool:
    """The file that was opened, and no other, whatever its name leads to by now. True for a folder. Raises OSError."""
    status, path = os.fstat(descriptor), f"/proc/self/fd/{descriptor}" if hasattr(os, "O_PATH") else descriptor
    is_folder = stat.S_ISDIR(status.st_mode)
    if stat.S_ISLNK(status.st_mode):  # it has come in the place of a file just now
        return False
    with contextlib.suppress(OSError):
        os.chown(path, -1, group)
    with contextlib.suppress(OSError):
        os.chmod(path, stat.S_IMODE(status.st_mode) | _WRITABLE | (_FOLDER if is_folder else 0))
    return is_folder
