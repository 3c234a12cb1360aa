"""The sockets in the registry folder: which are there, and which were made anew under their old name.

After an event of inotify it looks at the whole tree, which is small; so the next event, or the look each minute, makes
up for a lost one. Where there is no inotify the look comes every second.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from inotify_simple import INotify, flags

from mooring.base.clock import Clock
from mooring.base.log import logger

_log = logger(__name__)

RESCAN_S: Final = 60.0
POLL_S: Final = 1.0
DEPTH_MAX: Final = 8
"""Folders below the registry; deeper ones are not looked into."""


_WATCHED: Final = flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO | flags.DELETE_SELF | flags.ONLYDIR


class _Seen(msgspec.Struct, frozen=True):
    """A socket at its first sight."""

    inode: int
    changed_ns: int
    generation: int


class SocketWatcher:
    """The registry folder. changed: called with a socket's path when it has come, gone, or was made anew."""

    def __init__(self, registry: Path, changed: Callable[[Path], None], *, clock: Clock) -> None:
        self._registry, self._changed, self._clock = registry, changed, clock
        self._inotify: INotify | None = None
        self._is_blind = True  # inotify does not tell of all folders
        self._folders: dict[int, Path] = {}  # by the number of their watch
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
        with self._watching():
            while True:
                self._look()
                await self._clock.sleep(POLL_S if self._is_blind else RESCAN_S)

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        try:
            self._inotify = INotify(nonblocking=True)
        except (OSError, AttributeError) as error:  # all but Linux; or its users have as many as they may
            _log.warning(
                "There is no inotify; the folder is looked at every second", folder=str(self._registry), error=error
            )
            yield
            return
        self._is_blind = False
        with self._inotify as inotify:
            loop = asyncio.get_running_loop()
            loop.add_reader(inotify.fileno(), self._happened, inotify)
            try:
                yield
            finally:
                loop.remove_reader(inotify.fileno())

    def _happened(self, inotify: INotify) -> None:
        for event in inotify.read(0):
            if event.mask & flags.IGNORED:
                self._folders.pop(event.wd, None)
            elif event.mask & (flags.CREATE | flags.MOVED_TO) and event.wd in self._folders:
                self._made.add(path := self._folders[event.wd] / event.name)
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
        """A socket that was made anew may have its old inode; one that a look saw first is told of by inotify only
        afterwards.
        """
        before = self._sockets.get(path)
        if before is None or before.inode != status.st_ino:
            return True
        return (path in self._made or self._is_blind) and before.changed_ns != status.st_ctime_ns

    def _watch(self, folder: Path) -> None:
        """Watch a folder. When inotify has no more watches, folders are looked at as on a host without it."""
        if self._inotify is None:
            return
        try:
            self._folders[self._inotify.add_watch(folder, _WATCHED)] = folder
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            if not self._is_blind:
                self._is_blind = True
                _log.warning("inotify has no more watches; folders are looked at every second", folder=str(folder))

    def _leads_to_a_socket(self, link: Path) -> bool:
        """True for a link to a socket, or to what was one: as to a kubelet, changes at its other end are no events."""
        return link in self._sockets or link.is_socket()

    def _walk(self, folder: Path, depth: int) -> Iterator[tuple[Path, os.stat_result]]:
        """The sockets with their status. Names that begin with a dot are passed over."""
        try:
            self._watch(folder)
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
            elif stat.S_ISSOCK(status.st_mode) or (stat.S_ISLNK(status.st_mode) and self._leads_to_a_socket(path)):
                yield path, status
            elif path not in self._complained:
                self._complained.add(path)
                _log.warning("Not a socket, passed over", path=str(path))
