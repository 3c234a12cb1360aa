"""Tells the content of a device, and whether it may be formatted: only if everything that is read is zero. Everything here blocks.

blkid(8) is not enough. It ends with 2 both if it finds nothing and if it can't read. It overlooks a file system whose first superblock is
damaged, and all data without a signature. After a kill while a device is formatted, the device is not empty: so a mark on it says that it
is being formatted, from before the first byte until after the last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.mounts import system
from mooring.mounts.targets import Occupied

_MIB: Final = 1 << 20
_GROUP: Final = 128 * _MIB
"""For ext4 with its usual blocks: copies of the superblock are at the beginning of some groups."""
_LOOKED_AT: Final = ((0, 64 * _MIB), *((number * _GROUP, 64 << 10) for number in (1, 3, 5, 7, 9)))
_END: Final = _MIB
_CHUNK: Final = bytes(4 * _MIB)

_MARK: Final = b"mooring: this device is being formatted\n".ljust(512, b"\0")
_MARK_FROM_END: Final = 256 << 10
"""mkfs.ext4 and mkfs.xfs clear the last 64 and 128 KiB."""


def signature_on(device: Path) -> tuple[str, bool]:
    """The name that blkid has for it ("ext4", "LVM2_member", "gpt"), "" for none; and whether that is a file system.

    Raises OSError, ToolFailed.
    """
    with _opened(device, os.O_RDONLY) as opened:
        os.pread(opened, len(_MARK), 0)
    text = system.run("blkid", "-p", "-o", "export", str(device), allowed=(0, 2))
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return found.get("TYPE") or found.get("PTTYPE", ""), found.get("USAGE") == "filesystem"


def check_empty(device: Path) -> None:
    """Raises Occupied for a device on which anything is found, but for one that is being formatted; OSError where it can't be read."""
    with _opened(device, os.O_RDONLY) as opened:
        size = _size(opened)
        if _is_marked(opened):
            return
        for start, count in (*_LOOKED_AT, (max(0, size - _END), _END)):
            if not _is_zero(opened, start, min(start + count, size)):
                what = f"{device} has no file system that is known, and is not empty: nothing is formatted over it"
                raise Occupied(f"{what}; wipe it (blkdiscard, dd) if nobody needs its content")


@contextlib.contextmanager
def being_formatted(device: Path) -> Iterator[None]:
    """The device is marked while the block runs, and afterwards if that fails. Raises OSError."""
    with _opened(device, os.O_RDWR) as opened:
        _write_mark(opened, _MARK)
    yield
    forget_formatting(device)


def forget_formatting(device: Path) -> None:
    """From now on the device's content counts. Raises OSError."""
    with _opened(device, os.O_RDONLY) as opened:
        is_marked = _is_marked(opened)
    if is_marked:
        with _opened(device, os.O_RDWR) as opened:
            _write_mark(opened, bytes(len(_MARK)))


def _size(opened: int) -> int:
    return os.lseek(opened, 0, os.SEEK_END)


def _is_marked(opened: int) -> bool:
    place = _size(opened) - _MARK_FROM_END
    return place > 0 and os.pread(opened, len(_MARK), place) == _MARK


def _write_mark(opened: int, mark: bytes) -> None:
    """Nothing on a device that has no room for it."""
    place = _size(opened) - _MARK_FROM_END
    if place > 0:
        os.pwrite(opened, mark, place)
        os.fsync(opened)


def _is_zero(opened: int, start: int, end: int) -> bool:
    while start < end:
        found = os.pread(opened, min(len(_CHUNK), end - start), start)
        if not found:
            return True  # it has become smaller
        if found != _CHUNK[: len(found)]:
            return False
        start += len(found)
    return True


@contextlib.contextmanager
def _opened(device: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(device, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
