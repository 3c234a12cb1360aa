"""Folders and devices on the paths of volumes: bound there, and taken away. Everything here blocks, and may be
repeated.

It asks the mount table about mounts, never the paths themselves: a mount that is dead would hang or fail.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from mooring.base.errors import MooringError
from mooring.mounts import system
from mooring.mounts.mountinfo import Mount, MountTable, is_within, parse

MOUNTINFO: Final = Path("/proc/self/mountinfo")
_KERNEL: Final = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
_READS_MAX: Final = 10

OF_ANY_MOUNT: Final = frozenset(
    {"ro", "rw", "noexec", "exec", "nosuid", "suid", "nodev", "dev", "noatime", "nodiratime", "relatime"}
)
"""Mount flags that a bind mount can have; the others are for file systems, and a folder has none of its own."""

_RESTRICTIONS: Final = frozenset({"ro", "noexec", "nosuid", "nodev", "noatime", "nodiratime", "relatime"})
"""The flags among them that the mount table shows, and that a mount lacks at first (getBindMountOptions)."""

_LIFTS: Final = {"ro": "rw", "noexec": "exec", "nosuid": "suid", "nodev": "dev"}
"""What takes a restriction back that was asked for before it. It takes none from what is mounted."""

TRIAL: Final = "mount-trial"
"""The name of the folder that the right to mount is tried on."""

_UNCLEAR: Final = "whether this process may mount could not be found out"
_REFUSALS: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS})
"""Errors of mount(2) that say so: no capability, a security module, a filter or a kernel without the call."""


class Occupied(MooringError):
    """Something else is at a path, or a path is not what it must be. The text says it all."""


def _real(source: Path) -> Path:
    """A source without links, which a device may be named by: /dev/VOLUME_GROUP/NAME, /dev/disk/by-id."""
    return Path(os.path.realpath(source))


def plain(path: str | Path) -> Path:
    """The path as the mount table has it: links above its last part followed."""
    whole = Path(os.path.abspath(path))
    return Path(os.path.realpath(whole.parent)) / whole.name


def mount_table(*ways: Path) -> MountTable:
    """The mounts that this process sees now; none on a system that has no such table.

    ways: folders that links may lead to. The kernel gives the points below them without any link; here they have the
    paths by way of these folders, as drivers are told them (one in a container may see no other).
    """
    try:
        mounts = parse(_whole_table())
    except FileNotFoundError:
        return MountTable(())
    led = [(real, str(way)) for way in ways if (real := os.path.realpath(way)) != str(way)]
    led.sort(key=lambda way: len(way[0]), reverse=True)
    return MountTable(map(functools.partial(_by_way_of, led), mounts) if led else mounts)


def _whole_table() -> str:
    """Kernels before 5.8 may leave out mounts while others come and go, so there the table is read until it says the
    same twice; mount-utils' parseMountInfo does so, too. Raises OSError.
    """
    text = MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    if _KERNEL >= (5, 8):
        return text
    for _ in range(_READS_MAX):
        before, text = text, MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
        if text == before:
            return text
    raise OSError(errno.EAGAIN, "the mount table changes at each look", str(MOUNTINFO))


def _by_way_of(led: Sequence[tuple[str, str]], mount: Mount) -> Mount:
    for real, way in led:
        if is_within(mount.point, real):
            return msgspec.structs.replace(mount, point=way + mount.point.removeprefix(real))
    return mount


def is_mounted(path: Path) -> bool:
    """True where anything is mounted on the path. From IsMountPoint."""
    return mount_table().at(str(plain(path))) is not None


def holds(source: Path, target: Path) -> bool:
    """True where the source, a folder or device, is mounted on the target. From GetMountRefs."""
    return _is_of(mount_table(), source, plain(target))


def bind(source: Path, target: Path, flags: Sequence[str] = (), *, readonly: bool = False) -> None:
    """The source on the target, which is made as a folder or a file like it. Where it is there already, it gets the
    flags that it lacks.

    flags: of mount(8); those that only a file system can have are left out. Raises ToolFailed, OSError, Occupied for
    anything else that is mounted on the target, or a mount that is read-only where this one shall not be.

    From bindMountSensitive: a bind mount has the restrictions of its source, whatever is asked for. Differs: it may be
    repeated, and makes the target.
    """
    options = [flag for flag in flags if flag in OF_ANY_MOUNT] + (["ro"] if readonly else [])
    table, target = mount_table(), plain(target)
    there = table.at(str(target))
    if there is None:
        _make_like(source, target)
        system.bind(source, target)
        complete(target, options)  # mount(8) itself, with these options, takes those of the source away
        return
    if not _is_of(table, source, target):
        raise Occupied(
            f"something else is mounted on {str(target)!r} ({there.source}, {there.fs_type}): unmount it first"
        )
    over = table.holding(str(_real(source)))
    is_readonly = "ro" in _restrictions(options) or (over is not None and "ro" in over.options.split(","))
    if "ro" in there.options.split(",") and not is_readonly:
        raise Occupied(f"{there.point!r} has the volume with options {there.options}, and readonly=False is asked for")
    complete(target, options, readonly=is_readonly)


def withdraw(target: Path) -> None:
    """Unmounts the target and removes it: a folder or file that is empty, or a link. Raises ToolFailed, OSError,
    Occupied.

    From CleanupMountPoint. Differs: of mounts above each other all go.
    """
    clear(target)
    with contextlib.suppress(FileNotFoundError):
        mode = target.lstat()
        if stat.S_ISDIR(mode.st_mode):
            target.rmdir()
        elif stat.S_ISREG(mode.st_mode) and mode.st_size:
            raise Occupied(f"{str(target)!r} is a file with content, and not of this driver: move it away")
        else:
            target.unlink()


def complete(target: Path, flags: Sequence[str] = (), *, readonly: bool = False) -> None:
    """The mount on the target gets the flags that it lacks: a bind mount has none until its second step, which a kill
    may prevent.

    Raises ToolFailed.

    From bindMountSensitive's second step, which has all the flags of the first mount again: the kernel takes away
    what a remount does not name.
    """
    mount = mount_table().at(str(plain(target)))
    there = [] if mount is None else mount.options.split(",")
    wanted = _restrictions((*flags, *(["ro"] if readonly else [])))
    if "noatime" in there:  # it stays, and says more
        wanted = [flag for flag in wanted if flag != "relatime"]
    if not set(wanted) <= set(there):
        kept = [flag for flag in there if flag in _RESTRICTIONS and flag not in wanted]
        system.run("mount", "-o", ",".join(("remount", "bind", *kept, *wanted)), str(target))


def _restrictions(flags: Sequence[str]) -> list[str]:
    """The restrictions among the flags; of two that contradict each other the last one counts, as for mount(8)."""
    return [flag for at, flag in enumerate(flags) if flag in _RESTRICTIONS and _LIFTS.get(flag) not in flags[at:]]


def remove_empty(target: Path) -> None:
    """An empty folder or file, as far as it is there and nothing is mounted on it; anything else is left alone. Raises
    OSError.
    """
    if not os.path.lexists(target) or is_mounted(target):
        return
    status = target.lstat()
    if stat.S_ISREG(status.st_mode) and not status.st_size:
        target.unlink()
    elif stat.S_ISDIR(status.st_mode) and not any(target.iterdir()):
        target.rmdir()


def clear(path: Path) -> None:
    """Unmounts whatever is mounted on the path, and leaves the path. Raises ToolFailed."""
    while is_mounted(path):
        system.unmount(path)


def mounting_refusal(folder: Path) -> str:
    """Why this process may not mount, "" where it may: tries it on a folder of its own in this one, which stays if it
    was there before.

    Whatever else goes wrong (a full disk, too many open files) says nothing about the right to mount. Raises OSError,
    ToolFailed for that.
    """
    if missing := system.missing_tools(system.MOUNT_TOOLS):
        return f"{', '.join(missing)} not found on this machine"
    trial = plain(folder / TRIAL)
    try:
        with _made(trial):
            try:
                system.bind(trial, trial)
            except system.ToolFailed as error:
                if _is_refused(trial):
                    return str(error)
                raise
            finally:
                clear(trial)  # also of what a trial has left that was killed
    except system.ToolFailed as error:
        raise system.ToolFailed(f"{_UNCLEAR}: {error}") from None
    except OSError as error:
        raise OSError(error.errno, f"{_UNCLEAR}: {error.strerror}", error.filename) from None
    return ""


def _is_refused(trial: Path) -> bool:
    """True where the right to mount is missing. mount(8) refuses all but root what no fstab names; the kernel tells
    what root may.
    """
    return os.geteuid() != 0 or system.bind_error(trial) in _REFUSALS


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """A folder that is there while the block runs. Raises OSError."""
    try:
        folder.mkdir()
    except FileExistsError:
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _is_of(table: MountTable, source: Path, target: Path) -> bool:
    return str(target) in table.references(str(_real(source)))


def _make_like(source: Path, target: Path) -> None:
    """A folder for a folder, an empty file for anything else. Raises OSError."""
    if source.is_dir():
        target.mkdir(mode=0o750, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))
