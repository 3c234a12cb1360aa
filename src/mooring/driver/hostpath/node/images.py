"""A volume's file held still while it is copied: its devices written out, its file system frozen. Everything here
blocks.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from mooring.base.log import logger
from mooring.mounts import loops, system
from mooring.mounts.mountinfo import Mount, MountTable
from mooring.mounts.targets import mount_table

_log = logger(__name__)

FREEZER: Final = "fsfreeze"


class _Held(msgspec.Struct):
    """A file that is held still. users: who hold it, or are about to; copies: who hold it, under the lock. frozen:
    folders, open.
    """

    lock: threading.Lock
    users: int = 0
    copies: int = 0
    frozen: tuple[int, ...] = ()


_held: Final[dict[Path, _Held]] = {}
_held_lock: Final = threading.Lock()


@contextlib.contextmanager
def held_still(file: Path, table: MountTable) -> Iterator[None]:
    """Nothing is written to the file system in this file while the block runs; writers wait. The last of several who
    hold it lets it go on.

    A driver that is killed inside leaves it frozen: the next one thaws it at its start. Without reflinks, that is as
    long as a copy takes. Raises OSError, ToolFailed for a file system that can't be frozen, or was mounted meanwhile:
    the copy is not of one moment.
    """
    with _known(file) as held:
        with held.lock:
            loops.flush(file)
            if not held.copies:
                held.frozen = _frozen(file, table)
            held.copies += 1
        try:
            yield
            _check_still(file, held.frozen)
        finally:
            with held.lock:
                held.copies -= 1
                if not held.copies:
                    _let_go(held.frozen)


@contextlib.contextmanager
def _known(file: Path) -> Iterator[_Held]:
    with _held_lock:
        held = _held.setdefault(file, _Held(threading.Lock()))
        held.users += 1
    try:
        yield held
    finally:
        with _held_lock:
            held.users -= 1
            if not held.users:
                del _held[file]


def thaw_all(file: Path, table: MountTable) -> None:
    """Lets the file system in this file go on, if it is mounted and frozen."""
    for mount in _mounts_of(file, table):
        with contextlib.suppress(system.ToolFailed):  # it is not frozen
            system.run(FREEZER, "--unfreeze", mount.point)


def _frozen(file: Path, table: MountTable) -> tuple[int, ...]:
    """The folders of the file system, open and frozen: those of one that is mounted read-only are left out."""
    frozen: list[int] = []
    try:
        for mount in _writable(file, table):
            frozen += _froze(mount)
    except BaseException:
        _let_go(tuple(frozen))
        raise
    return tuple(frozen)


def _froze(mount: Mount) -> list[int]:
    """The mount's folder, which can't be unmounted while it is open; none where it was unmounted just now.

    Only an open file is frozen: by its path it could be the file system below by then.
    """
    folder = os.open(mount.point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        is_there = os.fstat(folder).st_dev == os.stat(mount.source).st_rdev
        if is_there:
            system.run(FREEZER, "--freeze", _path_of(folder))
    except BaseException:
        os.close(folder)
        raise
    if not is_there:
        os.close(folder)
    return [folder] if is_there else []


def _check_still(file: Path, frozen: tuple[int, ...]) -> None:
    """Raises ToolFailed where somebody can write to the file."""
    held = {os.fstat(folder).st_dev for folder in frozen}
    for mount in _writable(file, mount_table()):
        if os.stat(mount.source).st_rdev not in held:
            raise system.ToolFailed(f"the file system was mounted at {mount.point!r} while it was copied: try again")


def _let_go(frozen: tuple[int, ...]) -> None:
    for folder in frozen:
        try:
            system.run(FREEZER, "--unfreeze", _path_of(folder))
        except system.ToolFailed as error:
            _log.error(
                "A file system stays frozen: run fsfreeze --unfreeze", path=os.readlink(_path_of(folder)), error=error
            )
        finally:
            os.close(folder)


def _path_of(descriptor: int) -> str:
    """A path to an open folder, for other processes."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _writable(file: Path, table: MountTable) -> list[Mount]:
    return [mount for mount in _mounts_of(file, table) if "ro" not in mount.super_options.split(",")]


def _mounts_of(file: Path, table: MountTable) -> list[Mount]:
    """A mount of each device over the file that is mounted."""
    found = (next((mount for mount in table if mount.source == str(device)), None) for device in loops.devices(file))
    return [mount for mount in found if mount is not None]
