"""`mooring conform` and the real csi-sanity say the same of the reference driver, test by test."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.conform.checks.all import CHECKS
from tests import sanity
from tests.support.mooring_dev import needs_mounts
from tests.support.real import binary

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.long]


def test_conform_and_csi_sanity_agree_on_the_reference_driver(tmp_path: Path) -> None:
    binary("csi-sanity")
    needs_mounts()
    sanity.run(tmp_path, "links")
    theirs = {" > ".join(names) for names in sanity.specs(tmp_path / "report.json", "passed")}
    ours = results(tmp_path)
    for check in CHECKS:
        for test in check.sanity:
            assert (ours[check.name] == "kept") == (test in theirs), f"{check.name}: {ours[check.name]}, csi-sanity: {test}"
    assert len([test for check in CHECKS for test in check.sanity]) == sanity.TESTS


def results(folder: Path) -> dict[str, str]:
    """How each check ended."""
    driver = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "driver",
        "hostpath",
        "--endpoint=unix://{socket}",
        f"--state={folder / 'other'}",
    ]
    flags = [flag for flag in sanity.ALL if not flag.startswith("--call-log")]
    command = " ".join([*driver, "--node-id={node}", "--mounts=mount", *flags])
    conform = [sys.executable, "-m", "mooring.cli.mooring", "conform", command, "-o", "json", "--mutable-parameter", "iops=3000"]
    done = subprocess.run(conform, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return {one["name"]: one["result"] for one in json.loads(done.stdout)["checks"]}
