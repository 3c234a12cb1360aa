"""A machine's kernel, as far as an agent's work on its disk shows it: what a piece of work does, for as long as it is
done.

A mount point can't be removed, device files are devices, files belong to groups, and the tools for mounts and loop
devices change the machine's own tables. Outside of such work the process' `os` is as it always was.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from mooring.mounts import loops, system, targets
from mooring.mounts.system import ToolFailed
from tests.sim.mortal import Mortal
from tests.sim.node.machine import Machine

_DEVICE: Final = os.stat_result((stat.S_IFBLK | 0o600, 0, 0, 1, 0, 0, 0, 0, 0, 0))


class Killed(BaseException):
    """The agent died in the middle of work on its disk."""


class Kernel:
    """Each change is a step, before which the agent may die, or which may fail. _has_walked: whether files have been
    given to a group.
    """

    def __init__(self, world: Any, machine: Machine, mortal: Mortal) -> None:
        self._world, self._machine, self._mortal = world, machine, mortal
        self._randomness, self._faults = world.randomness["backend"], world.plan.disk
        self._has_walked = False

    def _played(self) -> tuple[tuple[Any, str, Callable[[Any], Any]], ...]:
        """Each function that is replaced while the work is done: its module, its name, and how to make another one of
        it.
        """
        return (
            (os, "mkdir", self._mkdir),
            (os, "rmdir", self._rmdir),
            (os, "unlink", self._unlink),
            (os, "open", self._open),
            (os, "stat", self._stat),
            (os, "scandir", self._listing),
            (os, "listdir", self._listing),
            (os, "chmod", self._chmod),
            (os, "chown", lambda real: self._chown),
            (os, "fstat", self._fstat),
            (os, "rename", self._changing("rename", at=1)),
            (os, "symlink", self._changing("symlink", at=1, code=errno.ENOSPC)),
            (os, "fsync", lambda real: lambda descriptor: None),
            (system, "bind", lambda real: self._bind),
            (system, "unmount", lambda real: self._unmount),
            (loops, "any_device", lambda real: self._attach_loop),
            (loops, "release", lambda real: self._detach_loops),
            (targets, "MOUNTINFO", lambda real: _MountInfo(self._machine)),
        )

    @contextlib.contextmanager
    def _as_kernel(self) -> Iterator[None]:
        before = [(module, name, getattr(module, name), make) for module, name, make in self._played()]
        try:
            for module, name, real, make in before:
                setattr(module, name, make(real))
            yield
        finally:
            for module, name, real, _ in before:
                setattr(module, name, real)

    def _step(self, what: str, path: object, code: int = errno.EIO) -> None:
        """Raises Killed, OSError."""
        shown = f"{what} {self._machine.short(path)}"
        if self._mortal.alive and self._mortal.strikes():
            self._mortal.kill(f"before {shown}")
        if not self._mortal.alive:
            raise Killed
        if lasting := self._lasting(str(path), code):
            self._tell(f"{shown}: {os.strerror(lasting)}")
            raise OSError(lasting, os.strerror(lasting), str(path))
        if self._world.faulty and self._randomness.happens(self._faults.failed):
            self._tell(f"{shown}: {os.strerror(code)}")
            raise OSError(code, os.strerror(code), str(path))
        self._tell(shown)

    def _lasting(self, path: str, code: int) -> int:
        """The error of a disk that is full, or of a folder without the right to write; 0 for none. code: ENOSPC for
        what needs room.
        """
        now = self._world.clock.now()
        if code == errno.ENOSPC and now < self._machine.full_until_s:
            return errno.ENOSPC
        is_protected = any(
            now < until_s and path.startswith(f"{folder}/") for folder, until_s in self._machine.protected.items()
        )
        return errno.EACCES if is_protected else 0

    def _check_readable(self, path: object) -> None:
        """Raises OSError."""
        spoiled = self._machine.spoiled.get(Path(str(path))) if self._machine.spoiled else None
        if spoiled is not None and spoiled.kind in ("unreadable", "unlistable"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    def _listing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def listed(path: Any = ".") -> Any:
            self._check_readable(path)
            return real(path)

        return listed

    def _tell(self, what: str) -> None:
        self._world.story.tell(self._mortal.who, what)

    def _removes(self, path: object) -> None:
        """Raises OSError for a mount point."""
        if (point := self._machine.mount_over(str(path))) is not None:
            self._world.fail(
                "deleted-in-mount",
                f"{self._machine.short(path)} is removed, and lies in what is mounted on it: {point}",
            )
        if str(path) in self._machine.mounts:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))

    def _changing(
        self, what: str, at: int = 0, code: int = errno.EIO
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """A function that changes the path among its arguments at this place."""

        def make(real: Callable[..., None]) -> Callable[..., None]:
            def change(*args: Any, **options: Any) -> None:
                self._step(what, args[at], code)
                real(*args, **options)

            return change

        return make

    def _mkdir(self, real: Callable[..., None]) -> Callable[..., None]:
        def mkdir(path: Any, *args: Any, **options: Any) -> None:
            if os.path.isdir(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            self._step("mkdir", path, errno.ENOSPC)
            real(path, *args, **options)

        return mkdir

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def open_file(path: Any, flags: int, *args: Any, **options: Any) -> int:
            if flags & os.O_CREAT:
                self._step("write", path, errno.ENOSPC)
            else:
                self._check_readable(path)
            return real(path, flags, *args, **options)

        return open_file

    def _rmdir(self, real: Callable[..., None]) -> Callable[..., None]:
        def rmdir(path: Any, *args: Any, **options: Any) -> None:
            if os.path.isdir(path):
                self._step("rmdir", path)
                self._removes(path)
            real(path, *args, **options)

        return rmdir

    def _unlink(self, real: Callable[..., None]) -> Callable[..., None]:
        def unlink(path: Any, *args: Any, **options: Any) -> None:
            if os.path.lexists(path):
                self._step("unlink", path)
                self._removes(path)
                self._world.laws.unlinks(self._machine, Path(path))
                self._machine.devices.discard(str(path))
            real(path, *args, **options)

        return unlink

    def _stat(self, real: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def stat_file(path: Any, **options: Any) -> os.stat_result:
            return _DEVICE if str(path) in self._machine.devices else real(path, **options)

        return stat_file

    # -- groups

    def _chown(self, path: Any, _owner: int, group: int, **_options: Any) -> None:
        """Raises OSError. Who may give a file to any group is not who runs this: the machine keeps in mind whose it
        is.
        """
        machine, opened = self._machine, _opened(path)
        self._world.laws.groups.changes(machine, opened, group)
        self._change_of_group("chgrp", opened, f" {group}")
        machine.groups[opened] = group
        self._has_walked = True

    def _chmod(self, real: Callable[..., None]) -> Callable[..., None]:
        def chmod(path: Any, *args: Any, **options: Any) -> None:
            opened = _opened(path)
            self._change_of_group("chmod", opened)
            real(path, *args, **options)

        return chmod

    def _change_of_group(self, verb: str, path: str, to: str = "") -> None:
        """Raises Killed, OSError. The agent passes over a single file that it can't change."""
        try:
            self._step(f"{verb}{to}", path)
        except OSError:
            self._machine.passed_over.add((verb, path))
            raise
        self._machine.passed_over.discard((verb, path))

    def _fstat(self, real: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def fstat(descriptor: int) -> os.stat_result:
            shown = list(real(descriptor))[:10]
            shown[stat.ST_GID] = self._machine.groups.get(_opened(f"/proc/self/fd/{descriptor}"), shown[stat.ST_GID])
            return os.stat_result(shown)

        return fstat

    # -- the tools

    def _bind(self, source: Path, target: Path) -> None:
        self._tool("mount --bind", target)
        self._machine.mounts[str(target)] = self._machine.published[str(source)]

    def _unmount(self, target: Path) -> None:
        self._tool("umount", target)
        del self._machine.mounts[str(target)]

    def _attach_loop(self, backing: Path) -> None:
        self._tool("losetup -f", backing)
        self._machine.loops.add(str(backing))

    def _detach_loops(self, backing: Path) -> None:
        self._tool("losetup -d", backing)
        self._machine.loops.discard(str(backing))

    def _tool(self, command: str, path: Path) -> None:
        """Raises ToolFailed."""
        try:
            self._step(command, path)
        except OSError as error:
            raise ToolFailed(f"{command}: {error}") from None


def _opened(path: object) -> str:
    """What a path leads to that is the number of an open file."""
    return os.readlink(str(path)) if str(path).startswith("/proc/self/fd/") else str(path)


class _MountInfo:
    """In place of /proc/self/mountinfo."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read_text(self, **_options: Any) -> str:
        return self._machine.mountinfo()
