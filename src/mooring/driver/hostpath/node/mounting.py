"""A volume's data on paths of this machine: mounted, or linked where mounting is not allowed. Everything here blocks
and may be repeated.

| data | staged | published |
|---|---|---|
| a folder | mounted (bind) on the staging path | the staging path mounted (bind) on the target, a folder |
| an image | a loop device, formatted if it is empty, mounted on the staging path | likewise |
| a block volume | a loop device | the device mounted (bind) on the target, a file |
| any, by links | nothing | a symbolic link to the data |
"""

from __future__ import annotations

import abc
import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mooring.mounts import filesystems, loops, system, targets
from mooring.mounts.mountinfo import Mount, MountTable


class Source(msgspec.Struct, frozen=True):
    """A volume's data, and how it is wanted. path: the folder or file. fs_type: "" for any. flags: of mount(8)."""

    path: Path
    is_block: bool = False
    is_image: bool = False
    fs_type: str = ""
    flags: tuple[str, ...] = ()
    readonly: bool = False


class Mounts(abc.ABC):
    """A way to bring data to paths. Each method raises OSError, ToolFailed or Occupied."""

    @abc.abstractmethod
    def stage(self, source: Source, staging: Path) -> None:
        """Makes the data ready on the node."""

    @abc.abstractmethod
    def publish(self, source: Source, staging: Path, target: Path) -> None:
        """Shows the data at the target; stages it again where a reboot has undone that."""

    @abc.abstractmethod
    def holds(self, source: Source, path: Path) -> bool:
        """True where the data is at the path now."""

    def shows(self, source: Source, path: Path) -> bool:
        """True where the path is as it should be: the data is there, or nothing has to be."""
        return self.holds(source, path)

    @abc.abstractmethod
    def grow(self, source: Source) -> None:
        """Grows the content of the volume's file to the size of the file; for a block volume, the device."""

    @abc.abstractmethod
    def release(self, source: Source) -> None:
        """Gives back what the last user of a file has left: its loop devices."""

    def leave(self, folder: Path, path: Path, *, removes: bool) -> None:
        """Takes from the path what is there of a volume that is not known any more: what is from below the folder, or
        nothing but empty.

        Its loop device goes, too, where that was its last mount. It leaves alone what others have put there.
        """
        if self.is_from(folder, path):
            self._undo(path, removes=removes)
        elif removes:
            targets.remove_empty(path)

    def _undo(self, path: Path, *, removes: bool) -> None:
        device = _loop_of(targets.mount_table().at(str(path)))
        (targets.withdraw if removes else targets.clear)(path)
        if device and not any(_loop_of(mount) == device for mount in targets.mount_table()):
            system.run("losetup", "--detach", f"/dev/{device}")

    def is_from(self, folder: Path, path: Path) -> bool:
        """True where something from below this folder is at the path, whatever it is."""
        if path.is_symlink():
            return path.readlink().is_relative_to(folder)
        return _is_from(targets.mount_table(), folder, path)


class RealMounts(Mounts):
    """By mount(8), losetup(8) and the tools of file systems."""

    def stage(self, source: Source, staging: Path) -> None:
        if source.is_block:
            loops.device(source.path)
            return
        if self._is_done(source, staging):
            if not source.is_image:
                targets.complete(staging, source.flags)
            return
        if source.is_image:
            filesystems.mount_file(source.path, staging, source.fs_type, source.flags, readonly=source.readonly)
        else:
            targets.bind(source.path, staging, source.flags)

    def publish(self, source: Source, staging: Path, target: Path) -> None:
        if self._is_done(source, target):
            targets.complete(target, source.flags, readonly=source.readonly)
            return
        if source.is_block:
            with loops.attached(source.path, readonly=source.readonly) as device, _made(target, is_file=True):
                targets.bind(device, target, readonly=source.readonly)
            return
        self.stage(source, staging)
        with _made(target, is_file=False):
            targets.bind(staging, target, source.flags, readonly=source.readonly)

    def holds(self, source: Source, path: Path) -> bool:
        mount = targets.mount_table().at(str(path))
        return mount is not None and _is_of(mount, source)

    def grow(self, source: Source) -> None:
        if source.is_block:
            loops.grow(source.path)
        elif source.is_image:
            filesystems.grow_file(source.path)

    def release(self, source: Source) -> None:
        if source.is_block or source.is_image:
            loops.release(source.path)

    def _is_done(self, source: Source, path: Path) -> bool:
        """True where the data is mounted already. Raises Occupied for anything else that is mounted there."""
        mount = targets.mount_table().at(str(path))
        if mount is None:
            return False
        if not _is_of(mount, source):
            raise targets.Occupied(
                f"something else is mounted on {str(path)!r} ({mount.source}, {mount.fs_type}): unmount it first"
            )
        return True


class Links(Mounts):
    """By symbolic links, for a user who may not mount. Nobody is kept from writing to a volume that is published
    read-only.
    """

    def stage(self, source: Source, staging: Path) -> None:
        """A link leads to the data itself."""

    def publish(self, source: Source, staging: Path, target: Path) -> None:
        if self.holds(source, target):
            return
        if target.is_dir() and not target.is_symlink():
            target.rmdir()
        try:
            target.symlink_to(source.path)
        except FileExistsError:
            raise targets.Occupied(f"{str(target)!r} exists, and leads to something else: move it away") from None

    def holds(self, source: Source, path: Path) -> bool:
        return path.is_symlink() and path.readlink() == source.path

    def grow(self, source: Source) -> None:
        """A link leads to the file itself."""

    def release(self, source: Source) -> None:
        """Nothing was taken."""

    def shows(self, source: Source, path: Path) -> bool:
        return self.holds(source, path) or (path.is_dir() and not path.is_symlink())


@contextlib.contextmanager
def _made(target: Path, *, is_file: bool) -> Iterator[None]:
    """An empty folder or file, removed again when the block fails and it was not there before. Raises Occupied,
    OSError.
    """
    is_there = os.path.lexists(target)
    if is_there and not _is_empty(target, is_file=is_file):
        raise targets.Occupied(
            f"{str(target)!r} exists, and is no empty {'file' if is_file else 'folder'}: move it away"
        )
    if is_file and not is_there:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    elif not is_there:
        target.mkdir(mode=0o750)
    try:
        yield
    except BaseException:
        if not is_there:
            target.unlink() if is_file else target.rmdir()
        raise


def _is_empty(target: Path, *, is_file: bool) -> bool:
    status = target.lstat()
    if is_file:
        return stat.S_ISREG(status.st_mode) and not status.st_size
    return stat.S_ISDIR(status.st_mode) and not any(target.iterdir())


def _is_of(mount: Mount, source: Source) -> bool:
    """Whether the mount shows this data: the folder itself, or a loop device over its file."""
    devices = loops.devices(source.path) if source.is_block or source.is_image else ()
    if source.is_block:
        return mount.root.rpartition("/")[2] in {device.name for device in devices}
    if source.is_image:
        return mount.source in {str(device) for device in devices}
    return mount.point in targets.mount_table().references(str(source.path))


def _loop_of(mount: Mount | None) -> str:
    """The name of the loop device that is mounted, as in loop7: itself, or its file system; "" for any other mount."""
    shown = "" if mount is None else mount.root if mount.fs_type == "devtmpfs" else mount.source
    name = shown.rpartition("/")[2]
    return name if name.startswith("loop") and shown in (f"/{name}", f"/dev/{name}") else ""


def _is_from(table: MountTable, folder: Path, path: Path) -> bool:
    mount, over = table.at(str(path)), table.holding(str(folder))
    if mount is None or over is None:
        return False
    if device := _loop_of(mount):
        return loops.backing_of(device).is_relative_to(folder)
    root = Path(over.root) / folder.relative_to(over.point)
    return mount.device == over.device and Path(mount.root).is_relative_to(root)
