"""Folders that a user names, and temporary ones; a lock for one process at a time; and their entries, synced to the
disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.base.border import reason
from mooring.base.errors import ConfigError

_HOLDER_BYTES: Final = 20


@contextlib.contextmanager
def folder_or_temporary(path: str) -> Iterator[Path]:
    """The folder of this path, or for "" one that vanishes with the block."""
    if path:
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
        yield Path(folder)


def refusal(folder: Path, error: OSError, what: str = "state folder") -> ConfigError:
    """The reason why a given folder can't be used."""
    where = "" if error.filename in (None, str(folder)) else f": '{error.filename}'"
    why = "it is a file; give a folder" if os.path.isfile(folder) else reason(error, where)
    return ConfigError(f"{what} '{folder}' can't be used: {why}")


def check_utf8(path: Path | str, *, exit_code: int = 1) -> None:
    """Raise ConfigError for a path that no call can name: a text in protobuf is UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"'{path}' is no UTF-8, as calls that name it must be; give another path", exit_code=exit_code
        ) from None


def hold(path: Path, whose: str) -> int:
    """The lock file's descriptor; the kernel frees it. whose: "the driver", for errors. Raises OSError, ConfigError
    while it is taken.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise ConfigError(
            f"'{path.parent}' is in use by {whose} of process {holder}: stop it, or choose another folder"
        ) from None
    with contextlib.suppress(OSError):  # for the words of others alone: a disk that is full may have no room for it
        os.pwrite(descriptor, f"{os.getpid()}\n".encode().ljust(_HOLDER_BYTES), 0)
    return descriptor


def sync_folder(folder: Path) -> None:
    """Waits until the folder's entries are on disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
