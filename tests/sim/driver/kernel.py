"""Mounts, loop devices and file systems of one machine, and the tools that change them. All nodes of the driver are on
it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mooring.mounts.mountinfo import Mount
from mooring.mounts.system import ToolFailed

MADE: Final = b"an ext4 file system"
MADE_AT: Final = 1024
FIRST_AT, SECOND_AT = 64 << 10, 1 << 20
"""Where what a pod writes comes to be: in two places at one moment."""
_ROOT: Final = Mount(1, 0, "8:1", "/", "/", "rw", (), "ext4", "/dev/sda1", "rw")


class Kernel:
    """mounts: the last one covers. foreign: points at which others have mounted something. frozen: names of loop
    devices. unread: files that can't be read. step: called before each change; raises where the driver dies.
    outside: what is done in it is the kernel's own.
    """

    def __init__(
        self,
        folder: Path,
        step: Callable[[str], None],
        fail: Callable[[str, str], None],
        outside: Callable[[], contextlib.AbstractContextManager[None]],
    ) -> None:
        self.blocks, self._step, self._fail, self._outside = folder, step, fail, outside
        self.mounts: list[Mount] = []
        self.foreign: set[str] = set()
        self.frozen: dict[str, int] = {}
        self.unread: set[str] = set()
        self.descriptors: dict[int, str] = {}
        self._count = 1

    # -- what is seen

    def table(self) -> tuple[Mount, ...]:
        return (_ROOT, *self.mounts)

    def loops(self) -> dict[str, str]:
        """File by name."""
        return {path.name: (path / "loop" / "backing_file").read_text() for path in sorted(self.blocks.glob("loop*"))}

    def file_of(self, device: object) -> str | None:
        """Of a path such as /dev/loop3."""
        name = str(device).removeprefix("/dev/")
        return self.loops().get(name) if name.startswith("loop") else None

    def device_over(self, file: str) -> str:
        """The name of a loop device over this file."""
        return next(name for name, backing in self.loops().items() if backing == os.path.realpath(file))

    def device_at(self, point: str) -> str:
        """The name of the loop device whose file system is mounted there, "" for none."""
        mount = next((one for one in reversed(self.mounts) if one.point == point), None)
        return (
            ""
            if mount is None or mount.fs_type == "devtmpfs"
            else mount.source.removeprefix("/dev/").replace("sda1", "")
        )

    def is_writable(self, file: str) -> bool:
        """True while some pod can write to the file system in it."""
        devices = {f"/dev/{name}" for name, backing in self.loops().items() if backing == file}
        return any(mount.source in devices and "rw" in mount.options.split(",") for mount in self.mounts)

    def is_frozen(self, file: str) -> bool:
        return any(name in self.frozen for name, backing in self.loops().items() if backing == file)

    # -- tools

    def run(self, *command: str, **_options: object) -> str:
        """Raises ToolFailed."""
        tool, args = command[0], list(command[1:])
        if tool.startswith("mkfs."):
            self._format(args[-1])
            return ""
        if tool == "blkid":
            return self._known(args[-1])
        work = {"mount": self._mount, "umount": self._unmount, "losetup": self._losetup, "fsfreeze": self._freeze}.get(
            tool
        )
        return work(args) or "" if work is not None else ""  # what else there is changes nothing here

    def _mount(self, args: list[str]) -> None:
        options = args[args.index("-o") + 1].split(",") if "-o" in args else []
        target = args[-1]
        if "remount" in options:
            self._step(f"remount {target}")
            self._set_options(target, options)
            return
        source = args[-2]
        self._step(f"mount {target}")
        if "--bind" in args:
            self.mounts.append(self._bound(source, target))
        else:
            name = source.removeprefix("/dev/")
            mode = "ro" if "ro" in options else "rw"
            self.mounts.append(
                Mount(
                    self._number(), 1, f"7:{name[4:]}", "/", target, mode, (), args[args.index("-t") + 1], source, mode
                )
            )

    def _bound(self, source: str, target: str) -> Mount:
        if self.file_of(source) is not None:
            return Mount(
                self._number(), 1, "0:6", f"/{Path(source).name}", target, "rw", (), "devtmpfs", "devtmpfs", "rw"
            )
        near = [one for one in self.table() if source == one.point or source.startswith(one.point.rstrip("/") + "/")]
        over = max(reversed(near), key=lambda one: len(one.point))
        root = (over.root.rstrip("/") + source[len(over.point.rstrip("/")) :]) or "/"
        options = "rw" if over is _ROOT else over.options
        return Mount(
            self._number(), 1, over.device, root, target, options, (), over.fs_type, over.source, over.super_options
        )

    def _set_options(self, target: str, options: list[str]) -> None:
        index = max(number for number, one in enumerate(self.mounts) if one.point == target)
        old = self.mounts[index]
        mode = "ro" if "ro" in options else "rw"
        fields = {name: getattr(old, name) for name in old.__slots__}
        self.mounts[index] = Mount(**{**fields, "options": mode})

    def _unmount(self, args: list[str]) -> None:
        self._step(f"umount {args[-1]}")
        found = [one for one in self.mounts if one.point == args[-1]]
        if not found:
            raise ToolFailed(f"umount: {args[-1]}: not mounted")
        name = self.device_at(args[-1])
        if (
            name
            and self._points_of(name) == 1
            and any(self.device_at(path) == name for path in self.descriptors.values())
        ):
            raise ToolFailed(f"umount: {args[-1]}: target is busy")
        self.mounts.remove(found[-1])

    def _points_of(self, name: str) -> int:
        return sum(mount.source == f"/dev/{name}" for mount in self.mounts)

    def _losetup(self, args: list[str]) -> None:
        self._step(f"losetup {' '.join(args)}")
        with self._outside():
            self._set_up(args)

    def _set_up(self, args: list[str]) -> None:
        if "--find" in args or "-f" in args:
            name = next(name for number in range(1000) if not (self.blocks / (name := f"loop{number}")).exists())
            (self.blocks / name / "loop").mkdir(parents=True)
            (self.blocks / name / "loop" / "backing_file").write_text(os.path.realpath(args[-1]))
            (self.blocks / name / "loop" / "autoclear").write_text("0")
            (self.blocks / name / "ro").write_text(str(int("--read-only" in args)))
        elif "--detach" in args or "-d" in args:
            name = args[-1].removeprefix("/dev/")
            if any(mount.source == args[-1] or mount.root == f"/{name}" for mount in self.mounts):
                raise ToolFailed(f"losetup: {args[-1]}: device is busy")
            (self.blocks / name / "loop" / "backing_file").unlink()
            (self.blocks / name / "loop" / "autoclear").unlink()
            (self.blocks / name / "loop").rmdir()
            (self.blocks / name / "ro").unlink()
            (self.blocks / name).rmdir()

    def _freeze(self, args: list[str]) -> None:
        number = args[-1].rpartition("/")[2]
        point = self.descriptors.get(int(number), "") if number.isdigit() else args[-1]
        name = self.device_at(point)
        self._step(f"{args[0]} {name}")
        if (args[0] == "--freeze") == (name in self.frozen):
            raise ToolFailed(
                f"fsfreeze: {point}: {'Device or resource busy' if name in self.frozen else 'Invalid argument'}"
            )
        if args[0] == "--freeze":
            self.frozen[name] = 1
        else:
            del self.frozen[name]

    # -- what is on devices

    def _known(self, device: str) -> str:
        file = self.file_of(device)
        if file is None or file in self.unread or self._text(file) != MADE:
            return ""
        return "TYPE=ext4\nUSAGE=filesystem\n"

    def _format(self, device: str) -> None:
        file = self.file_of(device)
        assert file is not None, device
        if self._text(file) == MADE or self._read(file, FIRST_AT) or self._read(file, SECOND_AT):
            self._fail("formatted-over", f"{device} is formatted, and has something on it")
        self._step(f"mkfs {device}")
        self._write(file, MADE_AT, MADE)

    def _text(self, file: str) -> bytes:
        with open(file, "rb") as opened:
            opened.seek(MADE_AT)
            return opened.read(len(MADE))

    def damage(self, file: str) -> None:
        """Its first superblock is gone; what else is on it stays."""
        self._write(file, MADE_AT, bytes(len(MADE)))

    def write(self, file: str, number: int) -> None:
        """A pod writes, in two places at one moment."""
        for place in (FIRST_AT, SECOND_AT):
            self._write(file, place, number.to_bytes(8, "big"))

    def written(self, file: str) -> tuple[int, int]:
        return self._read(file, FIRST_AT), self._read(file, SECOND_AT)

    @staticmethod
    def _write(file: str, place: int, text: bytes) -> None:
        with open(file, "r+b") as opened:
            opened.seek(place)
            opened.write(text)

    @staticmethod
    def _read(file: str, place: int) -> int:
        with open(file, "rb") as opened:
            opened.seek(place)
            return int.from_bytes(opened.read(8), "big")

    def _number(self) -> int:
        self._count += 1
        return self._count
