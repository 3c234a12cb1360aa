"""Backup and restore of a server's objects as one file.

A backup shows one moment, and may be made while the server runs. After a restore no version comes again that a client of the replaced
server may have seen: the counter jumps far ahead, at least to the time in milliseconds, and watchers are told to list anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mooring.apiserver.disk import file as durable
from mooring.apiserver.disk.file import ObjectFile
from mooring.apiserver.disk.rows import Damaged, Saved
from mooring.apiserver.disk.state import NAME, held, restored_in, saved_in, usable
from mooring.base.errors import ConfigError
from mooring.base.folders import sync_folder

_REPLACED: Final = "replaced-objects.db"
_ASIDE: Final = ("", "-wal")


def back_up(folder: Path, target: Path) -> Saved:
    """Writes the folder's objects to a new file, for its owner alone; gives what is in it. Raises ConfigError."""
    source = folder / NAME
    if not source.exists():
        raise ConfigError(f"'{folder}' has no {NAME}: give the --state folder of a server")
    with usable(folder), _whole(target) as new:
        durable.copy(source, new)
        return durable.read(new)


def restore(folder: Path, backup: Path, now: float, *, replace: bool = False) -> tuple[Saved, Path | None]:
    """Replaces the folder's objects by the backup's. Gives their totals, and where the replaced ones were moved.

    now: seconds since the epoch. replace: allows replacing existing objects. Raises ConfigError; nothing has changed then, or the folder
    is refused until a restore has completed.
    """
    try:
        saved = durable.read(backup)
    except OSError as error:
        raise ConfigError(f"'{backup}' can't be read: {error.strerror}") from error
    with held(folder), usable(folder):
        seen = _version_before(folder, replace) + durable.JUMP
        new = restored_in(folder / NAME)
        saved = _made(
            new, backup, saved, max(seen, int(now * 1000))
        )  # (later than all that an earlier restore has led to)
        replaced = _moved_aside(folder)
        new.replace(folder / NAME)
        _remove(new)  # (what reading it has left)
        sync_folder(folder)
    return saved, replaced


def _version_before(folder: Path, replace: bool) -> int:
    """The newest version that the folder's objects are known to have had, 0 when there are none."""
    path = folder / NAME
    if not any((folder / f"{NAME}{ending}").exists() for ending in _ASIDE):
        return 0
    if not replace:
        raise ConfigError(
            f"'{folder}' has objects already: give another folder, or --replace, which keeps them as {_REPLACED}"
        )
    try:
        before = saved_in(path)
    except Damaged:
        return 0
    return 0 if before is None else before.version


def _made(new: Path, backup: Path, saved: Saved, version: int) -> Saved:
    """The file that will be the folder's, and what is in it: versions go on beyond this one. Raises OSError, StorageFailed."""
    _remove(new)
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    durable.copy(backup, new)
    file = ObjectFile(new, saved)
    try:
        file.jump(version)
    finally:
        file.close()
    return durable.read(new)


def _moved_aside(folder: Path) -> Path | None:
    """Renames the present database files; None if there are none. The database is moved before its journal."""
    aside = folder / _REPLACED
    if not any((folder / f"{NAME}{ending}").exists() for ending in _ASIDE):
        return None
    _remove(aside)
    for ending in _ASIDE:
        found = folder / f"{NAME}{ending}"
        if found.exists():
            found.replace(folder / f"{_REPLACED}{ending}")
    (folder / f"{NAME}-shm").unlink(missing_ok=True)
    return aside


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """An empty file beside the target, which becomes the target when the block has ended well. Raises ConfigError if that is there."""
    new = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            if target.exists():
                raise FileExistsError
            yield new
            with new.open("rb") as file:
                os.fsync(file.fileno())
            os.link(new, target)  # (a rename would overwrite)
            sync_folder(target.parent)
        finally:
            _remove(new)
    except FileExistsError:
        raise ConfigError(f"'{target}' is there already, and a backup overwrites nothing: give another name") from None
    except OSError as error:
        raise ConfigError(f"'{target}' can't be written: {error.strerror}") from error
