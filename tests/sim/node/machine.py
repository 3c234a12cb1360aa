"""One node's machine: the disk, mounts, device files and loop devices, and the folder of registration sockets. It outlives its agents."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from mooring.node.layout import Layout

CONTENT: Final = "content"
"""The name of a file that every mounted volume with a file system has."""
ABOUT_ROOT: Final = "1 0 8:1 / / rw - ext4 /dev/root rw\n"


class Machine:
    """staged: handle → staging path. published: target path → handle. mounts: point → handle. devices, loops: paths of device files, and
    of the files that a loop device is over. sockets: registration sockets, each with the number of its making. told: drivers whose plugin
    was told by the living agent that it is registered.
    """

    def __init__(self, name: str, root: Path) -> None:
        self.name, self.layout = name, Layout(root)
        self.staged: dict[str, str] = {}
        self.published: dict[str, str] = {}
        self.mounts: dict[str, str] = {}
        self.devices: set[str] = set()
        self.loops: set[str] = set()
        self.sockets: dict[Path, int] = {}
        self.told: set[str] = set()
        self.on_socket: Callable[[Path], None] = lambda socket: None
        self._socket_count = 0
        self._numbers: dict[str, int] = {}

    def short(self, path: object) -> str:
        """A path as stories show it: the root's own name differs from run to run."""
        return str(path).replace(str(self.layout.root), "")

    # -- mounts

    def mountinfo(self) -> str:
        """As /proc/self/mountinfo shows it."""
        lines = (
            f"{100 + number} 1 0:{self._number(handle)} / {point} rw - ext4 /dev/{handle} rw\n"
            for number, (point, handle) in enumerate(self.mounts.items())
        )
        return ABOUT_ROOT + "".join(lines)

    def mount(self, point: str, handle: str) -> None:
        """Mounts a file system on a folder that is there."""
        self.mounts[point] = handle
        Path(point, CONTENT).write_text(handle)

    def unmount(self, point: str) -> None:
        if self.mounts.pop(point, None) is not None:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(Path(point, CONTENT))

    def mount_over(self, path: str) -> str | None:
        """The mount point that the path lies below, None where there is none; a mount point does not lie below itself."""
        return next((point for point in self.mounts if path.startswith(f"{point}/")), None)

    def reboot(self) -> None:
        """Nothing is mounted any more; the disk stays as it is."""
        for point in tuple(self.mounts):
            self.unmount(point)
        self.staged.clear()
        self.published.clear()
        self.devices.clear()
        self.loops.clear()

    def _number(self, handle: str) -> int:
        return self._numbers.setdefault(handle, 50 + len(self._numbers))

    # -- registration sockets

    def socket_of(self, driver: str) -> Path:
        return self.layout.registry / f"{driver}-reg.sock"

    def make_socket(self, driver: str) -> None:
        """Also anew, under its old name."""
        self._socket_count += 1
        self.told.discard(driver)
        self.sockets[self.socket_of(driver)] = self._socket_count
        self.on_socket(self.socket_of(driver))

    def remove_socket(self, driver: str) -> None:
        if self.sockets.pop(self.socket_of(driver), None) is not None:
            self.on_socket(self.socket_of(driver))

    # -- what is left

    def targets_of(self, uid: str) -> dict[str, str]:
        """What is published to a pod: target path → handle."""
        own = (f"{self.layout.pod(uid)}/", f"/{uid}")
        return {path: handle for path, handle in self.published.items() if path.startswith(own[0]) or path.endswith(own[1])}

    def files(self) -> Iterator[str]:
        """Everything on the disk that belongs to a volume or a pod; folders that many volumes share do not."""
        for top in (self.layout.pods, self.layout.csi):
            for folder, folders, names in os.walk(top):
                own = (name for name in folders if not self._is_shared(Path(folder), name))
                yield from (self.short(Path(folder, name)) for name in (*own, *names))

    def _is_shared(self, folder: Path, name: str) -> bool:
        """True for a driver's folder, and for those of all raw devices."""
        return folder == self.layout.csi or (folder == self.layout.block and name in ("staging", "publish"))

    def remove(self) -> None:
        """The machine is given back."""
        shutil.rmtree(self.layout.root, ignore_errors=True)
