"""Changes to mounts and loop devices, by the system's own tools: mount(8), umount(8), losetup(8). Everything here blocks.

The tools know the helpers of file systems, and take the same locks as everybody else who mounts. A tool that hangs is left to itself
after TOOL_S: the thread is the driver's own.
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

TOOL_S: Final = 60.0
_DYING_S: Final = 1.0
_NOTHING: Final = subprocess.DEVNULL
_BLOCK: Final = Path("/sys/block")
_TRIES: Final = 3
_BIND: Final = ctypes.c_ulong(0x1000)
_PACKAGE: Final = dict.fromkeys(("mount", "umount", "losetup", "blkid", "fsfreeze"), " (util-linux)")


class ToolFailed(MooringError):
    """A tool of the system's ended with an error, does not end, or is not there."""


def missing_tools(names: Sequence[str] = ("mount", "umount", "losetup")) -> tuple[str, ...]:
    """Those that are not on this machine."""
    return tuple(name for name in names if shutil.which(name) is None)


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
    """The loop devices over this file, as /dev/loopN. Raises OSError.

    A loop device outlives the mount namespace in which its file had this path: its path is `/` then, and only the file itself tells.
    """
    found, strays = [], set[str]()
    real = os.path.join(
        os.path.realpath(backing.parent), backing.name
    )  # as the kernel has it, without links; what is mounted is not asked
    for entry in sorted(_BLOCK.glob("loop*/loop/backing_file")):
        try:
            name = entry.read_text(encoding="utf-8", errors="surrogateescape").strip()
        except OSError:  # it was given back just now
            continue
        if name.removesuffix(" (deleted)").removesuffix("(deleted)").rstrip() == real:
            found.append(Path("/dev") / entry.parent.parent.name)
        elif name == "/":
            strays.add(f"/dev/{entry.parent.parent.name}")
    if strays:
        same = run("losetup", "--associated", str(backing), "--noheadings", "--output", "NAME", allowed=(0, 1)).split()
        found += [Path(device) for device in sorted(strays.intersection(same))]
    return tuple(found)


def attach_loop(backing: Path) -> None:
    """A loop device over the file, unless there is one. Raises ToolFailed."""
    if loop_devices_of(backing):
        return
    for tries_left in reversed(range(_TRIES)):
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


def run(*command: str, allowed: Container[int] = (0,), timeout_s: float = TOOL_S) -> str:
    """A tool's output. allowed: exit codes that are no failure. Raises ToolFailed."""
    try:
        tool = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except FileNotFoundError:
        raise ToolFailed(
            f"{command[0]} is not on this machine; install the package that has it{_PACKAGE.get(command[0], '')}"
        ) from None
    try:
        output, complaint = tool.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _leave_alone(tool)
        raise ToolFailed(f"{' '.join(command)}: no end after {timeout_s:g} s") from None
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
