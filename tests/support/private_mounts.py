"""A mount namespace of the test process' own: drivers that run in this process mount for real, and nobody else sees it.

A thread that is made later is in it too, and so is every program that is started. Entered once, and never left: a
kernel lets no thread go back that others share their folder with.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
from pathlib import Path
from typing import Final

from mooring.mounts import loops
from mooring.mounts.system import ToolFailed, run
from mooring.mounts.targets import mount_table, mounting_refusal
from tests.support.layers import REAL_MOUNTS, not_tested
from tests.support.loop_devices import needs_loop_devices
from tests.support.waiting import eventually

_NEW_MOUNTS: Final = 0x00020000
_RECURSIVE: Final = 0x4000
_PRIVATE: Final = 0x40000


def enter_private_mounts(tmp_path: Path) -> None:
    """Lets the running test mount in its folder. Without root on Linux the test is not tested."""
    if sys.platform != "linux" or os.geteuid() != 0:
        not_tested(REAL_MOUNTS, "not root on Linux")
    needs_loop_devices()
    if problem := _entered():
        not_tested(REAL_MOUNTS, problem)
    if refusal := mounting_refusal(tmp_path):
        not_tested(REAL_MOUNTS, refusal)


@functools.cache
def _entered() -> str:
    """Why this process has no namespace of its own, "" where it has."""
    kernel = ctypes.CDLL(None, use_errno=True)
    if kernel.unshare(_NEW_MOUNTS) or kernel.mount(b"none", b"/", None, ctypes.c_ulong(_RECURSIVE | _PRIVATE), None):
        return f"no mount namespace: {os.strerror(ctypes.get_errno())}"
    return ""


def mounted_below(folder: Path) -> list[str]:
    """The mount points in a folder."""
    return [mount.point for mount in mount_table().below(str(folder))]


def loops_below(folder: Path) -> list[str]:
    """The files in a folder that loop devices are over."""
    files = (str(loops.backing_of(device.name)) for device in loops.all_devices())  # one may go meanwhile
    return [file for file in files if file.startswith(f"{folder}/")]


def assert_no_loops_below(folder: Path) -> None:
    """A device that was given back goes when the last program closes it: another test's look at all of them (losetup)
    has it open for a moment.
    """

    def is_none() -> bool:
        assert [] == loops_below(folder)
        return True

    eventually(is_none, 10, "every loop device is given back")


def assert_no_loops_over(file: Path) -> None:
    """As of a folder, and as the file's inode tells."""
    eventually(lambda: not loops.devices(file), 10, f"every loop device over {file} is given back")


def clear_below(folder: Path) -> None:
    """Unmounts all that is mounted in a folder, thawed where it is frozen, and gives its loop devices back: the machine
    has few of them.
    """
    for point in reversed(mounted_below(folder)):
        for tool in (("fsfreeze", "--unfreeze"), ("umount", "--lazy")):
            with contextlib.suppress(ToolFailed):  # as one that hangs, on a server that has died
                run(*tool, point)
    for file in loops_below(folder):
        with contextlib.suppress(OSError, ToolFailed):
            loops.release(Path(file.removesuffix(" (deleted)")))
