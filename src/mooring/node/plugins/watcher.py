"""The sockets in the registry folder: which are there, and which were made anew under their old name.

What inotify tells leads to a look at the whole tree, which is small; so an event that was lost is made good by the next one, or by the
look that comes once a minute. Where there is no inotify the look comes every second.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.node.plugins.inotify import Happened, Inotify, Mask

_log = logger(__name__)

RESCAN_S: Final = 60.0
POLL_S: Final = 1.0
DEPTH_MAX: Final = 8
"""Folders below the registry; deeper ones are not looked into."""


class SocketWatcher:
    """The registry folder. changed: called with a socket's path when it has come, gone, or was made anew."""

    def __init__(self, registry: Path, changed: Callable[[Path], None], *, clock: Clock) -> None:
        self._registry, self._changed, self._clock = registry, changed, clock
        self._inotify = Inotify(self._happened)
        self._has_inotify = False
        self._sockets: dict[Path, tuple[int, int]] = {}  # path → inode, generation
        self._count = 0
        self._complained: set[Path] = set()

    def generation(self, socket: Path) -> int | None:
        """A number that is another one each time the socket is made; None when it is not there."""
        found = self._sockets.get(socket)
        return found[1] if found is not None else None

    async def run(self) -> None:
        """Makes the folder and watches it until cancelled. Raises OSError when it can't be made or read."""
        os.makedirs(self._registry, mode=0o755, exist_ok=True)
        self._has_inotify = self._inotify.start()
        if not self._has_inotify:
            _log.warning("This system has no inotify, or no more of it; the folder is looked at every second", folder=str(self._registry))
        try:
            while True:
                self._look()
                await self._clock.sleep(RESCAN_S if self._has_inotify else POLL_S)
        finally:
            self._inotify.close()

    def _happened(self, event: Happened) -> None:
        if event.folder is not None and event.mask & (Mask.CREATE | Mask.MOVED_TO):
            self._sockets.pop(path := event.folder / event.name, None)  # made anew, perhaps with its old inode
            self._complained.discard(path)
        self._look()

    def _look(self) -> None:
        found = dict(self._walk(self._registry, DEPTH_MAX))
        gone = [path for path in self._sockets if path not in found]
        for path in gone:
            del self._sockets[path]
        come = [path for path, inode in found.items() if self._sockets.get(path, (None,))[0] != inode]
        for path in come:
            self._count += 1
            self._sockets[path] = found[path], self._count
        for path in (*gone, *come):
            self._changed(path)

    def _walk(self, folder: Path, depth: int) -> Iterator[tuple[Path, int]]:
        """Sockets and their inodes. Names that begin with a dot are passed over."""
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
                yield path, status.st_ino
            elif path not in self._complained:
                self._complained.add(path)
                _log.warning("Not a socket, passed over", path=str(path))
