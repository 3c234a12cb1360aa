"""The folder of a pod that is gone: removed bottom up, as far as nothing is in it that could be anybody's.

Source: kubelet 1.36, kubelet_volumes.go. A kubelet that had the pod before leaves folders of its own beside the volumes. Differs: what is
in the way is named, and looked at again.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.node import records
from mooring.node.layout import TARGET, Layout
from mooring.node.volumes.files import LeftOver, read_mount_table, remove_folder, remove_target
from mooring.node.volumes.found import entries_in, folders_in

_OF_KUBELET: Final = ("containers", "etc-hosts")
"""The kubelet's own files for a pod's containers: ends of their logs, and their /etc/hosts. Nothing there is a volume's."""

_READY: Final = "plugins"
"""Empty files by which a kubelet marks volumes as set up."""


def pod_folders(layout: Layout) -> list[str]:
    """The names of all. Raises OSError."""
    return sorted(entry.name for entry in layout.pods.iterdir()) if layout.pods.is_dir() else []


def remove_pod_folder(layout: Layout, uid: str) -> None:
    """Removes the folder of a pod that is no more; one that is not there is fine. Blocks.

    Raises OSError, BadRecord and LeftOver for a folder that has something in it, or has something mounted below it: beside what kubelets
    and drivers are known to leave, nothing is ever removed with what it holds.
    """
    folder, own = layout.pod(uid), (layout.pod_volumes(uid), layout.pod_devices(uid))
    if below := read_mount_table(layout.root).below(str(folder)):
        raise LeftOver(f"{below[-1].point} is still mounted, and no record that can be read says of which volume: look what it is")
    for path in (folder, own[0].parent, own[0], own[1].parent, own[1]):
        if path.is_symlink():
            raise OSError(errno.ELOOP, "a link in the place of a folder: look where it leads, and remove it by hand", str(path))
    if not folder.is_dir():
        return
    for volume_folder in folders_in(own[0]):
        if (record := records.read(volume_folder)) is not None:
            raise LeftOver(f"{volume_folder} has the record of a volume: {record}")
        if not (target := volume_folder / TARGET).is_dir() or target.is_symlink():
            remove_target(target)  # as where the record was there
        records.remove(volume_folder)  # one that was not finished
    for path in _bottom_up(folder):
        if not stat.S_ISDIR(path.lstat().st_mode):
            _remove_kubelets_file(path, path.relative_to(folder).parts)
    for path in _bottom_up(folder):
        remove_folder(path)
    remove_folder(folder)


def _remove_kubelets_file(path: Path, parts: tuple[str, ...]) -> None:
    """Raises LeftOver for any other, OSError."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or (parts[0] not in _OF_KUBELET and (parts[0] != _READY or status.st_size)):
        raise LeftOver(f"{path} is in the way: look what it is, and remove it by hand")
    path.unlink()


def _bottom_up(folder: Path) -> Iterator[Path]:
    """All that is in it; links are not followed."""
    for path, is_folder in entries_in(folder):
        if is_folder:
            yield from _bottom_up(path)
        yield path
