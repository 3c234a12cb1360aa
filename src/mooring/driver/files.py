"""A volume's file copied as a whole, for clones and snapshots: `await blocking(copy_file, source, target)`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from mooring.base.folders import sync_folder
from mooring.driver import copying

Progress = Callable[[int, int], None]
"""Gets the number of bytes copied, and that of all bytes. An exception of it ends the copy."""


def copy_file(
    source: Path, target: Path, *, size_bytes: int | None = None, progress: Progress = lambda _done, _all: None
) -> None:
    """Makes the file target with the data of source, whole and on disk, or not at all. Blocks.

    Where the file system can share data between files (reflinks of btrfs and xfs) nothing is copied; holes stay holes.
    The copy grows as target.part, which a later call begins anew. size_bytes: of the target, None for that of the
    source. Nobody may write to the source meanwhile, else the copy is of no one moment. Raises OSError, and that is
    FileExistsError for a target that is there.
    """
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    whole = source.stat().st_size if size_bytes is None else size_bytes
    try:
        copying.copy_file(str(source), str(part), whole, lambda: None, lambda done: progress(done, whole))
        progress(whole, whole)  # the end may be a hole
        os.rename(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)
