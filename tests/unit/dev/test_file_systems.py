"""Which file systems the demo's volumes are: one that grows under a pod, or none, with every reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mooring.dev.demo import stage as file_systems
from mooring.dev.demo.stage import growing_type
from mooring.mounts.namespace import MountSpace
from tests.support.rows import each_row

CAPABLE = MountSpace(is_private=True)
LACKS_RIGHT = "ext4: this process has no CAP_SYS_RESOURCE, without which it does not grow while it is mounted"
XFS = ("mkfs.xfs", "xfs_growfs")
EXT4 = ("mkfs.ext4",)


def found(
    monkeypatch: pytest.MonkeyPatch, *, may: bool = True, missing: Sequence[str] = (), device: str = ""
) -> tuple[str, str]:
    monkeypatch.setattr(file_systems, "_has_capability", lambda number: may)
    monkeypatch.setattr(file_systems, "missing_tools", lambda names: tuple(name for name in names if name in missing))
    monkeypatch.setattr(file_systems, "_refused_device", lambda file: device)
    return growing_type(CAPABLE, Path("/tmp"))


def test_where_nothing_can_be_mounted_there_is_none(tmp_path: Path) -> None:
    assert ("", "no room") == growing_type(MountSpace("no room"), tmp_path)


def test_ext4_is_the_first_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ("ext4", "") == found(monkeypatch, missing=XFS)
    assert ("ext4", "") == found(monkeypatch)


@each_row("lacks", ["the right", "the tools"])
def test_else_it_is_xfs(monkeypatch: pytest.MonkeyPatch, lacks: str) -> None:
    assert ("xfs", "") == found(monkeypatch, may=lacks != "the right", missing=EXT4 if lacks == "the tools" else ())


def test_every_obstacle_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ("", f"{LACKS_RIGHT}; xfs: this machine has no mkfs.xfs and no xfs_growfs") == found(
        monkeypatch, may=False, missing=XFS
    )
    assert ("", "no loop device can be had: losetup: no") == found(monkeypatch, device="losetup: no")


def test_the_right_is_read_where_the_kernel_has_it() -> None:
    """A right that every process of root's has in a container, or none has here."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:")]
    held = int(line.split()[1], 16)
    assert [bool(held >> number & 1) for number in range(40)] == [
        file_systems._has_capability(number) for number in range(40)
    ]
