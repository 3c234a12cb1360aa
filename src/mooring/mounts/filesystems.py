"""File systems on devices: made, checked, mounted, grown, and measured. Everything here blocks, and may be repeated.

The tools are the system's: blkid(8), mkfs.TYPE(8), e2fsck(8), resize2fs(8), xfs_growfs(8). Which are needed:
`tools_for`. One that writes is never killed.

The rules are those of Go drivers, k8s.io/mount-utils. Beside each rule stands the function there that it comes from,
and in what we differ on purpose. The tests run both over one table of devices.

A device may be formatted only if everything that is read is zero. blkid(8) is not enough to know. It ends with 2 both
if it finds nothing and if it can't read. It overlooks a file system whose first superblock is damaged, and all data
without a signature. After a kill while a device is formatted, the device is not empty: so a mark on it says that it is
being formatted, from before the first byte until after the last.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from mooring.base.log import logger
from mooring.mounts import loops, system
from mooring.mounts.mountinfo import Mount
from mooring.mounts.targets import Occupied, mount_table, plain

_log = logger(__name__)

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
"""Where the caller names none (formatAndMountSensitive)."""

_EXT: Final = frozenset({"ext2", "ext3", "ext4"})
_FORMAT_OPTIONS: Final = {
    "ext2": ("-q", "-F", "-E", "nodiscard"),
    "ext3": ("-q", "-F", "-m0", "-E", "nodiscard"),
    "ext4": ("-q", "-F", "-m0", "-E", "nodiscard"),
    "xfs": ("-q", "-f", "-K"),
}
"""formatAndMountSensitive: it is forced, and no blocks are kept for root but on ext2. Differs: nothing is discarded,
since our mark would be.
"""
FS_TYPES: Final = frozenset(_FORMAT_OPTIONS)
_GROWERS: Final = {"xfs": ("xfs_growfs", "-d"), "btrfs": ("btrfs", "filesystem", "resize", "max")}
"""Commands, to which the mount point is added: xfsResize, btrfsResize."""
_MAY_BE_SOUND: Final = frozenset(range(256)) - {4}
"""Exit codes of e2fsck and fsck but the one for errors that are left: after any other the kernel decides
(checkAndRepairFilesystem).
"""
_LONG_S: Final = 60.0
"""Tools that write take what time they need: beyond this the log tells of them, again and again."""
_BLKROGET: Final = 0x125E


def tools_for(fs_type: str) -> tuple[str, ...]:
    """The programs that volumes with such a file system need."""
    grower = ("e2fsck", "resize2fs") if fs_type in _EXT else ("xfs_growfs",)
    return ("blkid", f"mkfs.{fs_type}", *grower)


def type_on(device: Path) -> str:
    """The type of the file system on the device, "" for none. Raises ToolFailed, OSError for a device that can't be
    read.
    """
    found, is_file_system = signature_on(device)
    return found if is_file_system else ""


def prepare(device: Path, wanted: str = "") -> str:
    """The device's file system, made where there is nothing yet, and checked where it is not mounted. Nothing is
    formatted over.

    wanted: its type, "" for any. Gives the type to mount it as. Raises ToolFailed, OSError, Occupied for a file system
    that can't be mounted as that type and for whatever else is on it.

    From formatAndMountSensitive. Differs: that formats whatever blkid(8) does not know; here the device must be empty
    (`check_empty`). There a device that does not exist is an empty one until mkfs(8) fails.
    """
    there = _found(device, wanted)
    if not there:
        return _made(device, wanted or FS_TYPE)
    forget_formatting(device)
    if not _point_of(device):
        _repair(device, there)
    return wanted or _mounted_as(there)


def _found(device: Path, wanted: str) -> str:
    """The type of the file system on the device, "" where there is nothing. Raises ToolFailed, OSError, Occupied.

    From formatAndMountSensitive. Differs: what mount(8) will refuse is refused here, before anything is repaired.
    """
    there, is_file_system = signature_on(device)
    if there and not is_file_system:
        raise Occupied(f"{device} has {there} on it, and no file system: nothing is formatted over it")
    if not there or wanted == there or {there, wanted} <= _EXT:  # ext4 mounts the former ones
        return there
    if wanted in FS_TYPES:
        raise Occupied(_mismatch(device, there, wanted))
    return there  # as auto, or ntfs3 for ntfs: mount(8) decides


def _mismatch(device: Path, there: str, wanted: str) -> str:
    return f"{device} has the file system {there}, and {wanted} is asked for: nothing is formatted over it"


def _mounted_as(there: str) -> str:
    """The type for mount(8) where the caller has named none.

    From formatAndMountSensitive, which takes ext4 for all. Differs: what ext4 can't mount is mounted as what it is,
    since a restored volume has the type of its origin, whatever its new class says.
    """
    return FS_TYPE if there in _EXT else there


def _made(device: Path, fs_type: str) -> str:
    """Formats an empty device. Raises ToolFailed, OSError, Occupied. From SafeFormatAndMount.format."""
    maker = f"mkfs.{fs_type}"
    check_empty(device)
    if system.missing_tools((maker,)):  # before the mark, which allows to format whatever is there
        raise system.ToolFailed(f"{maker} is not on this machine; install the package that has it")
    with _being_formatted(device):
        system.run(maker, *_FORMAT_OPTIONS.get(fs_type, ()), str(device), told_each_s=_LONG_S)
    return fs_type


def _repair(device: Path, fs_type: str) -> None:
    """Checks a file system that is not mounted. Raises ToolFailed for errors that are left.

    From checkAndRepairFilesystem, which runs fsck(8) for all types, and goes on where that is missing. For ext2 to ext4
    that is e2fsck, with the same flag by another letter.
    """
    tool, flag = ("e2fsck", "-p") if fs_type in _EXT else ("fsck", "-a")
    if system.missing_tools((tool,)):
        _log.warning(f"{device}: mounted without a check, since {tool} is not on this machine")
        return
    system.run(tool, flag, str(device), allowed=_MAY_BE_SOUND, told_each_s=_LONG_S)


def mount(device: Path, point: Path, wanted: str = "", flags: Sequence[str] = (), *, readonly: bool = False) -> None:
    """The device's file system on the point, a folder, which is made; formatted where it has none. Does nothing where
    it is mounted there.

    readonly: neither formats nor repairs; nor does the flag `ro`, nor a device that can't be written. Raises
    ToolFailed, OSError, Occupied for anything else that is mounted there, and for a file system of another type.

    From FormatAndMount. Differs: it may be repeated, as calls of CSI are; there the driver looks at the mount point and
    makes it. There mkfs(8) and fsck(8) fail by themselves on a device that can't be written.
    """
    over = mount_table().at(str(plain(point)))
    if over is not None:
        if not _is_on(over, device):
            raise Occupied(
                f"something else is mounted on {str(point)!r} ({over.source}, {over.fs_type}): unmount it first"
            )
        return
    point.mkdir(mode=0o750, exist_ok=True)
    if readonly or "ro" in flags or is_readonly(device):
        there, readonly = _found(device, wanted), True
        if not there:
            raise system.ToolFailed(f"{device} has no file system, and is to be mounted read-only: none is made then")
        fs_type = wanted or _mounted_as(there)
    else:
        fs_type = prepare(device, wanted)
    # A restored xfs has the identity of its origin: both may be mounted. Differs: Go drivers add it themselves.
    same_twice = ["nouuid"] if fs_type == "xfs" else []
    options = [*flags, *same_twice, *(["ro"] if readonly and "ro" not in flags else [])]
    try:
        system.run("mount", "-t", fs_type, *(["-o", ",".join(options)] if options else []), str(device), str(point))
    except system.ToolHangs:
        raise
    except system.ToolFailed as error:
        there = type_on(device)
        if there in ("", fs_type):
            raise
        raise Occupied(f"{_mismatch(device, there, fs_type)}; {error}") from None


def mount_file(file: Path, point: Path, wanted: str = "", flags: Sequence[str] = (), *, readonly: bool = False) -> None:
    """As `mount`, for the file system in a file, which takes the whole of that. Where it fails, no loop device is left
    behind.

    Raises ToolFailed, OSError, Occupied.
    """
    with loops.attached(file) as device:
        is_read = readonly or "ro" in flags
        if not is_read:  # a restored one may have a larger file than its origin
            prepare(device, wanted)
            fit(device)
        mount(device, point, wanted, flags, readonly=readonly)
        if not is_read and type_on(device) == "xfs":
            grow(device)


def grow_file(file: Path) -> None:
    """The file system in a file takes the whole of that, where a loop device is over it; else it does when it is
    mounted next.

    Raises ToolFailed.
    """
    loops.grow(file)
    for device in loops.devices(file)[:1]:
        if type_on(device) in _EXT or _point_of(device):
            grow(device)


def grow(device: Path) -> None:
    """The file system takes the whole device; all but those of ext2 to ext4 grow only while they are mounted. Does
    nothing on an empty device, and on one that can't be written.

    Raises ToolFailed, also for a partition table and whatever else is no file system.

    From ResizeFs.NeedResize and Resize. Differs: ext2 grows, too, by the same tool; one that is not mounted is checked
    first, without which resize2fs(8) refuses most.
    """
    try:
        _grow(device)
    except system.ToolFailed as error:
        if "Permission denied" not in str(error):
            raise
        what = (
            "a mounted file system grows only for a process with CAP_SYS_RESOURCE; this one grows when it is "
            "staged again"
        )
        raise system.ToolFailed(f"{error}: {what}") from None


def _grow(device: Path) -> None:
    if is_readonly(device):
        return
    point, found = _point_of(device), _probed(device)
    fs_type, table = found.get("TYPE", ""), found.get("PTTYPE", "")
    if table:  # a file system before a table may be what is left from before the device was parted
        raise system.ToolFailed(f"{device} has a partition table ({table}): nothing here can grow that")
    if not fs_type:
        return
    if fs_type in _EXT:
        if not point:
            system.run("e2fsck", "-fp", str(device), allowed=_MAY_BE_SOUND, told_each_s=_LONG_S)
        system.run("resize2fs", str(device), told_each_s=_LONG_S)
    elif fs_type not in _GROWERS:
        raise system.ToolFailed(f"{device} has {fs_type} on it: nothing here can grow that")
    elif not point:
        raise system.ToolFailed(f"{device} has the file system {fs_type}, which grows only while it is mounted")
    else:
        system.run(*_GROWERS[fs_type], point, told_each_s=_LONG_S)


def fit(device: Path) -> None:
    """As `grow`, for a file system that is mounted next: quick where it has the whole device already, or is mounted.
    Raises ToolFailed.
    """
    found = _probed(device)
    if found.get("TYPE") not in _EXT or "PTTYPE" in found or _point_of(device):
        return
    try:
        system.run("resize2fs", str(device), told_each_s=_LONG_S)
    except system.ToolFailed:  # it wants a whole check first
        grow(device)


def _point_of(device: Path) -> str:
    """Where the device is mounted, "" for nowhere."""
    return next((mount.point for mount in mount_table() if _is_on(mount, device)), "")


def _is_on(mount: Mount, device: Path) -> bool:
    """True where the mount's file system is on the device, by whatever link either was named: mount(8) names an LVM
    volume by its link below /dev/mapper.
    """
    if mount.source == str(device):
        return True
    return mount.source.startswith("/dev/") and os.path.realpath(mount.source) == os.path.realpath(device)


def is_readonly(device: Path) -> bool:
    """True for a block device that can't be written. Raises OSError. From ResizeFs.getDeviceRO."""
    with _opened(device, os.O_RDONLY) as opened:
        if not stat.S_ISBLK(os.fstat(opened).st_mode):
            return False
        (answer,) = struct.unpack("i", fcntl.ioctl(opened, _BLKROGET, bytes(4)))
    return bool(answer)


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

    From getDiskFormat. Differs: of a file system and a partition table on one device, which both of us mount, the file
    system is named.
    """
    found = _probed(device)
    return found.get("TYPE") or found.get("PTTYPE", ""), found.get("USAGE") == "filesystem"


def _probed(device: Path) -> dict[str, str]:
    """What blkid(8) finds on the device, by its names; nothing on one that is empty. Raises OSError, ToolFailed.

    From getDiskFormat. Differs: a device that can't be read is an error, where blkid(8) tells of nothing found; and its
    name may have an equals sign.
    """
    with _opened(device, os.O_RDONLY) as opened:
        os.pread(opened, len(_MARK), 0)
    text = system.run("blkid", "-p", "-o", "export", str(device), allowed=(0, 2))
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def check_empty(device: Path) -> None:
    """Raises Occupied for a device on which anything is found, but for one that is being formatted; OSError where it
    can't be read.
    """
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
