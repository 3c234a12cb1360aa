"""What `mooring driver new` writes passes its own tests as it is, conform and csi-sanity among them, and fails them
where it is broken; and it runs in `mooring dev`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.cli.driver import run
from mooring.driver.testing import csi_sanity, sanity_obstacle
from tests.support.layers import REAL_MOUNTS, not_tested
from tests.support.programs import Program
from tests.support.real import binary
from tests.support.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]

OWN_ENVIRONMENT = {name: value for name, value in os.environ.items() if not re.match("MAKE|MFLAGS$|ARGS$", name)}
"""Without what a `make test ARGS=...` around this run hands on to every other make."""

WITHDRAWS = "        await blocking(targets.withdraw, targets.plain(request.target_path))\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new driver."""
    monkeypatch.setenv("CSI_SANITY", str(binary("csi-sanity")))
    if obstacle := sanity_obstacle():
        not_tested(REAL_MOUNTS, obstacle)
    assert 0 == run(["new", "shelf", f"--folder={tmp_path / 'shelf'}"], "mooring driver")
    return tmp_path / "shelf"


def its_tests(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
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
        *words,
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
    assert "10 passed" in done.stdout
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
    """A target that stays mounted and in place is what csi-sanity and conform must see."""
    text = (folder / "driver.py").read_text()
    assert WITHDRAWS in text
    (folder / "driver.py").write_text(text.replace(WITHDRAWS, ""))
    done = its_tests(folder, "-k", "sanity or conform")
    assert 1 == done.returncode
    assert "2 failed" in done.stdout
    assert "target path" in done.stdout
    assert "CSI525" in done.stdout


def test_make_dev_and_make_test_work_in_it(folder: Path, tmp_path: Path) -> None:
    """With an environment that is there, since making one takes an index of packages: by a link without blanks, which
    no name of a file in make may have.
    """
    (tmp_path / "bin").symlink_to(Path(sys.executable).parent)
    place = f"BIN={tmp_path / 'bin'}"
    (tmp_path / "tmp").mkdir()
    program = Program(
        ["make", "-C", folder, "dev", place], tmp_path / "log", {**OWN_ENVIRONMENT, "TMPDIR": str(tmp_path / "tmp")}
    )
    try:
        eventually(lambda: re.search("export KUBECONFIG=.*\n", program.output_alive()), 60, "mooring dev is ready")
        assert 'driver="shelf.example.com"' in program.output()
        os.killpg(program.pid, signal.SIGINT)
        program.wait_exit()
        assert "ended in good order" in program.output()
    finally:
        program.kill()
    words = [
        "make",
        "-C",
        str(folder),
        "test",
        place,
        "ARGS=-k 'volume and not conform' -p no:cacheprovider -p no:xdist",
    ]
    done = subprocess.run(words, env=OWN_ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "passed" in done.stdout
