"""File systems on devices: made, checked, mounted, grown, and measured. Everything here blocks, and may be repeated.

The tools are the system's: blkid(8), mkfs.TYPE(8), e2fsck(8), resize2fs(8), xfs_growfs(8). Which are needed: `tools_for`.

A device may be formatted only if everything that is read is zero. blkid(8) is not enough to know. It ends with 2 both if it finds nothing
and if it can't read. It overlooks a file system whose first superblock is damaged, and all data without a signature. After a kill while a
device is formatted, the device is not empty: so a mark on it says that it is being formatted, from before the first byte until after the
last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from mooring.mounts import loops, system
from mooring.mounts.targets import Occupied, mount_table

_MIB: Final = 1 << 20
_GROUP: Final = 128 * _MIB
"""For ext4 with its usual blocks: copies of the superblock are at the beginning of some groups."""
_LOOKED_AT: Final = ((0, 64 * _MIB), *((number * _GROUP, 64 << 10) for number in (1, 3, 5, 7, 9)))
_END: Final = _MIB
_CHUNK: Final = bytes(4 * _MIB)

_MARK: Final = b"mooring: this device is being formatted\n".ljust(512, b"\0")
_MARK_FROM_END: Final = 256 << 10
"""mkfs.ext4 and mkfs.xfs clear the last 64 and 128 KiB."""

FS_TYPE: Final = "ext4"
"""Where the caller names none."""

_EXT: Final = frozenset({"ext2", "ext3", "ext4"})
_FORMAT_OPTIONS: Final = {**dict.fromkeys(_EXT, ("-q", "-F", "-m0", "-E", "nodiscard")), "xfs": ("-q", "-f", "-K")}
FS_TYPES: Final = frozenset(_FORMAT_OPTIONS)
_REPAIRED_MAX: Final = 1
"""e2fsck's highest exit code that leaves a sound file system."""
_LONG_S: Final = 300.0


def tools_for(fs_type: str) -> tuple[str, ...]:
    """The programs that volumes with such a file system need."""
    grower = ("e2fsck", "resize2fs") if fs_type in _EXT else ("xfs_growfs",)
    return ("blkid", f"mkfs.{fs_type}", *grower)


def type_on(device: Path) -> str:
    """The type of the file system on the device, "" for none. Raises ToolFailed, OSError for a device that can't be read."""
    found, is_file_system = signature_on(device)
    return found if is_file_system else ""


def prepare(device: Path, wanted: str = "") -> str:
    """The device's file system, made where there is nothing yet, and checked where it is not mounted. Nothing is formatted over.

    wanted: its type, "" for any. Raises ToolFailed, OSError, Occupied for a file system of another type and for whatever else is on it.
    """
    there, is_file_system = signature_on(device)
    if not there:
        return _made(device, wanted or FS_TYPE)
    if not is_file_system:
        raise Occupied(f"{device} has {there} on it, and no file system: nothing is formatted over it")
    if wanted and wanted != there:
        raise Occupied(f"{device} has the file system {there}, and {wanted} is asked for: nothing is formatted over it")
    forget_formatting(device)
    if there in _EXT and not _point_of(device):
        system.run("e2fsck", "-p", str(device), allowed=range(_REPAIRED_MAX + 1), timeout_s=_LONG_S)
    return there


def _made(device: Path, fs_type: str) -> str:
    check_empty(device)
    with _being_formatted(device):
        system.run(f"mkfs.{fs_type}", *_FORMAT_OPTIONS.get(fs_type, ()), str(device), timeout_s=_LONG_S)
    return fs_type


def mount(device: Path, point: Path, wanted: str = "", flags: Sequence[str] = (), *, readonly: bool = False) -> None:
    """The device's file system on the point, a folder, which is made; formatted where it has none. Does nothing where it is mounted there.

    Raises ToolFailed, OSError, Occupied for anything else that is mounted there.
    """
    over = mount_table().at(str(point))
    if over is not None:
        if over.source != str(device):
            raise Occupied(
                f"something else is mounted on {str(point)!r} ({over.source}, {over.fs_type}): unmount it first"
            )
        return
    point.mkdir(mode=0o750, exist_ok=True)
    fs_type = prepare(device, wanted)
    same_twice = (
        ["nouuid"] if fs_type == "xfs" else []
    )  # a restored xfs has the identity of its origin: both may be mounted
    options = [*flags, *same_twice, *(["ro"] if readonly else [])]
    system.run("mount", "-t", fs_type, *(["-o", ",".join(options)] if options else []), str(device), str(point))


def mount_file(file: Path, point: Path, wanted: str = "", flags: Sequence[str] = (), *, readonly: bool = False) -> None:
    """As `mount`, for the file system in a file, which takes the whole of that. Where it fails, no loop device is left behind.

    Raises ToolFailed, OSError, Occupied.
    """
    with loops.attached(file) as device:
        if not readonly:  # a restored one may have a larger file than its origin
            prepare(device, wanted)
            fit(device)
        mount(device, point, wanted, flags, readonly=readonly)
        if not readonly and type_on(device) == "xfs":
            grow(device)


def grow_file(file: Path) -> None:
    """The file system in a file takes the whole of that, where a loop device is over it; else it does when it is mounted next.

    Raises ToolFailed.
    """
    loops.grow(file)
    for device in loops.devices(file)[:1]:
        grow(device)


def grow(device: Path) -> None:
    """The file system takes the whole device, mounted or not; xfs grows only while it is mounted. Raises ToolFailed."""
    try:
        _grow(device)
    except system.ToolFailed as error:
        if "Permission denied" not in str(error):
            raise
        what = "a mounted file system grows only for a process with CAP_SYS_RESOURCE; this one grows when it is staged again"
        raise system.ToolFailed(f"{error}: {what}") from None


def _grow(device: Path) -> None:
    point = _point_of(device)
    fs_type = type_on(device)
    if fs_type in _EXT:
        if not point:
            system.run("e2fsck", "-fp", str(device), allowed=range(_REPAIRED_MAX + 1), timeout_s=_LONG_S)
        system.run("resize2fs", str(device), timeout_s=_LONG_S)
    elif fs_type == "xfs" and point:
        system.run("xfs_growfs", point, timeout_s=_LONG_S)


def fit(device: Path) -> None:
    """As `grow`, for a file system that is mounted next: quick where it has the whole device already, or is mounted. Raises ToolFailed."""
    if type_on(device) not in _EXT or _point_of(device):
        return
    try:
        system.run("resize2fs", str(device), timeout_s=_LONG_S)
    except system.ToolFailed:  # it wants a whole check first
        grow(device)


def _point_of(device: Path) -> str:
    """Where the device is mounted, "" for nowhere."""
    return next((mount.point for mount in mount_table() if mount.source == str(device)), "")


class Usage(msgspec.Struct, frozen=True):
    """The use of a file system: bytes or inodes."""

    total: int
    available: int
    used: int


def usage(path: Path) -> tuple[Usage, Usage]:
    """Bytes and inodes of the file system that the path lies on. Raises OSError."""
    found = os.statvfs(path)
    size = found.f_frsize
    in_bytes = Usage(found.f_blocks * size, found.f_bavail * size, (found.f_blocks - found.f_bfree) * size)
    return in_bytes, Usage(found.f_files, found.f_favail, found.f_files - found.f_ffree)


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
def _being_formatted(device: Path) -> Iterator[None]:
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
