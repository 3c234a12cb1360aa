"""The folder of a run: a permanent one, or one that goes at the end; never with what is mounted in it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.base.ending import Ending
from mooring.dev.leftovers import held, kept_folder, release_devices, remove_dead_runs
from mooring.dev.story import Story
from mooring.mounts import loops
from mooring.mounts.mountinfo import MountTable
from mooring.mounts.namespace import MountSpace
from mooring.mounts.system import ToolFailed, detach_loops, unmount
from mooring.mounts.trees import remove_tree
from mooring.node.volumes.state.folders import read_mount_table

PREFIX: Final = "mooring-"
_DEVICES: Final = "devtmpfs"
"""The file system of a device that is mounted on a file."""


@contextlib.contextmanager
def run_folder(state: str, space: MountSpace, story: Story, ending: Ending) -> Iterator[Path]:
    """That folder, or for "" one that is removed after the block, whatever ends that.

    Remaining mounts in it are unmounted first, if they are surely ours: in a mount namespace of our own. Else the folder stays,
    and the story says so: the mounts may be somebody's data. The leftovers of a killed run go at the start. Raises ConfigError.
    """
    if state:
        with kept_folder(Path(state), space):
            yield Path(state)
        return
    remove_dead_runs(PREFIX, space, story)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    before, cleaning = loops.all_devices(), threading.Lock()

    def clean() -> None:
        with cleaning:  # the last word may come while this is at work: it waits, and finds nothing left
            if not folder.exists():
                return
            if space.is_private:
                mounted = _devices_in(folder)
                unmount_all(folder)
                release_devices(folder, mounted - before)
            _remove(folder, story)

    with held(folder), ending.at_last(clean):
        try:
            yield folder
        finally:
            clean()


def mounted_in(folder: Path) -> MountTable:
    """The mounts in the folder, the deepest last."""
    return MountTable(read_mount_table().below(os.path.realpath(folder)))


def unmount_all(folder: Path) -> None:
    """Unmounts what is mounted in the folder; what is in use stays. Loop devices by which agents hold raw devices go first."""
    for mount in reversed(tuple(mounted_in(folder))):
        if mount.fs_type == _DEVICES:
            with contextlib.suppress(ToolFailed, OSError):
                detach_loops(Path(mount.point))
        with contextlib.suppress(ToolFailed):
            unmount(Path(mount.point))


def _devices_in(folder: Path) -> frozenset[Path]:
    """The loop devices that are mounted in the folder, or have a file system there."""
    roots = ((Path("/dev", mount.root.strip("/")) if mount.fs_type == _DEVICES else Path(mount.source)) for mount in mounted_in(folder))
    return frozenset(roots) & loops.all_devices()


def _remove(folder: Path, story: Story) -> None:
    if left := [mount.point for mount in mounted_in(folder)]:
        story.happened("warning", f"{folder} is left, since {left[-1]} is still mounted in it: unmount that, then remove the folder")
        return
    try:
        remove_tree(folder)
    except OSError as error:
        story.happened("warning", f"{folder} can't be removed: {error}")
