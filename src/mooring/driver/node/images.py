"""A volume's file held still while it is copied: its devices written out, its file system frozen. Everything here blocks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.mounts import loops, system
from mooring.mounts.mountinfo import MountTable

FREEZER: Final = "fsfreeze"


@contextlib.contextmanager
def held_still(file: Path, table: MountTable) -> Iterator[None]:
    """Nothing is written to the file system in this file while the block runs; writers wait.

    A driver that is killed inside leaves it frozen: the next one thaws it at its start. Without reflinks, that is as long as a copy takes.
    """
    loops.flush(file)
    points = [_point_of(device, table) for device in loops.devices(file)]
    frozen = [point for point in points if point and _froze(point)]
    try:
        yield
    finally:
        for point in frozen:
            thaw(point)


def thaw(point: str) -> None:
    """Lets the file system at the point go on, if it is frozen."""
    with contextlib.suppress(system.ToolFailed):
        system.run(FREEZER, "--unfreeze", point)


def _froze(point: str) -> bool:
    try:
        system.run(FREEZER, "--freeze", point)
    except system.ToolFailed:  # mounted read-only: nothing is written anyway
        return False
    return True


def _point_of(device: Path, table: MountTable) -> str:
    return next((mount.point for mount in table if mount.source == str(device)), "")
