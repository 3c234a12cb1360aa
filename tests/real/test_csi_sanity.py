"""The reference driver, and the one of docs/driver.md, under csi-sanity, the tests that CSI drivers are measured by.

The reference driver runs as the process that users start, with everything switched on, once in each way; `make sanity RUNS=20` does it
again and again. What it mounts, it mounts in a namespace of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sanity import TESTS, WAYS, specs
from tests.support.mount_namespace import MountNamespace
from tests.support.pages import blocks
from tests.support.programs import Program
from tests.support.real import binary
from tests.support.waiting import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.parametrize("way", WAYS)
def test_the_reference_driver_passes_every_test_without_a_skip(way: str) -> None:
    binary("csi-sanity")
    command = [sys.executable, "-m", "tests.sanity", "--ways", way]
    if way.startswith("links"):
        done = run(command)
    else:
        space = MountNamespace()
        try:
            done = run(space.command(*command))
        finally:
            space.close()
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert f"'passed': {TESTS}" in done.stdout


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


def test_the_driver_of_the_page_passes_and_fails_what_the_page_says(tmp_path: Path) -> None:
    for name, code in zip(("shelf.py", "sanity.py"), blocks("driver.md"), strict=True):
        (tmp_path / name).write_text(code)
    socket = tmp_path / "sanity.sock"
    program = Program([sys.executable, tmp_path / "sanity.py", tmp_path / "sanity", socket], tmp_path / "sanity.log")
    command = [binary("csi-sanity"), f"--csi.endpoint=unix://{socket}", "--ginkgo.skip=Node Service"]
    folders = [f"--csi.mountdir={tmp_path / 'mount'}", f"--csi.stagingdir={tmp_path / 'staging'}"]
    report = tmp_path / "report.json"
    try:
        eventually(lambda: socket.exists() or program.assert_alive(), 30, "the driver serves")
        subprocess.run([*command, *folders, f"--ginkgo.json-report={report}"], capture_output=True, timeout=120, check=False)
    finally:
        program.kill()
    assert 24 == len(specs(report, "passed"))
    assert ["should fail when the node does not exist"] == [name for *_, name in specs(report, "failed")]
    assert [] == list((tmp_path / "sanity").iterdir())
