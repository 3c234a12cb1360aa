"""A mount table that tests write: the text of /proc/self/mountinfo in a file, and folders that behave like mount
points.
"""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

from mooring.mounts.system import ToolFailed

CONTENT = "content"


class FakeMounts:
    """file: read in place of /proc/self/mountinfo. A mounted folder has a file in it, so that it can't be removed, as
    the kernel has it.
    """

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

    def bind_file(self, point: str) -> None:
        """A device on a file, which stays as it is."""
        self._lines[point] = f"{next(self._numbers)} 1 0:6 /sdz {_escaped(point)} rw - devtmpfs udev rw"
        self._write()

    def unbind_file(self, point: str) -> bool:
        """False where nothing is mounted."""
        found = self._lines.pop(point, None)
        self._write()
        return found is not None

    def _write(self) -> None:
        self.file.write_text("".join(f"{line}\n" for line in self._lines.values()))


class FakeTools:
    """mount(8), umount(8) and losetup(8) on a fake mount table. block: in place of /sys/block. fails: names of tools
    that fail.
    """

    def __init__(self, mounts: FakeMounts, block: Path) -> None:
        self._mounts, self.block = mounts, block
        self.fails: set[str] = set()
        self._numbers = itertools.count()
        block.mkdir()

    @property
    def backing_files(self) -> list[str]:
        """Over which there are loop devices."""
        return sorted(path.read_text().strip() for path in self.block.glob("loop*/loop/backing_file"))

    def run(self, *command: str) -> None:
        if command[0] in self.fails:
            raise ToolFailed(f"{' '.join(command)}: no")
        match command:
            case ("mount", "--bind", _, target):
                self._mounts.bind_file(target)
            case ("umount", target):
                if not self._mounts.unbind_file(target):
                    raise ToolFailed(f"umount: {target}: not mounted.")
            case ("losetup", "--find", backing):
                folder = self.block / f"loop{next(self._numbers)}"
                (folder / "loop").mkdir(parents=True)
                (folder / "loop" / "backing_file").write_text(f"{backing}\n")
                (folder / "ro").write_text("0\n")
            case ("losetup", "-d", device):
                shutil.rmtree(self.block / Path(device).name)
            case _:
                raise AssertionError(f"unexpected: {command}")


def _escaped(path: str) -> str:
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\n", "\\012").replace("\t", "\\011")
