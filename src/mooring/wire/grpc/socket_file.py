"""The file of a socket that we serve on: what makes room for it, who may connect, and whose file is removed at the
end.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mooring.base.border import reason
from mooring.base.errors import ConfigError

PATH_BYTES_MAX: Final = 107  # Linux: 108 with the closing zero


def check_length(path: Path) -> Path:
    """The path. Raises ConfigError for one that is too long for a socket."""
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise ConfigError(
            f"socket path {str(path)!r} is longer than the {PATH_BYTES_MAX} bytes that the system allows: give "
            "a shorter one"
        )
    return path


def make_room(path: Path, *, even_alive: bool = False) -> None:
    """Removes a socket that nobody answers on; with even_alive also one that somebody answers on.

    Raises ConfigError when anything else is in its place, or its folder is missing.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise ConfigError(f"the folder of socket {str(path)!r} does not exist: make it first") from None
        return
    except OSError as error:
        raise ConfigError(f"socket {str(path)!r} can't be used: {reason(error)}") from None
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{str(path)!r} exists and is not a socket: choose another path, or move it away")
    if not even_alive and _is_alive(path):
        raise ConfigError(f"socket {str(path)!r} is in use: another process answers on it")
    path.unlink()


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a full backlog is an answer too
        return probe.connect_ex(str(path)) != errno.ECONNREFUSED


@contextmanager
def permissions(mode: int) -> Iterator[None]:
    """Around the making of a socket: its file has this mode from the first moment. No await within: other files would
    have it, too.
    """
    others = os.umask(0o777 & ~mode)
    try:
        yield
    finally:
        os.umask(others)


def cannot_bind(path: Path, reason: object) -> ConfigError:
    """The error of a socket that was not made."""
    return ConfigError(f"socket {str(path)!r} can't be bound: {reason}")


@contextmanager
def removed_at_the_end(path: Path) -> Iterator[None]:
    """Around the life of a socket that was made: its file goes with it, unless another has taken its place."""
    inode = _inode(path)
    try:
        yield
    finally:
        if inode is not None and _inode(path) == inode:
            path.unlink()


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None
