"""The host-path driver's folder: one state file, a lock, and the data of volumes and snapshots.

    FOLDER/lock            held while a driver runs; the kernel frees it however the driver ends
    FOLDER/state.json      replaced whole: a reader sees the old state or the new one, never a part
    FOLDER/state.json.new  room for the next one: what deletes and unpublishes works on a full disk
    FOLDER/volumes/ID      a volume's data: a folder, or a file when it is a block volume
    FOLDER/snapshots/ID    a snapshot's, likewise
    FOLDER/mounts/ID-NODE  where a volume is mounted that nobody stages

An empty volume is made before the state that names it, and data is removed after the state that drops it. A copy takes
time and is made under a record that says so (`is_filling`). So after a kill at any moment everything in the state
exists, and `opened` repairs the rest: an empty folder or file without owner is a creation that was never answered, a
filling record an unfinished copy, an id in `deleting` an unfinished deletion. Other data without owner is left alone,
and reported.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Literal

import msgspec

from mooring.base.errors import ConfigError
from mooring.base.folders import hold, refusal, sync_folder
from mooring.base.json_text import JsonDecoder
from mooring.base.log import logger
from mooring.driver.copying import copy_file, copy_folder
from mooring.driver.hostpath.kept_file import KeptFile
from mooring.driver.hostpath.state import Group, Snapshot, State, Volume, is_group_id, is_snapshot_id, is_volume_id
from mooring.mounts.trees import remove_tree

FORMAT: Final = 3
"""1 had no snapshots, and of volumes only the first five fields; 2 had no groups, images and uses. Both are still
read.
"""


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal[1, 2, 3]
    state: State


class _Head(msgspec.Struct, frozen=True):
    format: int


_document: Final = JsonDecoder[_Document](_Document)
_head: Final = JsonDecoder[_Head](_Head)


def encoded(state: State) -> bytes:
    """The state as it stands in the file: JSON, indented, for people."""
    return msgspec.json.format(msgspec.json.encode(_Document(FORMAT, state))) + b"\n"


def decoded(text: bytes) -> State:
    """The state of a file. Raises ValueError, saying what is wrong, for anything that this code did not write."""
    try:
        head = _head.decode(text)
        if not 1 <= head.format <= FORMAT:
            raise ValueError(f"it has format {head.format}, and this version reads formats 1 to {FORMAT}")
        state = _document.decode(text).state
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    _check(state)
    return state


def _check(state: State) -> None:
    for key, volume in state.volumes.items():
        if key != volume.id or not is_volume_id(key):
            raise ValueError(f"{key!r} is no volume id of this driver")
        if volume.capacity_bytes < 0:
            raise ValueError(f"volume {key!r} has a negative size")
        if len({one.node_id for one in volume.published}) < len(volume.published):
            raise ValueError(f"volume {key!r} is published twice on one node")
    for key, snapshot in state.snapshots.items():
        if key != snapshot.id or not is_snapshot_id(key):
            raise ValueError(f"{key!r} is no snapshot id of this driver")
        if snapshot.size_bytes < 0:
            raise ValueError(f"snapshot {key!r} has a negative size")
    for key, group in state.groups.items():
        if key != group.id or not is_group_id(key):
            raise ValueError(f"{key!r} is no group id of this driver")
    _check_names("groups", state.groups.values())
    _check_names("volumes", state.volumes.values())
    _check_names("snapshots", state.snapshots.values())
    for one in state.deleting:
        if not (is_volume_id(one) or is_snapshot_id(one)) or state.owner(one) is not None:
            raise ValueError(f"{one!r} is nothing that could be on its way out")


def _check_names(what: str, records: Iterable[Volume | Snapshot | Group]) -> None:
    names = [one.name for one in records]
    if len(set(names)) < len(names):
        raise ValueError(f"two {what} have one name")


_log = logger(__name__)

REMOVALS_MAX: Final = 10
STATE_NAME: Final = "state.json"
_PARTS: Final = {"volumes": is_volume_id, "snapshots": is_snapshot_id}
"""The folders with data, and whose ids are in them."""


def read_state(folder: Path) -> State:
    """The state of a folder, without its lock: for tests and people. Raises OSError, ValueError."""
    return decoded((folder / STATE_NAME).read_bytes())


class StateFolder:
    """The folder, held by this process until `close`. Everything here blocks: for milliseconds, or while data is
    removed.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder = folder
        self._file = KeptFile(folder / STATE_NAME)
        self._lock = lock

    @classmethod
    def opened(cls, folder: Path) -> tuple[StateFolder, State]:
        """The folder, made where it is missing, with its state. Raises ConfigError when it can't be used; nothing is
        changed then.
        """
        try:
            for part in _PARTS:
                (folder / part).mkdir(parents=True, exist_ok=True, mode=0o750)
            (folder / "mounts").mkdir(exist_ok=True, mode=0o750)
            lock = hold(folder / "lock", "the driver")
        except OSError as error:
            raise refusal(folder, error) from None
        opened = cls(folder.resolve(), lock)  # as the mount table has it
        try:
            return opened, opened._recovered(opened._read())
        except OSError as error:
            opened.close()
            raise refusal(folder, error) from None
        except BaseException:
            opened.close()
            raise

    @property
    def path(self) -> Path:
        return self._folder

    def mount_point(self, name: str) -> Path:
        """A path for mounts of the driver's own. name: of an id of ours."""
        return self._folder / "mounts" / name

    def close(self) -> None:
        """Releases the lock. Idempotent."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def data(self, record_id: str) -> Path:
        """Where the data of a volume or snapshot is."""
        part = next((part for part, is_id in _PARTS.items() if is_id(record_id)), None)
        assert part is not None, "only ids of our own become paths"
        return self._folder / part / record_id

    def make(self, record_id: str, file_bytes: int | None = None) -> None:
        """An empty folder; with file_bytes a file of that size, all of it a hole. Raises OSError."""
        path = self.data(record_id)
        if file_bytes is None:
            path.mkdir(mode=0o777)  # whoever mounts it decides; the folders above keep others out
            return
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, file_bytes)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def grow(self, volume_id: str, file_bytes: int) -> None:
        """Makes a volume's file as large as this, never smaller. Raises OSError."""
        path = self.data(volume_id)
        if path.stat().st_size < file_bytes:
            os.truncate(path, file_bytes)

    def copy(self, source_id: str, record_id: str, file_bytes: int | None, check: Callable[[], None]) -> None:
        """Makes the data of a record from that of another, or removes what it has made. Raises OSError, and what check
        raises.
        """
        source, target = self.data(source_id), self.data(record_id)
        self.remove(record_id)
        try:
            if file_bytes is None:
                target.mkdir(mode=0o777)
                copy_folder(str(source), str(target), check)
            else:
                copy_file(str(source), str(target), file_bytes, check)
            sync_folder(target.parent)
        except BaseException:
            self.remove(record_id)
            raise

    def remove(self, record_id: str) -> None:
        """Removes the data, as far as it is there. Raises OSError, with nothing removed where something is mounted in
        it.
        """
        for left in reversed(range(REMOVALS_MAX)):
            try:
                remove_tree(self.data(record_id))
                break
            except FileNotFoundError:  # a call whose caller went away still removes the same data, in another thread
                if not left:
                    raise

    def write(self, state: State) -> None:
        """Replaces the state file; returns when the disk has it, and the folders made before. Raises OSError."""
        assert self._lock >= 0, "closed"
        for part in _PARTS:
            sync_folder(self._folder / part)
        self._file.write(encoded(state))

    def _read(self) -> State:
        path = self._folder / STATE_NAME
        try:
            return read_state(self._folder)
        except FileNotFoundError:
            return self._first_state()
        except ValueError as error:
            raise ConfigError(
                f"state file {str(path)!r} is damaged: {error}; put a good copy in its place, or move the folder away"
            ) from None

    def _first_state(self) -> State:
        """An empty state, unless volumes are there that a lost state file must have known."""
        if self._orphans(State()):
            raise ConfigError(
                f"{str(self._folder)!r} has volumes and no {STATE_NAME}: put a copy of it back, or move the folder away"
            )
        state = State()
        self.write(state)
        return state

    def _orphans(self, state: State) -> list[str]:
        """Ids of data without an owner."""
        found = [(entry.name, is_id) for part, is_id in _PARTS.items() for entry in os.scandir(self._folder / part)]
        return sorted(name for name, is_id in found if is_id(name) and state.owner(name) is None)

    def _recovered(self, state: State) -> State:
        """The state after what a kill has left behind is put right; on disk before anything is built on it. Raises
        OSError.
        """
        before = state
        for record in list(state.filling()):
            _log.info(2, "Removing a copy that was not finished", id=record.id, name=record.name)
            state = state.without(record.id)
        for group_id in list(state.broken_groups()):
            _log.info(2, "Removing a group snapshot that was not finished", id=group_id)
            state = state.dissolved(group_id)
        state = self._without_data(state)
        if state != before:
            self.write(state)
        self._file.keep_room()
        for record_id in self._orphans(state):
            self._remove_if_empty(record_id)
        for volume in state.volumes.values():
            if not self.data(volume.id).exists():
                _log.warning("The volume's data is gone", volume_id=volume.id)
            elif volume.is_file:
                self.grow(volume.id, volume.capacity_bytes)
        return state

    def _without_data(self, state: State) -> State:
        """Deleted data is gone; data that can't be removed now stays on its way out: the next call for it tries
        again.
        """
        for record_id in state.deleting:
            try:
                self.remove(record_id)
            except OSError as error:
                _log.warning("Data that was deleted can't be removed", id=record_id, error=error)
            else:
                state = state.forgotten(record_id)
        return state

    def _remove_if_empty(self, record_id: str) -> None:
        path = self.data(record_id)
        try:
            if not _is_empty(path):
                _log.warning("Data belongs to no volume and is left alone", path=str(path))
                return
            self.remove(record_id)
        except OSError as error:
            _log.warning("Data belongs to no volume and can't be removed", path=str(path), error=error)
            return
        _log.info(2, "Removed the leftovers of a creation that was never answered", path=str(path))


def _is_empty(path: Path) -> bool:
    """A folder without entries, or a file that is all hole."""
    if path.is_dir():
        return not any(path.iterdir())
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        return error.errno == errno.ENXIO
    finally:
        os.close(descriptor)
    return False
