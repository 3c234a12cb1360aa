"""The file that a server's objects live in: an SQLite database. The only door to sqlite3.

    objects   every object, as of one version
    log       what was written since, one row for each commit; so a server that starts knows its recent history, too
    totals    that version, and what the objects add up to

A commit is one INSERT at the log's end: one call into SQLite, few pages, one sync. When the log is long, its oldest
rows are folded into `objects`, many at a time, where the later change of an object replaces the earlier one. So the
file grows with the objects, not with the writes.

Nothing here knows what an object is. Everything blocks; a file may be used from one thread at a time.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from mooring.apiserver.disk.journal import first_lost, has_unsaved
from mooring.apiserver.disk.rows import (
    Damaged,
    DiskRow,
    Saved,
    StorageFailed,
    Totals,
    log_checksum,
    object_checksum,
    packed,
    unpacked,
)
from mooring.base.folders import sync_folder

FORMAT: Final = 1
JUMP: Final = 1_000_000_000
"""How far versions are moved on when it is not known which ones clients have seen."""

_APPLICATION_ID: Final = 0x4D6F6F72
_MAGIC: Final = b"SQLite format 3\0"
_LOG_CHANGES_MAX: Final = 8192
_LOG_BYTES_MAX: Final = 16 * 1024 * 1024
_FOLDED_MAX: Final = 256
"""Changes that one fold takes, about: no commit waits for more."""
_FOLDED_ROWS_MAX: Final = 32
_ROWS_PER_STATEMENT: Final = 64
_WAL_BYTES_KEPT: Final = 16 * 1024 * 1024
_FREE_PAGES_KEPT: Final = 1024
_PAGES_FREED: Final = 256
_BUSY_S_MAX: Final = 5.0
_WRONG: Final = (sqlite3.Error, ValueError, TypeError, struct.error, msgspec.MsgspecError)
"""Errors that reading a damaged file can raise."""

_NEXT: Final = {
    sqlite3.SQLITE_FULL: "make room there; no object is lost",
    sqlite3.SQLITE_BUSY: "end the other program that has the file open; no object is lost",
    sqlite3.SQLITE_READONLY: "give a place that can be written to",
    sqlite3.SQLITE_CANTOPEN: "look at the rights of the file and its folder, and at the room there",
    sqlite3.SQLITE_PERM: "look at the rights of the file and its folder",
    sqlite3.SQLITE_IOERR: "look at the room there, and into the kernel's log",
    sqlite3.SQLITE_NOMEM: "give the program more memory",
}
"""SQLite's codes for what lies outside of the file, each with the next step."""

_CAREFUL: Final = "PRAGMA synchronous = FULL"
_SCHEMA: Final = """
PRAGMA auto_vacuum = INCREMENTAL;
BEGIN;
CREATE TABLE totals (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), version INTEGER NOT NULL, \
count INTEGER NOT NULL,
    digest INTEGER NOT NULL, careless INTEGER NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE objects (kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, \
version INTEGER NOT NULL, at REAL NOT NULL,
    body BLOB NOT NULL, checksum INTEGER NOT NULL, UNIQUE (kind, namespace, name));
CREATE TABLE log (version INTEGER PRIMARY KEY, first INTEGER NOT NULL, changes BLOB NOT NULL, \
checksum INTEGER NOT NULL);
COMMIT;
"""
_TOTALS: Final = "SELECT version, count, digest, careless, checksum FROM totals"
_OBJECTS: Final = (
    "SELECT kind, namespace, name, version, at, body, checksum FROM objects ORDER BY kind, namespace, name"
)
_LOG: Final = "SELECT first, version, changes, checksum FROM log ORDER BY version"
_SET_TOTALS: Final = "INSERT OR REPLACE INTO totals VALUES (1, ?, ?, ?, ?, ?)"
_OLDEST: Final = f"{_LOG.removesuffix(' ORDER BY version')} WHERE first <= ? ORDER BY version LIMIT ?"
_FOUND: Final = (
    "WITH keys (kind, namespace, name) AS (VALUES {}) SELECT {} FROM keys CROSS JOIN objects USING (kind, "
    "namespace, name)"
)
_COUNT: Final = _FOUND.format("{}", "count(*), coalesce(sum(checksum), 0)")
_DELETE: Final = f"DELETE FROM objects WHERE rowid IN ({_FOUND.format('{}', 'objects.rowid')})"
_UPSERT: Final = (
    "INSERT INTO objects VALUES {} ON CONFLICT (kind, namespace, name) DO UPDATE "
    "SET version = excluded.version, at = excluded.at, body = excluded.body, checksum = excluded.checksum"
)


def create(path: Path, version: int) -> None:
    """A file without objects, whose versions go on after this one. Others see it whole or not at all. Raises OSError,
    StorageFailed.
    """
    new = path.with_name(f"{path.name}.new")
    for leftover in (new, new.with_name(f"{new.name}-journal"), new.with_name(f"{new.name}-wal")):
        leftover.unlink(missing_ok=True)
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # (the journals take its mode)
    with _file_errors(), closing(_connected(new, "rw")) as database:
        database.execute(_CAREFUL)
        database.executescript(_SCHEMA)
        _set_totals(database, Totals(version, 0, 0))
        database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        database.execute(f"PRAGMA user_version = {FORMAT}")
        database.execute("PRAGMA journal_mode = WAL")
    new.replace(path)
    sync_folder(path.parent)


def read(path: Path) -> Saved:
    """Everything that the file holds, each byte of it checked. No object is written. Raises Damaged; StorageFailed and
    OSError when it can't be opened, which says nothing about its objects.
    """
    page_bytes, journal = check_kind(path), _beside(path, "wal")
    is_alone = not journal.exists()
    try:
        with closing(_connected(path, "ro")) as database:
            database.execute("BEGIN")
            saved = _read(database)
    except _WRONG as error:
        if (words := _of_the_system(error)) is not None:
            raise StorageFailed(words) from error
        copied = f"if '{journal}' was left out of a copy, put it back; else " if is_alone else ""
        raise Damaged(
            f"'{path}' is damaged: {error}; {copied}restore a backup, or move the file and its -wal away to begin "
            "without objects"
        ) from error
    # A careless run has not waited for the disk: after a power cut any frame may be missing.
    if not is_alone and not saved.totals.careless and (bad := first_lost(journal.read_bytes(), page_bytes)) is not None:
        raise Damaged(
            f"'{journal}' is damaged at its frame {bad}, and later writes are behind it: put a good copy back, or "
            f"restore a backup; `mooring apiserver backup` saves the objects as of version {saved.version}"
        )
    return saved


def check_kind(path: Path) -> int:
    """The bytes of a page. Raises Damaged for what is no file of ours, whose journal is gone, or which this program is
    too old for; OSError when it can't be opened.
    """
    with path.open("rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(_MAGIC):
        raise Damaged(f"'{path}' is no database: move it away, or restore a backup")
    if int.from_bytes(head[68:72], "big") != _APPLICATION_ID:
        raise Damaged(f"'{path}' is a database of another program, or damaged: move it away, or restore a backup")
    found = int.from_bytes(head[60:64], "big")
    if found > FORMAT:
        raise Damaged(
            f"'{path}' was written by a newer Mooring: its format is {found}, this one reads up to {FORMAT}; "
            "run the newer one"
        )
    if found < FORMAT:
        raise Damaged(f"'{path}' has format {found}, which no Mooring wrote: restore a backup, or move it away")
    journal = _beside(path, "wal")
    if not journal.exists() and has_unsaved(_beside(path, "shm")):
        raise Damaged(
            f"'{journal}' is not there, and with it the latest writes: put it back, or restore a backup; "
            f"'{path}' is one of an earlier moment, once it is moved to another folder"
        )
    return int.from_bytes(head[16:18], "big")


def _beside(path: Path, ending: str) -> Path:
    """SQLite's own file beside the database: wal, shm."""
    return path.with_name(f"{path.name}-{ending}")


def copy(path: Path, target: Path) -> None:
    """A copy as of one moment, while others may write. target: an empty file. Raises Damaged, OSError,
    StorageFailed.
    """
    check_kind(path)
    with _file_errors(), closing(_connected(path, "ro")) as database:
        database.execute("VACUUM INTO CAST(? AS TEXT)", (os.fsencode(target),))  # (a path may be no UTF-8)


class ObjectFile:
    """A file that is written to. careful: waits for the disk at each commit."""

    def __init__(
        self, path: Path, saved: Saved, *, careful: bool = True, log_changes_max: int = _LOG_CHANGES_MAX
    ) -> None:
        """saved: what `read` has found. Raises StorageFailed."""
        self.version = saved.version
        self._totals = saved.totals
        self._careful = careful
        self._log_changes_max = log_changes_max
        self._log_changes = len(saved.log)
        with _file_errors(), ExitStack() as until_it_is_open:
            self._database = until_it_is_open.enter_context(closing(_connected(path, "rw")))
            self._database.execute(_CAREFUL)
            mode = self._one("PRAGMA journal_mode = WAL")[0]
            if mode != "wal":
                raise ValueError(f"its file system allows no write-ahead log; {_NEXT[sqlite3.SQLITE_IOERR]}")
            self._database.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
            if not careful:
                self._mark(careless=True)
                self._database.execute("PRAGMA synchronous = NORMAL")
            self._log_bytes: int = self._one("SELECT coalesce(sum(length(changes)), 0) FROM log")[0]
            until_it_is_open.pop_all()

    def append(self, entries: Sequence[DiskRow]) -> None:
        """Commits them all or none: on disk when this returns. Raises StorageFailed; then the file must not be used any
        more.
        """
        first, version = entries[0].version, entries[-1].version
        assert (first, version - first) == (self.version + 1, len(entries) - 1), "no version is left out"
        changes = packed(entries)
        row = (version, first, changes, log_checksum(first, version, changes))
        with _file_errors():
            self._database.execute("INSERT INTO log VALUES (?, ?, ?, ?)", row)
        self.version = version
        self._log_changes += len(entries)
        self._log_bytes += len(changes)

    @property
    def is_long(self) -> bool:
        """True when the log should be folded, which `fold` does a piece at a time."""
        return self._log_changes > self._log_changes_max or self._log_bytes > _LOG_BYTES_MAX

    def fold(self, changes_max: int = _FOLDED_MAX) -> None:
        """Moves the oldest of the log into the objects. Raises StorageFailed."""
        with self._transaction():
            rows = self._database.execute(_OLDEST, (self._totals.version + changes_max, _FOLDED_ROWS_MAX)).fetchall()
            if not rows:
                return
            taken = [entry for row in rows for entry in unpacked(*row)]
            totals = self._with_folded({entry.key: entry for entry in taken}, taken[-1].version)
            self._database.execute("DELETE FROM log WHERE version <= ?", (totals.version,))
            _set_totals(self._database, totals)
        self._totals = totals
        self._log_changes -= len(taken)
        self._log_bytes -= sum(len(row[2]) for row in rows)
        self._shrink()

    def jump(self, beyond: int = 0) -> None:
        """Raises the version above all that a client may have seen, and above `beyond`: once for a careless run. Raises
        StorageFailed.
        """
        while self._log_changes:
            self.fold()
        totals = Totals(max(self.version + JUMP, beyond), self._totals.count, self._totals.digest, not self._careful)
        with _file_errors():
            _set_totals(self._database, totals)
        self._totals, self.version = totals, totals.version

    def close(self) -> None:
        """Raises StorageFailed."""
        with _file_errors(), closing(self._database):
            if not self._careful:
                self._database.execute(_CAREFUL)
                self._mark(careless=False)

    def abandon(self) -> None:
        """Closes the file after a failure, with as few writes as possible."""
        try:
            self._database.close()
        except sqlite3.Error:
            pass  # it is what it is: whoever opens it next checks it

    def _with_folded(self, last: dict[tuple[str, str, str], DiskRow], version: int) -> Totals:
        """Writes these objects, in place of those of the same key."""
        count, digest = self._totals.count, self._totals.digest
        for chunk in _chunks(last.values()):
            had, had_digest = self._one(_COUNT.format(_places(3, len(chunk))), _flat(entry.key for entry in chunk))
            gone = [entry.key for entry in chunk if entry.body is None]
            rows = [
                (*entry.key, entry.version, entry.at, entry.body, object_checksum(entry))
                for entry in chunk
                if entry.body is not None
            ]
            if gone:
                self._database.execute(_DELETE.format(_places(3, len(gone))), _flat(gone))
            if rows:
                self._database.execute(_UPSERT.format(_places(7, len(rows))), _flat(rows))
            count, digest = count - had + len(rows), digest - had_digest + sum(row[-1] for row in rows)
        return Totals(version, count, digest, self._totals.careless)

    def _shrink(self) -> None:
        """Gives free pages back to the file system, a few at a time."""
        with _file_errors():
            if self._one("PRAGMA freelist_count")[0] > _FREE_PAGES_KEPT:
                self._database.executescript(
                    f"PRAGMA incremental_vacuum({_PAGES_FREED})"
                )  # (execute would free one page)

    def _mark(self, *, careless: bool) -> None:
        self._totals = Totals(self._totals.version, self._totals.count, self._totals.digest, careless)
        _set_totals(self._database, self._totals)

    def _one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self._database.execute(sql, values).fetchone()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Raises StorageFailed; then the file must not be used any more."""
        with _file_errors():
            self._database.execute("BEGIN IMMEDIATE")
            yield
            self._database.execute("COMMIT")


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    """mode: ro, rw. Every statement is a transaction of its own, unless it says BEGIN."""
    whole = quote(os.fsencode(os.path.abspath(path))).lstrip("/")  # (after two slashes SQLite expects a host)
    uri = f"file:///{whole}?mode={mode}"
    return sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_S_MAX, cached_statements=256
    )


def _read(database: sqlite3.Connection) -> Saved:
    """Raises ValueError, sqlite3.Error for what is not as it was written."""
    wrong = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if wrong != "ok":
        raise ValueError(wrong.removeprefix("*** in database main ***\n"))
    version, count, digest, careless, checksum = database.execute(_TOTALS).fetchone()
    totals = Totals(version, count, digest, bool(careless))
    if totals.checksum != checksum:
        raise ValueError("the checksum of its totals is wrong")
    rows = database.execute(_OBJECTS).fetchall()
    objects = tuple(DiskRow(*row[:6]) for row in rows)
    for entry, row in zip(objects, rows, strict=True):
        if object_checksum(entry) != row[6]:
            raise ValueError(f"the checksum of {entry.kind} {entry.namespace}/{entry.name} is wrong")
    if (len(rows), sum(row[6] for row in rows)) != (count, digest):
        raise ValueError("objects are missing, or are not the latest")
    return Saved(totals, objects, tuple(_read_log(database, version)))


def _read_log(database: sqlite3.Connection, version: int) -> Iterator[DiskRow]:
    for row in database.execute(_LOG):
        if row[0] != version + 1:
            raise ValueError(f"the log has nothing between the versions {version} and {row[0]}")
        yield from unpacked(*row)
        version = row[1]


def _set_totals(database: sqlite3.Connection, totals: Totals) -> None:
    database.execute(_SET_TOTALS, (totals.version, totals.count, totals.digest, totals.careless, totals.checksum))


def _chunks(entries: Iterable[DiskRow]) -> Iterator[list[DiskRow]]:
    left = iter(entries)
    while chunk := list(itertools.islice(left, _ROWS_PER_STATEMENT)):
        yield chunk


def _places(columns: int, rows: int) -> str:
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)


def _flat(rows: Iterable[Iterable[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(rows))


@contextmanager
def _file_errors() -> Iterator[None]:
    """SQLite's errors, and rows that are not as they were written, as StorageFailed."""
    try:
        yield
    except _WRONG as error:
        raise StorageFailed(_of_the_system(error) or str(error)) from error


def _of_the_system(error: Exception) -> str | None:
    """The words for what the disk or another program refuses; None for an error that lies in the file."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    # Of a full disk SQLite also says that it can't make its shared memory there, a file beside the database.
    code = sqlite3.SQLITE_FULL if code == sqlite3.SQLITE_IOERR_SHMSIZE else code & 0xFF
    return f"{error}; {_NEXT[code]}" if code in _NEXT else None
