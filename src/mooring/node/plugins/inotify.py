"""inotify(7) on an event loop: which names come and go in which folders. Linux alone; elsewhere `start` says that there is none."""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import enum
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 64 * 1024


class Mask(enum.IntFlag):
    MOVED_FROM = 0x40
    MOVED_TO = 0x80
    CREATE = 0x100
    DELETE = 0x200
    DELETE_SELF = 0x400
    OVERFLOW = 0x4000
    IGNORED = 0x8000
    ONLY_FOLDERS = 0x01000000


_WATCHED: Final = Mask.CREATE | Mask.DELETE | Mask.MOVED_FROM | Mask.MOVED_TO | Mask.DELETE_SELF | Mask.ONLY_FOLDERS


@dataclasses.dataclass(frozen=True, slots=True)
class Happened:
    """One event. folder: None, with OVERFLOW, when events were lost. name: in the folder, "" for the folder itself."""

    mask: Mask
    folder: Path | None
    name: str = ""


class Inotify:
    """Watches folders until `close`. handler: called on the loop for each event."""

    def __init__(self, handler: Callable[[Happened], None]) -> None:
        self._handler = handler
        self._descriptor = -1
        self._folders: dict[int, Path] = {}

    def start(self) -> bool:
        """False where the system has no inotify, or no more of it."""
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
            self._tell(number, Mask(mask), name)

    def _tell(self, number: int, mask: Mask, name: str) -> None:
        folder = self._folders.get(number)
        if mask & Mask.IGNORED:
            self._folders.pop(number, None)
        elif folder is not None or mask & Mask.OVERFLOW:
            self._handler(Happened(mask, folder, name))
