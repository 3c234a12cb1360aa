"""`mooring conform` and drivers that end, that hide what they say, or whose fault only a process with mounts shows."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ill_drivers
from tests.support.mooring_dev import needs_mounts
from tests.support.mount_driver import FOLDER
from tests.support.programs import PYTHON
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow]

MOORING = [sys.executable, "-m", "mooring.cli.mooring"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_mounts()
    monkeypatch.setenv(FOLDER, str(tmp_path / "volumes"))


def conform(driver: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = f"{PYTHON} -m tests.support.ill_drivers {driver} --endpoint unix://{{socket}} --node {{node}}"
    return subprocess.run(
        [*MOORING, "conform", command, "--volume-mib=1", *words],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def report(driver: str, *words: str) -> dict[str, Any]:
    done = conform(driver, "-o=json", *words)
    found: dict[str, Any] = json.loads(done.stdout)
    assert (0 if not found["findings"] else 1) == done.returncode, done.stdout
    return found


def numbers(found: dict[str, Any]) -> set[str]:
    return {one["rule"] for one in found["findings"]}


def test_a_driver_that_ends_is_started_again_at_once_and_its_last_lines_are_shown(tmp_path: Path) -> None:
    """Nothing else is held against it: no connection that was refused meanwhile, and no call that came after."""
    secrets = tmp_path / "secrets.yaml"
    secrets.write_text("NodePublishVolumeSecret: {password: open-sesame}\n")
    words = ("--only=life,mount-readonly,life-with-lost-answers,mount-at-once", f"--secrets-file={secrets}")
    done = conform("EndsInPublish", "-o=json", *words)
    found = json.loads(done.stdout)
    assert {"CSI707"} == numbers(found)
    (finding,) = found["findings"]
    assert ["out of luck with {'password': '***stripped***'}"] == finding["driverOutput"]
    assert 3 == finding["otherChecks"]
    assert "life: the driver ended, started again" in done.stderr
    assert [] == found["notDeleted"]


def test_the_drivers_output_goes_to_a_file(tmp_path: Path) -> None:
    done = conform("EndsInPublish", "--only=life", f"--driver-log={tmp_path / 'log'}")
    assert "out of luck" in (tmp_path / "log").read_text()
    assert "    The driver's last lines:\n      | out of luck with {}\n" in done.stdout
    done = subprocess.run(
        [*MOORING, "conform", "unix:///s", f"--driver-log={tmp_path / 'log'}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (2, True) == (done.returncode, "has not started the driver" in done.stderr)


def test_a_refused_publish_is_followed_by_unpublish() -> None:
    found = report(
        "LeavesTargetWhenItRefuses", "--only=publish-unknown-volume,node-publish-volume-without-volume-capability,life"
    )
    assert ([], []) == (found["findings"], found["notDeleted"])


def test_a_driver_that_keeps_its_socket_is_named_once_and_asked_further() -> None:
    found = report("KeepsItsSocket", "--only=volume-after-kill,kill-between-calls,life")
    assert [("CSI710", "volume-after-kill")] == [(one["rule"], one["check"]) for one in found["findings"]]
    assert "somebody removes the socket" in found["findings"][0]["found"]
    assert {"life": "kept", "volume-after-kill": "broken", "kill-between-calls": "kept"} == {
        one["name"]: one["result"] for one in found["checks"]
    }


FAULTS = {
    "KeepsVolumesInMemory": "volume-after-kill,kill-between-calls",
    "StagesNothing": "data-stays,life",
    "CopiesNothing": "data-stays,data-in-restore,data-in-clone",
    "WantsItsTarget": "life,life-with-lost-answers",
    "IsNeverReady": "probe",
    "SameIdOnEachNode": "node-id-of-another-node,publish-to-two-nodes",
    "PublishesAnywhere": "node-id-of-another-node,publish-to-two-nodes",
}


@pytest.mark.parametrize("driver", FAULTS)
def test_a_fault_that_only_a_process_with_mounts_shows_is_named_by_its_rule_and_no_other(driver: str) -> None:
    found = report(driver, f"--only={FAULTS[driver]}")
    assert {getattr(ill_drivers, driver).breaks} == numbers(found), found["findings"]
    assert [] == found["notDeleted"]


def test_a_driver_that_looks_its_nodes_up_is_asked_about_two_that_it_knows() -> None:
    checks = "--only=unpublish-from-another-node,unpublish-from-second-node,publish-to-two-nodes"
    assert "node conform-node not found" in conform("LooksItsNodesUp", checks).stderr
    found = report("LooksItsNodesUp", checks, "--node-name=worker-1", "--node-name=worker-2")
    assert {"unpublish-from-another-node": "kept", "unpublish-from-second-node": "broken"} | {
        "publish-to-two-nodes": "kept"
    } == {one["name"]: one["result"] for one in found["checks"]}
    assert {"CSI310"} == numbers(found)
    done = conform("LooksItsNodesUp", checks, "--node-name=worker-1,worker-7")
    assert "publish-to-two-nodes  no second process of the driver answers" in done.stdout
    assert "needs the names of two: --node-name" in done.stdout


def test_nothing_stays_in_tmp_however_a_run_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no volume is emptied through a mount that the driver has left."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    found = report("LeavesItsMounts", "--only=life,long-paths")
    assert {"CSI525"} == numbers(found)
    assert ["hello"] == [page.read_text() for page in (tmp_path / "volumes").rglob("page")][:1]
    assert [] == list(temporary.iterdir())
    assert 2 == subprocess.run([*MOORING, "conform", "false {socket}"], capture_output=True, check=False).returncode
    assert [] == list(temporary.iterdir())
    command = f"{PYTHON} -m tests.support.ill_drivers LeavesItsMounts --endpoint unix://{{socket}} --node {{node}}"
    # (the tests themselves may run under nohup)
    words = ["env", "--default-signal=HUP", *MOORING, "conform", command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        eventually(lambda: list(temporary.glob("conform-*/pods/2")), 60, "a path is made")
        running.send_signal(signal.SIGHUP)  # a terminal that is closed
        output, _ = running.communicate(timeout=100)
    assert (1, True) == (running.returncode, "the run did not come to its end" in output)
    assert [] == list(temporary.iterdir())


def test_a_command_that_does_not_name_its_node_is_no_fault_of_the_driver() -> None:
    command = f"{PYTHON} -m tests.support.ill_drivers SameIdOnEachNode --endpoint unix://{{socket}}"
    words = [*MOORING, "conform", command, "--only=node-id-of-another-node"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stdout
    assert "skipped node-id-of-another-node  both processes of the command say 'localhost': put {node}" in done.stdout


def test_a_driver_that_keeps_every_rule_is_asked_about_two_nodes_and_its_data() -> None:
    checks = "data-stays,data-in-restore,data-in-clone,node-id-of-another-node"
    assert {"kept"} == {one["result"] for one in report("MountDriver", f"--only={checks}")["checks"]}
