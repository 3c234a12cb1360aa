"""The sockets in the registry folder: which are there, and which were made anew under their old name.

After an event of inotify it looks at the whole tree, which is small; so the next event, or the look each minute, makes up for a lost one.
Where there is no inotify the look comes every second.
"""

from __future__ import annotations

import asyncio
import ctypes
import enum
import os
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from mooring.base.clock import Clock
from mooring.base.log import logger

_log = logger(__name__)

_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 64 * 1024

RESCAN_S: Final = 60.0
POLL_S: Final = 1.0
DEPTH_MAX: Final = 8
"""Folders below the registry; deeper ones are not looked into."""


class _Mask(enum.IntFlag):
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    DELETE_SELF = 0x400
    OVERFLOW = 0x4000
    IGNORED = 0x8000
    ONLY_FOLDERS = 0x01000000


_WATCHED: Final = (
    _Mask.CREATE | _Mask.DELETE | _Mask.MOVED_FROM | _Mask.MOVED_TO | _Mask.DELETE_SELF | _Mask.ONLY_FOLDERS
)


class _Happened(msgspec.Struct, frozen=True):
    """One event. folder: None, with OVERFLOW, when events were lost. name: in the folder, "" for the folder itself."""

    mask: _Mask
    folder: Path | None
    name: str = ""


class _Inotify:
    """inotify(7) on an event loop: watches folders until `close`. handler: called on the loop for each event."""

    def __init__(self, handler: Callable[[_Happened], None]) -> None:
        self._handler = handler
        self._descriptor = -1
        self._folders: dict[int, Path] = {}

    def start(self) -> bool:
        """False where the system has no inotify, as all but Linux, or no more of it."""
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError):
            return False
        if self._descriptor < 0:
            return False
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        return True

    def watch(self, folder: Path) -> None:
        """Adds a folder; harmless twice. Raises OSError, FileNotFoundError for one that is gone."""
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), int(_WATCHED))
        if number < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(folder))
        self._folders[number] = folder

    def close(self) -> None:
        """Ends it. Harmless twice."""
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        position = 0
        while position < len(data):
            number, mask, _, length = _EVENT.unpack_from(data, position)
            position += _EVENT.size
            name = os.fsdecode(data[position : position + length].rstrip(b"\0"))
            position += length
            self._tell(number, _Mask(mask), name)

    def _tell(self, number: int, mask: _Mask, name: str) -> None:
        folder = self._folders.get(number)
        if mask & _Mask.IGNORED:
            self._folders.pop(number, None)
        elif folder is not None or mask & _Mask.OVERFLOW:
            self._handler(_Happened(mask, folder, name))


class _Seen(msgspec.Struct, frozen=True):
    """A socket at its first sight."""

    inode: int
    changed_ns: int
    generation: int


class SocketWatcher:
    """The registry folder. changed: called with a socket's path when it has come, gone, or was made anew."""

    def __init__(self, registry: Path, changed: Callable[[Path], None], *, clock: Clock) -> None:
        self._registry, self._changed, self._clock = registry, changed, clock
        self._inotify = _Inotify(self._happened)
        self._has_inotify = False
        self._sockets: dict[Path, _Seen] = {}
        self._made: set[Path] = set()  # by what inotify tells, since the last look
        self._count = 0
        self._complained: set[Path] = set()

    def generation(self, socket: Path) -> int | None:
        """A number that is another one each time the socket is made; None when it is not there."""
        found = self._sockets.get(socket)
        return found.generation if found is not None else None

    async def run(self) -> None:
        """Makes the folder and watches it until cancelled. Raises OSError when it can't be made or read."""
        os.makedirs(self._registry, mode=0o755, exist_ok=True)
        self._has_inotify = self._inotify.start()
        if not self._has_inotify:
            _log.warning(
                "This system has no inotify, or no more of it; the folder is looked at every second",
                folder=str(self._registry),
            )
        try:
            while True:
                self._look()
                await self._clock.sleep(RESCAN_S if self._has_inotify else POLL_S)
        finally:
            self._inotify.close()

    def _happened(self, event: _Happened) -> None:
        if event.folder is not None and event.mask & (_Mask.CREATE | _Mask.MOVED_TO):
            self._made.add(path := event.folder / event.name)
            self._complained.discard(path)
        self._look()

    def _look(self) -> None:
        found = dict(self._walk(self._registry, DEPTH_MAX))
        gone = [path for path in self._sockets if path not in found]
        for path in gone:
            del self._sockets[path]
        come = [path for path, status in found.items() if self._is_new(path, status)]
        for path in come:
            self._count += 1
            self._sockets[path] = _Seen(found[path].st_ino, found[path].st_ctime_ns, self._count)
        self._made.clear()
        for path in (*gone, *come):
            self._changed(path)

    def _is_new(self, path: Path, status: os.stat_result) -> bool:
        """A socket that was made anew may have its old inode; one that a look saw first is told of by inotify only afterwards."""
        before = self._sockets.get(path)
        if before is None or before.inode != status.st_ino:
            return True
        return path in self._made and before.changed_ns != status.st_ctime_ns

    def _walk(self, folder: Path, depth: int) -> Iterator[tuple[Path, os.stat_result]]:
        """The sockets with their status. Names that begin with a dot are passed over."""
        try:
            if self._has_inotify:
                self._inotify.watch(folder)
            entries = list(os.scandir(folder))
        except OSError as error:
            _log.error("A folder of the plugin registry can't be read", error=error, folder=str(folder))
            return
        for entry in entries:
            path = folder / entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if entry.name.startswith("."):
                continue
            if stat.S_ISDIR(status.st_mode) and depth > 0:
                yield from self._walk(path, depth - 1)
            elif stat.S_ISSOCK(status.st_mode):
                yield path, status
            elif path not in self._complained:
                self._complained.add(path)
                _log.warning("Not a socket, passed over", path=str(path))
