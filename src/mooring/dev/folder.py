"""The folder of a run: a permanent one, or one that goes at the end; never with what is mounted in it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.dev.story import Story
from mooring.mounts.mountinfo import MountTable
from mooring.mounts.namespace import MountSpace
from mooring.mounts.system import ToolFailed, unmount
from mooring.node.volumes.files import read_mount_table

_PREFIX: Final = "mooring-"


@contextlib.contextmanager
def run_folder(state: str, space: MountSpace, story: Story) -> Iterator[Path]:
    """That folder, or for "" one that is removed after the block.

    What is still mounted in it then is unmounted first, where it is surely ours: in a mount namespace of our own. Else the folder stays,
    and the story says so: what is mounted may be somebody's data.
    """
    if state:
        yield Path(state)
        return
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        yield folder
    finally:
        if space.is_private:
            _unmount_all(folder)
        _remove(folder, story)


def mounted_in(folder: Path) -> MountTable:
    """What is mounted in the folder, the deepest last."""
    return MountTable(read_mount_table().below(os.path.realpath(folder)))


def _unmount_all(folder: Path) -> None:
    for mount in reversed(tuple(mounted_in(folder))):
        with contextlib.suppress(ToolFailed):  # `_remove` finds it
            unmount(Path(mount.point))


def _remove(folder: Path, story: Story) -> None:
    if left := [mount.point for mount in mounted_in(folder)]:
        story.happened("warning", f"{folder} is left, since {left[-1]} is still mounted in it: unmount that, then remove the folder")
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        story.happened("warning", f"{folder} can't be removed: {error}")
