"""`mooring conform` as people type it: the forms of a driver, of its answer, and the exit codes."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mooring.cli import mooring as command
from tests.support import mount_driver
from tests.support.in_process import in_process
from tests.support.mooring_dev import needs_mounts
from tests.support.programs import PYTHON
from tests.support.rows import each_row
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow]

PLAIN = (
    f"{PYTHON} -c 'from tests.support import broken_drivers, mount_driver; "
    "mount_driver.main(broken_drivers.PlainFolder)'"
)
MOORING = [sys.executable, "-m", "mooring.cli.mooring"]


def conform(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MOORING, "conform", *words], capture_output=True, text=True, timeout=120, check=False)


def hostpath(folder: Path, *flags: str) -> str:
    words = [
        *MOORING,
        "driver",
        "hostpath",
        "--endpoint=unix://{socket}",
        f"--state={folder / 'state'}",
        "--node-id={node}",
        *flags,
    ]
    return shlex.join(words)


@pytest.mark.long
def test_a_good_driver_that_is_killed_again_and_again_keeps_every_rule(tmp_path: Path) -> None:
    needs_mounts()
    done = conform(hostpath(tmp_path), "--volume-mib=1")
    assert 0 == done.returncode, done.stdout[-3000:] + done.stderr
    assert "kept    kill-between-calls\n" in done.stdout
    assert done.stdout.endswith("it broke no rule of CSI\n")
    assert [] == list((tmp_path / "state" / "volumes").iterdir())


def test_a_driver_that_forgets_its_volumes_when_it_is_killed_is_caught(tmp_path: Path) -> None:
    """Each of its processes begins with an empty folder."""
    needs_mounts()
    script = tmp_path / "forgets"
    program = f'{shlex.join(MOORING)} driver hostpath --endpoint="unix://$1" --state="{tmp_path}/$$" --node-id=n'
    script.write_text(f"#!/bin/sh\nexec {program}\n")
    script.chmod(0o755)
    done = conform(
        f"{script} {{socket}}", "--volume-mib=1", "--only=volume-after-kill,kill-between-calls,kill-in-calls", "-o=json"
    )
    report = json.loads(done.stdout)
    assert 1 == done.returncode
    assert ["broken"] * 3 == [one["result"] for one in report["checks"]]
    assert {"CSI209"} == {one["rule"] for one in report["findings"]}


def test_the_drivers_disk_is_full_for_a_while_and_nothing_is_lost(tmp_path: Path) -> None:
    """The reference driver holds a file open to be written, so its disk can't become read-only."""
    needs_mounts()
    words = (
        "--only=full-disk,kill-on-full-disk,readonly-disk",
        f"--data-folder={tmp_path / 'state'}",
        "--volume-mib=1",
    )
    done = conform(hostpath(tmp_path), *words, "-o=json")
    checks = {one["name"]: one for one in json.loads(done.stdout)["checks"]}
    assert 0 == done.returncode
    assert {"full-disk": "kept", "kill-on-full-disk": "kept", "readonly-disk": "skipped"} == {
        name: one["result"] for name, one in checks.items()
    }
    assert "busy" in checks["readonly-disk"]["note"]
    assert not (tmp_path / "state").exists(), "the folder below the disk was this run's own"


def test_many_volumes_tell_how_far_they_are(tmp_path: Path) -> None:
    needs_mounts()
    done = conform(hostpath(tmp_path), "--only=many-volumes", "--volumes=25", "--volume-mib=1")
    told = done.stderr.splitlines()
    assert 0 == done.returncode
    assert ["many-volumes: 25 of 25 volumes made", "many-volumes: 25 of 25 volumes deleted"] == [
        line.strip() for line in told if " 25 of 25 " in line
    ]
    assert 20 == len([line for line in told if "many-volumes: " in line])


def test_a_driver_that_does_not_start_again_is_caught_with_its_last_words(tmp_path: Path) -> None:
    """As csi-driver-host-path 1.18 after a kill that cut its state file short. The later checks don't wait for it."""
    needs_mounts()
    script = tmp_path / "once"
    program = f'{shlex.join(MOORING)} driver hostpath --endpoint="unix://$1" --state="{tmp_path}/state" --node-id=n'
    script.write_text(
        f"#!/bin/sh\nmkdir {tmp_path}/started || {{ echo the state file ends too early; exit 3; }}\nexec {program}\n"
    )
    script.chmod(0o755)
    done = conform(
        f"{script} {{socket}}", "--volume-mib=1", "--only=volume-after-kill,kill-between-calls,kill-in-calls", "-o=json"
    )
    report = json.loads(done.stdout)
    assert 1 == done.returncode
    assert ["broken", "stopped", "stopped"] == [one["result"] for one in report["checks"]]
    (finding,) = report["findings"]
    assert ("CSI710", "volume-after-kill") == (finding["rule"], finding["check"])
    assert "exit code 3 before it served its socket" in finding["found"]
    assert finding["found"].endswith("the state file ends too early")
    assert ["volume"] == [one.split()[0] for one in report["notDeleted"]]


def test_ctrl_c_deletes_what_was_made_and_says_that_the_run_was_cut(tmp_path: Path) -> None:
    needs_mounts()
    words = [*MOORING, "conform", hostpath(tmp_path), "--volume-mib=1", "--volumes=5000", "--only=many-volumes"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        volumes = tmp_path / "state" / "volumes"
        eventually(lambda: volumes.is_dir() and len(list(volumes.iterdir())) > 50, 30, "volumes are made")
        running.send_signal(signal.SIGINT)
        output, _ = running.communicate(timeout=100)
    assert 1 == running.returncode, output
    assert output.endswith("the run did not come to its end: 1 check was not made\n")
    assert [] == list(volumes.iterdir()), output


def test_a_seed_is_an_order_of_its_own_and_repeats(tmp_path: Path) -> None:
    needs_mounts()

    some = [
        f"create-{what}"
        for what in ("twice", "volume-without-name", "snapshot-without-name", "from-volume", "from-no-volume")
    ]

    def order(seed: int) -> list[str]:
        done = conform(
            hostpath(tmp_path),
            "--volume-mib=1",
            "-o=json",
            f"--seed={seed}",
            f"--only=plugin-info,probe,{','.join(some)}",
        )
        return [one["name"] for one in json.loads(done.stdout)["checks"]]

    first = order(7)
    assert first == order(7)
    assert first != order(8)


@each_row(
    ("output", "sign"), [("tap", "not ok "), ("junit", "<failure"), ("json", '"CSI511"'), ("text", "By hand: mkdir -p")]
)
def test_a_driver_that_does_not_mount_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, sign: str
) -> None:
    needs_mounts()
    monkeypatch.setenv(mount_driver.FOLDER, str(tmp_path / "volumes"))
    done = conform(f"{PLAIN} --endpoint unix://{{socket}}", "--volume-mib=1", "--only=life", f"-o={output}")
    assert 1 == done.returncode, done.stdout + done.stderr
    assert sign in done.stdout
    if output == "junit":
        assert "1" == ElementTree.fromstring(done.stdout).get("failures")


@each_row(
    ("words", "said"),
    [
        ((), "name one driver"),
        (("nonsense",), "none of the three forms"),
        (("unix:///nowhere.sock", "--data-folder=/nowhere"), "this run must start the driver"),
        (("unix:///nowhere.sock", "--node-name=n1"), "node-name: name two nodes, as in --node-name n1 --node-name n2"),
        (("unix:///nowhere.sock", "--node-name=n1,n1"), "node-name: name two nodes"),
        (("unix:///nowhere.sock", "--node-name=n1,n2"), "node-name: this run has not started the driver"),
        (("unix:///nowhere.sock", "--access-type=file"), "access-type: must be mount or block, got 'file'"),
        (
            ("unix:///nowhere.sock", "--only=no-such-check"),
            "there is no check 'no-such-check'; mooring conform --list names them",
        ),
        (("unix:///nowhere.sock", "--only=creat-twice"), "there is no check 'creat-twice'; did you mean create-twice?"),
        (("--list", "-o=tap"), "--list is text or json"),
        (("false {socket}", "--only=probe"), "ended with exit code 1 before it served"),
    ],
)
def test_wrong_use_is_told_with_exit_code_2(words: tuple[str, ...], said: str) -> None:
    done = in_process(command.run, "conform", *words)
    assert 2 == done.returncode
    assert said in done.stderr


def test_a_process_that_was_used_wrongly_ends_with_2() -> None:
    assert 2 == conform("nonsense").returncode


def test_the_list_of_checks_is_json_for_programs() -> None:
    found = json.loads(conform("--list", "-o=json").stdout)
    assert {"rule": "CSI711", "name": "probe"} == {name: found[2][name] for name in ("rule", "name")}
    assert len(conform("--list").stdout.splitlines()) == len(found)


def test_a_socket_may_be_a_path_alone(tmp_path: Path) -> None:
    """As for `mooring call`."""
    words = [
        *MOORING,
        "driver",
        "hostpath",
        f"--endpoint=unix://{tmp_path / 's'}",
        f"--state={tmp_path / 'state'}",
        "--node-id=n",
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        eventually((tmp_path / "s").exists, 30, "the driver serves")
        done = conform(str(tmp_path / "s"), "--only=probe")
        driver.terminate()
    assert 0 == done.returncode, done.stderr
