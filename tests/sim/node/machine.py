"""One node's machine: the disk, mounts, device files and loop devices, and the folder of registration sockets. It
outlives its agents.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from mooring.node.layout import KubeletLayout
from mooring.node.volumes.state.folders import RECORD

CONTENT: Final = "content"
"""The name of a file that every mounted volume with a file system has."""
ABOUT_ROOT: Final = "1 0 8:1 / / rw - ext4 /dev/root rw\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Spoiled:
    """What is the matter with a record or a folder. before, now: a record's content; None for what is not there, or is
    no record.
    """

    kind: str
    before: bytes | None = None
    now: bytes | None = None


class Machine:
    """staged: handle → staging path. published: target path → handle. mounts: point → handle. devices, loops: paths of
    device files, and of the files that a loop device is over. sockets: registration sockets, each with the number of
    its making. told: drivers whose plugin was told by the living agent that it is registered. apart: mount points that
    show no bind mount. spoiled: what can't be read, as it was before. mended: what could not be read when the living
    agent began, or later. registering: drivers that are being registered. neighbours: machines whose mounts are seen
    here, too. protected: folders that nobody can write in, and until when. hung_count: of works on the disk that hang
    at the moment: what they come to is still to be taken back. groups: of what the agent has given one, by path.
    passed_over: what could not be done for one: the verb, and the path.
    """

    def __init__(self, name: str, root: Path) -> None:
        self.name, self.layout = name, KubeletLayout(root)
        self.staged: dict[str, str] = {}
        self.published: dict[str, str] = {}
        self.mounts: dict[str, str] = {}
        self.devices: set[str] = set()
        self.loops: set[str] = set()
        self.sockets: dict[Path, int] = {}
        self.told: set[str] = set()
        self.apart: set[str] = set()
        self.spoiled: dict[Path, Spoiled] = {}
        self.mended: set[Path] = set()
        self.registering: set[str] = set()
        self.neighbours: list[Machine] = []
        self.full_until_s = 0.0
        self.hung_count = 0
        self.groups: dict[str, int] = {}
        self.passed_over: set[tuple[str, str]] = set()
        self.protected: dict[str, float] = {}
        self.on_socket: Callable[[Path], None] = lambda socket: None
        self._socket_count = 0
        self._numbers: dict[str, int] = {}

    def short(self, path: object) -> str:
        """A path as stories show it: the root's own name differs from run to run."""
        return str(path).replace(str(self.layout.root), "")

    # -- mounts

    def mountinfo(self) -> str:
        """As /proc/self/mountinfo shows it."""
        seen = [(point, self._shown_as(point, handle)) for point, handle in self.mounts.items()]
        for other in self.neighbours:
            seen += [(point, other._shown_as(point, handle)) for point, handle in other.mounts.items()]
        lines = (
            f"{100 + number} 1 0:{self._number(shown)} / {point} rw - ext4 /dev/{shown} rw\n"
            for number, (point, shown) in enumerate(seen)
        )
        return ABOUT_ROOT + "".join(lines)

    def _shown_as(self, point: str, handle: str) -> str:
        return f"{handle}@{self.short(point)}" if point in self.apart else handle

    def mount(self, point: str, handle: str, *, apart: bool = False) -> None:
        """Mounts a file system on a folder that is there. apart: it shows nothing that is mounted elsewhere."""
        self.mounts[point] = handle
        if apart:
            self.apart.add(point)
        Path(point, CONTENT).write_text(handle)

    def unmount(self, point: str) -> None:
        self.apart.discard(point)
        for path in (point, f"{point}/{CONTENT}"):
            self.groups.pop(path, None)
            self.passed_over -= {("chgrp", path), ("chmod", path)}
        if self.mounts.pop(point, None) is not None:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(Path(point, CONTENT))

    def mount_over(self, path: str) -> str | None:
        """The mount point that the path lies below, None where there is none; a mount point does not lie below
        itself.
        """
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

    # -- what wears out

    def mend(self) -> None:
        """People put the records right that nobody has written or removed since.

        Where a raw device's record is lost, and nothing is staged or published any more (the machine was rebooted,
        say), they remove the folders that are left, with empty files of pods in them, as the agent's log asks: until
        then it can't know that there is nothing.
        """
        for path, spoiled in self.spoiled.items():
            if (
                spoiled.before is not None
                and path.parent.is_dir()
                and _content(path) == spoiled.now
                and (spoiled.now or self._holds(path))
            ):
                path.write_bytes(spoiled.before)
            elif (
                spoiled.before is not None
                and self.layout.block in path.parents
                and not path.exists()
                and not self._holds(path)
            ):
                self._remove_device_folders(path.parent.parent.name)
        self.mended |= self.spoiled.keys()
        self.spoiled.clear()

    def _remove_device_folders(self, name: str) -> None:
        """Those of a raw device, as far as they hold only the empty files that tell for which pods it was; and these
        pods' links.
        """
        layout = self.layout
        of_pods = layout.block_publish(name, "pod").parent, layout.block_map(name)
        for file in (file for folder in of_pods if folder.is_dir() for file in folder.iterdir()):
            if str(file) not in self.mounts and not file.stat().st_size:
                file.unlink()
                self.devices.discard(str(file))
                layout.block_link(file.name, name).unlink(missing_ok=True)
        for folder in (
            layout.block_staging(name),
            *of_pods,
            layout.block_record_folder(name),
            layout.block_volume(name),
        ):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def is_in_doubt(self, target: str) -> bool:
        """True where the record can't be read that says what is published here, or could not be when the agent read
        it.
        """
        folders = {Path(target).parent, Path(target).parents[1], Path(target).parents[2]}
        by_device = self.layout.block_record_folder(Path(target).parent.name) / RECORD
        return any(
            path == by_device or path in folders or path.parent in folders for path in (*self.spoiled, *self.mended)
        )

    def _holds(self, record: Path) -> bool:
        """True where something is mounted, or a device may be, that the record tells of."""
        handle = json.loads(self.spoiled[record].before or b"{}").get("volumeHandle")
        beside = any(point.startswith(f"{record.parent}/") for point in self.mounts)
        return beside or (
            self.layout.block in record.parents and (handle in self.staged or handle in self.published.values())
        )

    # -- what is left

    def targets_of(self, uid: str) -> dict[str, str]:
        """What is published to a pod: target path → handle."""
        own = (f"{self.layout.pod(uid)}/", f"/{uid}")
        return {
            path: handle for path, handle in self.published.items() if path.startswith(own[0]) or path.endswith(own[1])
        }

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


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
