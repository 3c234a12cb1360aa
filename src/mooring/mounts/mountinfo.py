"""The mount table, from /proc/self/mountinfo. Pure: text in, mounts out; reading the file never touches a mounted file
system.

Source: proc_pid_mountinfo(5). A mount that is dead (a lost server, a crashed FUSE process) stands here like any other,
where stat would hang or fail: so what is mounted is asked of this table and of nothing else.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_DELETED: Final = "//deleted"
_LINES_MAX: Final = 4096


class Mount(msgspec.Struct, frozen=True):
    """One line.

    id, parent_id: numbers of the mount and of the one it lies on. device: `major:minor`. root: the folder of the file
    system that is seen here. point: where. options: of this mount, as in `rw,noatime`. propagation: the optional
    fields, as in `shared:5`. fs_type, source, super_options: of the file system.
    """

    id: int
    parent_id: int
    device: str
    root: str
    point: str
    options: str
    propagation: tuple[str, ...]
    fs_type: str
    source: str
    super_options: str

    @property
    def is_shared(self) -> bool:
        """True where mounts made below are seen by others."""
        return any(field.startswith("shared:") for field in self.propagation)


def parse(text: str) -> tuple[Mount, ...]:
    """Every mount, in the order of the table: a later one covers an earlier one on its point. Lines that can't be read
    are left out.

    Only a line feed ends a line: the kernel leaves a carriage return and the like in names as they are.
    """
    return tuple(mount for line in text.split("\n") if (mount := _mount(line)) is not None)


@functools.lru_cache(_LINES_MAX)  # the table is read at each step, and most of its lines stay as they are
def _mount(line: str) -> Mount | None:
    fields = line.split(" ")
    try:
        dash = fields.index("-", 6)
        identity, parent, device, root, point, options = fields[:6]
        fs_type, source, super_options = fields[dash + 1 : dash + 4]
        return Mount(
            int(identity),
            int(parent),
            device,
            _plain(root),
            _plain(point).removesuffix(_DELETED),
            options,
            tuple(fields[6:dash]),
            fs_type,
            _plain(source),
            super_options,
        )
    except ValueError:
        return None


def _plain(field: str) -> str:
    """Without the octal escapes that the kernel writes for space, tab, line feed and backslash."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), field) if "\\" in field else field


class MountTable:
    """The mounts at one moment."""

    def __init__(self, mounts: Iterable[Mount]) -> None:
        self._mounts = tuple(mounts)

    def __iter__(self) -> Iterator[Mount]:
        return iter(self._mounts)

    def at(self, path: str) -> Mount | None:
        """The uppermost mount on exactly this path, None where it is no mount point."""
        return next((mount for mount in reversed(self._mounts) if mount.point == path), None)

    def below(self, path: str) -> tuple[Mount, ...]:
        """The mounts on the path and below it, the deepest last."""
        near = (mount for mount in self._mounts if mount.point.startswith(path))
        return tuple(
            sorted((mount for mount in near if is_within(mount.point, path)), key=lambda mount: len(mount.point))
        )

    def holding(self, path: str) -> Mount | None:
        """The mount that the path lies on."""
        near = (mount for mount in self._mounts if path.startswith(mount.point))
        over = [mount for mount in near if is_within(path, mount.point)]
        return max(reversed(over), key=lambda mount: len(mount.point), default=None)

    def references(self, path: str) -> tuple[str, ...]:
        """Where else the very folder is mounted that lies at this path: the points, without the path's own."""
        over = self.holding(path)
        if over is None:
            return ()
        root = over.root.rstrip("/") + path[len(over.point.rstrip("/")) :] or "/"
        return tuple(
            mount.point
            for mount in self._mounts
            if mount.device == over.device and mount.root == root and mount.point != path
        )


def is_within(path: str, folder: str) -> bool:
    """True for the folder itself and for what is below it."""
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")
