"""The state folder of a server: its objects in a file, and a lock that keeps other servers out.

FOLDER/objects.db     with its -wal and -shm: the objects
FOLDER/objects.lock   held while a server runs; the kernel frees it however the server ends
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Final

from mooring.apiserver.bootstrap import add_system_objects, bare_store
from mooring.apiserver.disk import file as durable
from mooring.apiserver.disk.file import ObjectFile
from mooring.apiserver.disk.loading import load
from mooring.apiserver.disk.log import Log
from mooring.apiserver.disk.rows import Damaged, Saved, StorageFailed
from mooring.apiserver.rules.event import TTL_S as EVENT_TTL_S
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import DEFAULT_LIMITS, HistoryLimits
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.folders import hold, refusal
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.kube.errors import ServerError

_log = logger(__name__)

NAME: Final = "objects.db"
_LOCK: Final = "objects.lock"


@contextlib.asynccontextmanager
async def lasting(
    folder: Path,
    *,
    clock: Clock,
    randomness: Random,
    careful: bool = True,
    limits: HistoryLimits = DEFAULT_LIMITS,
    event_ttl_s: float = EVENT_TTL_S,
) -> AsyncGenerator[tuple[ObjectStore, Log], None]:
    """The folder's objects, saved while the block runs. careful: answers wait for the disk. Raises ConfigError, with nothing changed."""
    with held(folder):
        store, file = _loaded(folder / NAME, careful, lambda saved: _store_of(randomness, saved, limits, event_ttl_s=event_ttl_s))
        log = Log(store, file)
        try:
            add_system_objects(store, clock.wall_s())
            await _settled(folder, store, log)
            yield store, log
        finally:
            await log.close()


async def _settled(folder: Path, store: ObjectStore, log: Log) -> None:
    try:
        await log.wait_committed(store.version)
    except ServerError:
        raise ConfigError(f"state folder '{folder}' can't be written to: {log.failure}") from None


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keeps other servers out of the folder, which is made where it is missing. Raises ConfigError."""
    with usable(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = hold(folder / _LOCK, "the API server")
    try:
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Turns the errors of a folder or a disk into ConfigError."""
    try:
        yield
    except OSError as error:
        raise refusal(folder, error) from error
    except StorageFailed as error:
        raise ConfigError(f"state folder '{folder}' can't be written to: {error}") from error


def saved_in(path: Path) -> Saved | None:
    """The checked content of the file; None when there is none. Raises Damaged, OSError."""
    if path.exists():
        return durable.read(path)
    if restored_in(path).exists():
        raise Damaged(f"a restore has not come to its end: '{path}' is not there; run `mooring apiserver restore` again")
    journal = path.with_name(f"{path.name}-wal")
    if journal.exists():
        raise Damaged(f"'{journal}' is there, and '{path}', which it belongs to, is not: put that back, restore a backup, or move it away")
    return None


def restored_in(path: Path) -> Path:
    """Where a restore makes the file that will be at path."""
    return path.with_name(f"{path.name}.restored")


def _loaded(path: Path, careful: bool, made: Callable[[Saved], ObjectStore]) -> tuple[ObjectStore, ObjectFile]:
    """The file is opened for writing once all of it has been understood."""
    with usable(path.parent):
        saved = saved_in(path)
        if saved is None:
            durable.create(path, version=1)
            saved = durable.read(path)
        store = made(saved)
        file = ObjectFile(path, saved, careful=careful)
        if saved.totals.careless:
            _log.warning("The file was written without waiting for the disk, and not closed: versions jump ahead", path=str(path))
            file.jump()
            store = made(durable.read(path))
        return store, file


def _store_of(randomness: Random, saved: Saved, limits: HistoryLimits, *, event_ttl_s: float) -> ObjectStore:
    """A store that goes on where another ended. Raises Damaged for objects that can't be read."""
    store, definitions = bare_store(randomness, limits, event_ttl_s=event_ttl_s)
    load(store, saved, serve_custom_kinds=definitions.load)
    return store
