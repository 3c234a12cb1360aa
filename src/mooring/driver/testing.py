"""csi-sanity, the test program of the CSI community, and conform, on a driver of one's own.

    if obstacle := sanity_obstacle():
        pytest.skip(obstacle)
    run = csi_sanity(Path("driver.py"), "MyDriver", {"folder": str(tmp_path)})
    assert run.ok, run.story

    done = conform(Path("driver.py"), "MyDriver", {"folder": str(tmp_path)})
    assert 0 == done.returncode, done.stdout

The driver runs as a process of its own (`mooring driver run`), in a mount namespace of its own: its mounts are never
seen outside, and end with it. As root that is a plain one; for anybody else one in a user namespace, where the kernel
allows that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from mooring.base.json_text import from_json

INSTALL: Final = "GOBIN=$HOME/.local/bin go install github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v5.6.0"
_END_S: Final = 30.0


class SanityRun(msgspec.Struct, frozen=True):
    """The result: the names of the tests by how they ended, and the output of csi-sanity and the driver."""

    passed: tuple[str, ...]
    failed: tuple[str, ...]
    skipped: tuple[str, ...]
    story: str

    @property
    def ok(self) -> bool:
        """True when tests ran, and none failed."""
        return bool(self.passed) and not self.failed


def sanity_obstacle() -> str:
    """Why csi-sanity can't run here, "" where it can."""
    if not _program():
        return f"there is no csi-sanity in the PATH, nor its path in $CSI_SANITY; with Go: {INSTALL}"
    return mounting_obstacle()


def mounting_obstacle() -> str:
    """Why a driver can't mount here, not even in a namespace of its own, "" where it can."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return "there are no mount namespaces here: run it on Linux, with util-linux"
    trial = [*_in_own_mounts(), "mount", "--bind", "/dev/null", "/dev/null"]
    done = subprocess.run(trial, capture_output=True, text=True, timeout=_END_S, check=False)
    return (
        "" if done.returncode == 0 else f"mounting is not allowed here, not even in a namespace: {done.stderr.strip()}"
    )


def csi_sanity(file: Path, name: str, options: Mapping[str, str], *flags: str, timeout_s: float = 600.0) -> SanityRun:
    """Runs csi-sanity on a driver.

    file, name, options: the driver's module, its class and the arguments of its constructor, as for
    `mooring driver run`. flags: more of csi-sanity's, as in `--csi.testvolumeaccesstype=block`.
    """
    with tempfile.TemporaryDirectory(prefix="sanity-") as folder:  # short: a socket's path has 107 bytes at the most
        home = Path(folder)
        with (home / "driver.log").open("w") as log:
            driver = subprocess.Popen(
                _driver(file, name, options, home), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            try:
                command = [_program(), *_flags(home), *flags]
                done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
            finally:
                driver.terminate()
                driver.wait(_END_S)
        story = f"{done.stdout[-8000:]}{done.stderr[-2000:]}\nThe driver:\n{(home / 'driver.log').read_text()[-4000:]}"
        return _result(home / "report.json", story)


def conform(
    file: Path, name: str, options: Mapping[str, str], *flags: str, timeout_s: float = 600.0
) -> subprocess.CompletedProcess[str]:
    """Runs `mooring conform` on a driver; its exit code is 0 for one that keeps the rules of CSI.

    file, name, options: as for csi_sanity. flags: more of conform's, as in `--seed=7`.
    """
    given = [f"--option={key}={value}" for key, value in options.items()]
    command = [sys.executable, "-m", "mooring.cli.mooring", "conform", f"{file}:{name}", *given, *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def _program() -> str:
    return os.environ.get("CSI_SANITY") or shutil.which("csi-sanity") or ""


def _in_own_mounts() -> list[str]:
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", "--mount", "--propagation", "private", *as_root]


def _driver(file: Path, name: str, options: Mapping[str, str], home: Path) -> list[str]:
    given = [f"--option={key}={value}" for key, value in options.items()]
    run = [
        sys.executable,
        "-m",
        "mooring.cli.mooring",
        "driver",
        "run",
        f"{file}:{name}",
        f"--endpoint=unix://{home / 'csi.sock'}",
    ]
    return [*_in_own_mounts(), *run, *given]


def _flags(home: Path) -> list[str]:
    return [
        f"--csi.endpoint=unix://{home / 'csi.sock'}",  # it waits for the driver, a minute at the most
        f"--csi.mountdir={home / 'mount'}",
        f"--csi.stagingdir={home / 'staging'}",
        f"--ginkgo.json-report={home / 'report.json'}",
        "--ginkgo.no-color",
    ]


def _result(report: Path, story: str) -> SanityRun:
    ended: dict[str, list[str]] = {}
    for spec in from_json(report.read_text())[0]["SpecReports"] if report.exists() else ():
        name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
        ended.setdefault(spec["State"], []).append(name)
    passed, skipped = ended.pop("passed", []), ended.pop("skipped", []) + ended.pop("pending", [])
    return SanityRun(tuple(passed), tuple(one for names in ended.values() for one in names), tuple(skipped), story)
