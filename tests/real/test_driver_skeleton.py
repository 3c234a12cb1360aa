"""What `mooring driver new` writes passes its own tests as it is, csi-sanity among them, and fails them where it is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.cli.driver import run
from mooring.driver.testing import csi_sanity, sanity_obstacle
from tests.support.layers import REAL_MOUNTS, not_tested
from tests.support.real import binary

pytestmark = [pytest.mark.real, pytest.mark.slow]

WITHDRAWS = "        await blocking(targets.withdraw, targets.plain(request.target_path))\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new driver."""
    monkeypatch.setenv("CSI_SANITY", str(binary("csi-sanity")))
    if obstacle := sanity_obstacle():
        not_tested(REAL_MOUNTS, obstacle)
    assert 0 == run(["new", "shelf", f"--folder={tmp_path / 'shelf'}"], "mooring driver")
    return tmp_path / "shelf"


def its_tests(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-vv",
        "-rs",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "-p",
        "no:xdist",
        ".",
    ]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.long
def test_a_new_driver_passes_its_tests(folder: Path) -> None:
    done = its_tests(folder)
    assert 0 == done.returncode, done.stdout[-4000:] + done.stderr[-2000:]
    assert "8 passed" in done.stdout
    assert "skipped" not in done.stdout
    assert (
        0
        == subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "driver.py"], cwd=folder, timeout=300, check=False
        ).returncode
    )


def test_csi_sanity_runs_what_it_has_for_such_a_driver(folder: Path, tmp_path: Path) -> None:
    done = csi_sanity(folder / "driver.py", "Shelf", {"folder": str(tmp_path / "volumes"), "node_id": "here"})
    assert done.ok, done.story
    assert 36 == len(done.passed)
    for group in (
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeGetVolumeStats",
        "NodeGetInfo",
        "CreateVolume",
        "ListVolumes",
    ):
        assert any(group in name for name in done.passed), group
    assert {"Node Service should work", "Node Service should be idempotent"} <= set(done.passed)


def test_a_broken_one_fails(folder: Path) -> None:
    """A target that stays mounted and in place is what csi-sanity must see."""
    text = (folder / "driver.py").read_text()
    assert WITHDRAWS in text
    (folder / "driver.py").write_text(text.replace(WITHDRAWS, ""))
    done = its_tests(folder)
    assert 1 == done.returncode
    assert "test_csi_sanity" in done.stdout
    assert "target path" in done.stdout
