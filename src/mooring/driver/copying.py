"""Copies a volume's data: a folder with all its content, or one file. Everything here blocks.

In Python, not with `cp`: a child process would outlive a killed driver, and write into data that the next one cleans
up.

Contents, modes, owners, times, extended attributes, symbolic and hard links and holes are kept. No symbolic link is
ever followed, also not one that replaces a folder meanwhile: everything is opened by its name within an open folder.
Files that vanish during the copy are left out. Owners are kept by root alone; so are device files, whose copy fails for
anybody else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import Final

CHUNK_BYTES: Final = 8 << 20
DEPTH_MAX: Final = 256
"""Two descriptors are open for each level of folders."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_NO_RANGES: Final = frozenset({errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EBADF, errno.EPERM})

_GONE: Final = frozenset({errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EINVAL})

Check = Callable[[], None]
"""Called again and again while a copy goes on; what it raises ends the copy."""


def copy_folder(source: str, target: str, check: Check) -> None:
    """Fills the folder target, which is empty, with all that is in source. Raises OSError, and what check raises."""
    with _opened(source, _FOLDER) as here, _opened(target, _FOLDER) as there:
        _Tree(there, check).fill(here, there, ())


def copy_file(
    source: str, target: str, size_bytes: int, check: Check, tell: Callable[[int], None] = lambda _at: None
) -> None:
    """Makes the file target with the data of source, and size_bytes long. Raises OSError, and what check and tell
    raise.

    tell: gets the byte that the copy has reached. A killed process leaves a part of the target: `files.copy_file` does
    not.
    """
    with _opened(source, _READ) as here, _opened(target, _WRITE, 0o600) as there:
        _copy_data(here, there, min(size_bytes, os.fstat(here).st_size), check, tell)
        os.ftruncate(there, size_bytes)
        os.fsync(there)


class _Vanished(Exception):
    """Somebody has removed it, or put something else in its place."""


class _Tree:
    """One copy of a folder. root: the target, open."""

    def __init__(self, root: int, check: Check) -> None:
        self._root = root
        self._check = check
        self._links: dict[
            tuple[int, int], str
        ] = {}  # device and inode of a file with several names: where its copy is, below root

    def fill(self, here: int, there: int, path: tuple[str, ...]) -> None:
        """Copies what is in the open folder `here` to the open folder `there`, then makes that look like it."""
        if len(path) > DEPTH_MAX:
            raise OSError(errno.ELOOP, f"folders are nested more than {DEPTH_MAX} deep")
        for name in sorted(os.listdir(here)):
            self._check()
            with contextlib.suppress(_Vanished):
                self._copy(name, here, there, (*path, name))
        _dress(here, there)
        os.fsync(there)

    def _copy(self, name: str, here: int, there: int, path: tuple[str, ...]) -> None:
        with _may_vanish():
            status = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            with _of_source(name, _FOLDER, here) as inner:
                os.mkdir(name, 0o700, dir_fd=there)
                with _opened(name, _FOLDER, dir_fd=there) as copy:
                    self.fill(inner, copy, path)
            return
        known = self._links.get((status.st_dev, status.st_ino))
        if known is not None:
            os.link(known, name, src_dir_fd=self._root, dst_dir_fd=there, follow_symlinks=False)
            return
        if stat.S_ISREG(status.st_mode):
            self._copy_regular(name, here, there)
        else:
            _copy_special(name, here, there, status)
        if status.st_nlink > 1:
            self._links[status.st_dev, status.st_ino] = "/".join(path)

    def _copy_regular(self, name: str, here: int, there: int) -> None:
        with _of_source(name, _READ, here) as inner:
            status = os.fstat(inner)
            if not stat.S_ISREG(status.st_mode):
                raise _Vanished
            with _opened(name, _WRITE, 0o600, dir_fd=there) as copy:
                _copy_data(inner, copy, status.st_size, self._check)
                os.ftruncate(copy, status.st_size)
                _dress(inner, copy)
                os.fsync(copy)


def _copy_special(name: str, here: int, there: int, status: os.stat_result) -> None:
    """A symbolic link, a pipe, a socket or a device."""
    if stat.S_ISLNK(status.st_mode):
        with _may_vanish():
            goal = os.readlink(name, dir_fd=here)
        os.symlink(goal, name, dir_fd=there)
    else:
        os.mknod(name, status.st_mode, status.st_rdev, dir_fd=there)
        os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=there)
    with contextlib.suppress(PermissionError):
        os.chown(name, status.st_uid, status.st_gid, dir_fd=there, follow_symlinks=False)
    os.utime(name, ns=(status.st_atime_ns, status.st_mtime_ns), dir_fd=there, follow_symlinks=False)


def _copy_data(
    here: int, there: int, size_bytes: int, check: Check, tell: Callable[[int], None] = lambda _at: None
) -> None:
    """The first bytes of an open file, without its holes."""
    at = 0
    while at < size_bytes:
        try:
            at = os.lseek(here, at, os.SEEK_DATA)
            end = min(os.lseek(here, at, os.SEEK_HOLE), size_bytes)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return  # nothing but a hole up to the end
            raise
        while at < end:
            check()
            copied = _copy_some(here, there, at, min(CHUNK_BYTES, end - at))
            if not copied:
                return  # it was made shorter meanwhile
            at += copied
            tell(at)


def _copy_some(here: int, there: int, at: int, count: int) -> int:
    """How many bytes were copied; the file system shares them between both files where it can."""
    try:
        return os.copy_file_range(here, there, count, at, at)
    except OSError as error:
        if error.errno not in _NO_RANGES:
            raise
    return os.pwrite(there, os.pread(here, count, at), at)


def _dress(here: int, there: int) -> None:
    """Owner, mode, extended attributes and times of one open file or folder for another."""
    status = os.fstat(here)
    with contextlib.suppress(PermissionError):
        os.fchown(there, status.st_uid, status.st_gid)
    os.fchmod(there, stat.S_IMODE(status.st_mode))
    try:
        for name in os.listxattr(here):
            with contextlib.suppress(PermissionError):
                os.setxattr(there, name, os.getxattr(here, name))
    except OSError as error:
        if error.errno not in (errno.ENOTSUP, errno.ENODATA):
            raise
    os.utime(there, ns=(status.st_atime_ns, status.st_mtime_ns))


@contextlib.contextmanager
def _opened(path: str, flags: int, mode: int = 0o777, dir_fd: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags, mode, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _of_source(name: str, flags: int, folder: int) -> Iterator[int]:
    """Something of the source, opened. Raises _Vanished."""
    with _may_vanish():
        descriptor = os.open(name, flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _may_vanish() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _GONE:
            raise _Vanished from None
        raise
