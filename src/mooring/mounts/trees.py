"""Folders removed with all that is in them, and with nothing else: no link is followed, no mount is crossed. Everything
here blocks.

The folder's former user may have left anything in it: folders that nobody may write to or enter, nested deeper than any
stack, mounts of others.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.mounts.targets import mount_table, plain

DEPTH_MAX: Final = 64
"""The number of folders that are open at once: deeper ones are moved up first."""

_OWN: Final = 0o700


def remove_tree(path: Path) -> None:
    """The file or folder with all that is in it, as far as it is there. Nothing goes while something is mounted on it
    or below.

    A folder of a plain user's own is made writable first. Raises OSError, EBUSY where something is mounted.
    """
    path = plain(path)
    if below := mount_table().below(str(path)):
        raise _busy(below[-1].point)
    if os.path.lexists(path):
        with _opened(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as parent:
            _Tree(parent).remove(path.name)


class _Tree:
    """The content of one open folder, which is being removed. The number of its mount shows whether something was
    mounted meanwhile.
    """

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._mount = _mount_of(parent)
        self._numbers = itertools.count()
        self._moved = False

    def remove(self, name: str) -> None:
        if not _is_folder(name, self._parent):
            os.unlink(name, dir_fd=self._parent)
            return
        with self._entered(name, self._parent) as top:
            self._moved = True
            while self._moved:
                self._moved = False
                self._empty(top, top, 0)
        os.rmdir(name, dir_fd=self._parent)

    def _empty(self, folder: int, top: int, depth: int) -> None:
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # its owner has removed it just now
                self._remove_inner(name, folder, top, depth)

    def _remove_inner(self, name: str, folder: int, top: int, depth: int) -> None:
        if not _is_folder(name, folder):
            os.unlink(name, dir_fd=folder)
            return
        with self._entered(name, folder) as inner:
            if depth < DEPTH_MAX:
                self._empty(inner, top, depth + 1)
        if depth < DEPTH_MAX:
            os.rmdir(name, dir_fd=folder)
        else:
            self._move_up(name, folder, top)

    def _move_up(self, name: str, folder: int, top: int) -> None:
        """To the top, under a name that nothing has there."""
        free = next(one for one in (f".deep-{number}" for number in self._numbers) if not _is_there(one, top))
        os.rename(name, free, src_dir_fd=folder, dst_dir_fd=top)
        self._moved = True

    @contextlib.contextmanager
    def _entered(self, name: str, parent: int) -> Iterator[int]:
        """The folder, open, with all rights to it. Raises EBUSY for another mount, before anything is done to what is
        mounted.
        """
        with _opened(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)) as place:
            if _mount_of(place) != self._mount:
                raise _busy(name)
            mode = os.fstat(place).st_mode
            if mode & _OWN != _OWN:
                with contextlib.suppress(PermissionError):  # somebody else's: what follows tells whether it matters
                    os.chmod(f"/proc/self/fd/{place}", stat.S_IMODE(mode) | _OWN)
            with _opened(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)) as folder:
                yield folder


def _is_folder(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _mount_of(descriptor: int) -> str:
    """The number of the mount that an open file lies on. Source: proc_pid_fdinfo(5)."""
    text = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    return next(line for line in text.splitlines() if line.startswith("mnt_id:"))


def _busy(where: str) -> OSError:
    return OSError(errno.EBUSY, f"something is mounted on {where!r}: unmount it first")


@contextlib.contextmanager
def _opened(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
