"""Mounts, loop devices and file systems, with the system's own tools, in a mount namespace that nobody else sees."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.mounts import system
from mooring.mounts.system import ToolFailed, missing_tools, run
from mooring.mounts.targets import Occupied, mounting_refusal, withdraw
from tests.support.mount_namespace import MountNamespace
from tests.support.scenes import played
from tests.unit.mounts.scenes import SCENES


@pytest.fixture(scope="module")
def namespace() -> Iterator[MountNamespace]:
    space = MountNamespace()
    yield space
    space.close()


@pytest.mark.slow
def test_on_real_mounts(namespace: MountNamespace, tmp_path: Path, subtests: pytest.Subtests) -> None:
    seen = []
    for scene, wrong in played(namespace, "tests.unit.mounts.scenes", tmp_path, SCENES):
        seen.append(scene)
        with subtests.test(scene):
            assert "" == wrong
    assert list(SCENES) == seen


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
    monkeypatch.setattr(system, "SBIN", ())
    assert "mount, umount not found on this machine" == mounting_refusal(tmp_path)


def test_a_tool_is_found_and_run_where_debians_path_does_not_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two with one name it is the one on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(system, "SBIN", (str(tmp_path / "sbin"), str(tmp_path / "none")))
    for folder, name in (("bin", "both"), ("sbin", "both"), ("sbin", "one")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(f"#!/bin/sh\necho {folder}\n")
        (tmp_path / folder / name).chmod(0o755)
    assert ("neither",) == missing_tools(("both", "one", "neither"))
    assert ["bin\n", "sbin\n"] == [run("both"), run("one")]
    with pytest.raises(ToolFailed, match="neither is not on this machine"):
        run("neither")


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


def test_a_tool_that_can_not_be_killed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that hangs in the kernel: nobody waits for its end."""
    with monkeypatch.context() as patched:
        patched.setattr(subprocess.Popen, "kill", lambda _: None)
        patched.setattr(system, "_DYING_S", 0.05)
        with pytest.raises(ToolFailed, match="no end after"):
            run("sleep", "60", timeout_s=0.05)
        (tool,) = system._left_alone
        assert tool.poll() is None
    tool.kill()
    tool.wait(10)
    system._left_alone.clear()
