"""Folders of the user's, or folders that vanish."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def folder_or_temporary(path: str) -> Iterator[Path]:
    """That folder, or for "" one that vanishes with the block."""
    if path:
        yield Path(path)
        return
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
        yield Path(folder)
