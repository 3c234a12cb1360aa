"""csi-sanity against the reference driver, again and again: `make sanity RUNS=20`, or python -m tests.sanity --help.

Each way is the driver as its own process with everything switched on, and all of csi-sanity's tests; one that is
skipped counts as one that failed. Run it in a mount namespace of its own (`unshare -m`); links need no privilege at
all.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.support.private_mounts import assert_no_loops_below
from tests.support.programs import Program
from tests.support.real import binary
from tests.support.waiting import eventually

NODE_ID = "node-1"
TESTS = 95
"""All of csi-sanity's for CSI 1.12, less the one that is switched off in its source."""

OF_CSI_1_13 = re.compile(r"Health|with accessibility requirements")
"""Tests of csi-sanity 5.6 for calls and fields of CSI 1.13, newer than the declarations here: the only ones that may
be skipped.
"""

WAYS = {
    "mount": ("mount", ["--mounts=mount"]),
    "block": ("block", ["--mounts=mount"]),
    "images": ("mount", ["--mounts=mount", "--images"]),
    "links": ("mount", ["--mounts=link"]),
    "links-block": ("block", ["--mounts=link"]),
}
"""What volumes are asked to be, and the driver's flags."""

ALL = [
    "--enable-topology",
    "--attach-limit=2",
    "--enable-controller-modify-volume",
    "--accepted-mutable-parameter-names=iops",
    "--call-log=calls.json",
]


def run(folder: Path, way: str, *flags: str) -> Counter[str]:
    """How many tests ended in which state. Raises AssertionError when the driver fails, or leaves anything behind."""
    access_type, mounts = WAYS[way]
    socket = folder / "csi.sock"
    more = [f"--call-log={folder / 'calls.json'}" if flag.startswith("--call-log") else flag for flag in ALL]
    command = [sys.executable, "-m", "mooring.cli.mooring", "driver", "hostpath", f"--endpoint=unix://{socket}"]
    program = Program(
        [*command, f"--state={folder / 'state'}", f"--node-id={NODE_ID}", *more, *mounts, *flags], folder / "driver.log"
    )
    try:
        eventually(lambda: socket.exists() or program.assert_alive(), 30, "the driver serves")
        found = sanity(folder, socket, access_type)
        assert 0 == program.stop(), program.log_tail()
    finally:
        program.kill()
    left = [path for part in ("volumes", "snapshots", "mounts") for path in (folder / "state" / part).iterdir()]
    assert [] == left, "csi-sanity deletes what it creates"
    assert str(folder) not in Path("/proc/self/mountinfo").read_text(), "everything is unmounted"
    assert_no_loops_below(folder)
    return found


def is_good(found: Counter[str]) -> bool:
    return found["passed"] == TESTS and not found["skipped"] and not found["failed"]


def sanity(folder: Path, socket: Path, access_type: str) -> Counter[str]:
    (folder / "mutable.yaml").write_text("iops: '3000'\n")
    command = [
        str(binary("csi-sanity")),
        f"--csi.endpoint=unix://{socket}",
        f"--csi.mountdir={folder / 'mount'}",
        f"--csi.stagingdir={folder / 'staging'}",
        "--csi.testnodevolumeattachlimit",
        f"--csi.testvolumesize={1 << 30}",
        f"--csi.testvolumeaccesstype={access_type}",
        f"--csi.testvolumemutableparameters={folder / 'mutable.yaml'}",
        f"--ginkgo.json-report={folder / 'report.json'}",
        "--ginkgo.no-color",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    specs = json.loads((folder / "report.json").read_text())[0]["SpecReports"]
    found: Counter[str] = Counter()
    for spec in specs:
        names = " > ".join([*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]])
        if spec["State"] == "skipped" and OF_CSI_1_13.search(names):
            found["newer"] += 1
        elif spec["LeafNodeType"] == "It":
            found[spec["State"]] += 1
        if spec["State"] not in ("passed", "pending", "skipped"):
            print(f"{spec['State']}: {names}: {spec.get('Failure', {}).get('Message', '')[:600]}", flush=True)
    assert done.returncode == 0 or found["failed"], done.stdout[-3000:] + done.stderr[-2000:]
    return found


def specs(report: Path, state: str) -> list[list[str]]:
    """The tests that ended so, each as the names of its groups and its own."""
    reports = json.loads(report.read_text())[0]["SpecReports"]
    return [[*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]] for spec in reports if spec["State"] == state]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    arguments = parser.parse_args()
    bad = 0
    for way in arguments.ways:
        for number in range(1, arguments.runs + 1):
            folder, since = Path(tempfile.mkdtemp(prefix="sanity-")), time.monotonic()
            found = run(folder, way)
            print(f"{way} {number}: {dict(found)} in {time.monotonic() - since:.1f} s", flush=True)
            bad += not is_good(found)
            shutil.rmtree(folder)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
