"""The folder of a run: a permanent one, or one that goes at the end; never with what is mounted in it.

A run holds a lock in its folder for as long as it lives, whatever ends it: a folder whose lock is free is of a run that
is over. A killed run leaves loop devices, which are the machine's and outlive every process, and its temporary folder:
the next run removes them.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import threading
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from mooring.base.ending import Ending
from mooring.base.errors import ConfigError
from mooring.base.folders import check_utf8, hold, refusal
from mooring.dev.story import Story
from mooring.mounts import loops
from mooring.mounts.mountinfo import MountTable
from mooring.mounts.namespace import MountSpace
from mooring.mounts.system import ToolFailed, run, unmount
from mooring.mounts.targets import mount_table
from mooring.mounts.trees import remove_tree
from mooring.wire.grpc.socket_file import PATH_BYTES_MAX

PREFIX: Final = "mooring-"
LOCK: Final = ".mooring-dev.lock"
_NEW: Final = ".mooring-dev.new"
_WHOSE: Final = "mooring dev"

_DEVICES: Final = "devtmpfs"
"""The file system of a device that is mounted on a file."""


@contextlib.contextmanager
def run_folder(state: str, space: MountSpace, story: Story, ending: Ending) -> Iterator[Path]:
    """That folder, or for "" one that is removed after the block, whatever ends that.

    Remaining mounts in it are unmounted first, if they are surely ours: in a mount namespace of our own. Else the
    folder stays, and the story says so: the mounts may be somebody's data. The leftovers of a killed run go at the
    start. Raises ConfigError.
    """
    if state:
        with _kept_folder(Path(state), space):
            yield Path(state)
        return
    _remove_dead_runs(PREFIX, space, story)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    before, cleaning = loops.all_devices(), threading.Lock()

    def clean() -> None:
        with cleaning:  # the last word may come while this is at work: it waits, and finds nothing left
            if not folder.exists():
                return
            ending.goes_on()
            if space.is_private:
                mounted = _devices_in(folder)
                unmount_all(folder)
                _release_devices(folder, mounted - before)
                ending.goes_on()
            _remove(folder, story)

    with _held(folder), ending.at_last(clean):
        try:
            yield folder
        finally:
            clean()


def check_path(folder: Path, nodes: int, given_by: str = "state") -> None:
    """Raise ConfigError for a folder whose path is too long for the sockets below it, or can't be named in calls. The
    longest is `run/N.sock`. given_by: the flag or variable that the folder comes from.
    """
    check_utf8(folder)
    length, max_ = len(os.fsencode(folder)), PATH_BYTES_MAX - len(f"/run/{nodes}.sock")
    if length > max_:
        raise ConfigError(
            f"{given_by}: the folder's path has {length} bytes, and may have {max_}, since the driver's "
            "unix sockets lie in it: "
            "give a shorter one"
        )


def mounted_in(folder: Path) -> MountTable:
    """The mounts in the folder, the deepest last."""
    return MountTable(mount_table().below(os.path.realpath(folder)))


def unmount_all(folder: Path) -> None:
    """Unmounts what is mounted in the folder; what is in use stays. Loop devices by which agents hold raw devices go
    first.
    """
    for mount in reversed(tuple(mounted_in(folder))):
        if mount.fs_type == _DEVICES:
            with contextlib.suppress(ToolFailed, OSError):
                loops.release(Path(mount.point))
        with contextlib.suppress(ToolFailed):
            unmount(Path(mount.point))


def _devices_in(folder: Path) -> frozenset[Path]:
    """The loop devices that are mounted in the folder, or have a file system there."""
    roots = (
        (Path("/dev", mount.root.strip("/")) if mount.fs_type == _DEVICES else Path(mount.source))
        for mount in mounted_in(folder)
    )
    return frozenset(roots) & loops.all_devices()


def _remove(folder: Path, story: Story) -> None:
    if left := [mount.point for mount in mounted_in(folder)]:
        story.happened(
            "warning",
            f"{folder} is left, since {left[-1]} is still mounted in it: unmount that, then remove the folder",
        )
        return
    try:
        _remove_all(folder)
    except OSError as error:
        story.happened("warning", f"{folder} can't be removed: {error}")


def _remove_all(folder: Path) -> None:
    """The lock goes last: by it the next run knows what is left where this one does not come to its end. Raises
    OSError.
    """
    for path in folder.iterdir():
        if path.name != LOCK:
            remove_tree(path)
    remove_tree(folder)


@contextlib.contextmanager
def _kept_folder(folder: Path, space: MountSpace) -> Iterator[None]:
    """The folder of a run that keeps it, held by this run alone. Raises ConfigError when another one has it.

    Its loop devices go at the end, and at the start those of a run that was killed: what needs one makes it anew, as
    after a reboot. One in use goes with its mount, and that with the process.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = hold(folder / LOCK, _WHOSE)
    except OSError as error:
        raise refusal(folder, error) from None
    try:
        if space.is_private:
            _release_devices(folder)
        yield
    finally:
        if space.is_private:
            _release_devices(folder)
        os.close(lock)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """A temporary folder that nobody takes for a dead run's: its lock has the name by which others look for it once it
    is taken.
    """
    lock = hold(folder / _NEW, _WHOSE)
    try:
        os.rename(folder / _NEW, folder / LOCK)
        yield
    finally:
        os.close(lock)


def _remove_dead_runs(prefix: str, space: MountSpace, story: Story) -> None:
    """Removes the temporary folders of this user's runs that were killed, and gives back their loop devices."""
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{prefix}*")):
        try:
            if _is_ours(folder):
                _remove_dead(folder, space, story)
        except (ConfigError, FileNotFoundError):  # it lives, or is gone by now
            pass
        except OSError as error:
            story.happened("warning", f"{folder}, left by a run that was killed, can't be removed: {error}")


def _release_devices(folder: Path, mounted: Collection[Path] = ()) -> None:
    """Gives back the loop devices over the files of the reference driver's volumes, and those by which agents lock
    these devices.

    Where an agent's path is gone with its mount namespace, the device that it locks tells which one it is. mounted:
    those that this run's driver has made and mounted, whoever it is.
    """
    for device in dict.fromkeys((*loops.below(folder / "nodes"), *mounted)):
        with contextlib.suppress(ToolFailed):
            run("losetup", "-d", str(device))
    with contextlib.suppress(OSError):
        for file in [
            Path(entry.path)
            for entry in os.scandir(folder / "driver" / "volumes")
            if entry.is_file(follow_symlinks=False)
        ]:
            with contextlib.suppress(ToolFailed):
                for device in loops.devices(file):
                    loops.release(device)
                loops.release(file)


def _is_ours(folder: Path) -> bool:
    """False for another user's, which often can't be read, and for one without a lock: of another program, or about
    to be taken. Raises FileNotFoundError.
    """
    status = os.lstat(folder)
    is_own_folder = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
    return is_own_folder and os.path.isfile(folder / LOCK)  # False where the folder may not be entered, too


def _remove_dead(folder: Path, space: MountSpace, story: Story) -> None:
    """Raises ConfigError for a run that lives, OSError."""
    lock = hold(folder / LOCK, _WHOSE)
    try:
        if space.is_private:
            _release_devices(folder)
        _remove_all(folder)
        story.happened("cleaned", f"{folder} is removed: a run that was killed had left it")
    finally:
        os.close(lock)
