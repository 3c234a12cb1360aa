"""The leftovers of a killed run: loop devices, which are the machine's and outlive every process, and temporary folders.

A run holds a lock in its folder for as long as it lives, whatever ends it: a folder whose lock is free is of a run that is over.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from mooring.base.errors import ConfigError
from mooring.base.folders import hold, refusal
from mooring.dev.story import Story
from mooring.mounts import loops
from mooring.mounts.namespace import MountSpace
from mooring.mounts.system import ToolFailed, detach_loops, loop_devices_of, run
from mooring.mounts.trees import remove_tree

LOCK: Final = ".mooring-dev.lock"
_NEW: Final = ".mooring-dev.new"
_WHOSE: Final = "mooring dev"


@contextlib.contextmanager
def kept_folder(folder: Path, space: MountSpace) -> Iterator[None]:
    """The folder of a run that keeps it, held by this run alone. Raises ConfigError when another one has it.

    Its loop devices go at the end, and at the start those of a run that was killed: what needs one makes it anew, as after a reboot. One
    in use goes with its mount, and that with the process.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = hold(folder / LOCK, _WHOSE)
    except OSError as error:
        raise refusal(folder, error) from None
    try:
        if space.is_private:
            release_devices(folder)
        yield
    finally:
        if space.is_private:
            release_devices(folder)
        os.close(lock)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """A temporary folder that nobody takes for a dead run's: its lock has the name by which others look for it once it is taken."""
    lock = hold(folder / _NEW, _WHOSE)
    try:
        os.rename(folder / _NEW, folder / LOCK)
        yield
    finally:
        os.close(lock)


def remove_dead_runs(prefix: str, space: MountSpace, story: Story) -> None:
    """Removes the temporary folders of this user's runs that were killed, and gives back their loop devices."""
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{prefix}*")):
        try:
            if _is_ours(folder):
                _remove_dead(folder, space, story)
        except ConfigError:  # it lives
            pass
        except OSError as error:
            story.happened("warning", f"{folder}, left by a run that was killed, can't be removed: {error}")


def release_devices(folder: Path, mounted: Collection[Path] = ()) -> None:
    """Gives back the loop devices over the files of the reference driver's volumes, and those by which agents lock these devices.

    Where an agent's path is gone with its mount namespace, the device that it locks tells which one it is. mounted: those that this run's
    driver has made and mounted, whoever it is.
    """
    for device in dict.fromkeys((*loops.below(folder / "nodes"), *mounted)):
        with contextlib.suppress(ToolFailed):
            run("losetup", "-d", str(device))
    with contextlib.suppress(OSError):
        for file in [Path(entry.path) for entry in os.scandir(folder / "driver" / "volumes") if entry.is_file(follow_symlinks=False)]:
            with contextlib.suppress(ToolFailed):
                for device in loop_devices_of(file):
                    detach_loops(device)
                detach_loops(file)


def _is_ours(folder: Path) -> bool:
    """False for one without a lock: of another program, or about to be taken."""
    return not folder.is_symlink() and (folder / LOCK).is_file() and os.lstat(folder).st_uid == os.geteuid()


def _remove_dead(folder: Path, space: MountSpace, story: Story) -> None:
    """Raises ConfigError for a run that lives, OSError."""
    lock = hold(folder / LOCK, _WHOSE)
    try:
        if space.is_private:
            release_devices(folder)
        remove_tree(folder)
        story.happened("cleaned", f"{folder} is removed: a run that was killed had left it")
    finally:
        os.close(lock)
