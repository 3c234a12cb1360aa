"""A file that is replaced whole, also on a disk that is full: its twin has room for as much again before that is
needed.

A new content is written over the twin's, on blocks that it has already; then both change names. A reader sees the old
content or the new one, never a part. Behind the content there are blanks, as far as the room goes. Everything here
blocks.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.base.folders import sync_folder

_STEP: Final = 16 << 10
_TOO_MUCH: Final = 4
"""Times the room that is needed: a file that has more gives the rest back."""

_HERE: Final = -100
_EXCHANGE: Final = 2


class KeptFile:
    def __init__(self, path: Path) -> None:
        self._path, self._twin = path, path.with_name(f"{path.name}.new")

    def write(self, content: bytes) -> None:
        """Replaces the content; returns when the disk has it. Raises OSError, with the former content in place."""
        room = _room(content)
        with _opened(self._twin) as twin:
            if os.fstat(twin).st_size > _TOO_MUCH * room:
                os.ftruncate(twin, room)
            _overwrite(twin, _padded(content, os.fstat(twin).st_size))
            os.fsync(twin)
        _exchange(self._twin, self._path)
        sync_folder(self._path.parent)
        self._keep(room)

    def keep_room(self) -> None:
        """For another content of the same size, as far as the disk has it."""
        self._keep(_room(self._path.read_bytes().rstrip()))

    def _keep(self, room: int) -> None:
        with contextlib.suppress(OSError), _opened(self._twin) as twin:
            if os.fstat(twin).st_size < room:
                os.posix_fallocate(twin, 0, room)


def _room(content: bytes) -> int:
    """A step more than it takes: what is a little larger next time has its place, too."""
    return (len(content) // _STEP + 2) * _STEP


def _padded(content: bytes, size: int) -> bytes:
    return content if len(content) >= size else content.ljust(size - 1) + b"\n"


def _overwrite(opened: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.pwrite(opened, view, len(content) - len(view)) :]


def _exchange(new: Path, old: Path) -> None:
    """Both names change places; where a file system can't do that, or there is no old file, the new one alone takes its
    name.
    """
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None or renameat2(_HERE, os.fsencode(new), _HERE, os.fsencode(old), _EXCHANGE):
        new.replace(old)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
