"""File systems in a volume's file: made, checked, mounted, grown, and held still for a snapshot. Everything here blocks.

The tools are the system's: blkid(8), mkfs.TYPE(8), e2fsck(8), resize2fs(8), xfs_growfs(8), fsfreeze(8). Which are needed: `tools_for`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mooring.driver.node import loops
from mooring.mounts import system
from mooring.mounts.mountinfo import Mount, MountTable

FS_TYPE: Final = "ext4"
"""Where the caller names none."""

_EXT: Final = frozenset({"ext2", "ext3", "ext4"})
_FORMAT_OPTIONS: Final = {**dict.fromkeys(_EXT, ("-q", "-F", "-m0")), "xfs": ("-q", "-f")}
FS_TYPES: Final = frozenset(_FORMAT_OPTIONS)
_REPAIRED_MAX: Final = 1
"""e2fsck's highest exit code that leaves a sound file system."""


def tools_for(fs_type: str) -> tuple[str, ...]:
    grower = ("e2fsck", "resize2fs") if fs_type in _EXT else ("xfs_growfs",)
    return ("blkid", f"mkfs.{fs_type}", "fsfreeze", *grower)


def prepared(device: Path, wanted: str) -> str:
    """The device's file system, made where there is none yet, and checked where it was there. Raises ToolFailed."""
    there = system.run("blkid", "-p", "-o", "value", "-s", "TYPE", str(device), allowed=(0, 2)).strip()
    if not there:
        fs_type = wanted or FS_TYPE
        system.run(f"mkfs.{fs_type}", *_FORMAT_OPTIONS.get(fs_type, ()), str(device), timeout_s=300.0)
        return fs_type
    if wanted and wanted != there:
        raise system.ToolFailed(f"{device} has the file system {there}, and {wanted} is asked for: nothing is formatted over it")
    if there in _EXT:
        system.run("e2fsck", "-p", str(device), allowed=range(_REPAIRED_MAX + 1), timeout_s=300.0)
    return there


def mount(device: Path, point: Path, fs_type: str, flags: Sequence[str], *, readonly: bool) -> None:
    """Raises ToolFailed. A restored xfs has the identity of its origin: both may be mounted."""
    options = [*flags, *(["nouuid"] if fs_type == "xfs" else []), *(["ro"] if readonly else [])]
    system.run("mount", "-t", fs_type, *(["-o", ",".join(options)] if options else []), str(device), str(point))


def grow(file: Path, table: MountTable) -> None:
    """The file's file system takes the whole file, mounted or not. Raises ToolFailed."""
    loops.grow(file)
    for device in loops.devices(file)[:1]:
        over = _mounted_from(device, table)
        fs_type = over[0].fs_type if over else system.run("blkid", "-p", "-o", "value", "-s", "TYPE", str(device), allowed=(0, 2)).strip()
        if fs_type in _EXT:
            system.run("resize2fs", str(device))
        elif fs_type == "xfs" and over:
            system.run("xfs_growfs", over[0].point)


@contextlib.contextmanager
def held_still(file: Path, table: MountTable) -> Iterator[None]:
    """Nothing is written to the file system in this file while the block runs; writers wait.

    A driver that is killed inside leaves it frozen: the next one thaws it at its start. Without reflinks, that is as long as a copy takes.
    """
    loops.flush(file)
    points = [over[0].point for device in loops.devices(file) if (over := _mounted_from(device, table))]
    frozen = [point for point in points if _froze(point)]
    try:
        yield
    finally:
        for point in frozen:
            thaw(point)


def thaw(point: str) -> None:
    """Lets the file system at the point go on, if it is frozen."""
    with contextlib.suppress(system.ToolFailed):
        system.run("fsfreeze", "--unfreeze", point)


def _froze(point: str) -> bool:
    try:
        system.run("fsfreeze", "--freeze", point)
    except system.ToolFailed:  # mounted read-only: nothing is written anyway
        return False
    return True


def _mounted_from(device: Path, table: MountTable) -> list[Mount]:
    return [mount for mount in table if mount.source == str(device)]
