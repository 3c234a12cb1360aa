"""What an agent hands to a thread, done at once in the loop's own thread: every change of the disk is a step at which the agent can die.

The kernel is played as far as the agent's work shows it: a mount point can't be removed, device files are devices, and the tools for
mounts and loop devices change the machine's own tables. Outside of such work the process' `os` is as it always was.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, NoReturn

from mooring.mounts import system
from mooring.mounts.system import ToolFailed
from mooring.node.volumes import files
from tests.sim.course import BoundedLoop
from tests.sim.mortal import Mortal
from tests.sim.node.machine import Machine

HUNG_S_MAX: Final = 90.0
_DEVICE: Final = os.stat_result((stat.S_IFBLK | 0o600, 0, 0, 1, 0, 0, 0, 0, 0, 0))


class Killed(BaseException):
    """The agent died in the middle of work on its disk."""


class Disk:
    """The machine's disk, as one incarnation of its agent uses it."""

    def __init__(self, world: Any, machine: Machine, mortal: Mortal) -> None:
        self._world, self._machine, self._mortal = world, machine, mortal
        self._randomness, self._faults = world.randomness["backend"], world.plan.disk

    async def work(self, answer: asyncio.Future[Any], work: Callable[[], Any]) -> None:
        """As a thread: work that nobody waits for any more is not begun, but what hangs may begin after its caller gave up."""
        await self._mortal.point("before work on the disk")
        if answer.cancelled():
            return
        if self._world.faulty and self._randomness.happens(self._faults.hung):
            await self._world.clock.sleep(self._randomness.uniform(0.0, HUNG_S_MAX))
        if not self._mortal.alive:
            return
        try:
            with self._as_kernel():
                done, error = work(), None
        except Killed:
            return
        except Exception as raised:
            done, error = None, raised
        await self._mortal.point("after work on the disk")
        if answer.done():
            return
        if error is None:
            answer.set_result(done)
        else:
            answer.set_exception(error)

    # -- the kernel

    @contextlib.contextmanager
    def _as_kernel(self) -> Iterator[None]:
        before = [(module, name, getattr(module, name)) for module, name in _REPLACED]
        try:
            for module, name, real in before:
                setattr(module, name, getattr(self, f"_{name.strip('_').lower()}")(real))
            yield
        finally:
            for module, name, real in before:
                setattr(module, name, real)

    def _step(self, what: str, path: object, code: int = errno.EIO) -> None:
        """Raises Killed, OSError."""
        shown = f"{what} {self._machine.short(path)}"
        if self._mortal.alive and self._mortal.strikes():
            self._mortal.kill(f"before {shown}")
        if not self._mortal.alive:
            raise Killed
        if self._world.faulty and self._randomness.happens(self._faults.failed):
            self._tell(f"{shown}: {os.strerror(code)}")
            raise OSError(code, os.strerror(code), str(path))
        self._tell(shown)

    def _tell(self, what: str) -> None:
        self._world.story.tell(self._mortal.who, what)

    def _removes(self, path: object) -> None:
        if (point := self._machine.mount_over(str(path))) is not None:
            self._world.fail("deleted-in-mount", f"{self._machine.short(path)} is removed, and lies in what is mounted on it: {point}")
        if str(path) in self._machine.mounts:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))

    def _mkdir(self, real: Callable[..., None]) -> Callable[..., None]:
        def mkdir(path: Any, *args: Any, **options: Any) -> None:
            if os.path.isdir(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            self._step("mkdir", path, errno.ENOSPC)
            real(path, *args, **options)

        return mkdir

    def _chmod(self, real: Callable[..., None]) -> Callable[..., None]:
        def chmod(path: Any, *args: Any, **options: Any) -> None:
            self._step("chmod", path)
            real(path, *args, **options)

        return chmod

    def _symlink(self, real: Callable[..., None]) -> Callable[..., None]:
        def symlink(source: Any, path: Any, *args: Any, **options: Any) -> None:
            self._step("symlink", path, errno.ENOSPC)
            real(source, path, *args, **options)

        return symlink

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def open_file(path: Any, flags: int, *args: Any, **options: Any) -> int:
            if flags & os.O_CREAT:
                self._step("write", path, errno.ENOSPC)
            return real(path, flags, *args, **options)

        return open_file

    def _rename(self, real: Callable[..., None]) -> Callable[..., None]:
        def rename(source: Any, path: Any, *args: Any, **options: Any) -> None:
            self._step("rename", path)
            real(source, path, *args, **options)

        return rename

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
            real(path, *args, **options)

        return unlink

    def _fsync(self, real: Callable[..., None]) -> Callable[..., None]:
        return lambda descriptor: None

    def _stat(self, real: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def stat_file(path: Any, **options: Any) -> os.stat_result:
            return _DEVICE if str(path) in self._machine.devices else real(path, **options)

        return stat_file

    def _mountinfo(self, real: Path) -> _MountInfo:
        return _MountInfo(self._machine)

    # -- the tools

    def _bind(self, real: object) -> Callable[[Path, Path], None]:
        def bind(source: Path, target: Path) -> None:
            self._tool("mount --bind", target)
            self._machine.mounts[str(target)] = self._machine.published[str(source)]

        return bind

    def _unmount(self, real: object) -> Callable[[Path], None]:
        def unmount(target: Path) -> None:
            self._tool("umount", target)
            del self._machine.mounts[str(target)]

        return unmount

    def _attach_loop(self, real: object) -> Callable[[Path], None]:
        def attach_loop(backing: Path) -> None:
            self._tool("losetup -f", backing)
            self._machine.loops.add(str(backing))

        return attach_loop

    def _detach_loops(self, real: object) -> Callable[[Path], None]:
        def detach_loops(backing: Path) -> None:
            self._tool("losetup -d", backing)
            self._machine.loops.discard(str(backing))

        return detach_loops

    def _tool(self, command: str, path: Path) -> None:
        try:
            self._step(command, path)
        except OSError as error:
            raise ToolFailed(f"{command}: {error}") from None


class _MountInfo:
    """In place of /proc/self/mountinfo."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read_text(self, **_options: Any) -> str:
        return self._machine.mountinfo()


_REPLACED: Final[tuple[tuple[Any, str], ...]] = (
    *((os, name) for name in ("mkdir", "rmdir", "rename", "unlink", "symlink", "chmod", "open", "fsync", "stat")),
    *((system, name) for name in ("bind", "unmount", "attach_loop", "detach_loops")),
    (files, "_MOUNTINFO"),
)

DISK: Final[ContextVar[Disk]] = ContextVar("disk")
"""Of the agent whose task this is."""


def _no_disk(work: object) -> NoReturn:
    raise AssertionError(f"work for a thread outside of an agent: {work}")


class NodeLoop(BoundedLoop):
    """Hands what is meant for a thread to the disk of the agent that asks."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._threads: set[asyncio.Task[None]] = set()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        disk = DISK.get(None)
        if disk is None:
            _no_disk(func)
        answer = self.create_future()
        task = self.create_task(disk.work(answer, lambda: func(*args)), name="disk")
        self._threads.add(task)
        task.add_done_callback(self._threads.discard)
        return answer
