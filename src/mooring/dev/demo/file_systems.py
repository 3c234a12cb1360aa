"""Whether volumes can be file systems of their own here that grow under a pod, and of which type."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mooring.hostpath.node import images
from mooring.mounts import filesystems, loops
from mooring.mounts.namespace import MountSpace
from mooring.mounts.system import ToolFailed, missing_tools

_TRIAL_BYTES: Final = 1 << 20
_SYS_RESOURCE: Final = 24
"""The number of CAP_SYS_RESOURCE, without which no ext4 grows while it is mounted; an xfs does."""


def growing_type(space: MountSpace, folder: Path) -> tuple[str, str]:
    """The type, "" for none, and the obstacle then. folder: for a trial."""
    if not space.can_mount:
        return "", space.obstacle
    if refusal := _refused_device(folder / "trial"):
        return "", f"no loop device can be had: {refusal}"
    refusals = []
    for fs_type in ("ext4", "xfs"):
        if not (refusal := _refused(fs_type)):
            return fs_type, ""
        refusals.append(f"{fs_type}: {refusal}")
    return "", "; ".join(refusals)


def _refused(fs_type: str) -> str:
    if missing := missing_tools((*filesystems.tools_for(fs_type), images.FREEZER)):
        return f"this machine has no {' and no '.join(missing)}"
    if fs_type == "ext4" and not _has_capability(_SYS_RESOURCE):
        return "this process has no CAP_SYS_RESOURCE, without which it does not grow while it is mounted"
    return ""


def _has_capability(number: int) -> bool:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    held = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(held, 16) >> number & 1)


def _refused_device(file: Path) -> str:
    try:
        with file.open("wb") as opened:
            opened.truncate(_TRIAL_BYTES)
        loops.device(file)
        loops.release(file)
    except (OSError, ToolFailed) as error:
        return str(error)
    finally:
        file.unlink(missing_ok=True)
    return ""
