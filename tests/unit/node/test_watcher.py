"""The folder of sockets, where inotify tells nothing: it is looked at every second."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from mooring.base.clock import LoopClock
from mooring.node.plugins import watcher
from mooring.node.plugins.watcher import SocketWatcher
from tests.support.rows import each_row


class NoMoreWatches(watcher.INotify):  # type: ignore[misc]
    def add_watch(self, *_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def no_instance(**_: Any) -> watcher.INotify:
    raise OSError(errno.EMFILE, "Too many open files")


def made_anew(path: Path, kept: Path) -> None:
    """In the place of the socket that was there, with its inode, as the system often gives one again at once."""
    os.link(path, kept)
    path.unlink()
    os.link(kept, path)


@each_row("inotify", [NoMoreWatches, no_instance])
async def test_a_socket_that_is_made_anew_is_seen_without_inotify_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inotify: Any
) -> None:
    monkeypatch.setattr(watcher, "INotify", inotify)
    monkeypatch.setattr(watcher, "POLL_S", 0.2)
    seen: list[int | None] = []
    folder, kept = tmp_path / "plugins", tmp_path / "kept"
    folder.mkdir()
    one = SocketWatcher(folder, lambda path: seen.append(one.generation(path)), clock=LoopClock())
    path = folder / "d1.sock"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    running = asyncio.create_task(one.run())
    await asyncio.sleep(0.1)
    assert [1] == seen
    made_anew(path, kept)
    await asyncio.sleep(0.3)
    assert [1, 2] == seen
    running.cancel()
