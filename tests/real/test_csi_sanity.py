"""The reference driver, and those of docs/driver.md, under csi-sanity, the tests that CSI drivers are measured by.

The reference driver runs as the process that users start, with everything switched on, once in each way;
`make sanity RUNS=20` does so again and again. What it mounts, it mounts in a namespace of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mooring.driver.testing import csi_sanity, sanity_obstacle
from tests.sanity import TESTS, WAYS
from tests.support.layers import REAL_MOUNTS, not_tested
from tests.support.mooring_dev import needs_root
from tests.support.mount_namespace import MountNamespace
from tests.support.pages import DOCS, blocks
from tests.support.real import binary

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.long
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


SMALL = ("--csi.testvolumesize=67108864", "--csi.testvolumeexpandsize=134217728")


@pytest.mark.parametrize(
    ("number", "name", "options", "flags", "count"),
    [
        pytest.param(0, "Shelf", {"shelf": "FOLDER"}, (), 35, id="folders"),
        pytest.param(1, "Images", {"folder": "FOLDER", "node_id": "desk-1"}, SMALL, 40, id="file systems"),
        pytest.param(
            1,
            "Images",
            {"folder": "FOLDER", "node_id": "desk-1"},
            (*SMALL, "--csi.testvolumeaccesstype=block"),
            40,
            id="block",
        ),
    ],
)
def test_the_drivers_of_the_page_pass_as_the_page_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    name: str,
    options: dict[str, str],
    flags: tuple[str, ...],
    count: int,
) -> None:
    monkeypatch.setenv("CSI_SANITY", str(binary("csi-sanity")))
    if obstacle := sanity_obstacle():
        not_tested(REAL_MOUNTS, obstacle)
    if name == "Images":
        needs_root()
    (tmp_path / "driver.py").write_text(blocks("driver.md")[number])
    volumes = tmp_path / "volumes"
    given = {key: value.replace("FOLDER", str(volumes)) for key, value in options.items()}
    done = csi_sanity(tmp_path / "driver.py", name, given, *flags)
    assert done.ok, done.story
    assert count == len(done.passed)
    assert [] == list(volumes.iterdir()), "csi-sanity deletes what it creates"
    assert (
        f"{count} " in (DOCS / "driver.md").read_text().partition("csi-sanity has 103 tests.")[2].partition("\n\n")[0]
    )
