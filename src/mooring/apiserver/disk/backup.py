"""Backup and restore of a server's objects as one file.

A backup shows one moment, and may be made while the server runs. After a restore no version comes again that a client
of the replaced server may have seen: the counter jumps far ahead, at least to the time in milliseconds, and watchers
are told to list anew.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mooring.apiserver.disk import file as durable
from mooring.apiserver.disk.file import ObjectFile
from mooring.apiserver.disk.rows import Damaged, Saved, StorageFailed
from mooring.apiserver.disk.state import BEGUN, NAME, REPLACED, RESTORED, finish_restore, held, saved_in, usable
from mooring.base.border import reason, refused_as
from mooring.base.errors import ConfigError
from mooring.base.folders import sync_folder
from mooring.base.ownership import own_folder

_ASIDE: Final = ("", "-wal")


def back_up(folder: Path, target: Path) -> Saved:
    """Writes the folder's objects to a new file, for its owner alone; gives what is in it. Raises ConfigError."""
    source = folder / NAME
    if not source.exists():
        raise ConfigError(f"'{folder}' has no {NAME}: give the --state folder of a server")
    with usable(folder), _whole(target) as new:
        try:
            durable.copy(source, new)
            return durable.read(new)
        except StorageFailed as error:  # (SQLite does not say on which side)
            raise ConfigError(f"'{source}' can't be copied to '{target}': {error}") from error


def restore(folder: Path, backup: Path, now: float, *, replace: bool = False) -> tuple[Saved, Path | None]:
    """Replaces the folder's objects by the backup's. Gives their totals, and where the replaced ones were moved.

    now: seconds since the epoch. replace: allows replacing existing objects. Raises ConfigError; nothing has changed
    then, or the next start completes the restore. The folder must be the user's own.
    """
    with refused_as(f"'{backup}' can't be read"):
        try:
            saved = durable.read(backup)
        except StorageFailed as error:
            raise ConfigError(f"'{backup}' can't be read: {error}") from error
    own_folder(folder)  # made now that there is something to put into it
    with held(folder), usable(folder):
        finish_restore(folder)
        seen = _version_before(folder, replace) + durable.JUMP
        moment = datetime.fromtimestamp(now, UTC)
        aside = Path(tempfile.mkdtemp(prefix=f"{REPLACED}{moment:%Y%m%dT%H%M%SZ}-", dir=folder))
        try:  # (later than all that an earlier restore has led to)
            saved = _made(aside / BEGUN, backup, saved, max(seen, int(now * 1000)))
            (aside / BEGUN).replace(aside / RESTORED)
            sync_folder(aside)
        finally:
            finish_restore(folder)
    return saved, aside / NAME if aside.exists() else None


def _version_before(folder: Path, replace: bool) -> int:
    """The newest version that the folder's objects are known to have had, 0 when there are none."""
    path = folder / NAME
    if not any((folder / f"{NAME}{ending}").exists() for ending in _ASIDE):
        return 0
    if not replace:
        raise ConfigError(f"'{folder}' has objects already: give another folder, or --replace, which keeps them")
    try:
        before = saved_in(path)
    except Damaged:
        return 0
    return 0 if before is None else before.version


def _made(new: Path, backup: Path, saved: Saved, version: int) -> Saved:
    """The file that will be the folder's, and what is in it: versions go on beyond this one. Raises OSError,
    StorageFailed.
    """
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    durable.copy(backup, new)
    file = ObjectFile(new, saved)
    try:
        file.jump(version)
    finally:
        file.close()
    return durable.read(new)


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """An empty file beside the target, which becomes the target when the block has ended well. Raises ConfigError if
    that is there.
    """
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
        raise ConfigError(f"'{target}' can't be written: {reason(error)}") from error
