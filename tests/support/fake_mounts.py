"""A mount table that tests write: the text of /proc/self/mountinfo in a file, and folders that behave as if something were mounted on them."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

CONTENT = "content"


class FakeMounts:
    """file: read in place of /proc/self/mountinfo. A mounted folder has a file in it, so that it can't be removed, as the kernel has it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._numbers = itertools.count(100)
        self._lines: dict[str, str] = {"/": "1 0 8:1 / / rw - ext4 /dev/sda1 rw"}
        self._write()

    @property
    def points(self) -> list[str]:
        """Where something is mounted, the root aside."""
        return sorted(point for point in self._lines if point != "/")

    def mount(self, point: str | Path, *, root: str = "/", device: str = "0:77") -> None:
        """Something new, or once more what is mounted elsewhere (the same device and root)."""
        folder = Path(point)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONTENT).write_text("of a volume")
        number = next(self._numbers)
        self._lines[str(point)] = f"{number} 1 {device} {root} {_escaped(str(point))} rw - ext4 /dev/loop7 rw"
        self._write()

    def unmount(self, point: str | Path, *, keeps_folder: bool = False) -> None:
        """Nothing happens where nothing is mounted."""
        if self._lines.pop(str(point), None) is None:
            return
        self._write()
        shutil.rmtree(point)
        if keeps_folder:
            Path(point).mkdir()

    def _write(self) -> None:
        self.file.write_text("".join(f"{line}\n" for line in self._lines.values()))


def _escaped(path: str) -> str:
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\n", "\\012").replace("\t", "\\011")
