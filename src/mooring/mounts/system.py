"""Changes to mounts and loop devices, by the system's own tools: mount(8), umount(8), losetup(8). Everything here
blocks.

The tools know the helpers of file systems, and take the same locks as everybody else who mounts. A tool that hangs is
left to itself after TOOL_S: the thread is the driver's own. Tools that write to a file system are waited for without
end, and told in the log meanwhile: half a repair is worse than a long one.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Final

from mooring.base.errors import MooringError
from mooring.base.log import logger

_log = logger(__name__)

TOOL_S: Final = 60.0
_DYING_S: Final = 1.0
_NOTHING: Final = subprocess.DEVNULL
_BLOCK: Final = Path("/sys/block")
_TRIES: Final = 3
_BIND: Final = ctypes.c_ulong(0x1000)
_DELETED: Final = " (deleted)"
_NOWHERE: Final = "/"
"""The name of a file that was mounted itself, in a mount namespace that is gone: as an agent's that was killed."""
_LOOP_SET_STATUS64: Final = 0x4C04
_LOOP_GET_STATUS64: Final = 0x4C05
_LOOP_INFO64_BYTES: Final = 232
_LOOP_FLAGS_AT: Final = 52
_AUTOCLEAR: Final = 4
SBIN: Final = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of system tools. Debian's PATH names them for root alone, and a user's mount namespace needs them, too."""

MOUNT_TOOLS: Final = ("mount", "umount")
LOOP_TOOL: Final = "losetup"
_PACKAGE: Final = dict.fromkeys(("mount", "umount", "losetup", "blkid", "fsfreeze"), " (util-linux)")


class ToolFailed(MooringError):
    """A tool of the system's ended with an error, does not end, or is not there."""


class ToolHangs(ToolFailed):
    """It was killed after its time; what it was asked for may come all the same, as a mount from a server that answers
    again.
    """


def tool_path() -> str:
    """PATH, and behind it the folders of system tools that it lacks."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([*folders, *(folder for folder in SBIN if folder not in folders)])


def missing_tools(names: Sequence[str]) -> tuple[str, ...]:
    """Those that are not on this machine."""
    path = tool_path()
    return tuple(name for name in names if shutil.which(name, path=path) is None)


def bind(source: Path, target: Path) -> None:
    """Mounts a file or folder on another. Raises ToolFailed."""
    run("mount", "--bind", str(source), str(target))


def bind_error(folder: Path) -> int:
    """Mounts the folder on itself by the kernel's own call: an errno, 0 where that was done."""
    path = os.fsencode(folder)
    return ctypes.get_errno() if ctypes.CDLL(None, use_errno=True).mount(path, path, None, _BIND, None) else 0


def unmount(target: Path) -> None:
    """Raises ToolFailed."""
    run("umount", str(target))


def loop_devices_of(backing: Path) -> tuple[Path, ...]:
    """The loop devices over this file, as /dev/loopN: those whose file has its name, and is the same inode. Raises
    OSError.

    The name is asked first, and without its folders, since the kernel has it as the mount namespace that made the
    device sees it. To ask a device for the inode is to ask its file's file system, which may hang: so nobody else's is
    asked. The names of two files of one inode, as of a device that two pods have, are two. The inode tells one that was
    deleted from a successor of its name; whole paths tell only where this process may not ask a device, or the file is
    gone.
    """
    try:
        status = os.stat(backing)
        inode: tuple[int, int] | None = (status.st_dev, status.st_ino)
    except FileNotFoundError:
        inode = None
    # The kernel's form of the path, without links; what is gone may be a link's end no more.
    real = os.path.join(os.path.realpath(backing.parent), backing.name) if inode is None else os.path.realpath(backing)
    own = os.path.basename(real)
    found = []
    for entry in sorted(_BLOCK.glob("loop*/loop/backing_file")):
        device = Path("/dev") / entry.parent.parent.name
        try:
            name = entry.read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
            if name != _NOWHERE and os.path.basename(name) not in (own, f"{own}{_DELETED}"):
                continue
            told = None if inode is None else _inode_below(device)
        except OSError:  # it was given back just now
            continue
        named = name if inode else name.removesuffix(_DELETED)
        is_over = real == named if told is None else told == inode
        if is_over:
            found.append(device)
    return tuple(found)


def _inode_below(device: Path) -> tuple[int, int] | None:
    """The file system's device and the inode of the file that the loop device is over; None where this process may not
    open the loop device. Raises OSError.

    LOOP_GET_STATUS64 tells it: its answer begins with these two numbers.
    """
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    except (PermissionError, FileNotFoundError):
        return None
    try:
        answer = fcntl.ioctl(descriptor, _LOOP_GET_STATUS64, bytes(_LOOP_INFO64_BYTES))
    finally:
        os.close(descriptor)
    file_device, inode = struct.unpack_from("=QQ", answer)
    return file_device, inode


def keep_loop(device: Path, backing: Path) -> bool:
    """True where the loop device is over this file, and stays.

    losetup(8) takes one that somebody has open away only when he closes it, whoever uses it by then; until then it
    looks like any other. Here it is kept, by LOOP_SET_STATUS64: while it is open it can't go.
    """
    try:
        with open(device, "rb") as opened:
            if device not in loop_devices_of(backing):
                return False
            status = bytearray(fcntl.ioctl(opened, _LOOP_GET_STATUS64, bytes(_LOOP_INFO64_BYTES)))
            (flags,) = struct.unpack_from("=I", status, _LOOP_FLAGS_AT)
            if flags & _AUTOCLEAR:
                struct.pack_into("=I", status, _LOOP_FLAGS_AT, flags & ~_AUTOCLEAR)
                fcntl.ioctl(opened, _LOOP_SET_STATUS64, bytes(status))
    except OSError:  # it was given back just now
        return False
    return True


def attach_loop(backing: Path) -> None:
    """A loop device over the file, unless there is one. Raises ToolFailed."""
    for tries_left in reversed(range(_TRIES)):
        if any(keep_loop(device, backing) for device in loop_devices_of(backing)):
            return
        try:
            run("losetup", "-f", str(backing))
            return
        except ToolFailed:  # two who look for a free device at once may find the same one
            if not tries_left:
                raise


def detach_loops(backing: Path) -> None:
    """Gives back every loop device over the file. Raises ToolFailed."""
    for device in loop_devices_of(backing):
        run("losetup", "-d", str(device))


def run(
    *command: str, allowed: Container[int] = (0,), timeout_s: float = TOOL_S, told_each_s: float | None = None
) -> str:
    """A tool's output. allowed: exit codes that are no failure. told_each_s: it is waited for whatever time it takes,
    and the log tells of it each time.

    Raises ToolFailed; ToolHangs after the time.
    """
    try:
        tool = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "PATH": tool_path(), "LC_ALL": "C"},  # what it says is read
        )
    except FileNotFoundError:
        raise ToolFailed(
            f"{command[0]} is not on this machine; install the package that has it{_PACKAGE.get(command[0], '')}"
        ) from None
    at_work_s = 0.0
    while True:
        try:
            output, complaint = tool.communicate(timeout=told_each_s or timeout_s)
            break
        except subprocess.TimeoutExpired:
            if told_each_s is None:
                _leave_alone(tool)
                raise ToolHangs(f"{' '.join(command)}: no end after {timeout_s:g} s") from None
        at_work_s += told_each_s
        _log.info(0, f"{' '.join(command)}: at work for {at_work_s:.0f} s, and goes on")
    if tool.returncode not in allowed:
        raise ToolFailed(f"{' '.join(command)}: {(complaint or output).strip() or f'exit code {tool.returncode}'}")
    return output


_left_alone: Final[list[subprocess.Popen[str]]] = []
"""Tools that hang in the kernel, where no signal reaches them: kept until they have ended, and waited for by nobody."""


def _leave_alone(tool: subprocess.Popen[str]) -> None:
    """Kills the tool, without a wait for it (`subprocess.run` would wait)."""
    tool.kill()
    for stream in (tool.stdout, tool.stderr):
        if stream is not None:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        tool.wait(_DYING_S)
        return
    _left_alone[:] = [tool, *(one for one in _left_alone if one.poll() is None)]
