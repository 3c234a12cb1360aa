"""A small disk under the driver's folder, which a check fills, or makes read-only."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.base.errors import ConfigError
from mooring.base.folders import refusal
from mooring.mounts.system import ToolFailed, run

DISK_MIB: Final = 256
_BALLOON: Final = ".conform-fills-the-disk"
_BLOCK: Final = 1 << 20


class Disk:
    """A tmpfs that is mounted on the folder, in the mount namespace of this process: it vanishes with it."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder).absolute()
        self._made = [one for one in (self._folder, *self._folder.parents) if not one.exists()]

    def mount(self) -> None:
        """Before the driver is started. Raises ConfigError."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            run("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=0700", "conform", str(self._folder))
        except OSError as error:
            raise refusal(self._folder, error, "data-folder:") from None
        except ToolFailed as error:
            raise ConfigError(f"data-folder: no small disk can be mounted on {str(self._folder)!r}: {error}") from None

    def unmount(self) -> None:
        """After the driver has ended. The folders that `mount` has made go, too."""
        with contextlib.suppress(ToolFailed, OSError):
            run("umount", "--lazy", str(self._folder))
            for folder in self._made:
                folder.rmdir()

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Not one more byte has room while the block runs."""
        balloon = self._folder / _BALLOON
        try:
            with balloon.open("wb", buffering=0) as file:
                _fill(file.fileno())
            yield
        finally:
            balloon.unlink(missing_ok=True)

    @contextlib.contextmanager
    def readonly(self) -> Iterator[None]:
        """As after an error of the device. Raises ToolFailed where a file is open to be written."""
        self._remount("ro")
        try:
            yield
        finally:
            self._remount("rw")

    def _remount(self, way: str) -> None:
        # Without the present options: mount(8) would repeat them, and in a user's namespace the kernel takes no owner
        # of a tmpfs as the table of mounts has it.
        run("mount", "--options-mode=ignore", "-o", f"remount,{way}", str(self._folder))


def _fill(file: int) -> None:
    """In ever smaller blocks, until none fits."""
    size = _BLOCK
    while size:
        try:
            os.write(file, b"\0" * size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            size //= 2
