"""A mount namespace of one's own, in a program of its own: as root, as somebody else, and where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mooring.mounts import namespace
from mooring.mounts.mountinfo import MountTable, parse
from tests.support.layers import REAL_MOUNTS, not_tested

PROGRAM = """
import pathlib, subprocess, sys
from mooring.mounts.namespace import enter_private_mounts
{before}
space = enter_private_mounts()
print(space.can_mount, space.is_private, space.as_user, space.obstacle)
if space.can_mount:
    folder = pathlib.Path(sys.argv[1])
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    (folder / "a" / "file").write_text("seen")
    subprocess.run(["mount", "--bind", folder / "a", folder / "b"], check=True)
    print((folder / "b" / "file").read_text())
print("end", flush=True)
sys.stdin.read()
"""

NO_ROOT = """
from mooring.mounts import namespace
def refused(): raise namespace.ToolFailed("unshare: Operation not permitted")
namespace._enter_as_root = refused
"""
"""The way of those who may not make mount namespaces as they are: people who are not root, and root in most
containers.
"""

WITHOUT_MOUNT = "import shutil; shutil.which = lambda name, path: None if name == 'mount' else name"
WITH_A_THREAD = "import threading; threading.Thread(target=sys.stdin.read, daemon=True).start()"


def run(folder: Path, before: str = "", kernel: tuple[str, ...] = ()) -> list[str]:
    """Its lines. What it mounts is looked for here, while it runs."""
    command = [*kernel, sys.executable, "-c", PROGRAM.format(before=before), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as program:
        assert program.stdout is not None
        lines = []
        for line in program.stdout:
            lines.append(line.strip())
            if line == "end\n":
                break
        here = MountTable(parse(Path("/proc/self/mountinfo").read_text()))
        program.communicate("")
    assert () == here.below(str(folder)), "it is seen from outside"
    assert not (folder / "b" / "file").exists()
    return lines


@pytest.fixture(autouse=True)
def _linux() -> None:
    if sys.platform != "linux":
        not_tested(REAL_MOUNTS, "this is not Linux")


def test_what_root_mounts_is_its_own(tmp_path: Path) -> None:
    lines = run(tmp_path)
    if lines[0].startswith("False"):
        not_tested(REAL_MOUNTS, lines[0].removeprefix("False False False "))
    assert [lines[0], "seen", "end"] == lines
    assert lines[0].split()[:2] == ["True", "True"]


def test_what_others_mount_in_a_user_namespace_is_their_own(tmp_path: Path) -> None:
    lines = run(tmp_path, NO_ROOT)
    if lines[0].startswith("False"):
        not_tested(REAL_MOUNTS, lines[0].removeprefix("False False False "))
    assert ["True True True", "seen", "end"] == lines


def test_without_the_tools_it_names_what_is_missing(tmp_path: Path) -> None:
    lines = run(tmp_path, WITHOUT_MOUNT)
    assert [
        "False False False this machine has no mount: install the package that has them (util-linux)",
        "end",
    ] == lines


def test_a_process_with_threads_stays_where_it_is(tmp_path: Path) -> None:
    lines = run(tmp_path, WITH_A_THREAD)
    assert [
        "False False False this process has threads already, which would stay outside of a mount namespace",
        "end",
    ] == lines


def test_a_refusal_by_the_kernel_is_said_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise namespace.ToolFailed("unshare: Operation not permitted")

    entered: list[str] = []
    monkeypatch.setattr(namespace, "_enter_as_root", refused)
    monkeypatch.setattr(namespace, "_enter_as_user", lambda: entered.append("user") or refused())
    monkeypatch.setattr(namespace.os, "listdir", lambda _: ["1"])
    monkeypatch.setattr(namespace.os, "geteuid", lambda: 0)
    space = namespace.enter_private_mounts()
    assert not space.can_mount
    assert (
        "no mount namespace: unshare: Operation not permitted; none in a user namespace: unshare: Operation "
        "not permitted"
    ) == space.obstacle
    assert [] == entered, "that was in the child process"


def test_elsewhere_than_on_linux_nothing_is_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace.sys, "platform", "darwin")
    assert "volumes are mounted on Linux only" == namespace.enter_private_mounts().obstacle
