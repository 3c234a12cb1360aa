"""Changes to mounts, by the system's own tools: mount(8), umount(8) and others. Everything here blocks.

The tools know the helpers of file systems, and take the same locks as everybody else who mounts. A tool that hangs is
left to itself after TOOL_S: the thread is the driver's own. Tools that write to a file system are waited for without
end, and told in the log meanwhile: half a repair is worse than a long one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
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
_BIND: Final = ctypes.c_ulong(0x1000)
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
