"""The disk as the driver uses it: every change is a step at which the driver can die, or which a full disk refuses."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from mooring.base.randomness import Random
from mooring.driver import blocking
from mooring.driver.hostpath import kept_file
from mooring.driver.hostpath.filling import Filling
from mooring.driver.hostpath.node import mount_mode
from mooring.mounts import loops, system, targets
from mooring.mounts.mountinfo import Mount
from tests.sim.driver import threads
from tests.sim.driver.kernel import Kernel

INCARNATION: Final[ContextVar[Any]] = ContextVar("driver", default=None)
"""Of the driver's process that this task or thread belongs to, None for everybody else."""


class Killed(BaseException):
    """The driver died here."""


class Disk:
    """is_full: nothing that needs room succeeds. A write of the state may fail for another reason, as the plan says."""

    def __init__(self, world: Any, blocks: Path) -> None:
        self._world = world
        self.kernel = Kernel(blocks, self.step, world.fail, _outside)
        self.is_full = False
        self._randomness = Random(world.plan.seed * 16 + 4)
        self._unsynced: set[int] = set()
        """Inodes of files with something in them that the disk may not have."""
        self._real = {
            name: getattr(os, name)
            for name in _PLAIN + _NEEDING_ROOM + ("open", "close", "stat", "fstat", "pwrite", "rename")
        }

    def step(self, what: str) -> None:
        """Raises Killed."""
        mortal = INCARNATION.get()
        if mortal is None:
            return
        if mortal.alive and self._world.strikes(mortal, what):
            mortal.dies(what)
        if not mortal.alive:
            raise Killed
        self._world.story.tell(mortal.who, self._world.short(what))

    def _needs_room(self) -> None:
        if self.is_full and INCARNATION.get() is not None:
            self._world.story.tell(INCARNATION.get().who, "no space left")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # -- the functions of os

    @contextlib.contextmanager
    def played(self) -> Iterator[None]:
        kernel = self.kernel
        patches: list[Any] = [mock.patch.object(os, name, self._plain(name)) for name in _PLAIN]
        patches += [mock.patch.object(os, name, self._needing_room(name)) for name in _NEEDING_ROOM]
        patches += [
            mock.patch.object(os, name, getattr(self, f"_{name}"))
            for name in ("open", "close", "stat", "fstat", "pwrite")
        ]
        patches += [
            mock.patch.object(os, "posix_fallocate", self._fallocate),
            mock.patch.object(os, "fsync", self._fsync),
            mock.patch.object(kept_file, "_exchange", self._exchange),
            mock.patch.object(system, "run", self._run),
            mock.patch.object(system, "missing_tools", return_value=()),
            mock.patch.object(loops, "_inode_below", return_value=None),  # the names tell
            mock.patch.object(loops, "_keep", return_value=True),
            mock.patch.object(loops, "_BLOCK", kernel.blocks),
            mock.patch.object(targets, "parse", self._parsed),
            mock.patch.object(mount_mode, "mounting_refusal", return_value=""),
            mock.patch.object(blocking, "_started", _started),
            mock.patch.object(Filling, "_check", _check(Filling._check)),
        ]
        with contextlib.ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            yield

    def _parsed(self, _text: str) -> tuple[Mount, ...]:
        """In place of what the machine's own table says."""
        return self.kernel.table()

    def _plain(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def changed(path: Any, *args: Any, **options: Any) -> Any:
            if INCARNATION.get() is not None:
                whole = self._whole(path, options.get("dir_fd"))
                self.step(f"{name} {whole}")
                self._world.check_removal(whole)
                if any(whole.startswith(f"{point}/") for point in self.kernel.foreign):
                    self._world.fail(
                        "deleted-in-mount",
                        f"{self._world.short(whole)} is removed, and others have mounted something there",
                    )
            return real(path, *args, **options)

        return changed

    def _needing_room(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def made(path: Any, *args: Any, **options: Any) -> Any:
            if INCARNATION.get() is not None and not (
                name == "mkdir" and os.path.isdir(path) and "dir_fd" not in options
            ):
                self.step(f"{name} {path}")
                self._needs_room()
            return real(path, *args, **options)

        return made

    def _whole(self, path: Any, folder: int | None) -> str:
        return str(path) if folder is None else f"{os.readlink(f'/proc/self/fd/{folder}')}/{path}"

    def _open(self, path: Any, flags: int, *args: Any, **options: Any) -> int:
        real = self._real["open"]
        if INCARNATION.get() is None:
            return real(path, flags, *args, **options)  # type: ignore[no-any-return]
        if (file := self.kernel.file_of(path)) is not None:
            if file in self.kernel.unread:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return real(file, flags, *args, **options)  # type: ignore[no-any-return]
        if flags & os.O_CREAT and not os.path.lexists(self._whole(path, options.get("dir_fd"))):
            self.step(f"make {path}")
            self._needs_room()
        descriptor: int = real(path, flags, *args, **options)
        if Path(str(path)).name == "lock":
            INCARNATION.get().lock = descriptor
        if self.kernel.device_at(str(path)):
            self.kernel.descriptors[descriptor] = str(path)
        return descriptor

    def _close(self, descriptor: int) -> None:
        self.kernel.descriptors.pop(descriptor, None)
        self._real["close"](descriptor)

    def _stat(self, path: Any, **options: Any) -> Any:
        if isinstance(path, str | Path) and self.kernel.file_of(path) is not None:
            return SimpleNamespace(st_mode=stat.S_IFBLK | 0o600, st_rdev=str(path), st_size=0)
        return self._real["stat"](path, **options)

    def _fstat(self, descriptor: int) -> Any:
        if (point := self.kernel.descriptors.get(descriptor)) is not None:
            folder = self._real["fstat"](descriptor)
            return SimpleNamespace(
                st_dev=f"/dev/{self.kernel.device_at(point)}", st_mode=folder.st_mode, st_gid=folder.st_gid
            )
        return self._real["fstat"](descriptor)

    def _pwrite(self, descriptor: int, text: Any, place: int) -> int:
        if INCARNATION.get() is not None:
            self.step("pwrite")
            self._unsynced.add(self._real["fstat"](descriptor).st_ino)
            if self._world.faulty and self._randomness.happens(self._world.plan.odd.broken):
                self._world.story.tell(INCARNATION.get().who, "the write fails")
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if place + len(text) > self._real["fstat"](descriptor).st_size:
                self._needs_room()
        return self._real["pwrite"](descriptor, text, place)  # type: ignore[no-any-return]

    def _fallocate(self, descriptor: int, start: int, count: int) -> None:
        self._needs_room()
        self.step("fallocate")
        os.ftruncate(descriptor, start + count)

    def _fsync(self, descriptor: int) -> None:
        self._unsynced.discard(self._real["fstat"](descriptor).st_ino)

    def _run(self, *command: str, **options: Any) -> str:
        """A tool, run by the driver. What it mounts at a path of a node stands in its state before."""
        target = command[-1]
        is_new = command[0] == "mount" and not any("remount" in word for word in command)
        if is_new and target.startswith(f"{self._world.root}/nodes/") and target not in self._world.kept():
            self._world.fail(
                "unrecorded", f"{self._world.short(target)} is mounted, and the state on the disk does not say so"
            )
        return self.kernel.run(*command, **options)

    def _exchange(self, new: Path, old: Path) -> None:
        self.step(f"exchange {old}")
        if os.stat(new).st_ino in self._unsynced:
            self._world.fail(
                "unsynced", f"{self._world.short(new)} takes the place of the state before the disk has it"
            )
        if not old.exists():
            self._real["rename"](new, old)
            return
        between = f"{new}.between"
        self._real["rename"](old, between)
        self._real["rename"](new, old)
        self._real["rename"](between, new)


_PLAIN: Final = ("rmdir", "unlink")
_NEEDING_ROOM: Final = ("mkdir", "symlink", "link")


@contextlib.contextmanager
def _outside() -> Iterator[None]:
    """Not as the driver."""
    token = INCARNATION.set(None)
    try:
        yield
    finally:
        INCARNATION.reset(token)


def _started(work: Callable[..., Any], args: tuple[object, ...], options: dict[str, object]) -> Any:
    loop: Any = asyncio.get_running_loop()
    return loop.begin(lambda: work(*args, **options))


def _check(real: Callable[[Any], None]) -> Callable[[Any], None]:
    def checked(self: Any) -> None:
        threads.stop()
        if (mortal := INCARNATION.get()) is not None and not mortal.alive:
            raise Killed
        real(self)

    return checked
