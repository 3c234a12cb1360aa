"""A pod's fsGroup on a volume: whether the node sets it, and the walk that does.

Source: kubelet 1.36, pkg/volume/csi and pkg/volume/volume_linux.go. A driver that sets the group itself (VOLUME_MOUNT_GROUP) is told it,
and nothing is walked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final

from mooring.node.volumes.requests import MOUNT_GROUP, PodUse
from mooring.node.volumes.volume import Volume

POLICY_DEFAULT: Final = "ReadWriteOnceWithFSType"
ON_ROOT_MISMATCH: Final = "OnRootMismatch"
_WRITABLE: Final = 0o660
_FOLDER: Final = stat.S_ISGID | 0o110


def sets_group(volume: Volume, use: PodUse, policy: str, able: Collection[int]) -> bool:
    """True when the node has to change the group of what is in the volume. policy: the CSIDriver's fsGroupPolicy."""
    if use.fs_group is None or use.read_only or MOUNT_GROUP in able or policy == "None":
        return False
    if policy == "File":
        return True
    return bool(volume.fs_type) and (volume.is_inline or bool({"ReadWriteOnce", "ReadWriteOncePod"} & set(volume.access_modes)))


class Walk:
    """Gives the group everything in the folder, children before the folder itself.

    policy: of the pod; with OnRootMismatch nothing is done where the folder itself is right. Single files that can't be changed are passed
    over, as the kubelet does.
    """

    def __init__(self, folder: Path, group: int, policy: str) -> None:
        self._folder, self._group, self._policy = folder, group, policy
        self.count = 0

    def run(self) -> None:
        """Blocks, for minutes on many files; `count` grows. Raises OSError when the folder can't be walked."""
        if self._policy == ON_ROOT_MISMATCH and _is_right(self._folder, self._group):
            return
        for root, folders, files in os.walk(self._folder, topdown=False, onerror=_raise):
            for name in (*files, *folders):
                _change(os.path.join(root, name), self._group)
                self.count += 1
        _change(str(self._folder), self._group)


def _is_right(folder: Path, group: int) -> bool:
    status = folder.stat()
    wanted = 0o770 | stat.S_ISGID
    return status.st_gid == group and status.st_mode & wanted == wanted


def _change(path: str, group: int) -> None:
    try:
        status = os.lstat(path)
        os.lchown(path, -1, group)
        if not stat.S_ISLNK(status.st_mode):
            extra = _WRITABLE | (_FOLDER if stat.S_ISDIR(status.st_mode) else 0)
            os.chmod(path, stat.S_IMODE(status.st_mode) | extra)
    except OSError:
        return


def _raise(error: OSError) -> None:
    raise error
