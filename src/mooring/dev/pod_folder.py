"""Looking at a node's folder and at the mount table, and using a volume as a pod would."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from mooring.dev.polling import DemoFailed, Polling
from mooring.dev.story import Story
from mooring.mounts.mountinfo import MountTable
from mooring.mounts.namespace import MountSpace
from mooring.node.layout import Layout
from mooring.node.volumes.files import read_mount_table

_FILE: Final = "greeting.txt"


class MountsAtFirst:
    """The machine's whole mount table, before the first volume comes and after the last one is gone."""

    def __init__(self, space: MountSpace, polling: Polling, story: Story) -> None:
        self._points = _points(read_mount_table())
        self._polling, self._story = polling, story
        if not space.can_mount:
            story.happened("warning", f"real mounts are left out: {space.obstacle}. The driver shows volumes by links instead")

    def check(self) -> None:
        self._polling.expect("mounts that were not there at first", [], sorted(_points(read_mount_table()) - self._points))
        self._story.checked("/proc/self/mountinfo is as it was before the first pod")


class PodFolder:
    """A node's. root: of its agent. The story gets the findings; a wrong one raises DemoFailed."""

    def __init__(self, root: Path, space: MountSpace, polling: Polling, story: Story) -> None:
        self._layout = Layout(root)
        self._space, self._polling, self._story = space, polling, story

    def check_there(self, uid: str, pv_name: str, driver: str, handle: str) -> None:
        """The volume is staged and published, and both are the same folder of the driver's."""
        staging, target = self._layout.staging(driver, handle), self._layout.target(uid, pv_name)
        if not self._space.can_mount:
            self._polling.expect("a link at the pod's path", True, target.is_symlink())
            self._story.checked(f"the pod's path leads to the volume: {target}")
            return
        table = read_mount_table()
        staged, published = table.at(str(staging)), table.at(str(target))
        if staged is None or published is None:
            raise DemoFailed(f"/proc/self/mountinfo: no mount at {staging if staged is None else target}")
        self._polling.expect("what is published", (staged.device, staged.root), (published.device, published.root))
        self._story.checked(f"/proc/self/mountinfo: staged at {staging}")
        self._story.checked(f"/proc/self/mountinfo: published to the pod at {target}")

    def path(self, uid: str, pv_name: str) -> Path:
        """Where a pod sees a volume."""
        return self._layout.target(uid, pv_name)

    def size_bytes(self, path: Path) -> int:
        """Of the file system that a pod sees there."""
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize

    def empty(self, path: Path) -> None:
        """All files there are deleted, as the pod would; what the file system itself has there stays."""
        files = [one for one in path.iterdir() if one.is_file()]
        for one in files:
            one.unlink()
        self._polling.expect("files that are left", [], [one.name for one in path.iterdir() if one.is_file()])
        self._story.checked(f"{' and '.join(sorted(one.name for one in files))} are deleted through the pod's path")

    def write(self, uid: str, pv_name: str, text: str) -> None:
        """As the pod would."""
        path = self._layout.target(uid, pv_name) / _FILE
        path.write_text(text, encoding="utf-8")
        self._story.checked(f"{_FILE} is written through the pod's path")

    def read(self, uid: str, pv_name: str, text: str) -> None:
        path = self._layout.target(uid, pv_name) / _FILE
        try:
            found = path.read_text(encoding="utf-8")
        except OSError as error:
            raise DemoFailed(f"{_FILE} of the first pod can't be read by another: {error}") from None
        self._polling.expect(f"content of {_FILE}", text, found)
        self._story.checked(f'{_FILE} says "{found}"')

    def check_unmounted(self) -> None:
        """Nothing is mounted below the agent's folder."""
        self._polling.expect("mounts below the agent's folder", [], [one.point for one in read_mount_table().below(str(self._layout.root))])

    def check_empty(self) -> None:
        """That, and neither a pod's nor a volume's folder is left."""
        self.check_unmounted()
        left = [str(path) for folder in (self._layout.pods, *_folders(self._layout.csi)) for path in _folders(folder)]
        self._polling.expect("folders of pods and volumes", [], left)
        self._story.checked("nothing is mounted below the agent's folder, and no folder of a pod or a volume is left in it")


def _points(table: MountTable) -> frozenset[str]:
    return frozenset(mount.point for mount in table)


def _folders(folder: Path) -> list[Path]:
    return [Path(entry.path) for entry in os.scandir(folder)] if folder.is_dir() else []
