"""Mounts, loop devices and file systems, with the system's own tools, in a mount namespace that nobody else sees."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.mounts.system import ToolFailed, run
from mooring.mounts.targets import Occupied, mounting_refusal, withdraw
from tests.support.mount_namespace import MountNamespace
from tests.unit.mounts.scenes import SCENES


@pytest.fixture(scope="module")
def namespace() -> Iterator[MountNamespace]:
    space = MountNamespace()
    yield space
    space.close()


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_on_real_mounts(namespace: MountNamespace, tmp_path: Path, scene: str) -> None:
    words = namespace.command(sys.executable, "-m", "tests.unit.mounts.scenes", scene, tmp_path)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert 0 == done.returncode, done.stderr[-3000:]


def test_a_file_with_content_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    with pytest.raises(Occupied, match="move it away"):
        withdraw(tmp_path / "target")
    assert "precious" == (tmp_path / "target").read_text()


def test_a_folder_with_content_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "target" / "precious").mkdir(parents=True)
    with pytest.raises(OSError, match="not empty"):
        withdraw(tmp_path / "target")


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "target").symlink_to("data")
    withdraw(tmp_path / "target")
    assert ["data"] == [path.name for path in tmp_path.iterdir()]


def test_why_mounting_is_not_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "mount, umount, losetup not found on this machine" == mounting_refusal(tmp_path)


def test_a_tool_gives_its_output_or_its_complaint() -> None:
    assert "hello\n" == run("sh", "-c", "echo hello")
    assert "" == run("sh", "-c", "exit 2", allowed=(0, 2))
    with pytest.raises(ToolFailed, match="oh no"):
        run("sh", "-c", "echo oh no >&2; exit 1")
    with pytest.raises(ToolFailed, match="exit code 3"):
        run("sh", "-c", "exit 3")
    with pytest.raises(ToolFailed, match=r"no end after 0\.05 s"):
        run("sleep", "10", timeout_s=0.05)
    with pytest.raises(ToolFailed, match=r"mkfs\.none is not on this machine"):
        run("mkfs.none")
