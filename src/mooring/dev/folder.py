"""The folder of a run: a permanent one, or one that goes at the end; never with what is mounted in it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.dev.story import Story
from mooring.mounts.mountinfo import MountTable
from mooring.mounts.namespace import MountSpace
from mooring.mounts.system import ToolFailed, detach_loops, unmount
from mooring.mounts.trees import remove_tree
from mooring.node.volumes.files import read_mount_table

PREFIX: Final = "mooring-"
_DEVICES: Final = "devtmpfs"
"""The file system of a device that is mounted on a file."""


@contextlib.contextmanager
def run_folder(state: str, space: MountSpace, story: Story) -> Iterator[Path]:
    """That folder, or for "" one that is removed after the block.

    What is still mounted in it then is unmounted first, where it is surely ours: in a mount namespace of our own. Else the folder stays,
    and the story says so: what is mounted may be somebody's data.
    """
    if state:
        yield Path(state)
        return
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield folder
    finally:
        if space.is_private:
            unmount_all(folder)
            _release_devices(folder)
        _remove(folder, story)


def mounted_in(folder: Path) -> MountTable:
    """What is mounted in the folder, the deepest last."""
    return MountTable(read_mount_table().below(os.path.realpath(folder)))


def unmount_all(folder: Path) -> None:
    """Unmounts what is mounted in the folder; what is in use stays. Loop devices by which agents hold raw devices go first."""
    for mount in reversed(tuple(mounted_in(folder))):
        if mount.fs_type == _DEVICES:
            with contextlib.suppress(ToolFailed, OSError):
                detach_loops(Path(mount.point))
        with contextlib.suppress(ToolFailed):
            unmount(Path(mount.point))


def _release_devices(folder: Path) -> None:
    """Gives back the loop devices over the files of volumes that nobody has given back: they would outlive the folder."""
    with contextlib.suppress(OSError):
        for file in [Path(entry.path) for entry in os.scandir(folder / "driver" / "volumes") if entry.is_file()]:
            with contextlib.suppress(ToolFailed):
                detach_loops(file)


def _remove(folder: Path, story: Story) -> None:
    if left := [mount.point for mount in mounted_in(folder)]:
        story.happened("warning", f"{folder} is left, since {left[-1]} is still mounted in it: unmount that, then remove the folder")
        return
    try:
        remove_tree(folder)
    except OSError as error:
        story.happened("warning", f"{folder} can't be removed: {error}")
