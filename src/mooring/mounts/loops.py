"""Loop devices over files, by losetup(8): one for all who write, one for all who only read. Everything here blocks.

mount-utils has none; mount(8) with the option loop, which Go drivers use, makes a new device for each mount.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from mooring.mounts import system

_BLOCK: Final = Path("/sys/block")
_TRIES: Final = 5
_DELETED: Final = " (deleted)"
_NOWHERE: Final = "/"
"""The name of a file that was mounted itself, in a mount namespace that is gone: as an agent's that was killed."""

_SET_STATUS64: Final = 0x4C04
_GET_STATUS64: Final = 0x4C05
_INFO64_BYTES: Final = 232
_FLAGS_AT: Final = 52
_AUTOCLEAR: Final = 4


def all_devices() -> frozenset[Path]:
    """Every loop device that is over a file."""
    return frozenset(Path("/dev") / entry.parent.parent.name for entry in _BLOCK.glob("loop*/loop/backing_file"))


def devices(file: Path) -> tuple[Path, ...]:
    """The devices over this file, as /dev/loopN: those whose file has its name, and is the same inode. Raises OSError.

    The name is asked first, and without its folders, since the kernel has it as the mount namespace that made the
    device sees it. To ask a device for the inode is to ask its file's file system, which may hang: so nobody else's is
    asked. The names of two files of one inode, as of a device that two pods have, are two. The inode tells one that was
    deleted from a successor of its name; whole paths tell only where this process may not ask a device, or the file is
    gone.
    """
    try:
        status = os.stat(file)
        inode: tuple[int, int] | None = (status.st_dev, status.st_ino)
    except FileNotFoundError:
        inode = None
    # The kernel's form of the path, without links; what is gone may be a link's end no more.
    real = os.path.join(os.path.realpath(file.parent), file.name) if inode is None else os.path.realpath(file)
    own = os.path.basename(real)
    found = []
    for entry in sorted(_BLOCK.glob("loop*/loop/backing_file")):
        one = Path("/dev") / entry.parent.parent.name
        try:
            name = entry.read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
            if name != _NOWHERE and os.path.basename(name) not in (own, f"{own}{_DELETED}"):
                continue
            told = None if inode is None else _inode_below(one)
        except OSError:  # it was given back just now
            continue
        named = name if inode else name.removesuffix(_DELETED)
        is_over = real == named if told is None else told == inode
        if is_over:
            found.append(one)
    return tuple(found)


def device(file: Path, *, readonly: bool = False) -> Path:
    """The device over this file, made where there is none: after a reboot, for example. Raises OSError, ToolFailed."""
    return _device(file, {readonly})


def any_device(file: Path) -> Path:
    """A device over this file, whether it can be written or not. Raises OSError, ToolFailed."""
    return _device(file, {False, True})


@contextlib.contextmanager
def attached(file: Path, *, readonly: bool = False) -> Iterator[Path]:
    """The device over this file, made where there is none. It stays if the block ends well; with an error goes what was
    made here, or would have gone.

    So whoever fails half-way (at mkfs, say) leaves no device that nobody will ever give back. Raises OSError,
    ToolFailed.
    """
    before = tuple(one for one in devices(file) if _flag(one, "loop/autoclear") is False)
    found = device(file, readonly=readonly)
    try:
        yield found
    except BaseException:
        if found not in before:
            with contextlib.suppress(system.ToolFailed):  # the error of the block is the one to tell
                system.run("losetup", "-d", str(found))
        raise


def backing_of(name: str) -> Path:
    """The file of the loop device with this name, as in loop7; `/` for any other."""
    try:
        return Path(
            (_BLOCK / name / "loop" / "backing_file").read_text(encoding="utf-8", errors="surrogateescape").strip()
        )
    except OSError:
        return Path("/")


def below(folder: Path) -> tuple[Path, ...]:
    """The devices over files in this folder, as far as their names tell: not those of a mount namespace that is
    gone.
    """
    names = sorted(entry.parent.parent.name for entry in _BLOCK.glob("loop*/loop/backing_file"))
    return tuple(Path("/dev") / name for name in names if backing_of(name).is_relative_to(os.path.realpath(folder)))


def grow(file: Path) -> None:
    """Lets every device over the file see its new size. Raises OSError, ToolFailed."""
    for one in devices(file):
        system.run("losetup", "--set-capacity", str(one))


def release(file: Path) -> None:
    """Gives back all devices over the file. Raises OSError, ToolFailed."""
    for one in devices(file):
        system.run("losetup", "-d", str(one))


def flush(file: Path) -> None:
    """Writes the devices' data to the file. Raises OSError."""
    for one in devices(file):
        descriptor = os.open(one, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _device(file: Path, readonly: Collection[bool]) -> Path:
    """One that is read-only or not, as either is given; a new one can be written if that is among them."""
    options = ["--read-only"] if False not in readonly else []
    for tries_left in reversed(range(_TRIES)):
        for one in devices(file):
            if _flag(one, "ro") in readonly and _keep(one, file):
                return one
        try:
            system.run("losetup", *options, "--find", str(file))
        except system.ToolFailed:  # two who look for a free device at once may find the same one
            if not tries_left:
                raise
    raise system.ToolFailed(f"losetup made no device for {str(file)!r}")


def _keep(one: Path, file: Path) -> bool:
    """True where the device is over this file, and stays.

    losetup(8) takes one that somebody has open away only when he closes it, whoever uses it by then; until then it
    looks like any other. Here it is kept, by LOOP_SET_STATUS64: while it is open it can't go.
    """
    try:
        with open(one, "rb") as opened:
            if one not in devices(file):
                return False
            status = _status(opened)
            (flags,) = struct.unpack_from("=I", status, _FLAGS_AT)
            if flags & _AUTOCLEAR:
                struct.pack_into("=I", status, _FLAGS_AT, flags & ~_AUTOCLEAR)
                fcntl.ioctl(opened, _SET_STATUS64, bytes(status))
    except OSError:  # it was given back just now
        return False
    return True


def _inode_below(one: Path) -> tuple[int, int] | None:
    """The file system's device and the inode of the file that the device is over; None where this process may not open
    the device. Raises OSError.
    """
    try:
        with open(one, "rb") as opened:
            file_device, inode = struct.unpack_from("=QQ", _status(opened))
    except (PermissionError, FileNotFoundError):
        return None
    return file_device, inode


def _status(opened: BinaryIO) -> bytearray:
    """The kernel's loop_info64. Raises OSError."""
    return bytearray(fcntl.ioctl(opened, _GET_STATUS64, bytes(_INFO64_BYTES)))


def _flag(one: Path, name: str) -> bool | None:
    """None for a device that was given back."""
    try:
        return (_BLOCK / one.name / name).read_text().strip() == "1"
    except OSError:
        return None
