"""`mooring conform` as people type it: the forms of a driver, of its answer, and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support import mount_driver
from tests.support.mooring_dev import needs_mounts

pytestmark = [pytest.mark.slow]

PLAIN = f"{sys.executable} -c 'from tests.support import broken_drivers, mount_driver; mount_driver.main(broken_drivers.PlainFolder)'"
MOORING = [sys.executable, "-m", "mooring.cli.mooring"]


def conform(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MOORING, "conform", *words], capture_output=True, text=True, timeout=120, check=False)


def hostpath(folder: Path, *flags: str) -> str:
    words = [*MOORING, "driver", "hostpath", "--endpoint=unix://{socket}", f"--state={folder / 'state'}", "--node-id={node}", *flags]
    return " ".join(words)


def test_a_good_driver_that_is_killed_again_and_again_keeps_every_rule(tmp_path: Path) -> None:
    needs_mounts()
    done = conform(hostpath(tmp_path), "--volume-mib=1")
    assert 0 == done.returncode, done.stdout[-3000:] + done.stderr
    assert "kept    kill-between-calls\n" in done.stdout
    assert done.stdout.endswith("it broke no rule of CSI\n")
    assert [] == list((tmp_path / "state" / "volumes").iterdir())


def test_a_seed_is_an_order_of_its_own_and_repeats(tmp_path: Path) -> None:
    needs_mounts()

    def order(seed: int) -> list[str]:
        done = conform(hostpath(tmp_path), "--volume-mib=1", "-o=json", f"--seed={seed}")
        return [one["name"] for one in json.loads(done.stdout)["checks"]]

    first = order(7)
    assert first == order(7)
    assert first != order(8)


@pytest.mark.parametrize(
    ("output", "sign"), [("tap", "not ok "), ("junit", "<failure"), ("json", '"CSI511"'), ("text", "By hand: mooring call")]
)
def test_a_driver_that_does_not_mount_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, sign: str) -> None:
    needs_mounts()
    monkeypatch.setenv(mount_driver.FOLDER, str(tmp_path / "volumes"))
    done = conform(f"{PLAIN} --endpoint unix://{{socket}}", "--volume-mib=1", "--only=life", f"-o={output}")
    assert 1 == done.returncode, done.stdout + done.stderr
    assert sign in done.stdout
    if output == "junit":
        assert "1" == ElementTree.fromstring(done.stdout).get("failures")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name one driver"),
        (("nonsense",), "none of the three forms"),
        (("unix:///nowhere.sock", "--only=no-such-check"), "there is no check 'no-such-check'"),
        (("false {socket}", "--only=probe"), "ended with exit code 1 before it served"),
    ],
)
def test_wrong_use_is_told_with_exit_code_2(words: tuple[str, ...], said: str) -> None:
    done = conform(*words)
    assert 2 == done.returncode
    assert said in done.stderr
