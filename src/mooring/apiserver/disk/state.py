"""The state folder of a server: its objects in a file, and a lock that keeps other servers out.

FOLDER/objects.db     with its -wal and -shm: the objects
FOLDER/objects.lock   held while a server runs; the kernel frees it however the server ends
FOLDER/replaced-TIME/ what a restore has replaced; while it runs, also the file that it makes
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from mooring.api.meta import Key
from mooring.apiserver.bootstrap import add_system_objects, bare_store
from mooring.apiserver.disk import file as durable
from mooring.apiserver.disk.file import ObjectFile
from mooring.apiserver.disk.log import Log
from mooring.apiserver.disk.rows import Damaged, DiskRow, Saved, StorageFailed, kind_of
from mooring.apiserver.resource import Resource
from mooring.apiserver.rules.event import TTL_S as EVENT_TTL_S
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import DEFAULT_LIMITS, HistoryLimits
from mooring.base import heap
from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.folders import hold, refusal, sync_folder
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.kube.errors import ServerError

_log = logger(__name__)

NAME: Final = "objects.db"
_LOCK: Final = "objects.lock"
REPLACED: Final = "replaced-"
BEGUN: Final = "begun.db"
"""The file that a restore is making."""
RESTORED: Final = "restored.db"
"""The same when it is whole: from then on the restore goes on, whatever happens."""


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
    """The folder's objects, saved while the block runs. careful: answers wait for the disk. Raises ConfigError, with
    nothing changed.
    """
    with held(folder):
        with heap.building():
            store, file = _loaded(
                folder / NAME, careful, lambda saved: _store_of(randomness, saved, limits, event_ttl_s=event_ttl_s)
            )
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
    journal = path.with_name(f"{path.name}-wal")
    if journal.exists():
        raise Damaged(
            f"'{journal}' is there, and '{path}', which it belongs to, is not: put that back, restore a "
            "backup, or move it away"
        )
    return None


def finish_restore(folder: Path) -> None:
    """Carry a restore on that was cut off once it had made its file; of any other remove what it has begun.

    Its folder REPLACED has that file, and gets those that it replaces. Raises OSError.
    """
    for aside in folder.glob(f"{REPLACED}*"):
        for begun in aside.glob(f"{BEGUN}*"):
            begun.unlink()
        if (aside / RESTORED).exists():
            for name in (NAME, f"{NAME}-wal"):
                if (folder / name).exists():
                    (folder / name).replace(aside / name)
            (folder / f"{NAME}-shm").unlink(missing_ok=True)
            sync_folder(aside)
            sync_folder(folder)  # (what is replaced has left before the other comes, also after a power cut)
            (aside / RESTORED).replace(folder / NAME)
            sync_folder(folder)
        with contextlib.suppress(OSError):  # (it keeps what was replaced, if anything was)
            aside.rmdir()


def _loaded(path: Path, careful: bool, made: Callable[[Saved], ObjectStore]) -> tuple[ObjectStore, ObjectFile]:
    """The file is opened for writing once all of it has been understood."""
    with usable(path.parent):
        finish_restore(path.parent)
        saved = saved_in(path)
        if saved is None:
            durable.create(path, version=1)
            saved = durable.read(path)
        store = made(saved)
        file = ObjectFile(path, saved, careful=careful)
        if saved.totals.careless:
            _log.warning(
                "The file was written without waiting for the disk, and not closed: versions jump ahead", path=str(path)
            )
            file.jump()
            store = made(durable.read(path))
        return store, file


def _store_of(randomness: Random, saved: Saved, limits: HistoryLimits, *, event_ttl_s: float) -> ObjectStore:
    """A store that goes on where another ended. Raises Damaged for objects that can't be read."""
    store, definitions = bare_store(randomness, limits, event_ttl_s=event_ttl_s)
    load(store, saved, serve_custom_kinds=definitions.load)
    return store


_UNREADABLE: Final = (msgspec.MsgspecError, AssertionError, ValueError, KeyError, TypeError, AttributeError)
_DEFINITIONS: Final = "apiextensions.k8s.io/customresourcedefinitions"


def load(store: ObjectStore, saved: Saved, serve_custom_kinds: Callable[[], None]) -> None:
    """Fills an empty store, without rules or listeners: of each kind the objects, then the log, which becomes the
    kind's history.

    serve_custom_kinds: called once the definitions are there. Raises Damaged for objects that can't be read.
    """
    objects, log = _by_kind(saved.objects), _by_kind(saved.log)
    store.begin(saved.totals.version)
    definitions = [resource for resource in store.kinds.storing() if kind_of(resource) == _DEFINITIONS]
    for resource in definitions:
        _load_objects(store, resource, objects.get(_DEFINITIONS, ()), log.get(_DEFINITIONS, ()))
    serve_custom_kinds()
    kinds = {kind_of(resource): resource for resource in store.kinds.storing()}
    for kind, resource in kinds.items():
        if kind != _DEFINITIONS:
            _load_objects(store, resource, objects.get(kind, ()), log.get(kind, ()))
    store.finish_loading(saved.version)
    left = {entry.key: entry for entry in (*saved.objects, *saved.log) if entry.kind not in kinds}
    unseen = sorted({entry.kind for entry in left.values() if entry.body is not None})
    if unseen:
        _log.warning("Objects of kinds that are not served stay in the file, unseen", kinds=", ".join(unseen))


def _load_objects(store: ObjectStore, resource: Resource, objects: Iterable[DiskRow], log: Iterable[DiskRow]) -> None:
    try:
        for entries, remembered in ((objects, False), (log, True)):
            for entry in entries:
                key = Key(entry.namespace, entry.name)
                store.load_object(resource, key, entry.version, entry.at, entry.body, remembered=remembered)
    except _UNREADABLE as error:
        raise Damaged(
            f"the objects of {resource.name} can't be read: {type(error).__name__}: {error}; restore a backup"
        ) from error


def _by_kind(entries: Iterable[DiskRow]) -> dict[str, list[DiskRow]]:
    found: dict[str, list[DiskRow]] = {}
    for entry in entries:
        found.setdefault(entry.kind, []).append(entry)
    return found
